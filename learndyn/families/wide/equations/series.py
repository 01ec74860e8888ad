"""One hidden layer of any smooth units to the order γ_0² in which features move, exactly at finite rates.

Every neuron starts from u ~ N(0, K^x + bias) and r_c ~ N(0, 1), and moves on its own:

    h_μ ← h_μ + ηγ_0 Σ_α K_μα φ'(h_α) Σ_c E_αc z_c,   z_c ← z_c + ηγ_0 Σ_α E_αc φ(h_α),   f_c = ⟨z_c φ(h)⟩/γ_0 .

With h = u + γ_0 h_1 + γ_0² h_2 + γ_0³ h_3, z = r + γ_0 z_1 + γ_0² z_2 + γ_0³ z_3 and E = E_0 + γ_0² E_2, orders follow
from each other, and f = f_0 + γ_0² f_2 with the averages of zφ(h) of the orders one and three; those of even orders
vanish by r → −r. f_0 is the static kernel's output. Kernels are ⟨φφ⟩ and ⟨gg⟩, g = φ'(h)z, up to the order γ_0².
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.families.wide.equations.approximations import plain_rates
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.problem.activations import Activation


class SecondOrder(NamedTuple):
    """Outputs at all states, and kernels at the saved ones, to the order γ_0²."""

    f: Float[np.ndarray, "states p C"]
    Phi: Float[np.ndarray, "1 n p n p"]
    G: Float[np.ndarray, "1 n p C n p C"]
    kernel: Float[np.ndarray, "n p C p C"]


class Orders(NamedTuple):
    """φ (points × samples) and g (points × outputs × samples) of the orders zero, one and two."""

    phi: tuple[np.ndarray, ...]
    g: tuple[np.ndarray, ...]


@eqx.filter_jit
def derivatives(activation: Activation, u: np.ndarray) -> tuple[Array, ...]:
    """φ, φ', φ'' and φ''' at u."""
    at = jnp.asarray(u)

    def curvature(x: Array) -> Array:
        return jax.jvp(activation.derivative, (x,), (jnp.ones_like(x),))[1]

    second, third = jax.jvp(curvature, (at,), (jnp.ones_like(at),))
    return activation(at), activation.derivative(at), second, third


def second_order(
    setting: WideSetting,
    u: Float[np.ndarray, "p S"],
    r: Float[np.ndarray, "C S"],
    saved: np.ndarray,
) -> SecondOrder:
    """The expansion on samples of u and r; they come in pairs (u, r), (u, −r)."""
    eta, K, loss = (
        plain_rates(setting, "the expansion in γ_0²"),
        setting.K + setting.bias,
        setting.loss,
    )
    phi = tuple(map(np.asarray, derivatives(setting.activation, u)))
    h, z = [np.zeros_like(u) for _ in range(3)], [np.zeros_like(r) for _ in range(3)]
    f, kept = [], []
    for t in range(setting.states):
        values, slopes = _composed(phi, h), _composed(phi[1:], h)
        zs = [r, *z]
        first, third = (_average(values, zs, order) for order in (1, 3))
        f.append(first + setting.gamma**2 * third)
        if t in saved:
            kept.append(Orders(tuple(values[:3]), tuple(_pulled(slopes, zs, k) for k in range(3))))
        if t + 1 == setting.states:
            break
        E, E_2 = loss.force(first), loss.force_along(first, third)
        for order in range(3):
            force = np.einsum("pc,pcs->ps", E, _pulled(slopes, zs, order))
            move = np.einsum("pc,ps->cs", E, values[order])
            if order == 2:
                force += np.einsum("pc,pcs->ps", E_2, _pulled(slopes, zs, 0))
                move += np.einsum("pc,ps->cs", E_2, values[0])
            h[order] = h[order] + eta[t] * (K @ force)
            z[order] = z[order] + eta[t] * move
    return SecondOrder(np.array(f), *_kernels(setting, K, kept))


def _composed(phi: tuple[np.ndarray, ...], h: list[np.ndarray]) -> list[np.ndarray]:
    """The orders of a function of u + γ_0 h_1 + γ_0² h_2 + γ_0³ h_3, as many as derivatives at u are given."""
    orders = [phi[0], phi[1] * h[0], phi[1] * h[1] + phi[2] * h[0] ** 2 / 2]
    if len(phi) > 3:
        orders.append(phi[1] * h[2] + phi[2] * h[0] * h[1] + phi[3] * h[0] ** 3 / 6)
    return orders


def _pulled(slopes: list[np.ndarray], z: list[np.ndarray], order: int) -> np.ndarray:
    """g = φ'(h)z at an order (points × outputs × samples)."""
    return sum(slopes[k][:, None] * z[order - k] for k in range(order + 1))  # pyright: ignore[reportReturnType]


def _average(values: list[np.ndarray], z: list[np.ndarray], order: int) -> np.ndarray:
    """⟨zφ⟩ at an order (points × outputs)."""
    samples = values[0].shape[-1]
    return sum(values[k] @ z[order - k].T for k in range(order + 1)) / samples  # pyright: ignore[reportReturnType]


def _kernels(
    setting: WideSetting, K: np.ndarray, kept: list[Orders]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Φ, G and the tangent kernel Φ + K G at equal times, all to the order γ_0²."""
    p, C, n, gamma = setting.points, setting.outputs, len(kept), setting.gamma

    def products(fields: list[tuple[np.ndarray, ...]], width: int) -> np.ndarray:
        zero, one, two = (
            np.concatenate([orders[k].reshape(width, -1) for orders in fields]) for k in range(3)
        )
        mixed = zero @ two.T
        total = zero @ zero.T + gamma**2 * (one @ one.T + mixed + mixed.T)
        return total / zero.shape[1]

    Phi = products([orders.phi for orders in kept], p).reshape(1, n, p, n, p)
    G = products([orders.g for orders in kept], p * C).reshape(1, n, p, C, n, p, C)
    now = np.arange(n)
    kernel = np.einsum("mpcqd,pq->mpcqd", G[0, now, :, :, now], K)
    return Phi, G, kernel + np.einsum("mpq,cd->mpcqd", Phi[0, now, :, now], np.eye(C))

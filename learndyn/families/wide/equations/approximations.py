"""Approximations of the limit of wide networks, to compare with the full theory.

- `static_kernel`: the neural tangent kernel stays at its value K(0), that of `initial_kernels`; exact for γ_0 → 0.
- `perturbative_linear`: the first correction in γ_0², for deep linear networks.
- `gradient_independent_linear`: fields forward and backward taken as independent, A = B = 0, for deep linear networks;
  exact for one hidden layer.

The last two move the outputs by the kernel at equal times, f(t+1) = f(t) + η(t) K(t, t) E(t), which equals gradient
descent up to O(η). If training diverges, outputs are not finite.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from learndyn.core.progressing import Report
from learndyn.errors import NoTheory
from learndyn.families.wide.equations.linear import LinearSolution, sweep
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.numerics.gaussian import ErrorMoments, closed_form, error_moments
from learndyn.numerics.pair_grid import pair_averages
from learndyn.numerics.precision import float64
from learndyn.numerics.rules import GaussianRule, gaussian_rule
from learndyn.problem.activations import Activation, Linear

GRIDS = 4
"""Number of shifted grids for averages without a closed form: at a kink, the error depends on its place in the grid."""


class InitialKernels(NamedTuple):
    """Kernels at the start, the same for all outputs: K(0) = Σ_{ℓ=0}^L G^{ℓ+1} (Φ^ℓ + bias), without bias for ℓ = L."""

    Phi: np.ndarray
    """Φ^0 … Φ^L (L+1, points, points)"""
    G: np.ndarray
    """G^1 … G^{L+1} (L+1, points, points)"""
    kernel: np.ndarray
    """K(0) (points, points)"""


def on_grid(setting: WideSetting) -> bool:
    """Whether the averages of the kernels at the start have no closed form."""
    activation = setting.activation
    return not (isinstance(activation, Linear) or closed_form(activation, activation))


def initial_kernels(setting: WideSetting, grids: slice = slice(None)) -> InitialKernels:
    """Φ^0 = K^x, Φ^ℓ = ⟨φ(u)φ(u)⟩ with ⟨uu⟩ = Φ^{ℓ−1} + bias; G^{L+1} = 1, G^ℓ = G^{ℓ+1} ⟨φ'(u)φ'(u)⟩.

    Averages without a closed form are taken on shifted grids: on all of them, or on those that `grids` selects.
    """
    Phi, slopes = [setting.K], []
    for _ in range(setting.depth):
        products, slope = _averages(setting.activation, Phi[-1] + setting.bias, grids)
        Phi.append(products)
        slopes.append(slope)
    G = [np.ones_like(setting.K)]
    for slope in reversed(slopes):
        G.insert(0, G[0] * slope)
    biases = np.array([setting.bias] * setting.depth + [0.0])[:, None, None]
    Phi, G = np.stack(Phi), np.stack(G)
    return InitialKernels(Phi, G, (G * (Phi + biases)).sum(0))


def _averages(
    activation: Activation, C: Float[np.ndarray, "points points"], grids: slice
) -> tuple[np.ndarray, np.ndarray]:
    """⟨φ(u_a)φ(u_b)⟩ and ⟨φ'(u_a)φ'(u_b)⟩ of fields with covariance C, in closed form or on a grid."""
    if isinstance(activation, Linear):
        return C, np.ones_like(C)
    p = len(C)
    with float64():
        covariance = jnp.asarray(C)
        if closed_form(activation, activation):

            def moments(s: Float[Array, " points"]) -> ErrorMoments:
                return error_moments(activation, activation, covariance, s, p, second_order=False)

            # ⟨φ_a ε⟩ for the errors ε = φ_b, one for every b.
            all_moments = jax.vmap(moments)(jnp.eye(p))
            return np.asarray(all_moments.readout), np.asarray(all_moments.slope[0])
        pairs = gaussian_rule(2, 4, GRIDS, 0).pairs
        assert pairs is not None
        points, weights = pairs.points[grids], pairs.weights[grids]
        grid = GaussianRule(points.reshape(-1, 2), weights.ravel() / len(weights))
        averages = pair_averages(activation, activation, covariance, p, grid)
        return np.asarray(averages.products), np.asarray(averages.slopes)


def static_kernel(setting: WideSetting, K0: np.ndarray) -> np.ndarray:
    """f(t) = Σ_{s<t} k(t, s) Σ_α K0_{μα} E_α(s) (states, points, C) with a fixed kernel K0 (points, points).

    For gradient descent f(t+1) = f(t) + η K0 E(t); momentum and schedules are in k.
    """
    f = np.zeros((setting.states, setting.points, setting.outputs))
    push = np.zeros_like(f)
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(setting.states):
            f[t] = np.tensordot(setting.k[t, :t], push[:t], 1)
            push[t] = K0 @ setting.loss.force(f[t])
    return f


def perturbative_linear(setting: WideSetting, memory: bool = True) -> dict[str, np.ndarray]:
    """Kernels of a deep linear network to O(γ_0²), and outputs moved by them.

    With the forces E of the static kernel (L+1) K^x, v_αc(t) = Σ_{s<t} η E_αc(s) and
    v_αc,βc'(t) = Σ_{s<t} η E_αc(s) v_βc'(s),

        H^ℓ_μν(t, s) = K^x_μν + γ_0² Σ_{j=1}^ℓ {j² U(t)·U(s) + j(L+1−j) [W(t) + W(s)ᵀ]}_μν,
        G^ℓ_cc'(t, s) = δ_cc' + γ_0² Σ_{j=ℓ}^L {(L+1−j)² v(t)ᵀK^x v(s) + j(L+1−j) [Q(t) + Q(s)ᵀ]}_cc',
        K_μc,νc'(t, t) = (L+1) K^x_μν δ_cc'
                         + γ_0² L(L+1)²(L+2)/12 {δ_cc' [U·U + W + Wᵀ]_μν + K^x_μν [vᵀK^x v + Q + Qᵀ]_cc'},

    U_μc = Σ_α K^x_μα v_αc, W_μν = Σ_αβc K^x_μα K^x_νβ v_αc,βc, Q_cc' = Σ_αβ K^x_αβ v_αc,βc'. The factor of the kernel
    is L(L+1)/2 in the paper, which leaves out the contribution of A and B at the same order.

    A dictionary of `kernel` (n, points, C, points, C), f (n, points, C) and, with `memory`, H (L, n, points, n, points)
    and G (L, n, C, n, C).
    """
    eta = plain_rates(setting, "the expansion in γ_0²")
    if setting.bias:
        raise NoTheory("the expansion in γ_0² is known only without biases; set bias to false")
    K, L, gamma, C = setting.K, setting.depth, setting.gamma, setting.outputs
    f = static_kernel(setting, (L + 1) * K)
    E = np.stack([setting.loss.force(now) for now in f])
    v = _up_to(eta[:, None, None] * E[:-1])
    U, push = K @ v, eta[:, None, None] * (K @ E[:-1])
    W = _up_to(np.einsum("tmc,tnc->tmn", push, U[:-1]))
    Q = _up_to(np.einsum("tmc,tmd->tcd", push, v[:-1]))
    UU, vKv = np.einsum("tmc,tnc->tmn", U, U), np.einsum("tmc,tmd->tcd", v, U)
    features = UU + W + W.transpose(0, 2, 1)
    gradients = vKv + Q + Q.transpose(0, 2, 1)
    factor = gamma**2 * L * (L + 1) ** 2 * (L + 2) / 12
    identity = np.eye(C)
    kernel = np.einsum("mn,cd->mcnd", (L + 1) * K, identity) + factor * (
        np.einsum("tmn,cd->tmcnd", features, identity) + np.einsum("mn,tcd->tmcnd", K, gradients)
    )
    arrays = {"kernel": kernel, "f": _moved_by(setting, eta, kernel)}
    if not memory:
        return arrays
    j = np.arange(1, L + 1)
    below, above = j**2, (L + 1 - j) ** 2
    across = j * (L + 1 - j)
    product = np.einsum("tmc,snc->tmsn", U, U)
    correction = _two_times(np.cumsum(below), np.cumsum(across), product, W)
    arrays["H"] = K[:, None] + gamma**2 * correction
    product = np.einsum("tmc,smd->tcsd", v, U)
    correction = _two_times(np.cumsum(above[::-1])[::-1], np.cumsum(across[::-1])[::-1], product, Q)
    arrays["G"] = identity[:, None] + gamma**2 * correction
    return arrays


def _up_to(increments: np.ndarray) -> np.ndarray:
    """Sums over all earlier steps, at every state."""
    total = np.zeros((len(increments) + 1, *increments.shape[1:]))
    np.cumsum(increments, axis=0, out=total[1:])
    return total


def _two_times(
    first: Int[np.ndarray, " L"],
    second: Int[np.ndarray, " L"],
    product: np.ndarray,
    X: np.ndarray,
) -> np.ndarray:
    """Σ_j {… product + … [X(t) + X(s)ᵀ]} for every layer, with the sums `first` and `second` over j."""
    both = X[:, :, None] + X.transpose(2, 0, 1)
    return np.multiply.outer(first, product) + np.multiply.outer(second, both)


def gradient_independent_linear(
    setting: WideSetting, report: Report = lambda fraction: None, memory: bool = True
) -> LinearSolution:
    """A deep linear network with A = B = 0 in the equations of all fields; f is moved by the kernel at equal times."""
    plain_rates(setting, "gradient independence")
    return sweep(setting, report, memory, responses=False)._replace(A=None, B=None)


def plain_rates(setting: WideSetting, approximation: str) -> np.ndarray:
    """η(t); raises `NoTheory` if training is not plain gradient descent."""
    eta = np.diagonal(setting.k, -1)
    plain = np.tril(np.broadcast_to(np.append(eta, 0.0), setting.k.shape), -1)
    if not (np.all(setting.C_W == 1) and np.array_equal(setting.k, plain)):
        raise NoTheory(
            f"{approximation} is known only for plain gradient descent; set momentum, weight_decay and noise to 0, or "
            "solve the full theory"
        )
    return eta


def _moved_by(
    setting: WideSetting,
    eta: Float[np.ndarray, " steps"],
    kernel: Float[np.ndarray, "states points C points C"],
) -> Float[np.ndarray, "states points C"]:
    """f(t+1) = f(t) + η(t) K(t, t) E(t)."""
    f = np.zeros((setting.states, setting.points, setting.outputs))
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(setting.states - 1):
            f[t + 1] = f[t] + eta[t] * np.tensordot(kernel[t], setting.loss.force(f[t]))
    return f

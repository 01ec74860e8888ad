"""The map of a neural ODE with one control, observed at the end, written for that case alone.

The equations of `trajectories`, `adjoint` and `overlap_map` in `learndyn.families.neural_ode.limit`, without sums over
units: all of a training step is a function of the two numbers Q and m. It is what the general family is measured
against.
"""

import functools

import jax
import jax.numpy as jnp

from learndyn.numerics.precision import float64


def curves(problem) -> dict:
    """Q, m and the loss before every training step, and after the last."""
    network, training = problem.network, problem.training
    numbers = (network.time / network.steps, network.control_ratio, training.learning_rate)
    with float64():
        given = [jnp.asarray(x, float) for x in numbers]
        coefficients = jnp.asarray(network.field.coefficients, float)
        return _curves(coefficients, *given, steps=network.steps, epochs=training.steps)


@functools.partial(jax.jit, static_argnames=("steps", "epochs"))
def _curves(coefficients, h, sigma, eta, steps: int, epochs: int) -> dict:
    c_qm, c_qq = coefficients[1, 1], coefficients[2, 0]

    def G(q, m):
        return q * (c_qm * m + c_qq * q)

    teacher = _trajectory(G, h, 1.0, steps)

    def of_state(q, m):
        return c_qm * m + 2 * c_qq * q

    def one(state, _):
        Q, m = state
        student = _trajectory(G, h, Q, steps)
        C_yx = _cross(G, h, student, teacher, m)
        slopes = h**2 * of_state(student[0][:-1, :-1], Q), h**2 * of_state(C_yx[:-1, :-1], m)
        C_pp, R_py, R_px = _backward(h, student, teacher, C_yx, *slopes)
        own, other = (h**2 / sigma * c_qm * C[:-1, :-1] for C in (student[0], C_yx))
        k, v, n = (
            jnp.sum(R_py[1:, 1:] * own),
            -jnp.sum(R_px[1:, 1:] * other),
            jnp.sum(C_pp[1:, 1:] * own),
        )
        A, pull = 1 - eta * k, eta * v
        after = A**2 * Q + 2 * A * pull * m + pull**2 + eta**2 * n, A * m + pull
        return after, {"Q": Q, "m": m, "test_loss": C_pp[-1, -1] / 2}

    start = jnp.ones(()), jnp.zeros(())
    return jax.lax.scan(one, start, None, length=epochs + 1)[1]


def _trajectory(G, h, norm, steps: int) -> tuple:
    """C, R and a_n = 1 − hC(n, n) of a flow whose control has a norm."""

    def row(carry, n):
        C, R = carry
        here = C[n]
        a = 1 - h * here[n]
        R = R.at[n + 1].set((a * R[n]).at[n + 1].set(1.0))
        force = jnp.where(jnp.arange(steps) <= n, G(here[:-1], norm), 0.0)
        noisy = h**2 * (R[:, 1:] @ force)
        new = jnp.where(jnp.arange(steps + 1) <= n, a * here + noisy, 0.0)
        new = new.at[n + 1].set(a * new[n] + noisy[n + 1])
        return (C.at[n + 1].set(new).at[:, n + 1].set(new), R), a

    start = jnp.zeros((steps + 1, steps + 1)).at[0, 0].set(1.0)
    (C, R), a = jax.lax.scan(row, (start, start), jnp.arange(steps))
    return C, R, a


def _cross(G, h, student, teacher, m):
    """C_yx."""
    C_xx, R_xx, _ = teacher

    def row(here, a):
        new = a * here + h**2 * (R_xx[:, 1:] @ G(here[:-1], m))
        return new, new

    _, rows = jax.lax.scan(row, C_xx[0], student[2])
    return jnp.concatenate([C_xx[:1], rows])


def _backward(h, student, teacher, C_yx, own, other) -> tuple:
    """C_pp, R_py and R_px of the true adjoint."""
    (C_yy, R_yy, slowed), (C_xx, R_xx, _) = student, teacher
    N = len(C_yy) - 1
    empty = jnp.zeros((N + 1, N + 1))
    known = (
        empty.at[N, N].set(C_yy[N, N] + C_xx[N, N] - 2 * C_yx[N, N]),
        empty.at[N].set(C_yy[N] - C_yx[:, N]),
        empty.at[N].set(C_yx[N] - C_xx[N]),
        empty.at[N].set(R_yy[N]),
        empty.at[N].set(-R_xx[N]),
    )

    def row(known, n):
        C_pp, C_py, C_px, R_py, R_px = known
        a = slowed[n]
        w_y = (R_py[n + 1, 1:] * own[n]).at[n].add(-2 * h * C_py[n + 1, n])
        w_x = R_px[n + 1, 1:] * other[n]
        R_py = R_py.at[n].set(a * R_py[n + 1] + w_y @ R_yy[:N])
        R_px = R_px.at[n].set(a * R_px[n + 1] + w_x @ R_xx[:N])
        C_py = C_py.at[n].set(a * C_py[n + 1] + w_y @ C_yy[:N] + C_yx[:, :N] @ w_x)
        C_px = C_px.at[n].set(a * C_px[n + 1] + w_y @ C_yx[:N] + w_x @ C_xx[:N])
        noise = (C_pp[n + 1, 1:] * own[n]) @ R_yy[:N]
        seen = C_py[:, :N] @ w_y + C_px[:, :N] @ w_x + noise
        new = jnp.where(jnp.arange(N + 1) > n, a * C_pp[n + 1] + seen, 0.0)
        new = new.at[n].set(a * new[n + 1] + seen[n])
        return (C_pp.at[n].set(new).at[:, n].set(new), C_py, C_px, R_py, R_px), None

    (C_pp, _, _, R_py, R_px), _ = jax.lax.scan(row, known, jnp.arange(N - 1, -1, -1))
    return C_pp, R_py, R_px

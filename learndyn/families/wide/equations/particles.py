"""Wide networks with one hidden layer: every neuron is a particle that moves on its own.

With one hidden layer u and r do not depend on time, and (h_μ, w_c) of a neuron obey a Markov rule, in which neurons
interact only through the outputs f_μc = ⟨w_c φ(h_μ)⟩/γ_0 and their forces E:

    b_h ← β b_h + ηγ_0 Σ_αc K_μα E_αc φ'(h_α) w_c,    h ← (1 − ηλ) h + b_h + √(2ητ) ζ_h,   ⟨ζ_h ζ_hᵀ⟩ = K,
    b_w ← β b_w + ηγ_0 Σ_α E_αc φ(h_α),               w ← (1 − ηλ) w + b_w + √(2ητ) ζ_w,

from h ~ N(0, K) and w ~ N(0, 1). K is the kernel of the inputs, plus 1 with biases. Particles start from
quasi-random points in (rank of K) + C dimensions; each comes with the particle that has the opposite w, so that f = 0
at the start exactly. A grid would be more accurate for smooth φ in few dimensions, but not for a relu, and its error
is shared by all its shifts, so that their spread does not show it. Cost per step: O(samples·points²).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.core.progressing import Report
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.rules import GaussianRule
from learndyn.problem.activations.values import with_slope


class TrainingRule(NamedTuple):
    """Step sizes η(t), momentum β, decay λ and temperature τ."""

    eta: np.ndarray
    momentum: float
    decay: float
    noise: float


class ParticleRun(NamedTuple):
    """The particles of one quadrature rule, at all states or at the m recorded ones.

    - `f`: outputs at all states (n, points, C).
    - `phi` (φ(h)), `h`: features and preactivations at the recorded states (m, points, particles).
    - `g`: gradients at the recorded states (m, points, C, particles).
    - `weights`: quadrature weights of the particles.
    - `reached`: number of states before training diverged.
    """

    f: np.ndarray
    phi: np.ndarray
    g: np.ndarray
    h: np.ndarray
    weights: np.ndarray
    reached: int


def move(
    setting: WideSetting,
    rule: TrainingRule,
    quadrature: GaussianRule,
    saved: np.ndarray,
    rng: np.random.Generator,
    report: Report,
) -> ParticleRun:
    """Move the particles that start from one quadrature rule through all states; `report` takes the fraction done."""
    p, C, gamma = setting.points, setting.outputs, setting.gamma
    K = setting.K + setting.bias
    F = covariance_root(K, rank=True)
    xi = np.asarray(quadrature.points).T
    xi = np.concatenate([xi, np.concatenate([xi[: F.shape[1]], -xi[F.shape[1] :]])], axis=1)
    weights = np.tile(np.asarray(quadrature.weights), 2) / 2
    h, w = F @ xi[: F.shape[1]], xi[F.shape[1] :]
    b_h, b_w = np.zeros_like(h), np.zeros_like(w)
    n = setting.states
    f = np.zeros((n, p, C))
    recorded: dict[str, list] = {"phi": [], "g": [], "h": []}
    saved_states = set(saved.tolist())
    for t in range(n):
        phi, slope = map(np.asarray, with_slope(setting.activation, h))
        f[t] = (phi * weights) @ w.T / gamma
        if setting.diverged(f[t]):
            return _packed(f, recorded, weights, t)
        if t in saved_states:
            for name, value in (("phi", phi), ("g", slope[:, None] * w[None]), ("h", h)):
                recorded[name].append(value)
        if t == n - 1:
            break
        E, eta = setting.loss.force(f[t]), rule.eta[t]
        pull = K @ (slope * (E @ w))
        b_h = rule.momentum * b_h + eta * gamma * pull
        b_w = rule.momentum * b_w + eta * gamma * (E.T @ phi)
        keep = 1 - eta * rule.decay
        h, w = keep * h + b_h, keep * w + b_w
        if rule.noise:
            size = np.sqrt(2 * eta * rule.noise)
            h = h + size * F @ rng.standard_normal((F.shape[1], h.shape[1]))
            w = w + size * rng.standard_normal(w.shape)
        report((t + 1) / n)
    return _packed(f, recorded, weights, n)


def _packed(
    f: Float[np.ndarray, "n points C"],
    recorded: dict,
    weights: Float[np.ndarray, " particles"],
    reached: int,
) -> ParticleRun:
    """The run with its recorded values as arrays."""
    _, p, C = f.shape
    phi, h = (np.reshape(recorded[name], (-1, p, len(weights))) for name in ("phi", "h"))
    g = np.reshape(recorded["g"], (-1, p, C, len(weights)))
    return ParticleRun(f, phi, g, h, weights, reached)

"""The static kernel with the squared loss: every eigenvector of the kernel is learnt by itself, at any time at once.

With K v = λ v on the trained points, y = Σ v (v·y) and the loss scaled by s (1/P for a mean), outputs are f = K θ with
θ = s Σ v (v·y) a, and 1 − sλa is the part of (v·y) that is still to be learnt:

    gradient flow       1 − sλa = e^{−sλτ},   τ = ∫η dt,
    gradient descent    1 − sλa = Π_t (1 − η_t sλ),
    with momentum β     1 − sλa = c_+ (1 − δ_+)^t + c_− (1 − δ_−)^t,
                        δ² − (1 − β + x) δ + x = 0,  x = ηsλ,  c_+ + c_− = 1,  c_+ δ_+ + c_− δ_− = x,

the last at a constant rate; with a schedule it is carried out step by step. a is found from logarithms, so that it is
exact to rounding for modes that have hardly begun and at any time.
"""

import itertools

import numpy as np
from jaxtyping import Float

from learndyn.errors import NoTheory
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.numerics.precision import float64
from learndyn.problem.schedules import Piecewise, Schedule, as_schedule, integral
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import PerStepRule

NULL = 1e-13
"""Eigenvalues below this part of the largest are rounding, and their modes are never learnt."""
CRITICAL = 1e-6
"""The least difference of the roots δ_+ and δ_−: closer ones are taken apart so far, with an error of its square."""
CHUNK = 100_000
"""Steps of a schedule that are multiplied at a time."""


def refuse_moving_weights(training: GradientDescent) -> None:
    """Refuse decay and noise."""
    if training.weight_decay or training.noise:
        raise NoTheory(
            "the static kernel is not an approximation with weight decay or noise: weights then leave their initial "
            "values by themselves, and the kernel with them; set weight_decay and noise to 0, or solve the full theory"
        )


def static_outputs(
    setting: WideSetting,
    training: GradientDescent,
    K0: Float[np.ndarray, "p p"],
    at: Float[np.ndarray, " k"],
) -> Float[np.ndarray, "k p C"]:
    """The outputs f of all points at the recorded steps or times; the loss is squared."""
    refuse_moving_weights(training)
    P, s = setting.trained, setting.loss.scale
    lam, V = np.linalg.eigh(K0[:P, :P])
    known = lam > NULL * max(float(lam[-1]), 1e-300)
    lam, V = lam[known], V[:, known]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if training.time is not None:
            exponents = -np.multiply.outer(s * integral(training.learning_rate, at), lam)
            learnt = -np.expm1(exponents)
        elif training.momentum and isinstance(training.learning_rate, Schedule):
            learnt = _stepped(training, s * lam, at)
        elif training.momentum:
            learnt = _with_momentum(training, s * lam, at)
        else:
            learnt = -np.real(np.expm1(_logarithms(training, s * lam, at)))
        modes = V.T @ setting.loss.targets
        return np.einsum("pm,km,mc->kpc", K0[:, :P] @ V, learnt / lam, modes, optimize=True)


def _log_left(x: np.ndarray) -> np.ndarray:
    """log(1 − x), complex beyond 1, and finite at 1; NumPy's complex log1p has no small numbers."""
    real = (np.imag(x) == 0) & (np.real(x) < 1)
    near = np.log1p(-np.where(real, np.real(x), 0.0))
    beyond = np.where(real | (x == 1), 1e-300, 1 - x + 0j)
    return np.where(real, near, np.log(beyond))


def _logarithms(
    training: GradientDescent, rates: Float[np.ndarray, " m"], at: np.ndarray
) -> np.ndarray:
    """Σ log(1 − η_t sλ) over the steps before each recorded one (records × modes)."""
    rate = training.learning_rate
    if not isinstance(rate, Schedule):
        return np.multiply.outer(at, _log_left(rate * rates))
    schedule, last = as_schedule(rate), int(at[-1])
    edges = np.unique(np.concatenate([[0, last], at, np.arange(0, last, CHUNK)])).astype(int)
    if isinstance(rate, Piecewise):
        jumps = np.ceil(training.breakpoints(last))
        edges = np.unique(np.concatenate([[0, last], at, jumps])).astype(int)
    total, sums = np.zeros(len(rates), complex), {0: np.zeros(len(rates), complex)}
    for first, end in itertools.pairwise(edges):
        steps = np.array([first]) if isinstance(rate, Piecewise) else np.arange(first, end)
        with float64():
            eta = np.asarray(schedule(steps.astype(float)), float)
        each = _log_left(np.multiply.outer(eta, rates)).sum(axis=0)
        total = total + each * (end - first if isinstance(rate, Piecewise) else 1)
        sums[int(end)] = total
    return np.stack([sums[int(step)] for step in at])


def _with_momentum(
    training: GradientDescent, rates: Float[np.ndarray, " m"], at: np.ndarray
) -> np.ndarray:
    """sλa with momentum at a constant rate (records × modes)."""
    x = (float(training.learning_rate) * rates).astype(complex)  # pyright: ignore[reportArgumentType]
    b = 1 - training.momentum + x
    root = np.sqrt(b**2 - 4 * x)
    root = np.where(np.abs(root) < CRITICAL, CRITICAL, root)
    large = (b + root) / 2
    small = 2 * x / (b + root)
    share = (x - small) / (large - small)
    gone = [np.expm1(np.multiply.outer(at, _log_left(delta))) for delta in (large, small)]
    return -(share * gone[0] + (1 - share) * gone[1]).real


def _stepped(
    training: GradientDescent, rates: Float[np.ndarray, " m"], at: np.ndarray
) -> np.ndarray:
    """sλa with momentum and a schedule, step by step (records × modes)."""
    with float64():
        rule = PerStepRule.of(training)
    learnt, buffer, states = np.zeros(len(rates)), np.zeros(len(rates)), []
    recorded = set(at.tolist())
    for t in range(int(at[-1]) + 1):
        if t in recorded:
            states.append(learnt)
        if t < at[-1]:
            step = rule.at(t)
            learnt, buffer = step.moved(learnt, buffer, step.inner * rates * (1 - learnt))
    return np.stack(states)

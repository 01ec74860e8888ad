"""Random settings: panels and the innovation basis differ from the rows by no more than they state."""

import math

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.method import Method

QUICK = (0, 1, 2, 153)
"""Seeds of the quick suite. In 153 the error consists of what panels damp."""
SEEDS = [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in range(300)]


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def random_problem(seed: int, supplies: tuple[type, ...], fastest: float) -> ld.Problem:
    """A network, data and a training of a hundred steps, with learning rates up to `fastest`."""
    rng = np.random.default_rng(seed)
    supply, spectrum = supplies[rng.integers(len(supplies))], rng.random() < 0.3
    network: dict = {"depth": int(rng.integers(1, 5)), "richness": log_uniform(rng, 1e-3, 4)}
    network["width"] = int(rng.integers(2, 30)) if spectrum else log_uniform(rng, 0.3, 5)
    if rng.random() < 0.2:
        network["width"] = math.inf
    if rng.random() < 0.3:
        network["centered"] = True
    if rng.random() < 0.2:
        network["skip"] = rng.uniform(0.1, 1)
    if not spectrum and rng.random() < 0.15:
        network["outputs"] = 2
    modes = ld.PowerLaw(rng.uniform(1.1, 2), rng.uniform(0.5, 1.5), int(rng.integers(3, 9)))
    amounts = {
        ld.Dataset: {"examples": int(rng.integers(2, 40))},
        ld.Stream: {"batch": int(rng.integers(1, 40))},
    }
    ratios = {
        ld.Dataset: {"ratio": log_uniform(rng, 0.3, 4)},
        ld.Stream: {"batch_ratio": log_uniform(rng, 0.2, 5)},
    }
    amount = (amounts if spectrum else ratios).get(supply, {})
    task = ld.LinearMap(modes if spectrum else None)
    data = supply(task, noise=float(rng.choice([0, 0.2, 0.7])), **amount)
    decay = log_uniform(rng, 1e-4, 0.3) if rng.random() < 0.2 else 0.0
    rate = log_uniform(rng, 0.005, fastest)
    training = ld.GradientDescent(rate, steps=120, weight_decay=decay)
    return ld.Problem(ld.DeepLinear(**network), data, training)


def assert_accurate(problem: ld.Problem, method: Method, margin: float) -> None:
    """Within `margin` times what is stated, or the same divergence.

    At the edge of stability, where panels may refuse and errors of rounding grow, only nothing else may happen.
    """
    recorded = [20, 40, 60, 80, 100, 120]
    exact = ld.solve(problem, ld.Rows(), save_at=recorded)
    edge = exact.evidence["edge_of_stability"] is not None or exact.diverged_at is not None
    try:
        solution = ld.solve(problem, method, save_at=recorded)
    except ld.AtTheEdge:
        assert edge
        return
    assert solution.diverged_at == exact.diverged_at
    for name, accuracy in solution.evidence["accuracy"].items():
        difference = np.max(np.abs(solution[name].values - exact[name].values), initial=0.0)
        rounding = 1e-9 * np.max(np.abs(exact[name].values), initial=1e-3)
        assert edge or difference <= margin * accuracy + rounding, name


@pytest.mark.parametrize("seed", SEEDS)
def test_panels_are_within_their_stated_accuracy(seed):
    """A difference of two solutions tells the size of an error, no bound: one of 250 exceeded it, 1.8 times."""
    problem = random_problem(seed, (ld.Dataset, ld.Population), 0.3)
    tolerance = 10.0 ** -(3 + 2 * (seed % 3))
    assert_accurate(problem, ld.Panels(tolerance=tolerance, responses=seed % 4 == 0), 2.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_innovation_basis_is_within_its_stated_accuracy(seed):
    problem = random_problem(1000 + seed, (ld.Stream, ld.Stream, ld.Dataset, ld.Population), 0.2)
    tolerance = 10.0 ** -(4 + 3 * (seed % 3))
    assert_accurate(problem, ld.Innovation(tolerance=tolerance, responses=seed % 4 == 0), 1.0)

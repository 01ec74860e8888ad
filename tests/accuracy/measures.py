"""How stated errors are measured against a reference: z statistics of samples, ratios of bounds."""

import numpy as np

import learndyn as ld
from tests.optional import not_none

ROUNDING = 1e-11
"""Errors below this share of an observable are those of rounding and of the reference."""


def mean_square_z(problem, method, reference, names, seeds) -> dict[str, tuple[float, float]]:
    """⟨z²⟩ of every observable with z = (value − reference)/standard error, and its own standard error over seeds.

    Times and components of one seed are correlated: they are averaged first.
    """
    squares: dict[str, list[float]] = {name: [] for name in names}
    for seed in seeds:
        solution = ld.solve(problem, method, seed=seed)
        for name in names:
            value, error = solution[name].values, not_none(solution.standard_error(name)).values
            sampled = error > ROUNDING * np.max(np.abs(value))
            z = (value - reference[name].values)[sampled] / error[sampled]
            squares[name].append(float(np.mean(z**2)))
    rows = {name: np.array(values) for name, values in squares.items()}
    return {name: (x.mean(), x.std(ddof=1) / np.sqrt(len(x))) for name, x in rows.items()}


def check_mean_square_z(found: dict[str, tuple[float, float]], batches: int) -> None:
    """⟨z²⟩ is that of Student's distribution, d/(d − 2) with d = batches − 1, within chance.

    From below within three errors, and not under a third of it: an error bar too large by √3. From above within three
    errors of ⟨z²⟩, which is skewed, plus a third: error bars may be too small by 15 %. Halved error bars make it four
    times as large.
    """
    expected = (batches - 1) / (batches - 3)
    for name, (mean, error) in found.items():
        assert mean - 3 * error < 4 / 3 * expected, (name, mean, error)
        assert mean < 2.5 * expected, (name, mean, error)
        assert mean + 3 * error > expected, (name, mean, error)
        assert mean > expected / 3, (name, mean, error)


def ratios(solution, reference, names=None) -> list[float]:
    """The largest true error of every observable over the stated accuracy, where one of them is beyond rounding."""
    found = []
    for name, accuracy in solution.evidence["accuracy"].items():
        if name not in (names or reference.observables):
            continue
        values = reference[name].values
        error = np.max(np.abs(solution[name].values - values), initial=0.0)
        if max(error, accuracy) > ROUNDING * np.max(np.abs(values), initial=0.0):
            found.append(error / max(accuracy, 1e-300))
    return found


def check_ratios(found: list[float], least: float = 1e-3) -> None:
    """No error is beyond what is stated, and the usual one is not below the share `least` of it."""
    assert max(found) <= 1.0, max(found)
    assert np.median(found) >= least, np.median(found)

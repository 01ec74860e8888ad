"""Comparisons of runs with several seeds."""

import numpy as np

from learndyn.programs import ProgramRun


def together(runs: list[ProgramRun]) -> np.ndarray:
    """All records of each run in one row: runs × numbers. States without a record are left out."""
    rows = [
        np.concatenate([curve.ravel() for curve in outcome.records.values()]) for outcome in runs
    ]
    table = np.array(rows)
    return table[:, ~np.all(np.isnan(table), axis=0)]


def z_of_means(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(difference of means)/(its standard error) for each column that fluctuates."""
    error = np.sqrt(a.var(0, ddof=1) / len(a) + b.var(0, ddof=1) / len(b))
    difference = a.mean(0) - b.mean(0)
    # What does not fluctuate is compared to rounding.
    still = error < 1e-12
    assert np.all(np.abs(difference[still]) < 1e-10)
    return difference[~still] / error[~still]


def z_of_variances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same for variances, whose standard error comes from the fourth moment."""
    moments = []
    for x in (a, b):
        centred = x - x.mean(0)
        variance = (centred**2).mean(0)
        moments.append((variance, ((centred**4).mean(0) - variance**2) / len(x)))
    (u, du), (v, dv) = moments
    moving = du + dv > 1e-24
    return ((u - v) / np.sqrt(np.maximum(du + dv, 1e-300)))[moving]


def rms(z: np.ndarray) -> float:
    """√⟨z²⟩, about one if two ensembles have the same mean."""
    return float(np.sqrt(np.mean(z**2)))

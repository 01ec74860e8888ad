"""Comparisons of runs with several seeds."""

import numpy as np
from scipy import stats

from learndyn.numerics.max_t import max_t_test
from learndyn.programs import ProgramRun

STILL = 1e-12
"""Numbers with a smaller spread do not fluctuate; they are compared to rounding."""


def together(runs: list[ProgramRun]) -> np.ndarray:
    """All records of each run in one row: runs × numbers. States without a record are left out."""
    rows = [
        np.concatenate([curve.ravel() for curve in outcome.records.values()]) for outcome in runs
    ]
    table = np.array(rows)
    return table[:, ~np.all(np.isnan(table), axis=0)]


def moving(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns that fluctuate; the others agree up to rounding."""
    still = (a.std(0) < STILL) & (b.std(0) < STILL)
    assert np.all(np.abs(a.mean(0) - b.mean(0))[still] < 1e-10)
    return a[:, ~still], b[:, ~still]


def agreement(limit: np.ndarray, networks: np.ndarray, allowance: float) -> float:
    """The p-value of the largest deviation of networks from the limit beyond `allowance`, whatever the correlations.

    Rows are runs, columns numbers. It is the test of `ld.compare`.
    """
    limit, networks = moving(limit, networks)
    residuals = networks - limit.mean(0)
    return max_t_test(residuals, allowance, 1e-3, further=stats.sem(limit))[1]


def fitted(
    sizes: np.ndarray, deviations: np.ndarray, errors: np.ndarray, powers: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Coefficients of Σ_k c_k/N^k, k = 1 … powers, by weighted least squares, their errors, and the p-value of χ²."""
    design = (1 / sizes[:, None] ** np.arange(1, powers + 1)) / errors[:, None]
    coefficients, *_ = np.linalg.lstsq(design, deviations / errors, rcond=None)
    chi_square = float(np.sum((design @ coefficients - deviations / errors) ** 2))
    uncertainty = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    return coefficients, uncertainty, float(stats.chi2.sf(chi_square, len(sizes) - powers))

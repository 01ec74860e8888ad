"""Lazy networks have the law of dense ones, at sizes so small that matrices become fully known.

Every recorded number, losses and kernels of all states, is compared between two ensembles: its distribution
(Kolmogorov–Smirnov), its mean (Welch) and its variance (Brown–Forsythe). With n numbers the smallest p-value times n,
Bonferroni's bound, falls below the level at most as often as the level says, however the numbers are correlated. Seeds
are fixed.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy import stats

from learndyn.programs import Dense, Lazy, run
from tests.programs.cases import CASES
from tests.programs.statistics import moving, together

LEVEL = 1e-3
PROGRAMS = [
    ("tied-sgd", 10, 6),
    ("mlp", 8, 8),
    ("recurrent", 12, 12),
    ("late", 3, 4),
    ("layered", 4, 2),
]
"""Name, size, and a rank that is reached: all rows or columns of a matrix."""
QUICK = ("tied-sgd", "recurrent", "late", "layered")
"""The layers of a multi-layer perceptron are in the last of these, too."""


def ensembles(name: str, size: int, seeds: int) -> tuple[np.ndarray, np.ndarray, list]:
    """The records of dense and of lazy networks, runs × numbers, and the latter's runs."""
    program, parameters = CASES[name]
    dense = [run(program, parameters, Dense(size, seed)) for seed in range(seeds)]
    lazy = [run(program, parameters, Lazy(size, 10_000 + seed)) for seed in range(seeds)]
    return *moving(together(dense), together(lazy)), lazy


def smallest_p_values(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """Bonferroni's bounds for distributions, means and variances."""
    columns = list(zip(a.T, b.T, strict=True))
    tests: dict[str, Callable] = {
        "distribution": stats.ks_2samp,
        "mean": partial(stats.ttest_ind, equal_var=False),
        "variance": stats.levene,
    }
    return {
        what: len(columns) * min(float(test(x, y)[1]) for x, y in columns)
        for what, test in tests.items()
    }


@pytest.mark.parametrize(
    ("name", "size", "full"),
    [x if x[0] in QUICK else pytest.param(*x, marks=pytest.mark.slow) for x in PROGRAMS],
)
def test_lazy_and_dense_networks_have_the_same_law(name, size, full):
    a, b, lazy = ensembles(name, size, 100)
    assert any(full in ranks for ranks in lazy[0].ranks.values())
    for what, p in smallest_p_values(a, b).items():
        assert p > LEVEL, what


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size", "full"), PROGRAMS)
def test_lazy_and_dense_networks_have_the_same_law_to_three_percent(name, size, full):
    # 1/√1000: what means, in units of standard deviations, and variances, relative to themselves, are known to.
    a, b, _ = ensembles(name, size, 1000)
    for what, p in smallest_p_values(a, b).items():
        assert p > LEVEL, what

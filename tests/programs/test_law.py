"""Lazy networks have the law of dense ones, at sizes so small that matrices become fully known.

z-values of one program are correlated, so that their rms scatters: with one independent number it would exceed 2.5 in
1 % of the cases. Seeds are fixed.
"""

import pytest

from learndyn.programs import Dense, Lazy, run
from tests.programs.cases import CASES
from tests.programs.statistics import rms, together, z_of_means, z_of_variances

SEEDS = 250


@pytest.mark.parametrize(
    ("name", "size", "full"),
    [("tied-sgd", 10, 6), ("mlp", 8, 8), ("recurrent", 12, 12), ("late", 3, 4)],
)
def test_lazy_and_dense_networks_have_the_same_law(name, size, full):
    program, parameters = CASES[name]
    dense = [run(program, parameters, Dense(size, seed)) for seed in range(SEEDS)]
    lazy = [run(program, parameters, Lazy(size, 10_000 + seed)) for seed in range(SEEDS)]
    a, b = together(dense), together(lazy)
    assert rms(z_of_means(a, b)) < 2
    assert rms(z_of_variances(a, b)) < 2
    assert any(full in ranks for ranks in lazy[0].ranks.values())

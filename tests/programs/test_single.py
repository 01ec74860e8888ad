"""Vectors in single precision."""

import dataclasses

import numpy as np
import pytest

from learndyn.numerics.products import sums
from learndyn.programs import Lazy, Limit, run
from tests.programs.cases import CASES

ROUNDED = 2.0**-24
"""The relative rounding of a number. A sum of n products is rounded by n times as much at most, in whatever order."""


@pytest.mark.parametrize(
    "name", ["mlp", "tied-adam", "tied-langevin", "layered", "attention", "late"]
)
@pytest.mark.parametrize("backend", [Limit(512), Lazy(60, drop=1e-5)], ids=repr)
def test_single_precision_gives_the_same_curves(name, backend):
    program, parameters = CASES[name]
    double = run(program, parameters, backend)
    single = run(program, parameters, dataclasses.replace(backend, single=True))
    for record, curve in double.records.items():
        # Entries are rounded by 6e-8. A direction about as long as `drop` may be dropped in one of the two only,
        # which is another draw of a part of length 1e-3 in the limit and 1e-5 in the network.
        atol = 1e-5 if isinstance(backend, Lazy) else 1e-4
        np.testing.assert_allclose(single.records[record], curve, rtol=0, atol=atol)
    terms = backend.samples if isinstance(backend, Limit) else backend.size
    assert single.orthonormality < terms * ROUNDED
    # Sobol' points are stored in double precision until they are used.
    assert single.bytes < (0.6 if isinstance(backend, Lazy) else 0.8) * double.bytes


@pytest.mark.parametrize("drop", [1e-5, 1e-6, 1e-7])
def test_dropping_less_than_rounding_does_no_harm(drop):
    program, parameters = CASES["mlp"]
    exact = run(program, {**parameters, "steps": 40}, Lazy(200, revealed=True))
    single = run(
        program, {**parameters, "steps": 40}, Lazy(200, drop=drop, single=True, revealed=True)
    )
    # Rounding of 6e-8 in each of some hundred directions and 40 steps.
    np.testing.assert_allclose(single.records["loss"], exact.records["loss"], rtol=0, atol=1e-5)
    assert single.orthonormality < 200 * ROUNDED


def test_long_sums_of_single_numbers_are_accurate():
    x = np.random.default_rng(0).standard_normal((2, 100_000)).astype(np.float32)
    exact = x.astype(np.float64) @ x.astype(np.float64).T
    # Chunks of 1024 terms are rounded by about √1024 · 6e-8 of a term each.
    np.testing.assert_allclose(sums(x, x), exact, rtol=0, atol=1e-6 * 100_000)

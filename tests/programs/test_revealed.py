"""A lazy matrix that reveals a stored array must reproduce the run with that array."""

import numpy as np
import pytest

from learndyn.programs import Dense, Lazy, run
from tests.programs.cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_revealing_a_stored_matrix_reproduces_the_dense_run(name):
    program, parameters = CASES[name]
    dense = run(program, parameters, Dense(40, seed=3))
    lazy = run(program, parameters, Lazy(40, seed=3, drop=1e-13, floor=0.0, revealed=True))
    for record, curve in dense.records.items():
        # Both compute the same numbers; rounding of order 1e-16 grows by factors of order one in few steps.
        np.testing.assert_allclose(lazy.records[record], curve, rtol=0, atol=1e-12)
    assert lazy.orthonormality < 1e-13

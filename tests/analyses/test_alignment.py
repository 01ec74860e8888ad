"""The cosine between theory and runs."""

import dataclasses

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.solution import Solution
from tests import problems

PROBLEM = problems.two_layer(Q=[[0.3]], R=[[0.1]], time=2.0, rate=0.5)


def pair(seeds=4):
    return ld.solve(PROBLEM, save_at=6), ld.simulate(PROBLEM, 100, seeds, save_at=6)


def test_a_multiple_of_the_theory_has_cosine_one_and_its_opposite_minus_one():
    theory, runs = pair(2)
    same = theory.data.drop_vars("v").expand_dims(seed=[0, 1])
    same = same.assign_coords(seed=[0, 1]).transpose("seed", ...)
    scaled = Solution(same * 3.0, PROBLEM, dict(runs.evidence))
    table = ld.alignment(theory, scaled)
    np.testing.assert_allclose(table["of_the_mean"], 1.0, rtol=1e-12)
    np.testing.assert_allclose(table["standard_error"], 0.0, atol=1e-12)
    opposite = Solution(same * -1.0, PROBLEM, dict(runs.evidence))
    np.testing.assert_allclose(ld.alignment(theory, opposite)["mean"], -1.0, rtol=1e-12)


def test_it_is_the_cosine_over_all_times_and_components():
    theory, runs = pair()
    table = ld.alignment(theory, runs)
    assert set(table.index) == set(theory.observables)
    x, y = theory["Q"].values.ravel(), runs["Q"].values.reshape(4, -1)
    cosines = y @ x / np.linalg.norm(x) / np.linalg.norm(y, axis=1)
    assert table.loc["Q", "mean"] == pytest.approx(cosines.mean(), rel=1e-12)
    assert table.loc["Q", "standard_error"] == pytest.approx(cosines.std(ddof=1) / 2, rel=1e-9)
    mean = y.mean(axis=0)
    expected = mean @ x / np.linalg.norm(x) / np.linalg.norm(mean)
    assert table.loc["Q", "of_the_mean"] == pytest.approx(expected, rel=1e-12)
    assert table.loc["test_loss", "of_the_mean"] > 0.99


def test_one_seed_has_a_cosine_but_no_error():
    table = ld.alignment(*pair(1))
    assert np.all(table["mean"].notna())
    assert np.all(table["standard_error"].isna())


def test_what_is_of_another_problem_is_refused():
    theory, _ = pair(1)
    training = dataclasses.replace(PROBLEM.training, learning_rate=0.6)
    other = ld.simulate(dataclasses.replace(PROBLEM, training=training), 100, 1, save_at=6)
    with pytest.raises(ld.CannotCompare, match="different problems"):
        ld.alignment(theory, other)

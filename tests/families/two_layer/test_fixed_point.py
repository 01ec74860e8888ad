"""The damped iteration of whole trajectories ends where the causal sweep does."""

from functools import partial

import numpy as np
import pytest

import learndyn as ld
from tests import problems

FEW = {"samples": 128, "batches": 2}
problem = partial(problems.late_learning, rate=2.0)


def test_undamped_iteration_ends_at_the_causal_solution():
    """The same normals and no damping: every iteration makes one more state exact, so that only rounding is left."""
    asked = problem(ratio=3.0, steps=8, noise=0.3)
    causal = ld.solve(asked, ld.CausalSampling(**FEW))
    iterated = ld.solve(asked, ld.FixedPoint(damping=1.0, tolerance=1e-13, iterations=12, **FEW))
    for name in set(causal.observables) - {"train_drop", "test_drop", "grokking_delay"}:
        scale = float(np.max(np.abs(causal[name])))
        np.testing.assert_allclose(iterated[name], causal[name], rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("ratio", [0.8, 3.0])
def test_damped_iteration_ends_at_the_causal_solution(ratio):
    """With damping ½ an error falls by about two in an iteration, so that the tolerance is what is left of it."""
    asked = problem(ratio=ratio, steps=20)
    causal = ld.solve(asked, ld.CausalSampling(**FEW))
    iterated = ld.solve(asked, ld.FixedPoint(tolerance=1e-7, **FEW))
    for name in ("train_loss", "test_loss", "Q", "R", "R_w", "R_h"):
        scale = float(np.max(np.abs(causal[name])))
        assert np.max(np.abs(iterated[name] - causal[name])) < 1e-5 * scale, name


def test_the_evidence_says_how_many_iterations_were_needed_and_what_residual_is_left():
    loose, tight = (
        ld.solve(problem(ratio=3.0, steps=8), ld.FixedPoint(tolerance=tolerance, **FEW)).evidence
        for tolerance in (1e-3, 1e-7)
    )
    for evidence, tolerance in ((loose, 1e-3), (tight, 1e-7)):
        assert len(evidence["iterations"]) == FEW["batches"]
        assert 0 < evidence["residual"] <= tolerance
    # With damping ½ an error falls by about two in an iteration: four decades take about 13 more.
    more = np.subtract(tight["iterations"], loose["iterations"])
    assert np.all((more >= 8) & (more <= 25))


def test_only_an_iteration_has_iterations_in_its_evidence():
    causal = ld.solve(problem(ratio=3.0, steps=8), ld.CausalSampling(**FEW))
    assert "iterations" not in causal.evidence


def test_too_few_iterations_are_an_error():
    with pytest.raises(ld.NotConverged, match="after 3 iterations a loss or overlap still changes"):
        ld.solve(problem(ratio=1.0, steps=20), ld.FixedPoint(iterations=3, **FEW))


def test_diverging_iterations_are_an_error():
    with pytest.raises(ld.NotConverged, match="diverged at state"):
        ld.solve(problem(ratio=0.5, steps=40, rate=10.0), ld.FixedPoint(**FEW))

"""One call for all approximations: good where features hardly move, broken where they do."""

from functools import partial

import pytest

import learndyn as ld
from tests import problems

problem = partial(problems.wide, centered=True, dimension=8, seed=3, steps=30, loss="sum")


def test_approximations_are_good_when_lazy_and_break_when_rich():
    """Deviations of linear networks are of order γ_0² (γ_0⁴ for perturbation theory), up to the step of the outputs."""
    lazy, rich = (
        ld.approximations(problem(activation="linear", richness=g, rate=0.04), save_at=7).table
        for g in (0.05, 1.5)
    )
    approximate = ["GradientIndependence", "Perturbative", "StaticKernel"]
    assert (lazy.loc[approximate, "Phi"] < 2).all()
    assert (rich.loc[approximate, "Phi"] > 5).all()
    assert (rich.loc[approximate, "prediction"] > 3).all()
    assert lazy.loc["Perturbative", "Phi"] < 0.1 * lazy.loc["StaticKernel", "Phi"]
    assert (lazy.loc["LinearRows"] == 0).all()


def test_networks_and_what_is_left_out_are_shown():
    found = ld.approximations(
        problem(activation="tanh", richness=1.0, rate=0.1),
        size=500,
        seeds=4,
        save_at=4,
        samples=256,
    )
    assert found.runs is not None
    assert "only for linear activations" in found.left_out["Perturbative"]
    assert "Perturbative" not in found.table.index
    close, far = found.table.loc[["SampledLayers", "StaticKernel"], "Phi (runs)"]
    assert close < 0.3 * far
    assert "deviations in per cent" in repr(found)
    with pytest.raises(ld.ProblemError, match="must be a Wide network"):
        ld.approximations(
            ld.Problem(
                ld.DeepLinear(1, 1.0),
                ld.Population(ld.LinearMap()),
                ld.GradientDescent(0.1, steps=2),
            )
        )

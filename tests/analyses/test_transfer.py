"""`transfer`: rates along a field, and what keeping the first one costs."""

import math
from functools import partial

import numpy as np
import pytest

import learndyn as ld
from learndyn.analyses.rates import optimum
from tests import problems
from tests.fakes import ends

problem = partial(
    problems.deep_linear, supply="population", width=math.inf, richness=1e-4, centered=True
)


@pytest.fixture
def final_loss(stand_in):
    """Put a function of problem and rate in the place of the theory; every rate up to 1 is stable."""

    def put(loss):
        def formula(problem, times):
            rate = problem.training.learning_rate
            return {
                "train_loss": ends(times, 1, rate),
                "test_loss": ends(times, 2, loss(problem, rate)),
            }

        stand_in("deep_linear/population", formula=formula)

    return put


def test_lazy_rates_over_depth_and_what_keeping_the_first_costs():
    """The loss of one step is (1 − η(L+1))²: best at 1/(L+1). With noise 1 it is that plus 1."""
    found = ld.transfer(problem(steps=1, depth=1, noise=1.0), "network.depth", [1, 2, 3])
    depth = np.array([1, 2, 3])
    data = found.data
    assert data["best_rate"].dims == ("depth",)
    assert data["depth"].attrs["long_name"] == "network.depth"
    np.testing.assert_allclose(data["best_rate"], 1 / (depth + 1), rtol=2e-3)
    np.testing.assert_allclose(data["best_loss"], 1, rtol=1e-5)
    np.testing.assert_allclose(data["largest_stable_rate"], 2 / (depth + 1), rtol=2e-3)
    # With η = 1/2: 1 + (1 − (L+1)/2)², relative to 1; an error of 1e-3 in the rate changes it by 4e-3 at most.
    np.testing.assert_allclose(data["lost"], (1 - (depth + 1) / 2) ** 2, atol=4e-3)
    (statement,) = found.statements
    assert statement.startswith(
        "does not transfer: 100 % lost at depth 3 by keeping the best rate of depth 1"
    )
    assert len(found.table) == 3
    for row in range(3):
        single = problem(steps=1, depth=row + 1, noise=1.0)
        assert found.table["best_rate"].tolist()[row] == ld.best_rate(single).rate
        stable = found.table["largest_stable_rate"].tolist()[row]
        assert stable == ld.largest_stable_rate(single)


def test_a_rate_that_serves_transfers(final_loss):
    """Loss 1 + (log η/η_b)² with η_b = .1 · width^0.1: at width 4 the first rate loses (0.1 log 4)² = 1.9 %."""
    final_loss(lambda p, rate: 1 + math.log(rate / (0.1 * p.network.width**0.1)) ** 2)
    found = ld.transfer(problem(steps=2, width=1.0), "network.width", [1.0, 2.0, 4.0])
    assert found.statements == [
        "transfers: 1.9 % lost at width 4 by keeping the best rate of width 1"
    ]
    np.testing.assert_allclose(found.data["lost"][-1], (0.1 * math.log(4)) ** 2, rtol=0.02)
    assert set(found.data["flags"].values) == {""}
    same = ld.transfer(problem(steps=2, width=1.0), "network.width", [1.0])
    assert "nothing is lost" in same.statements[0]


def test_a_kept_rate_that_diverges_is_said(final_loss):
    final_loss(lambda p, r: 1 + math.log(10 * r) ** 2 if r < 0.2 / p.network.width else math.inf)
    found = ld.transfer(problem(steps=2, width=1.0), "network.width", [1.0, 4.0])
    assert math.isinf(found.data["lost"].values[-1])
    assert "training with the best rate of width 1 diverges at width 4" in found.statements[0]
    assert "diverges" in str(found)


FLAGS = {
    "at the edge of stability": lambda rate: 2 - rate,
    "rough: the loss jumps between rates close by": lambda rate: 1
    + math.log(10 * rate) ** 2
    + 0.1 * math.sin(200 * math.log(rate)),
    "several minima": lambda rate: 1 + 0.5 * math.log(10 * rate) ** 2 - 0.9 * math.cos(3 * math.log(rate)),
    "some rates below the largest stable one diverge": lambda rate: math.inf
    if 0.5 < rate < 0.8
    else 1 + math.log(10 * rate) ** 2,
}  # fmt: skip


@pytest.mark.parametrize("flag", FLAGS)
def test_doubtful_optima_are_flagged(flag, final_loss):
    final_loss(lambda p, rate: FLAGS[flag](rate))
    assert any(words.startswith(flag) for words in optimum(problem(steps=2)).flags)


def test_a_smooth_optimum_is_not_flagged_and_its_error_holds(final_loss):
    final_loss(lambda p, rate: 1 + math.log(rate / 0.03) ** 2)
    best = optimum(problem(steps=2))
    assert best.flags == ()
    assert abs(best.rate - 0.03) <= 2 * best.error
    assert best.rates.shape == best.losses.shape
    assert np.all(np.diff(best.rates) > 0)


@pytest.mark.slow
def test_an_optimum_by_its_slope_is_sharper():
    """(1 − η(L+1))^2T of lazy training, plus noise: best at 1/(L+1) to the richness γ_0² = 1e-8."""
    made = problem(steps=3, depth=1, noise=1.0)
    rough, sharp = optimum(made), optimum(made, rtol=1e-4)
    assert sharp.error < rough.error
    # The loss is (1 − 2η)^6: so flat that values tell the optimum badly, and the slope to (1e-15)^(1/5) = 1e-3.
    assert sharp.rate == pytest.approx(0.5, rel=5e-3)
    noisy = problem(steps=1, depth=1, noise=1.0)
    assert optimum(noisy, rtol=1e-4).rate == pytest.approx(0.5, abs=2e-6)


def test_parameterisations_side_by_side_and_networks_agree():
    """At the richness of feature learning the NTK's rate moves with the width more than μP's; networks say the same."""
    made = problems.deep_linear(
        supply="dataset", ratio=2.0, noise=0.3, steps=15, depth=1, width=0.5, richness=1.0, rate=0.1
    )
    found = ld.transfer(
        made,
        "network.width",
        [0.5, 8.0],
        parameterizations=["mup", "ntk"],
        size=80,
        seeds=12,
        check=[8.0],
    )
    mup, ntk = found.sides()
    assert mup["parameterization"].item() == "mup"
    spread = [float(side["best_rate"].max() / side["best_rate"].min()) for side in (mup, ntk)]
    assert spread[0] < spread[1]
    assert float(ntk["lost"][-1]) > float(mup["lost"][-1])
    for side in (mup, ntk):
        assert math.isnan(side["network_lost"].values[0])
        deviation = float(side["network_lost"][-1] - side["lost"][-1])
        # Three errors of the mean, and 1/N for the finite size of networks.
        assert abs(deviation) < 3 * float(side["network_lost_error"][-1]) + 1 / 80
    assert len(found.statements) == 2
    assert len(ld.plot_transfer(found).axes) == 6


@pytest.mark.slow
def test_two_fields_are_a_map():
    found = ld.transfer(
        problem(steps=1, depth=1), {"network.depth": [1, 2], "data.noise": [0.5, 1.0, 2.0]}
    )
    assert found.data["best_rate"].dims == ("depth", "noise")
    np.testing.assert_allclose(
        found.data["best_rate"], np.repeat([[1 / 2], [1 / 3]], 3, axis=1), rtol=2e-3
    )
    maps = ld.plot_transfer(found).axes
    assert [panel.get_xlabel() for panel in maps[:2]] == ["network.depth"] * 2
    with pytest.raises(ld.LearndynError, match="must be a Transfer"):
        ld.plot_transfer("rates")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("field", "values", "words"),
    [
        ("network.widht", [1.0], "did you mean 'network.width'"),
        ("width", [1.0], "network.width"),
        ("training.learning_rate", [1.0], "cannot be varied"),
        ("network.kind", ["deep_linear"], "is not a field"),
        ("network.width", [1.0, -1.0], "DeepLinear.width = -1.0"),
        ("network.parameterization", ["mup", "mupp"], "must be one of 'mup', 'ntk'"),
        ("network.width", [[1.0, 2.0]], "single number or word"),
        ("network.width", [], "at least one value"),
        ("network.width", None, "give the values of network.width"),
        ({"network.width": [1.0], "network.depth": [1], "data.noise": [0]}, None, "one field or two"),
        ({"network.width": [1.0]}, [1.0], "must not be given with a dictionary"),
    ],
)  # fmt: skip
def test_bad_fields_and_values_are_refused_before_any_solution(field, values, words, stand_in):
    fake = stand_in()
    with pytest.raises(ld.ProblemError, match=words):
        ld.transfer(problem(steps=2, width=1.0), field, values)
    assert not fake.worked


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parameterizations": []}, "at least one word"),
        ({"parameterizations": ["mup"], "over": "network.parameterization"}, "varied as a field already"),
        ({"check": [1.0]}, "needs a size"),
        ({"seeds": 1, "size": 50}, "at least 2"),
        ({"rtol": 0}, "greater than 0"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_before_any_solution(options, words, stand_in):
    fake = stand_in()
    given = {"over": "network.width", "values": [1.0]} | options
    if given["over"] != "network.width":
        given["values"] = ["mup"]
    with pytest.raises(ld.ProblemError, match=words):
        ld.transfer(problem(steps=2, width=1.0), **given)
    assert not fake.worked


def test_a_network_without_parameterisations_has_none_to_compare():
    teacher = ld.Teacher.orthonormal("erf", hidden=1)
    made = ld.Problem(
        ld.TwoLayer("erf", Q=[[0.25]], R=[[0.1]]),
        ld.Stream(teacher),
        ld.GradientDescent(0.5, time=1.0),
    )
    with pytest.raises(ld.ProblemError, match="is not a field of the problem"):
        ld.transfer(made, "data.noise", [0.0, 0.1], parameterizations=["mup", "ntk"])

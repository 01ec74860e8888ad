"""`frontier`: the best use of a budget of multiply-adds."""

import math

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.theory import theory_for

MODES = 20
WIDTHS = [2**k for k in range(1, 11)]


def structured(batch: int = 4, width: int = 8, steps: int = 1000, noise: float = 0.0) -> ld.Problem:
    task = ld.LinearMap(ld.PowerLaw(capacity=1.5, source=0.6, modes=MODES))
    return ld.Problem(
        ld.DeepLinear(depth=1, width=width, richness=0.2),
        ld.Stream(task, batch=batch, noise=noise),
        ld.GradientDescent(learning_rate=0.3, steps=steps),
    )


@pytest.mark.parametrize("depth", [1, 3])
def test_a_step_costs_three_multiply_adds_for_each_weight_and_example(depth):
    task = ld.LinearMap(ld.PowerLaw(capacity=1.5, source=0.6, modes=MODES))
    problem = ld.Problem(
        ld.DeepLinear(depth=depth, width=8),
        ld.Stream(task, batch=5),
        ld.GradientDescent(learning_rate=0.1, steps=1),
    )
    weights = ld.start(problem, size=MODES).weights
    count = sum(w.size for w in weights.values())
    assert theory_for(problem).multiply_adds(problem) == 3 * 5 * count


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.5, 1.0)])
def test_the_exponents_of_a_known_law_are_found(a, b, stand_in):
    """Loss N^−a + t^−b + ½ at the cost C ∝ Nt: N ∝ C^(b/(a+b)), t ∝ C^(a/(a+b)), loss − ½ ∝ C^(−ab/(a+b))."""

    def formula(problem, times):
        N = float(np.ravel(problem.network.width)[0])
        return {"test_loss": N**-a + np.maximum(times, 0.5) ** -b + 0.5}

    stand_in("deep_linear/stream", formula=formula)
    found = ld.frontier(structured(), {"network.width": WIDTHS}, floor=0.5)
    expected = {"excess": -a * b / (a + b), "best_steps": a / (a + b), "best_width": b / (a + b)}
    assert set(found.exponents.index) == set(expected)
    for name, exponent in expected.items():
        row = found.exponents.loc[name]
        # Widths are powers of two: a staircase, whose scatter is in the error.
        assert abs(row["exponent"] - exponent) < max(3 * row["error"], 0.02), name
        assert row["error"] < 0.25
    data = found.data
    assert data["inside"].any()
    # The frontier is below every training of the same budget.
    inside = np.flatnonzero(data["inside"].values)
    at = data.isel(compute=int(inside[len(inside) // 2]))
    spent = float(at["compute"]) / (3 * 4 * (MODES + 1))
    losses = [N**-a + (spent / N) ** -b + 0.5 for N in WIDTHS if 1 <= spent / N <= 1000]
    assert float(at["loss"]) <= min(losses) * (1 + 1e-3)
    assert "excess ∝ C^" in str(found)


def test_budgets_whose_optimum_is_at_an_end_are_left_out(stand_in):
    """A loss that does not depend on the width is best at the smallest one, at the end of those tried."""
    stand_in("deep_linear/stream", formula=lambda p, t: {"test_loss": 1 / (1 + t)})
    found = ld.frontier(structured(), {"network.width": [2, 4, 8]})
    assert not found.data["inside"].any()
    assert math.isnan(found.exponents.loc["excess", "exponent"])
    assert "no budget has its optimum inside" in str(found)


def test_the_noise_of_labels_is_the_floor(stand_in):
    stand_in("deep_linear/stream", formula=lambda p, t: {"test_loss": 0.09 + 1 / (1 + t)})
    assert ld.frontier(structured(noise=0.3), {"network.width": [2, 4]}).floor == pytest.approx(
        0.09
    )


def test_the_theory_has_a_frontier_and_its_picture():
    """Small trainings of the theory itself: larger budgets reach smaller losses, with wider networks."""
    found = ld.frontier(
        structured(steps=60),
        {"network.width": [1, 4, 16, 64], "data.batch": [1, 4, 16]},
        budgets=30,
    )
    loss = found.data["loss"].values
    finite = np.isfinite(loss)
    # Each point is the minimum over curves that are interpolated; the minimum may rise where a curve ends.
    assert loss[finite][-1] < 0.5 * loss[finite][0]
    best = found.data["loss_of_all"].sel(width=64, batch=16)
    assert float(best[-1]) == pytest.approx(
        ld.solve(structured(width=64, batch=16, steps=60))["test_loss"].values[-1], rel=1e-9
    )
    figure = ld.plot_frontier(found)
    assert [panel.get_xlabel() for panel in figure.axes] == ["multiply-adds C"] * 2
    with pytest.raises(ld.LearndynError, match="must be a Frontier"):
        ld.plot_frontier("loss")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": ld.Stream(ld.LinearMap(), batch_ratio=1.0)}, "give the task a spectrum"),
        (
            {"data": ld.Population(ld.LinearMap(ld.PowerLaw(1.5, 0.6, modes=MODES)))},
            "infinitely many examples",
        ),
    ],
)
def test_what_has_no_cost_is_refused(change, words, stand_in):
    stand_in()
    problem = structured()
    problem = ld.Problem(ld.DeepLinear(depth=1, width=8), change["data"], problem.training)
    with pytest.raises(ld.ProblemError, match=words):
        ld.frontier(problem, {"network.width": [2, 4]})


def test_networks_whose_work_is_not_counted_are_refused(stand_in):
    stand_in()
    made = ld.Problem(
        ld.Wide(depth=1, activation="linear"),
        ld.Points.random(points=3, dimension=4),
        ld.GradientDescent(learning_rate=0.1, steps=5),
    )
    with pytest.raises(ld.ProblemError, match="work is not counted for wide/points"):
        ld.frontier(made, {"network.depth": [1, 2]})

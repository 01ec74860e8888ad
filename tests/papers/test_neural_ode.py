"""The pictures of neural ODEs show what their captions say."""

from typing import Any

import numpy as np
import pytest

from learndyn.core.solve import solve
from learndyn.families.neural_ode.inference import stationary_flow
from learndyn.families.neural_ode.recovery import recovery
from learndyn.papers import neural_ode as drawn
from learndyn.problem.supplies import Dataset, Stream
from learndyn.problem.tasks import TeacherFlow
from tests.papers.test_figures import drawn_tiny

# Pictures take minutes in all.
pytestmark = pytest.mark.slow


def lines(panel) -> dict[str, np.ndarray]:
    """The labelled lines of a panel, as rows x and y."""
    found = [line for line in panel.lines if not str(line.get_label()).startswith("_")]
    return {str(line.get_label()): np.asarray(line.get_xydata()).T for line in found}


def test_the_flows_are_those_of_the_captions():
    """G(q, m) = 0.8 q m + (g_2/2) q², μ̂(z) = z and Euler steps of length 0.1."""
    network: Any = drawn.flow(0.5, 0.75, g2=3.0)
    # Single precision: this is outside of `solve`.
    assert float(network.field(1.5, 0.7)) == pytest.approx(0.8 * 1.5 * 0.7 + 1.5 * 1.5**2, rel=1e-6)
    assert float(network.confinement(0.3)) == pytest.approx(0.3)
    assert (network.steps, float(network.time), network.control_ratio) == (5, 0.5, 0.75)
    problem: Any = drawn.trained(network, 0.1, 7)
    assert (problem.training.steps, problem.training.learning_rate) == (7, 0.1)
    assert problem.data == Stream(TeacherFlow())


def test_figure_2_has_the_papers_settings_and_starts_without_overlap():
    figure, _ = drawn_tiny("neural-ode-2")
    for panel, time, ratio, size in zip(figure.axes, (0.5, 1.0), (1.0, 0.75), (8, 6), strict=True):
        problem = drawn.trained(drawn.flow(time, ratio, adjoint="truncated"), 0.1, 12)
        theory, found = solve(problem), lines(panel)
        assert f"d = {size}, 2 fields" in found
        for label, name in (("$Q(a)$", "Q"), ("$m(a)$", "m")):
            np.testing.assert_array_equal(found[label][1], theory[name].values[:, 0, 0])
        from_start = theory["C_theta"].values[:, 0, 0, 0]
        np.testing.assert_array_equal(found["$C_θ(a, 0)$"][1], from_start)
        assert [found[label][1, 0] for label in drawn.SYMBOLS.values()] == [1.0, 0.0, 1.0]


def test_the_two_gradients_differ_in_the_norm_and_not_in_the_first_overlap():
    """By the caption; v of the first step does not depend on the derivative of the confinement."""
    found = lines(drawn_tiny("neural-ode-gradient")[0].axes[1])
    Q, m = ({kind: found[f"${x}(a)$, {kind}"][1] for kind in ("true", "truncated")} for x in "Qm")
    assert Q["true"][4] - Q["truncated"][4] > 0.15
    assert m["true"][1] == pytest.approx(m["truncated"][1], rel=1e-12)


def test_the_marked_rate_is_where_the_radius_is_one():
    near = drawn_tiny("neural-ode-stability")[0].axes[0]
    (dot,) = (line for line in near.lines if line.get_marker() == "o")
    edge = float(np.asarray(dot.get_xdata())[0])
    network = drawn.flow(1.0, 0.75, adjoint="truncated")
    radii = [recovery(drawn.trained(network, rate, 1)).spectral_radius for rate in (edge, 1.0, 2.0)]
    # Bisection to rounding, through eigenvalues; the other two are known to three digits.
    assert radii[0] == pytest.approx(1.0, abs=1e-8)
    np.testing.assert_allclose(radii[1:], [0.531, 1.079], atol=5e-4)
    curve = lines(near)["T = 1, η < 1.92"]
    inside = curve[1, curve[0] < edge]
    assert inside.max() < 1


def test_a_stable_rate_diverges_from_far_with_the_truncated_adjoint_only():
    far = drawn_tiny("neural-ode-stability")[0].axes[1]
    found = lines(far)
    reached = {label: values[0, -1] for label, values in found.items() if "gradient" in label}
    truncated, near, nearest, true = reached.values()
    assert "$m_0$ = 0, truncated gradient" in reached
    assert truncated < 30
    assert near == nearest == true == 30
    final = [found[label][1, -1] / found[label][1, 0] for label in list(reached)[1:]]
    assert max(final) < 0.05


@pytest.mark.parametrize("g2", [0.05, 0.8, 3.0, 8.0])
def test_the_closed_exponent_is_that_of_the_stationary_state(g2):
    state = stationary_flow(drawn.flow(1.0, 1.0, g2))
    assert state.phase == "chaotic"
    # Two grids of 4000 and 8000 points, extrapolated: h⁴ of relative 1e-3 steps, against levels of order one.
    assert state.lyapunov == pytest.approx(drawn.closed_lyapunov(g2), abs=1e-7)


def test_the_growth_on_the_grid_approaches_the_exponent_in_first_order():
    exact = drawn.closed_lyapunov(3.0)
    off = []
    for step in (0.1, 0.05):
        rates = drawn.inference(drawn.flow(1.0, 1.0, 3.0, step=step), time=10.0)["growth"]
        off.append(float(rates[-1]) - exact)
    assert off[0] < off[1] < 0
    # Errors ch + O(h²) with h = 0.1: within ten per cent of a factor two.
    assert off[0] / off[1] == pytest.approx(2.0, rel=0.1)


def test_one_reused_trajectory_is_fitted_without_learning_and_fresh_ones_teach():
    """The three claims of the caption, in theory."""
    network = drawn.flow(1.0, 1.5, step=0.2)
    final = {
        name: solve(drawn.trained(network, 0.5, 20, data), save_at=2)
        for name, data in (
            ("one", Dataset(TeacherFlow(), examples=1)),
            ("two", Dataset(TeacherFlow(), examples=2)),
            ("chained", Stream(TeacherFlow(chained=True))),
            ("fresh", Stream(TeacherFlow())),
        )
    }
    test = {name: float(found["test_loss"][-1]) for name, found in final.items()}
    assert float(final["one"]["train_loss"][-1]) < 0.1 * test["one"]
    assert test["one"] > test["two"] > test["chained"] > test["fresh"]
    assert float(final["chained"]["train_loss"][-1]) < test["chained"]


def test_the_truncated_adjoint_grows_faster():
    figure, _ = drawn_tiny("neural-ode-adjoint")
    for panel in figure.axes:
        found = lines(panel)
        assert found["truncated adjoint"][1][0] > found["true adjoint"][1][0]
        # Both start from the same end vector.
        ends = [found[f"{kind} adjoint"][1][-1] for kind in ("true", "truncated")]
        assert ends[0] == pytest.approx(ends[1], rel=1e-12)

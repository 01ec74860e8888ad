"""The pictures of neural ODEs show what their captions say."""

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from learndyn.core.solve import solve
from learndyn.families.neural_ode.inference import stationary_flow
from learndyn.families.neural_ode.recovery import recovery
from learndyn.papers import neural_ode as drawn
from learndyn.papers import neural_ode_chaos as flows
from learndyn.papers import neural_ode_parts as parts
from learndyn.pictures.style import THEORY_LINE
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Stream
from learndyn.problem.tasks import TeacherFlow
from tests.papers.test_figures import TINY, drawn_tiny, registered
from tests.pictured import curve_of, drawn_lines, names_of

# Pictures take minutes in all.
pytestmark = pytest.mark.slow
KINDS = ("true", "truncated")
NAMES = [name for name in TINY if name.startswith("neural-ode")]


def curve(name: str, panel: int, label: str) -> np.ndarray:
    """The line of this name in a panel, as rows x and y."""
    panels = drawn_tiny(name)[0].axes
    return np.asarray(curve_of(panels[panel], label, panels).get_xydata()).T


def test_the_flows_are_those_of_the_captions():
    """G(q, m) = 0.8 q m + (g_2/2) q², μ̂(z) = z and Euler steps of length 0.1."""
    network: Any = parts.flow(0.5, 0.75, g2=3.0)
    # Single precision: this is outside of `solve`.
    assert float(network.field(1.5, 0.7)) == pytest.approx(0.8 * 1.5 * 0.7 + 1.5 * 1.5**2, rel=1e-6)
    assert float(network.confinement(0.3)) == pytest.approx(0.3)
    assert (network.steps, float(network.time), network.control_ratio) == (5, 0.5, 0.75)
    problem: Any = parts.trained(network, 0.1, 7)
    assert (problem.training.steps, problem.training.learning_rate) == (7, 0.1)
    assert problem.data == Stream(TeacherFlow())


def test_figure_2_has_the_papers_settings_and_starts_without_overlap():
    panels = drawn_tiny("neural-ode-2")[0].axes
    for number, (time, ratio, size) in enumerate(((0.5, 1.0, 8), (1.0, 0.75, 6))):
        problem = parts.trained(parts.flow(time, ratio, adjoint="truncated"), 0.1, 12)
        theory = solve(problem)
        assert f"networks, d = {size}" in names_of([panels[number]])
        found = {
            symbol: curve("neural-ode-2", number, symbol)[1] for symbol in drawn.SYMBOLS.values()
        }
        for label, name in (("$Q(a)$", "Q"), ("$m(a)$", "m")):
            np.testing.assert_array_equal(found[label], theory[name].values[:, 0, 0])
        from_start = theory["C_theta"].values[:, 0, 0, 0]
        np.testing.assert_array_equal(found["$C_θ(a, 0)$"], from_start)
        assert [values[0] for values in found.values()] == [1.0, 0.0, 1.0]


def test_the_two_gradients_differ_in_the_norm_and_not_in_the_first_overlap():
    """By the caption; v of the first step does not depend on the derivative of the confinement."""
    Q, m = (
        {kind: curve("neural-ode-gradient", panel, f"{kind} gradient")[1] for kind in KINDS}
        for panel in (1, 2)
    )
    assert Q["true"][4] - Q["truncated"][4] > 0.15
    assert m["true"][1] == pytest.approx(m["truncated"][1], rel=1e-12)
    path = curve("neural-ode-gradient", 3, "true gradient")
    np.testing.assert_array_equal(path, [m["true"], Q["true"]])


def test_the_marked_rate_is_where_the_radius_is_one():
    near = drawn_tiny("neural-ode-stability")[0].axes[0]
    (dot,) = (line for line in near.lines if line.get_marker() == "D")
    edge = float(np.asarray(dot.get_xdata())[0])
    network = parts.flow(1.0, 0.75, adjoint="truncated")
    radii = [recovery(parts.trained(network, rate, 1)).spectral_radius for rate in (edge, 1.0, 2.0)]
    # Bisection to rounding, through eigenvalues; the other two are known to three digits.
    assert radii[0] == pytest.approx(1.0, abs=1e-8)
    np.testing.assert_allclose(radii[1:], [0.531, 1.079], atol=5e-4)
    rates, radius = curve("neural-ode-stability", 0, "T = 1: η < 1.92")
    assert radius[rates < edge].max() < 1


def test_a_stable_rate_diverges_from_far_with_the_truncated_adjoint_only():
    starts = ((1, "0"), (2, "0.3"), (2, "0.8"), (3, "0"))
    losses = [
        curve("neural-ode-stability", panel, f"theory, $m_0$ = {overlap}")
        for panel, overlap in starts
    ]
    titles = [panel.get_title() for panel in drawn_tiny("neural-ode-stability")[0].axes]
    assert "truncated" in titles[1]
    assert "true" in titles[3]
    truncated, near, nearest, true = (steps[-1] for steps, _ in losses)
    assert truncated < 30
    assert near == nearest == true == 30
    assert max(values[-1] / values[0] for _, values in losses[1:]) < 0.05


@pytest.mark.parametrize("g2", [0.05, 0.8, 3.0, 8.0])
def test_the_closed_exponent_is_that_of_the_stationary_state(g2):
    state = stationary_flow(parts.flow(1.0, 1.0, g2))
    assert state.phase == "chaotic"
    # Two grids of 4000 and 8000 points, extrapolated: h⁴ of relative 1e-3 steps, against levels of order one.
    assert state.lyapunov == pytest.approx(flows.closed_lyapunov(g2), abs=1e-7)


def test_the_growth_on_the_grid_approaches_the_exponent_in_first_order():
    exact = flows.closed_lyapunov(3.0)
    off = []
    for step in (0.1, 0.05):
        rates = flows.inference(parts.flow(1.0, 1.0, 3.0, step=step), time=10.0)["growth"]
        off.append(float(rates[-1]) - exact)
    assert off[0] < off[1] < 0
    # Errors ch + O(h²) with h = 0.1: within ten per cent of a factor two.
    assert off[0] / off[1] == pytest.approx(2.0, rel=0.1)


def test_one_reused_trajectory_is_fitted_without_learning_and_fresh_ones_teach():
    """The three claims of the caption, in theory."""
    network = parts.flow(1.0, 1.5, step=0.2)
    final = {
        name: solve(parts.trained(network, 0.5, 20, data), save_at=2)
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
    for panel in (0, 1):
        true, truncated = (
            curve("neural-ode-adjoint", panel, f"{kind} adjoint")[1] for kind in KINDS
        )
        assert truncated[0] > true[0]
        # Both start from the same end vector.
        assert true[-1] == pytest.approx(truncated[-1], rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_every_colour_of_a_theory_is_named_in_its_picture(name):
    panels = drawn_tiny(name)[0].axes
    colours = {
        to_hex(line.get_color())
        for panel in panels
        for line in drawn_lines(panel)
        if line.get_zorder() == THEORY_LINE["zorder"]
    }
    assert colours <= set(names_of(panels).values())


@pytest.mark.parametrize("name", NAMES)
def test_the_problem_of_a_picture_can_be_written_and_read(name):
    problem = registered(name).problem
    if problem is None:
        assert name == "neural-ode-chaos"
        return
    assert Problem.from_text(problem().to_text()) == problem()

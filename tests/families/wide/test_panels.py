"""Panels of wide linear networks: the row recursion in single steps, and as accurate as stated where they are not."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import learndyn as ld
from learndyn.families.wide.equations.linear import solve_linear
from learndyn.families.wide.equations.linear_panels import LinearPanelRows
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.papers.wide_whitened import along_targets, closed_form, whitened_problem
from tests.optional import not_none

POINTS = ld.Points(
    inputs=[[1.0, 0.2, 0.1], [-0.3, 0.8, 0.4], [0.5, 0.5, -0.9]],
    targets=[1.0, -1.0, 0.4],
    test_inputs=[[0.4, -0.6, 0.2], [0.1, 1.0, 0.3]],
    test_targets=[0.1, 0.2],
)
OUTPUTS = ld.Points(inputs=POINTS.inputs, targets=[[1.0, 0.3], [-1.0, 0.5], [0.2, -0.7]])
SIGNS = ld.Points(inputs=POINTS.inputs, targets=[1.0, -1.0, 1.0])
TWO = ld.Points(gram=np.diag([1.0, 1e-4]), targets=[1.0, 1.0])


def problem(
    depth=2, richness=1.0, bias=False, data=POINTS, rate=0.1, steps=None, time=None, **training
):
    rule = ld.GradientDescent(rate, steps=steps, time=time, **training)
    return ld.Problem(ld.Wide(depth, "linear", richness, bias=bias), data, rule)


@pytest.mark.parametrize(
    "asked",
    [
        problem(3, steps=8, rate=0.5),
        problem(2, 2.0, steps=8, rate=0.4, data=OUTPUTS, weight_decay=0.2, momentum=0.3),
        problem(2, 1.5, True, steps=8, rate=0.3, data=SIGNS, criterion="logistic"),
    ],
)
def test_with_single_steps_panels_are_the_row_recursion(asked):
    """The same numbers up to rounding, in a pass and one or two that confirm it, whatever the guess."""
    setting = wide_setting(asked, 8)
    exact = solve_linear(setting, lambda done: None)
    rows, P, C = LinearPanelRows(setting), setting.trained, setting.outputs
    d = np.sqrt(np.diagonal(setting.C_W))
    for t in range(9):
        carried = [np.ones((P, (t + 1) * C)), np.ones((P, (t + 1) * P))] * (setting.depth - 1)
        passes = rows.solve_panel(
            setting.k[t : t + 1, : t + 1], d[: t + 1], [*carried, np.ones((1, P, C))]
        )
        assert 2 <= passes <= 3
    np.testing.assert_allclose(rows.f, exact.f[:, :P], rtol=1e-11, atol=1e-12)
    for ell, layer in enumerate(rows.layers):
        G = layer.G[: 9 * C, : 9 * C].reshape(9, C, 9, C)
        np.testing.assert_allclose(G, not_none(exact.G)[ell], rtol=1e-11, atol=1e-12)
        if ell < setting.depth - 1:
            H = layer.H[: 9 * P, : 9 * P].reshape(9, P, 9, P)
            np.testing.assert_allclose(
                H, not_none(exact.H)[ell][:, :P, :, :P], rtol=1e-11, atol=1e-12
            )


DESCENTS = {
    "one layer": problem(1, steps=300),
    "rich": problem(2, 4.0, steps=300, rate=0.03),
    "deep, decay, bias": problem(3, 0.7, True, steps=200, rate=0.02, weight_decay=0.05),
    "two outputs": problem(2, steps=300, data=OUTPUTS, loss="sum", rate=0.05),
    "logistic": problem(2, steps=300, data=SIGNS, criterion="logistic"),
    "jump": problem(2, steps=300, rate=ld.Piecewise([130.0], [0.15, 0.02])),
    "momentum": problem(2, steps=300, rate=0.05, momentum=0.5),
}
QUICK = ("rich", "deep, decay, bias", "logistic", "jump", "momentum")


@pytest.mark.parametrize(
    "name", [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in DESCENTS]
)
def test_descent_is_within_the_stated_accuracy_of_its_rows(name):
    """All observables; losses are as accurate as asked."""
    asked, saved = DESCENTS[name], [0, 3, 39, 60, 131, 200]
    panels, rows = (
        ld.solve(asked, method, save_at=saved) for method in (ld.LinearPanels(), ld.LinearRows())
    )
    accuracy = panels.evidence["accuracy"]
    assert panels.evidence["nodes"] < 120
    for observable in panels.observables:
        error = float(np.max(np.abs(panels[observable] - rows[observable])))
        scale = float(np.max(np.abs(rows[observable])))
        assert error <= accuracy[observable] + 1e-12 * scale, (observable, error)
    assert accuracy["train_loss"] <= 1e-5 * float(rows["train_loss"][0])


@pytest.mark.parametrize("richness", [1e-4, 2.0])
def test_one_point_follows_its_closed_equation(richness):
    """dΔ/dt = −2√(1 + γ_0²(1 − Δ)²) Δ, to the stated accuracy, which is below 1e-6."""
    one = ld.Points(gram=[[1.0]], targets=[1.0])
    times = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 1e5])
    asked = problem(1, richness, data=one, rate=1.0, time=1e5, loss="sum")
    found = ld.solve(asked, ld.LinearPanels(tolerance=1e-6), save_at=times)

    def velocity(t, error):
        return -2 * np.sqrt(1 + richness**2 * (1 - error) ** 2) * error

    exact = solve_ivp(velocity, (0, 40), [1.0], t_eval=times[:-1], rtol=1e-12, atol=1e-14).y[0]
    left = 1 - found["prediction"].values[:, 0, 0]
    accuracy = found.evidence["accuracy"]["prediction"]
    assert accuracy < 1e-6
    np.testing.assert_allclose(left, np.append(exact, 0.0), rtol=0, atol=accuracy + 1e-12)
    size = found["Phi"].values[0, -1, 0, -1, 0]
    expected = np.sqrt(1 + richness**2)
    assert abs(size - expected) < found.evidence["accuracy"]["Phi"] + 1e-12


@pytest.mark.parametrize("depth", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_lazy_flow_is_the_static_kernel(depth):
    """γ_0 = 1e-5 adds terms of order γ_0² = 1e-10; eigenvalues 1 and 1e-4 to t = 1e6, on tens of nodes a decade."""
    times = np.concatenate([[0.0], np.geomspace(0.1, 1e6, 15)])
    asked = problem(depth, 1e-5, data=TWO, rate=1.0, time=1e6, loss="sum")
    found = ld.solve(asked, ld.LinearPanels(), save_at=times)
    exact = ld.solve(asked, ld.StaticKernel(), save_at=times)
    error = float(np.max(np.abs(found["prediction"] - exact["prediction"])))
    assert error <= found.evidence["accuracy"]["prediction"] + 1e-9
    assert found.evidence["accuracy"]["prediction"] < 1e-5
    assert found.evidence["nodes"] < 250


def one_layer(setting, times):
    """The Markov equations of one hidden layer: ⟨h h⟩, ⟨h w⟩ and ⟨w w⟩ of all points, by a stiff integrator."""
    p, C, gamma = setting.points, setting.outputs, setting.gamma
    start = np.zeros((p + C, p + C))
    start[:p, :p], start[p:, p:] = setting.K + setting.bias, np.eye(C)

    def velocity(t, flat):
        S = flat.reshape(p + C, p + C)
        E = setting.loss.force(S[:p, p:] / gamma)
        move = np.zeros((p + C, p + C))
        move[:p, p:] = gamma * (setting.K + setting.bias) @ E
        move[p:, :p] = gamma * E.T
        return (move @ S + S @ move.T).ravel()

    flow = solve_ivp(
        velocity, (0, times[-1]), start.ravel(), "LSODA", t_eval=times, rtol=1e-10, atol=1e-12
    )
    return flow.y.T.reshape(-1, p + C, p + C)[:, :p, p:] / gamma


def test_flow_of_one_layer_is_its_markov_equation():
    """Two outputs, test points, biases; a slow direction; to the stated accuracy at t = 0.1 … 1000."""
    inputs = np.array(POINTS.inputs)[:, :2]
    data = ld.Points(inputs, OUTPUTS.targets, [[0.4, -0.6]], [[0.1, 0.2]])
    asked = problem(1, 1.5, True, data, rate=0.7, time=1e3)
    times = np.array([0.0, 0.1, 1.0, 10.0, 100.0, 1000.0])
    found = ld.solve(asked, save_at=times)
    assert found.evidence["method"]["kind"] == "linear_panels"
    setting = wide_setting(asked, 1, ld.GradientDescent(0.7, steps=1))
    exact = one_layer(setting, 0.7 * times)
    outputs = np.concatenate([found["prediction"], found["test_prediction"]], axis=1)
    accuracy = found.evidence["accuracy"]
    allowed = max(accuracy["prediction"], accuracy["test_prediction"]) + 1e-8
    np.testing.assert_allclose(outputs, exact, rtol=0, atol=allowed)


@pytest.mark.slow
def test_values_between_nodes_are_as_accurate_as_stated():
    """A hundred recorded times, of which few are nodes, against panels that end at some of them."""
    asked = problem(2, rate=1.0, time=50.0)
    many = ld.solve(asked, ld.LinearPanels(), save_at=np.linspace(0, 50, 101))
    few = ld.solve(asked, ld.LinearPanels(tolerance=1e-7), save_at=[0.5, 3.5, 20.0, 50.0])
    for name in ("train_loss", "test_prediction", "kernel"):
        there = many[name].sel(time=few["time"])
        assert np.max(np.abs(there.values - few[name].values)) <= many.evidence["accuracy"][name]


def test_a_million_steps():
    """Up to step 120 as in the rows, and all targets in the end."""
    asked = problem(2, 0.5, steps=10**6, rate=0.3)
    found = ld.solve(asked, save_at=[0, 40, 120, 10**6])
    assert found.evidence["method"]["kind"] == "linear_panels"
    rows = ld.solve(problem(2, 0.5, steps=120, rate=0.3), ld.LinearRows(), save_at=[0, 40, 120])
    for name in ("prediction", "test_prediction", "kernel"):
        error = float(np.max(np.abs(found[name].values[:3] - rows[name].values)))
        assert error <= found.evidence["accuracy"][name] + 1e-12
    np.testing.assert_allclose(found["prediction"][-1, :, 0], POINTS.targets.ravel(), atol=1e-9)


def test_a_kernel_that_grows_to_the_edge_of_stability_is_refused():
    """The kernel of the fast direction grows while the slow one is learnt, until 0.1 is too large a rate for it.

    Rows oscillate and stay behind; panels would go on as gradient flow does.
    """
    asked = problem(2, data=TWO, loss="sum", steps=10**6)
    with pytest.raises(ld.NotConverged, match="edge of stability by step"):
        ld.solve(asked, ld.LinearPanels(), save_at=[0, 10, 1000, 10**6])


REFUSED = {
    "momentum": (problem(steps=10, momentum=0.97), "momentum up to 0.96"),
    "noise": (problem(steps=10, noise=0.1), "no noise"),
    "momentum in flow": (problem(time=1.0, momentum=0.5), "must be 0 in gradient flow"),
    "tanh": (
        ld.Problem(ld.Wide(1, "tanh"), POINTS, ld.GradientDescent(0.1, steps=3)),
        "for linear activations",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_panels_cannot_have_is_refused(name):
    asked, words = REFUSED[name]
    with pytest.raises(ld.ProblemError, match=words):
        ld.solve(asked, ld.LinearPanels())


def test_the_edge_of_stability_is_refused():
    """ηλ slightly below 2: outputs turn round at every step and hardly shrink."""
    one = ld.Points(gram=[[1.0]], targets=[1.0])
    asked = problem(1, 1e-3, data=one, rate=0.995, steps=5000, loss="sum")
    with pytest.raises(ld.NotConverged, match="edge of stability"):
        ld.solve(asked, ld.LinearPanels())


@pytest.mark.parametrize("richness", [2.0, 8.0])
def test_a_panel_that_has_no_solution_with_fewer_nodes_is_split(richness):
    """Whitened points of a rich network, in closed form: the error is the stated one."""
    asked = whitened_problem(richness)
    found = ld.solve(asked, ld.LinearPanels(), save_at=9)
    exact = closed_form(found["time"].values, np.sqrt(10.0), richness)
    accuracy = found.evidence["accuracy"]["prediction"]
    assert accuracy < 1e-3
    # The norm of ten errors of one entry each.
    error = np.abs(along_targets(found).error - exact.error)
    assert np.max(error) <= np.sqrt(10.0) * accuracy


def test_a_training_with_decay_comes_to_rest():
    """At t = 60, six times 1/λ, panels agree with the innovation basis; from there on nothing changes."""
    asked, shorter = (problem(2, time=end, rate=1.0, weight_decay=0.1) for end in (1e4, 60.0))
    late = ld.solve(asked, save_at=[0.0, 60.0, 1e3, 1e4])
    assert late.evidence["solver"].startswith("panels")
    other = ld.solve(shorter, ld.LinearInnovation(), save_at=[0.0, 60.0])
    stated = late.evidence["accuracy"]["prediction"] + other.evidence["accuracy"]["prediction"]
    assert np.max(np.abs(late["prediction"][1] - other["prediction"][1])) <= stated < 1e-3
    np.testing.assert_allclose(late["prediction"][3], late["prediction"][2], rtol=0, atol=stated)

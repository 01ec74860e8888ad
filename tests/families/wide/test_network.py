"""Points, losses and what the wide network refuses."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.wide.loss import Loss
from learndyn.problem.weight_response import impulse_response, undriven_correlation

TRAINING = ld.GradientDescent(0.1, steps=3)


def test_a_gram_matrix_stands_for_the_inputs():
    points = ld.Points.random(3, 5, seed=1, outputs=2, test_points=2)
    gram = ld.Points(targets=points.targets, test_targets=points.test_targets, gram=points.kernel())
    assert (gram.trained, gram.total, gram.outputs) == (3, 5, 2)
    x = gram.all_inputs()
    np.testing.assert_allclose(x @ x.T / x.shape[1], points.kernel(), atol=1e-12)
    both = [ld.solve(ld.Problem(ld.Wide(2, "linear"), data, TRAINING)) for data in (points, gram)]
    np.testing.assert_allclose(both[0]["test_loss"], both[1]["test_loss"], rtol=1e-12)
    first, second = (
        ld.simulate(ld.Problem(ld.Wide(1, "tanh"), data, TRAINING), 4000, 4)
        for data in (points, gram)
    )
    # Other inputs with the same products: the same law, to the scatter of four networks.
    scatter = first["prediction"].std("seed", ddof=1) + second["prediction"].std("seed", ddof=1)
    difference = np.abs(first["prediction"].mean("seed") - second["prediction"].mean("seed"))
    assert np.all(difference < 4 * scatter + 1e-12)


def test_points_survive_a_problem_file():
    problem = ld.Problem(
        ld.Wide(2, "tanh", bias=True), ld.Points.random(3, 2, test_points=1), TRAINING
    )
    assert ld.Problem.from_text(problem.to_text()) == problem
    text = problem.to_text()
    drawn = text[: text.index("[data]")] + (
        '[data]\nkind = "points.random"\npoints = 3\ndimension = 2\ntest_points = 1\n\n'
    )
    drawn += text[text.index("[training]") :]
    assert ld.Problem.from_text(drawn) == problem


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"inputs": [[1.0]]}, "Points.targets = None: missing"),
        ({"targets": [1.0]}, "Points.inputs = None: missing"),
        ({"inputs": [[1.0]], "targets": [1.0, 2.0]}, r"must have one row per target \(2\)"),
        ({"inputs": [[1.0]], "targets": [1.0], "gram": [[1.0]]}, "give only one of the two"),
        ({"targets": [1.0, 1.0], "gram": [[1.0]]}, "must be square, with rows for the 2 targets"),
        ({"targets": [1.0, 1.0], "gram": [[1.0, 2.0], [2.0, 1.0]]}, "positive semidefinite"),
        ({"inputs": [[1.0]], "targets": [1.0], "test_inputs": [[1.0, 2.0]]}, "as many columns"),
        (
            {"inputs": [[1.0]], "targets": [1.0], "test_targets": [1.0]},
            r"must have the shape \(0,\)",
        ),
    ],
)
def test_points_that_make_no_sense_are_refused(fields, message):
    with pytest.raises(ld.ProblemError, match=message):
        ld.Points(**fields)


@pytest.mark.parametrize(
    ("targets", "criterion", "message"),
    [
        ([0.5, 1.0], "logistic", "needs one output and targets ±1"),
        ([[1.0, 1.0], [0.0, 1.0]], "cross_entropy", "probabilities of the classes"),
        ([1.0, 0.0], "cross_entropy", "two outputs or more"),
    ],
)
def test_targets_must_suit_the_criterion(targets, criterion, message):
    data = ld.Points([[1.0], [2.0]], targets)
    training = ld.GradientDescent(0.1, steps=2, criterion=criterion)
    with pytest.raises(ld.ProblemError, match=message):
        ld.Problem(ld.Wide(1, "tanh"), data, training)


def test_other_networks_refuse_other_criteria():
    training = ld.GradientDescent(0.1, steps=2, criterion="logistic")
    with pytest.raises(ld.ProblemError, match=r"training\.criterion"):
        ld.Problem(ld.DeepLinear(1, 1.0), ld.Population(ld.LinearMap()), training)


@pytest.mark.parametrize("criterion", ["squared", "logistic", "cross_entropy"])
@pytest.mark.parametrize("mean", [True, False])
def test_forces_are_minus_the_slope_of_the_loss(criterion, mean):
    rng = np.random.default_rng(0)
    C = 3 if criterion == "cross_entropy" else 1
    y = {"squared": rng.standard_normal((4, 1)), "logistic": rng.choice([-1.0, 1.0], (4, 1))}.get(
        criterion, rng.dirichlet(np.ones(3), 4)
    )
    loss, f = Loss(criterion, y, mean), rng.standard_normal((6, C))
    E = loss.force(f)
    assert not E[4:].any()
    for i in range(4):
        for c in range(C):
            step = np.zeros_like(f)
            step[i, c] = 1e-6
            slope = (loss.value((f + step)[:4]) - loss.value((f - step)[:4])) / 2e-6
            assert abs(E[i, c] + slope) < 1e-9  # the rounding error of a difference of 1e-6


def test_a_mean_of_one_point_is_a_mean_for_test_points_too():
    loss = Loss("squared", np.ones((1, 1)), True)
    assert loss.value(np.zeros((4, 1)), np.ones((4, 1))) == 0.5


def test_undriven_weights_have_the_correlation_of_their_recursion():
    """C_W against the recursion of the covariance, and κ, d of the same rule."""
    training = ld.GradientDescent(
        ld.PowerDecay(0.3, 0.5), steps=6, momentum=0.4, weight_decay=0.7, noise=0.2
    )
    C = undriven_correlation(training, 6)
    _, d = impulse_response(training, 6)
    eta = 0.3 * (1 + np.arange(6.0)) ** -0.5
    expected = np.zeros((7, 7))
    expected[0, 0] = 1.0
    for t in range(6):
        keep = 1 - 0.7 * eta[t]
        expected[t + 1, : t + 1] = keep * expected[t, : t + 1]
        expected[: t + 1, t + 1] = expected[t + 1, : t + 1]
        expected[t + 1, t + 1] = keep**2 * expected[t, t] + 2 * eta[t] * 0.2
    np.testing.assert_allclose(C, expected, rtol=1e-13)
    np.testing.assert_allclose(C[:, 0], d, rtol=1e-13)

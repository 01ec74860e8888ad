"""Best and largest stable learning rates, against closed forms of the lazy limit and against each other."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import OptimizeResult, brentq, minimize_scalar

import learndyn as ld
from tests import problems
from tests.fakes import ends

LAZY = 1e-4
RTOL = 1e-3
problem = partial(problems.deep_linear, width=math.inf, richness=LAZY, centered=True)


def marchenko_pastur(function, ratio: float) -> float:
    """∫ρ(x) f(x) over the eigenvalues x of XᵀX/P with D/P = ratio < 1."""
    edge, middle = 2 * math.sqrt(ratio), 1 + ratio

    def integrand(angle):
        x = middle + edge * math.cos(angle)
        return function(x) * (edge * math.sin(angle)) ** 2 / (2 * math.pi * ratio * x)

    return quad(integrand, 0, math.pi, epsabs=0, epsrel=1e-10)[0]


@pytest.mark.parametrize(
    ("depth", "steps", "rate"),
    [
        *((1, 1, 50.0), (2, 2, 0.1), (3, 4, 1e-3)),
        *(
            pytest.param(*size, rate, marks=pytest.mark.slow)
            for size, rates in {
                (1, 1): (1e-3, 0.1),
                (2, 2): (1e-3, 50.0),
                (3, 4): (0.1, 50.0),
            }.items()
            for rate in rates
        ),
    ],
)
def test_lazy_descent_on_the_population_is_best_at_one_over_layers_and_stable_to_twice_that(
    depth, steps, rate
):
    """The loss is (1 − e)^2T with e = η(L+1); richness γ_0 changes it by O(γ_0²) = 1e-8 only.

    All e = 1 ± δ with δ^2T = 1e-13 count as equally good; their middle in log η is 1 − δ²/2.
    """
    made = problem(supply="population", steps=steps, depth=depth, rate=rate)
    equal = 1e-13 ** (1 / (2 * steps))
    assert ld.best_rate(made).rate == pytest.approx(1 / (depth + 1), rel=RTOL + equal**2)
    largest = ld.largest_stable_rate(made)
    assert 2 * (1 - RTOL - 1e-7) <= largest * (depth + 1) <= 2 * (1 + 1e-7)


@pytest.mark.parametrize("steps", [1, 5, 20])
def test_lazy_online_training_has_the_rates_of_its_recursion_at_any_length(steps):
    """C ← [(1−e)² + e²/α_B] C with e = η(L+1): smallest at e = α_B/(1+α_B), no growth up to twice that."""
    made = problem(supply="stream", batch_ratio=1.5, steps=steps, depth=1)
    best = ld.best_rate(made)
    assert best.rate == pytest.approx(0.6 / 2, rel=RTOL)
    # The minimum is quadratic: an error of rtol in the rate costs (1.5 rtol)² T relative to a factor 0.4 per step.
    assert best.loss == pytest.approx(0.4**steps, rel=steps * (2 * RTOL) ** 2)
    assert ld.largest_stable_rate(made, rtol=1e-6) == pytest.approx(1.2 / 2, rel=2e-6)


def test_the_largest_stable_rate_on_a_dataset_is_where_the_exact_training_loss_comes_back_to_one():
    steps, ratio, fine = 20, 0.5, 1e-6
    made = problem(supply="dataset", ratio=1 / ratio, steps=steps)

    def growth(e):
        return marchenko_pastur(lambda x: x * (1 - e * x) ** (2 * steps), ratio) - 1

    infinitely_long = 2 / (1 + math.sqrt(ratio)) ** 2
    exact = brentq(growth, infinitely_long, 2 * infinitely_long, rtol=np.float64(1e-9))
    # Bisection stops within `fine`; richness shifts the kernel by O(γ_0²).
    found = 3 * ld.largest_stable_rate(made, rtol=fine)
    assert found == pytest.approx(exact, rel=fine + 100 * LAZY**2)
    assert found > infinitely_long


def test_the_best_rate_on_a_noisy_dataset_minimises_the_exact_test_loss():
    steps, ratio, variance = 10, 0.5, 0.3**2

    def loss(e):
        def each(x):
            left = (1 - e * x) ** steps
            return left**2 + variance * ratio / x * (1 - left) ** 2

        return marchenko_pastur(each, ratio) + variance

    exact = minimize_scalar(loss, bounds=(0.01, 0.8), method="bounded", options={"xatol": 1e-8})
    assert isinstance(exact, OptimizeResult)
    best = ld.best_rate(problem(supply="dataset", ratio=1 / ratio, noise=0.3, steps=steps, depth=1))
    assert 2 * best.rate == pytest.approx(exact.x, rel=2 * RTOL)
    # At a minimum the loss is off by the square of the error in the rate.
    assert best.loss == pytest.approx(exact.fun, rel=100 * RTOL**2)


@pytest.mark.slow
def test_best_rates_transfer_across_widths_in_the_mean_field_parameterisation_only():
    """Rich networks, γ_0 = 4: at γ_0 = 2 the best rate still moves by 40 % over these widths."""
    widths = [0.5, 2, 8]
    for parameterization in ("mup", "ntk"):
        made = problem(
            supply="dataset",
            ratio=2.0,
            steps=40,
            depth=2,
            width=1.0,
            richness=4.0,
            centered=False,
            parameterization=parameterization,
        )
        best = ld.transfer(made, "network.width", widths).data["best_rate"].values
        if parameterization == "mup":
            assert best.max() < 1.15 * best.min()
        else:
            assert np.all(best[1:] > 1.3 * best[:-1])


@pytest.fixture
def final_loss(stand_in):
    """Put a function of the rate in the place of the theory; every rate up to 1 is stable."""

    def put(loss):
        def formula(problem, times):
            rate = problem.training.learning_rate
            return {"train_loss": ends(times, 1, rate), "test_loss": ends(times, 2, loss(rate))}

        stand_in("deep_linear/population", formula=formula)

    return put


@pytest.mark.parametrize("best", [1e-9, 1e-5, 0.3, 1.0])
def test_the_best_rate_is_found_wherever_it_is_below_the_edge(best, final_loss):
    final_loss(lambda rate: 1 + abs(math.log(rate / best)))
    found = ld.best_rate(problem(supply="population", steps=2))
    # Two searches, each to rtol: for the edge, and for the best rate below it.
    assert found.rate == pytest.approx(best, rel=2 * RTOL)
    assert found.loss == pytest.approx(1, abs=2 * RTOL)


def test_a_loss_that_falls_with_the_rate_to_the_end_has_no_best_rate(final_loss):
    final_loss(lambda rate: 1 + rate**0.01)
    with pytest.raises(ld.NotConverged, match="there is no best rate"):
        ld.best_rate(problem(supply="population", steps=2))


@pytest.mark.parametrize("floor", [0.0, 0.5])
def test_a_range_of_equally_good_rates_gives_its_middle(floor, final_loss):
    """As where the loss minus the noise is below rounding: equal up to noise of 1e-15 between 1e-4 and 1e-1."""
    hollow = math.log(10) * 1.5

    def loss(rate):
        beside = max(abs(math.log(rate) + 2.5 * math.log(10)) - hollow, 0.0)
        return floor + beside + 1e-15 * math.sin(1e6 * rate)

    final_loss(loss)
    found = ld.best_rate(problem(supply="population", steps=2))
    # Both ends of the range are found to rtol.
    assert found.rate == pytest.approx(10**-2.5, rel=RTOL)


def test_rates_of_any_theory_are_stable_below_and_unstable_above():
    teacher = ld.Teacher.orthonormal("erf", hidden=1)
    network = ld.TwoLayer("erf", Q=[[0.25]], R=[[0.1]])
    training = ld.GradientDescent(0.5, time=5.0)
    made = ld.Problem(network, ld.Stream(teacher, noise=0.1), training)
    largest = ld.largest_stable_rate(made)

    def final(rate):
        changed = ld.Problem(network, made.data, ld.GradientDescent(rate, time=5.0))
        loss = ld.solve(changed, save_at=[0.0, 5.0])["test_loss"].values
        return loss[1] / loss[0]

    assert final(largest) <= 1 < final(largest * (1 + RTOL))
    best = ld.best_rate(made)
    assert best.rate < largest
    for factor in (0.9, 1.1):
        assert final(best.rate * factor) > final(best.rate)


def test_a_schedule_is_refused():
    decay = ld.ExponentialDecay(0.1, 0.1)
    made = problem(supply="population", steps=2, rate=decay)
    for search in (ld.best_rate, ld.largest_stable_rate):
        with pytest.raises(ld.ProblemError, match="not a schedule"):
            search(made)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"low": 2.0, "high": 1.0}, "must not exceed"),
        ({"low": -1.0}, "low = -1.0"),
        ({"rtol": 0.0}, "rtol = 0.0"),
    ],
)
def test_bad_bounds_are_refused(options, words, stand_in):
    fake = stand_in()
    with pytest.raises(ld.ProblemError, match=words):
        ld.largest_stable_rate(problem(supply="population", steps=2), **options)
    assert not fake.worked


def test_an_observable_that_is_no_curve_is_refused_with_those_that_are():
    made = problem(supply="population", steps=2)
    for name in ("C_v", "tets_loss"):
        with pytest.raises(ld.ProblemError, match=r"known: .*test_loss"):
            ld.best_rate(made, observable=name)


@pytest.mark.parametrize(("end", "words"), [(1.0, "stable at every"), (1.1, "unstable at")])
def test_a_search_without_an_edge_gives_up_and_says_how_far_it_came(end, words, stand_in):
    stand_in(formula=lambda problem, times: {"train_loss": ends(times, 1.0, end)})
    with pytest.raises(ld.NotConverged, match=f"training is {words} .*e[+-][12][0-9]"):
        ld.largest_stable_rate(problem(supply="population", steps=2))


def test_a_curve_that_diverges_is_unstable_and_never_the_best(stand_in):
    """The loss falls with the rate up to the last stable one, and is small where training diverges as well."""
    stand_in(diverges_above=0.3)
    made = problem(supply="population", steps=2)
    assert 0.3 * (1 - RTOL) <= ld.largest_stable_rate(made) <= 0.3
    assert 0.3 * (1 - 2 * RTOL) <= ld.best_rate(made).rate <= 0.3


def test_a_rate_whose_curve_is_not_known_stops_the_search_by_name(stand_in):
    """It counts neither as stable nor as unstable."""

    def gives_up(problem):
        raise ld.NotConverged("the solver gave up")

    stand_in(before=gives_up)
    for search in (ld.best_rate, ld.largest_stable_rate):
        with pytest.raises(ld.NotConverged, match=r"learning rate 0\.05, where the solver gave up"):
            search(problem(supply="population", steps=2))


def test_a_training_that_a_theory_cannot_follow_at_the_edge_of_stability_is_unstable(monkeypatch):
    asked_for, edge = problems.deep_linear(steps=10), 0.04

    def up_to_the_edge(asked, **options):
        if asked.training.learning_rate > edge:
            raise ld.AtTheEdge("training is at the edge of stability")
        return ld.solve(asked, **options)

    monkeypatch.setattr("learndyn.analyses.rates.solve", up_to_the_edge)
    assert edge / 1.001 <= ld.largest_stable_rate(asked_for) <= edge
    assert ld.best_rate(asked_for).rate <= edge

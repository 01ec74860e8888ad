"""Adding an option of training that one theory understands touches that theory alone."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.theory import registered, theory_for
from learndyn.problem.checks import number
from learndyn.problem.part import field
from tests import problems


class ClippedDescent(ld.GradientDescent, abstract=True):
    """Gradient descent whose rate is at most `largest_rate`; abstract, so that problem files do not know it."""

    largest_rate: float = field(number(above=0), default=1e9)


KNOWN = theory_for(problems.two_layer())


class Clipped(type(KNOWN)):
    """The theory of online learning, with the option."""

    name = "clipped/stream"
    training = ClippedDescent
    understands = (*KNOWN.understands, "training.largest_rate")

    def applies(self, problem):
        return isinstance(problem.training, ClippedDescent)

    def solve(self, problem, method, record, seed=0, report=None):
        training = problem.training
        rate = min(training.learning_rate, training.largest_rate)
        plain = ld.GradientDescent(rate, time=training.time)
        return super().solve(
            ld.Problem(problem.network, problem.data, plain), method, record, seed, report
        )


def asked(builder=problems.two_layer, **training):
    length = {"time": 3.0} if builder is problems.two_layer else {"steps": 3}
    return builder(training=ClippedDescent(0.5, **length, **training))


def refused(builder) -> str:
    with pytest.raises(ld.ProblemError) as caught:
        asked(builder, largest_rate=0.2)
    return str(caught.value)


def test_theories_that_do_not_know_the_option_refuse_it_by_name():
    for builder, theory in (
        (problems.two_layer, "two_layer/stream"),
        (problems.deep_linear, "deep_linear/dataset"),
        (problems.wide, "wide/points"),
        (problems.neural_ode, "neural_ode/stream"),
    ):
        words = refused(builder)
        assert words.startswith(f"training.largest_rate = 0.2: the theory {theory} does not")
        assert (
            "leave it at 1000000000.0 (the fields of training that it understands: learning_rate"
            in words
        )


def test_an_option_at_its_default_is_nothing_to_refuse():
    assert theory_for(asked()) is KNOWN


def test_the_theory_that_knows_the_option_is_the_one_that_solves():
    clipped = Clipped()
    with registered(clipped):
        problem = asked(largest_rate=0.2)
        assert theory_for(problem) is clipped
        loss = ld.solve(problem, save_at=4)["test_loss"]
        plain = ld.solve(problems.two_layer(rate=0.2, time=3.0), save_at=4)["test_loss"]
        np.testing.assert_array_equal(loss, plain)
        assert "deep_linear/dataset does not understand" in refused(problems.deep_linear)

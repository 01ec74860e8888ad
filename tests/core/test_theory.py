"""Theories: registered, for a while or for good; alone for their problems; and what their methods say."""

import contextlib

import numpy as np
import pytest
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.core.method import Method
from learndyn.core.record import Record
from learndyn.core.theory import registered, theories, theory_for
from learndyn.papers.registry import PaperFigure, figures, registered_alone
from tests import problems
from tests.fakes import Fake, curves


def names() -> list[str]:
    return [theory.name for theory in theories()]


@pytest.mark.parametrize("alone", [False, True])
def test_theories_are_registered_within_the_block_only_even_if_it_fails(alone):
    before = theories()
    known = {theory.name: theory for theory in before}["two_layer/stream"]
    instead, other = Fake().in_place_of(known), Fake().in_place_of(known, "z/other")
    with contextlib.suppress(ZeroDivisionError), registered(instead, other, alone=alone):
        assert (theories() == [instead, other]) == alone
        assert {"two_layer/stream", "z/other"} <= set(names())
        assert instead in theories()
        assert known not in theories()
        raise ZeroDivisionError
    assert theories() == before


def test_pictures_are_registered_alone_within_the_block_only():
    before = figures()
    picture = PaperFigure(
        "one", "Title", "A caption.", "Somebody 2025", 0.5, lambda report: Figure()
    )
    with contextlib.suppress(ZeroDivisionError), registered_alone(picture):
        assert figures() == [picture]
        raise ZeroDivisionError
    assert figures() == before


def test_two_theories_that_fit_one_problem_are_an_error():
    problem = problems.two_layer()
    known = theory_for(problem)
    with (
        registered(Fake().in_place_of(known, "z/other")),
        pytest.raises(ld.NoTheory, match=r"several theories fit .* two_layer/stream and z/other"),
    ):
        ld.solve(problem)


def test_a_theory_without_a_table_or_a_name_is_refused_by_what_it_lacks():
    class Nameless(ld.Theory):
        network = data = training = object

    with pytest.raises(TypeError, match=r"Nameless does not say its name, .*table"):
        ld.register(Nameless)


def test_methods_say_what_they_do_not_do():
    class Whole(Method):
        """A method that solves everything at once."""

        def solve(self, problem, record, seed, report):
            return curves({"test_loss": np.ones(len(record))}, record.at)

    problem, method = problems.two_layer(time=2.0), Whole()
    record = Record.of(problem.training, 3)
    assert [one.count for one in method.solve_many([problem, problem], record, 0)] == [3, 3]
    assert not method.pays_together([problem], record)
    assert method.way(problem) == "threads"
    with pytest.raises(ld.NoTheory, match="Whole solves the whole of training at once"):
        method.start(problem)
    with pytest.raises(ld.NoTheory, match="Whole is not a JAX function"):
        method.trace(problem, record)

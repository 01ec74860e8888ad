"""Theories and pictures that are registered for a while."""

import contextlib

import pytest

from learndyn.core.theory import registered, theories
from learndyn.figures import PaperFigure, figures, registered_alone
from tests.fakes import Fake


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
    picture = PaperFigure("one", "Title", "A caption.", "Somebody 2025", 0.5, lambda report: None)  # pyright: ignore
    with contextlib.suppress(ZeroDivisionError), registered_alone(picture):
        assert figures() == [picture]
        raise ZeroDivisionError
    assert figures() == before

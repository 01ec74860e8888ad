"""Each term is left out once, to see that a test notices."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from learndyn.programs import Coordinates, gaussian, matrices, optimisers, orthonormal, sites
from tests.programs import (
    test_gaussian,
    test_gradients,
    test_linear,
    test_optimisers,
    test_revealed,
)


def law(transposed: bool) -> Callable[[], None]:
    test = test_gaussian.test_next_product_has_the_conditional_law_of_the_whole_matrix
    return lambda: test(9, 5, 2, 3, transposed)


def marchenko_pastur() -> None:
    test_linear.test_regression_follows_marchenko_pastur(2.0, Coordinates())


def identity() -> None:
    test_gaussian.test_identity_orthonormality_and_answers_hold_after_every_product("entries", 0.5)


def even_identity() -> None:
    test_gaussian.test_identity_orthonormality_and_answers_hold_after_every_product("samples", 0.5)


def revealed() -> None:
    test_revealed.test_revealing_a_stored_matrix_reproduces_the_dense_run("tied-sgd")


def differences() -> None:
    test_gradients.test_adjoints_equal_central_differences(test_gradients.tied)


def never_worse() -> None:
    test_linear.test_dropping_less_is_never_worse(test_linear.BACKENDS["samples"])


def rounding() -> None:
    test_gaussian.test_a_direction_that_is_rounding_is_left_out()


def short() -> None:
    test_gaussian.test_a_short_new_part_becomes_an_orthonormal_direction()


def rule() -> None:
    test_optimisers.test_descent_follows_the_rule_of_the_library()


NEW = orthonormal, "new_directions"
FORCED, NEW_ONES = (gaussian.Gaussian, "_forced"), (gaussian.Gaussian, "_innovations")
TRANSPOSED = gaussian.Gaussian, "apply_transposed"
BREAKS: dict[str, tuple[tuple[Any, str], str, str, list[Callable[[], None]]]] = {
    "forced part": (
        FORCED,
        "return factor",
        "return 0 * factor",
        [law(False), law(True), marchenko_pastur],
    ),
    "1/√ρ of the forced part of W": (
        FORCED,
        "1 / math.sqrt(self.rho)",
        "1.0",
        [law(False), marchenko_pastur, identity],
    ),
    "ρ of the forced part of W^⊤": (
        FORCED,
        "self.rho if transposed",
        "1.0 if transposed",
        [law(True), marchenko_pastur, identity],
    ),
    "√ρ of the innovation": (
        TRANSPOSED,
        "math.sqrt(self.rho) * state.c * a",
        "state.c * a",
        [law(True), marchenko_pastur],
    ),
    "1 − P_V": (
        (sites.Entries, "innovations"),
        " - combined(self.scale * sums(epsilon, V), V)",
        "",
        [law(False), law(True), identity],
    ),
    "1 − P_V of what was asked only": (
        NEW_ONES,
        "other.rows[:known], self.rng",
        "other.rows, self.rng",
        [law(False), law(True)],
    ),
    "waiting normals": (
        (sites.Samples, "note"),
        " - parallel",
        "",
        [even_identity],
    ),
    "ρ in U(M^⊤a)": (TRANSPOSED, "self.rho * (a @ sized", "(a @ sized", [revealed]),
    "ρ in W̄": ((matrices, "_product"), "rho * gaussian.outer", "gaussian.outer", [differences]),
    "1/ρ in x̄": (
        (matrices, "_product"),
        "(rho if transposed else 1 / rho) * back",
        "back",
        [differences],
    ),
    "joint projection": (
        (sites.Samples, "note"),
        "self._rest(rows), short, self._rest",
        "rows.copy(), short, lambda q: q",
        [even_identity, never_worse],
    ),
    "second projection": (NEW, "q = project(q)", "", [short]),
    "test of the length left": (NEW, ">= LEFT", ">= 0", [rounding]),
    "decay apart from momentum": (
        (optimisers.SGD, "_buffer"),
        "B = -inner * gradient\n    if",
        "B = -inner * (gradient + self.decay * theta)\n    if",
        [rule],
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_missing_term_is_noticed(name, monkeypatch):
    (owner, function), text, instead, checks = BREAKS[name]
    source = textwrap.dedent(inspect.getsource(getattr(owner, function)))
    assert source.count(text) == 1
    module = owner if inspect.ismodule(owner) else inspect.getmodule(owner)
    names = dict(vars(module))
    exec(source.replace(text, instead), names)
    for check in checks:
        check()
    monkeypatch.setattr(owner, function, names[function])
    for check in checks:
        with pytest.raises(AssertionError):
            check()

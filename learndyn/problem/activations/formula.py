"""Formulas of a few variables: read with Python's grammar, checked piece by piece, and never run as Python."""

import ast
import functools
import math
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.errors import ProblemError, nearest

FUNCTIONS = {
    "tanh": jnp.tanh,
    "sinh": jnp.sinh,
    "cosh": jnp.cosh,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "arctan": jnp.arctan,
    "exp": jnp.exp,
    "log": jnp.log,
    "sqrt": jnp.sqrt,
    "erf": jax.scipy.special.erf,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
}
CONSTANTS = {"pi": math.pi}
OPERATORS = {
    ast.Add: jnp.add,
    ast.Sub: jnp.subtract,
    ast.Mult: jnp.multiply,
    ast.Div: jnp.divide,
    ast.Pow: jnp.power,
    ast.USub: jnp.negative,
    ast.UAdd: jnp.positive,
}
LONGEST, DEEPEST = 500, 50
"""Texts that are longer or more deeply nested are refused, so that reading them takes no noticeable time or memory."""


@functools.cache
def parse(
    formula: str, variables: tuple[str, ...] = ("z",), name: str = "Formula.formula"
) -> ast.expr:
    """The syntax tree of a formula in which every piece is allowed; `ProblemError` names the first that is not.

    `name` is that of the field in which the formula stands.
    """
    if len(formula) > LONGEST:
        allowed = f"must have at most {LONGEST} characters; it has {len(formula)}"
        raise ProblemError(name, formula, allowed)
    try:
        tree = ast.parse(formula.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = getattr(error, "msg", None) or error
        raise ProblemError(name, formula, f"cannot be read: {reason}") from None
    _check(tree, formula, variables, name)
    return tree


def evaluate(tree: ast.expr, **variables: jax.Array) -> jax.Array:
    """The value of a tree from `parse` where its variables have these values, as in `evaluate(tree, z=z)`."""
    return _value(tree, variables, jnp.result_type(*variables.values()))


def _value(tree: ast.expr, variables: dict[str, jax.Array], dtype: np.dtype) -> jax.Array:
    def value(tree: ast.expr) -> jax.Array:
        return _value(tree, variables, dtype)

    match tree:
        case ast.Constant(value=constant):
            return jnp.asarray(constant, dtype)
        case ast.Name(id=name):
            return variables[name] if name in variables else jnp.asarray(CONSTANTS[name], dtype)
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent) if (
            power := _integer(exponent)
        ) is not None:
            # A whole exponent is exact, and has a derivative at 0 and below.
            return jnp.power(value(base), power)
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](value(left), value(right))
        case ast.UnaryOp(op=op, operand=operand):
            return OPERATORS[type(op)](value(operand))
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return FUNCTIONS[name](value(argument))
    raise TypeError(f"not a tree from parse: {ast.dump(tree)}")


def _integer(tree: ast.expr) -> int | None:
    """The value of a literal whole number of moderate size, or None."""
    match tree:
        case ast.Constant(value=int() | float() as value) if value == int(value) and value <= 100:
            return int(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand) if (
            value := _integer(operand)
        ) is not None:
            return -value
    return None


def _check(
    tree: ast.expr, formula: str, variables: tuple[str, ...], field: str, depth: int = 0
) -> None:
    """Refuse a tree with a piece that is not allowed."""

    def refuse(reason: str) -> NoReturn:
        piece = ast.get_source_segment(formula.strip(), tree) or formula
        raise ProblemError(field, formula, f"{piece!r} {reason}")

    if depth > DEEPEST:
        refuse(f"is nested more than {DEEPEST} deep")
    match tree:
        case ast.Constant(value=value):
            if type(value) not in (int, float) or not math.isfinite(_as_float(value)):
                refuse("is not a finite number")
        case ast.Name(id=name):
            if name not in variables and name not in CONSTANTS:
                known = " and ".join(variables)
                which = f"variable is {known}" if len(variables) == 1 else f"variables are {known}"
                refuse(f"is not known; the {which}, the constants are {', '.join(CONSTANTS)}")
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) not in OPERATORS:
                refuse("has an operator that is not one of + - * / **")
            _check(left, formula, variables, field, depth + 1)
            _check(right, formula, variables, field, depth + 1)
        case ast.UnaryOp(op=op, operand=operand):
            if type(op) not in OPERATORS:
                refuse("has an operator that is not one of + - * / **")
            _check(operand, formula, variables, field, depth + 1)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            if name not in FUNCTIONS:
                refuse(f"calls an unknown function; {nearest(name, FUNCTIONS)}")
            if len(args) != 1 or keywords or isinstance(args[0], ast.Starred):
                refuse("must have exactly one argument")
            _check(args[0], formula, variables, field, depth + 1)
        case _:
            refuse(
                f"is not allowed; use numbers, {', '.join(variables)}, pi, + - * / **, parentheses and functions"
            )


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf

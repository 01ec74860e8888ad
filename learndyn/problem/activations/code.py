"""Activations as Python text, for NumPy, PyTorch and JAX."""

import ast
import math
from typing import NamedTuple

from learndyn.errors import ProblemError
from learndyn.numerics.precision import float64
from learndyn.problem.activations.base import Activation
from learndyn.problem.activations.closed import Erf, Linear, Polynomial, Relu
from learndyn.problem.activations.formula import CONSTANTS, FUNCTIONS, parse
from learndyn.problem.activations.smooth import Formula, Named


class Dialect(NamedTuple):
    """How a package calls functions of arrays: the `prefix` of those that keep their names, and the `others`."""

    prefix: str
    others: dict[str, str]

    def call(self, function: str, argument: str) -> str:
        """A function of an argument, as text."""
        return self.others.get(function, f"{self.prefix}{function}({{0}})").format(argument)


NUMPY = Dialect(
    "np.",
    {
        "erf": "scipy.special.erf({0})",
        "sigmoid": "scipy.special.expit({0})",
        "softplus": "np.logaddexp({0}, 0)",
        "relu": "np.maximum({0}, 0)",
        "gelu": "({0} * scipy.special.ndtr({0}))",
        "silu": "({0} * scipy.special.expit({0}))",
        "mish": "({0} * np.tanh(np.logaddexp({0}, 0)))",
    },
)
TORCH = Dialect(
    "torch.",
    {
        # F.softplus is the identity above 20, which is wrong in the ninth digit.
        "softplus": "-F.logsigmoid(-({0}))",
        "gelu": "F.gelu({0})",
        "silu": "F.silu({0})",
        "mish": "({0} * torch.tanh(-F.logsigmoid(-({0}))))",
    },
)
JAX = Dialect(
    "jnp.",
    {
        "erf": "jax.scipy.special.erf({0})",
        "gelu": "jax.nn.gelu({0}, approximate=False)",
        **{
            name: f"jax.nn.{name}({{0}})"
            for name in ("sigmoid", "softplus", "relu", "silu", "mish")
        },
    },
)


def activation_text(activation: Activation, dialect: Dialect) -> str:
    """g(z) as an expression in `z`."""
    match activation:
        case Linear():
            return "z"
        case Erf():
            return dialect.call("erf", f"z / {math.sqrt(2)!r}")
        case Relu():
            return dialect.call("relu", "z")
        case Named(name=name):
            return dialect.call(name, "z")
        case Polynomial(coefficients=coefficients):
            text = repr(float(coefficients[-1]))
            for c in coefficients[-2::-1]:
                text = f"({float(c)!r} + z * {text})"
            return text if len(coefficients) > 1 else f"({text} + 0 * z)"
        case Formula(formula=formula):
            return f"({_text(parse(formula), dialect)})"
    allowed = (
        "is a Python function, which cannot be written out for another package; give it as a formula, "
        'such as Formula("tanh(z) + 0.1*z**2")'
    )
    raise ProblemError("activation", activation, allowed)


def _text(tree: ast.expr, dialect: Dialect) -> str:
    """A checked formula in a dialect; parts without z are numbers, because PyTorch's functions take arrays only."""
    if not any(isinstance(node, ast.Name) and node.id == "z" for node in ast.walk(tree)):
        with float64():
            return repr(_number(tree))
    match tree:
        case ast.Name():
            return "z"
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return dialect.call(name, _text(argument, dialect))
        case ast.UnaryOp(op=op, operand=operand):
            return f"({'-' if isinstance(op, ast.USub) else '+'}{_text(operand, dialect)})"
        case ast.BinOp(left=left, op=op, right=right):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}[
                type(op)
            ]
            return f"({_text(left, dialect)} {sign} {_text(right, dialect)})"
    raise TypeError(f"not a tree from parse: {ast.dump(tree)}")


def _number(tree: ast.expr) -> float | int:
    """The value of a formula without variables."""
    match tree:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            return CONSTANTS[name]
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return float(FUNCTIONS[name](float(_number(argument))))
        case ast.UnaryOp(op=op, operand=operand):
            return -_number(operand) if isinstance(op, ast.USub) else _number(operand)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _number(left), _number(right)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div():
                    return a / b
                case ast.Pow():
                    return a**b
    raise TypeError(f"not a tree from parse: {ast.dump(tree)}")

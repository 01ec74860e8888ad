"""Activations: values, derivatives, names, and formulas that can never run code."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

from learndyn.errors import ProblemError
from learndyn.numerics.precision import float64
from learndyn.problem.activations import (
    Custom,
    Erf,
    Formula,
    Linear,
    Named,
    Polynomial,
    Relu,
    activation,
    as_activation,
)
from learndyn.problem.activations.smooth import NAMED
from learndyn.problem.activations.values import curvature_function
from learndyn.problem.part import content_hash

pytestmark = pytest.mark.compiles

Z = np.array([-2.5, -1.0, -0.1, 0.2, 0.7, 3.0])


def softsquare(z):
    return jnp.log1p(z**2)


EVERY = [
    Erf(),
    Relu(),
    Linear(),
    Polynomial([0.5, -1.0, 0.0, 2.0]),
    *(Named(name) for name in NAMED),
    Formula("tanh(z) + 0.1*z**2"),
    Custom(softsquare, "softsquare"),
]


@pytest.mark.parametrize("g", EVERY, ids=repr)
def test_the_derivative_is_that_of_the_function(g):
    h = 1e-5
    with float64():
        difference = (np.asarray(g(Z + h)) - np.asarray(g(Z - h))) / (2 * h)
        slope = np.asarray(g.derivative(Z))
    assert slope.dtype == np.float64
    # h² times a third derivative of at most 12, and rounding 1e-15/h.
    np.testing.assert_allclose(slope, difference, atol=5e-9)


def test_values_follow_their_definition():
    with float64():
        np.testing.assert_allclose(Erf()(Z), erf(Z / np.sqrt(2)), rtol=1e-14)
        np.testing.assert_array_equal(Relu()(Z), np.maximum(Z, 0))
        np.testing.assert_array_equal(Linear()(Z), Z)
        np.testing.assert_allclose(Polynomial([1, 2, 3])(Z), 1 + 2 * Z + 3 * Z**2, rtol=1e-15)
        np.testing.assert_allclose(Named("gelu")(Z), Z * (1 + erf(Z / np.sqrt(2))) / 2, rtol=1e-12)
        np.testing.assert_allclose(
            Formula("-2*tanh(z)/pi + exp(-z**2/2) - 1.5e0")(Z),
            -2 * np.tanh(Z) / np.pi + np.exp(-(Z**2) / 2) - 1.5,
            rtol=1e-14,
        )
        np.testing.assert_allclose(Formula("2**-z + (1+z**2)**0.5")(Z), 2**-Z + np.sqrt(1 + Z**2))


def test_relu_has_no_slope_at_zero():
    with float64():
        assert float(Relu().derivative(jnp.array(0.0))) == 0.0


@pytest.mark.parametrize("g", EVERY[:-1], ids=repr)
def test_plain_data_gives_the_activation_back(g):
    again = as_activation(g.to_dict())
    assert again == g
    assert content_hash(again) == content_hash(g)


@pytest.mark.parametrize("name", ["erf", "relu", "linear", *NAMED])
def test_names_and_activations_are_one_to_one(name):
    assert activation(name).to_dict() == name
    assert as_activation(name) == activation(name) == as_activation({"kind": name})


def test_unknown_names_are_refused_with_the_nearest_known_one():
    with pytest.raises(ProblemError, match="did you mean 'tanh'"):
        activation("tanhh")
    with pytest.raises(ProblemError, match="did you mean 'tanh'"):
        Named("tahn")
    with pytest.raises(ProblemError, match=r"known: .*polynomial"):
        as_activation({"kind": "spline"})
    with pytest.raises(ProblemError, match="must be an activation"):
        as_activation(3)


def test_coefficients_are_numbers_and_not_structure():
    one, other = Polynomial([0.0, 1.0]), Polynomial([0.5, 2.0])
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert len(jax.tree.leaves(one)) == 1
    assert jax.tree.structure(Named("tanh")) != jax.tree.structure(Named("sin"))
    gradient = jax.grad(lambda g: g(2.0))(Polynomial(np.ones(3, np.float32)))
    np.testing.assert_allclose(gradient.coefficients, [1.0, 2.0, 4.0])


def test_a_custom_function_is_known_by_name_only_after_reading():
    g = as_activation(softsquare)
    assert isinstance(g, Custom)
    assert g.name == "softsquare"
    assert g.to_dict() == {"kind": "custom", "name": "softsquare"}
    again = as_activation(g.to_dict())
    assert again != g
    with pytest.raises(ProblemError, match=r"Custom\(function, name\)"):
        again(jnp.asarray(Z))


def test_custom_functions_that_are_not_scalar_or_not_traceable_are_refused():
    with pytest.raises(ProblemError, match=r"it gave shape \(2,\)"):
        Custom(lambda z: jnp.stack([z, z]), "two")
    with pytest.raises(ProblemError, match="must accept a traced number"):
        Custom(lambda z: float(z) ** 2, "float")
    with pytest.raises(ProblemError, match="must be a function"):
        Custom(3, "three")


@pytest.mark.parametrize(
    ("formula", "complaint"),
    [
        ("__import__('os').system('true')", "is not allowed"),
        ("z.__class__", "'z.__class__' is not allowed"),
        ("(lambda: z)()", "is not allowed"),
        ("[z for z in (1,)]", "is not allowed"),
        ("z if z > 0 else 0", "is not allowed"),
        ("z % 2", "operator that is not one of"),
        ("~z", "operator that is not one of"),
        ("x + 1", "'x' is not known; the variable is z"),
        ("tanhh(z)", "unknown function; did you mean 'tanh'"),
        ("eval(z)", "unknown function"),
        ("tanh(z, 2)", "must have exactly one argument"),
        ("tanh(*z)", "must have exactly one argument"),
        ("tanh(z=z)", "must have exactly one argument"),
        ("'z'", "is not a finite number"),
        ("True", "is not a finite number"),
        ("1e999*z", "is not a finite number"),
        ("2j*z", "is not a finite number"),
        ("z +", "cannot be read"),
        ("", "cannot be read"),
        ("z" * 501, "at most 500 characters"),
        ("(" * 240 + "z" + ")" * 240, "cannot be read"),
        ("-" * 400 + "z", "is nested more than 50 deep"),
        ("log(z)", "must be finite everywhere; it is not at z = "),
        ("1/z", "must be finite everywhere; it is not at z = 0"),
        ("9**9**9**9", "must be finite everywhere"),
    ],
)
def test_formulas_name_the_piece_that_is_not_allowed(formula, complaint):
    with pytest.raises(ProblemError) as error:
        Formula(formula)
    assert complaint in str(error.value)


def test_the_callers_precision_is_left_alone():
    assert Formula("tanh(z)")(jnp.float32(0.5)).dtype == jnp.float32
    assert Relu().derivative(jnp.float32(0.5)).dtype == jnp.float32


@pytest.mark.parametrize(
    ("g", "expected"),
    [
        (Polynomial([0.5, 1.0, 0.3]), (0.5 + Z + 0.3 * Z**2, 1 + 0.6 * Z, 0.6 + 0 * Z)),
        (Formula("sin(2*z)"), (np.sin(2 * Z), 2 * np.cos(2 * Z), -4 * np.sin(2 * Z))),
        (
            Custom(softsquare),
            (np.log1p(Z**2), 2 * Z / (1 + Z**2), 2 * (1 - Z**2) / (1 + Z**2) ** 2),
        ),
    ],
)
def test_values_with_two_derivatives(g, expected):
    with float64():
        values = curvature_function(g)(Z)
    np.testing.assert_allclose(np.stack(values), np.stack(expected), atol=1e-13)

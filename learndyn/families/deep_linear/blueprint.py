"""The finite deep linear network layer by layer; its update rules are in `DeepLinear`'s docstring.

    f = (1/(N_L γ_0)) w W^{L−1}/√N_{L−1} … W^1/√N_1 W^0 x,  raw rate N_L γ_0² η,  all weights N(0, 1) at the start,

with β/√N before a residual branch. The gradient is that of ½ Σ_c mean_μ (y − f)².
"""

import math
from typing import Any

from learndyn.core.blueprint import Blueprint, DataCode, Layer, constants_of, steps_of
from learndyn.errors import ProblemError
from learndyn.families.deep_linear.network import Sizes, label_noise, sizes
from learndyn.problem.examples import Examples
from learndyn.problem.problem import Problem
from learndyn.problem.spectra import PowerLaw
from learndyn.problem.supplies import Dataset, Population, Stream


def blueprint(problem: Problem, size: int) -> Blueprint:
    """The network with `size` inputs."""
    network, training = problem.network, problem.training
    steps, dimensions = steps_of(training), sizes(problem, size)
    D, N, _ = dimensions
    branch, gamma = network.branch, float(network.gamma)
    rule: dict[str, Any] = {"rate": N[-1] * gamma**2, "decay": float(training.weight_decay)}
    hidden = [
        Layer(
            f"W{ell}",
            (above, below),
            1.0,
            1.0 if ell == 0 else (1.0 if branch is None else branch) / math.sqrt(below),
            **rule,
        )
        for ell, (below, above) in enumerate(zip((D, *N[:-1]), N, strict=True))
    ]
    readout = Layer("w", (network.outputs, N[-1]), 1.0, 1 / (N[-1] * gamma), **rule)
    return Blueprint(
        words="A deep linear network" + ("" if branch is None else " with skip connections"),
        hidden=tuple((layer, None) for layer in hidden),
        readout=readout,
        activation=None,
        steps=steps,
        data=_data(problem, dimensions),
        residual=branch is not None,
        centered=network.centered,
        logged=2.0,
        noise=network.outputs * label_noise(problem) ** 2,
    )


def _data(problem: Problem, dimensions: Sizes) -> DataCode:
    """Gaussian inputs and a linear target; the test set is D inputs whose mean is the expectation."""
    spectrum, C, noise = problem.task.spectrum, problem.network.outputs, label_noise(problem)
    if isinstance(spectrum, Examples):
        allowed = (
            "a recipe draws Gaussian inputs; give it the spectrum of your examples, LinearMap(examples.estimated), and "
            "put your arrays in the place of those that it draws"
        )
        raise ProblemError("data.task.spectrum", "Examples", allowed)
    D, _, examples = dimensions
    large = {}
    if spectrum is None:
        constants, target = f"D, C = {D}, {C}", "rng.standard_normal((C, D))"
        scale, label, words = "", " / np.sqrt(D)", "x ~ N(0, 1), y = w*·x/√D"
    else:
        if isinstance(spectrum, PowerLaw):
            power = f"{spectrum.capacity!r} * {spectrum.source!r}"
            lines = (
                f"K = np.arange(1.0, {D} + 1)\n"
                f"EIGENVALUES = K**-{spectrum.capacity!r}\n"
                f"TARGET = np.sqrt(K ** (-{power} - 1) / EIGENVALUES)[None]"
            )
        else:
            eigenvalues, coefficients = spectrum.arrays()
            lines, large = constants_of({"EIGENVALUES": eigenvalues, "TARGET": coefficients})
        constants, target = f"D, C = {D}, {C}\n{lines}", "TARGET"
        scale, label, words = " * np.sqrt(EIGENVALUES)", "", "x ~ N(0, Λ), y = w*·x"
    noisy = f" + {noise!r} * rng.standard_normal(({examples}, C))" if noise else ""
    drawn = (
        f"x = rng.standard_normal(({examples}, D)){scale}\n"
        f"y = x @ target.T{label}{noisy}"
    )  # fmt: skip
    label_words = f"{words} + {noise:g} ε" if noise else words
    bodies = {
        Dataset: (
            f"the same {examples} examples",
            label_words,
            drawn,
            "while True:\n    yield x, y",
        ),
        Stream: (
            f"{examples} new examples",
            label_words,
            "while True:",
            "\n".join(f"    {line}" for line in (*drawn.splitlines(), "yield x, y")),
        ),
        Population: (
            "the whole population",
            "the mean over the D inputs of test_examples is the expectation",
            "x, y = test_examples(rng, target)",
            "while True:\n    yield x, y",
        ),
    }
    which, about, *body = bodies[type(problem.data)]
    functions = f'''
def draw(rng):
    """Initial weights and the target w*."""
    weights = {{name: layer["std"] * rng.standard_normal(layer["shape"]) for name, layer in LAYERS.items()}}
    return weights, {target}


def test_examples(rng, target):
    """D inputs over which the mean of (y - f)² is its expectation, because f is linear; without label noise."""
    x = np.sqrt(D) * np.eye(D){scale}
    return x, x @ target.T{label}


def batches(rng, target):
    """At every step {which}: {about}."""
{_indented(body)}
'''
    train_set = None if isinstance(problem.data, Population) else "batch"
    return DataCode(
        f"with a linear target, at every step {which}",
        constants,
        functions,
        train_set=train_set,
        arrays=large,
    )


def _indented(parts: list[str]) -> str:
    return "\n".join(f"    {line}" for part in parts for line in part.splitlines())

"""The finite two-layer network layer by layer; its update rules are in `TwoLayer`'s docstring.

f = Σ_i v_i g(w_i·x/√N).  On a stream the raw rates are η (w) and η_v/N (v), and a step decays both by ηκ/N; on a
dataset they are Nη and η_v, and a step decays both by ηκ. The gradient is that of the mean of ½(y − f)².
"""

import math

import numpy as np

from learndyn.core.blueprint import Blueprint, DataCode, Layer, constants_of, steps_of
from learndyn.errors import ProblemError
from learndyn.families.two_layer.network import covariance
from learndyn.families.two_layer.reused.finite import batch_count, example_count
from learndyn.numerics.covariance import covariance_root
from learndyn.problem.activations.code import NUMPY, activation_text
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Population

TEST_EXAMPLES = 10_000
"""Fresh inputs on which the test loss is estimated."""


def blueprint(problem: Problem, size: int) -> Blueprint:
    """The network on `size` inputs."""
    network, training, data = problem.network, problem.training, problem.data
    (K, M), N = network.R.shape, size
    if isinstance(data, Population):
        allowed = (
            "a training loop needs examples, and the gradient here is an expectation over Gaussian inputs; "
            "take a Stream with a large batch"
        )
        raise ProblemError("data", "Population", allowed)
    if size < K + M:
        allowed = f"must be at least {K + M} for {K} student and {M} teacher units"
        raise ProblemError("size", size, allowed)
    reused = isinstance(data, Dataset)
    steps = steps_of(training) if reused else round(float(training.time) * N)
    rate, rate_v = (float(N), 1.0) if reused else (1.0, 1 / N)
    decay = float(training.weight_decay) / (1 if reused else N)
    std = math.sqrt(float(np.trace(network.Q)) / K)
    trained = network.train_readout
    readout = Layer(
        "v",
        (1, K),
        math.sqrt(float(np.mean(np.square(network.readout)))),
        1.0,
        rate_v if trained else 0.0,
        decay if trained else 0.0,
        schedule="learning_rate"
        if training.readout_learning_rate is None
        else "readout_learning_rate",
    )
    return Blueprint(
        words="A two-layer network",
        hidden=((Layer("W", (K, N), std, 1 / math.sqrt(N), rate, decay), None),),
        readout=readout,
        activation=network.activation,
        steps=steps,
        data=_data(problem, size),
        per_time=None if reused else N,
    )


def _data(problem: Problem, N: int) -> DataCode:
    """Gaussian inputs with the labels of a teacher, whose weights are drawn together with the student's."""
    network, teacher, data = problem.network, problem.task, problem.data
    K, M = network.R.shape
    root = covariance_root(covariance(network.Q, network.R, teacher.T))
    constants, large = constants_of(
        {"ROOT": root, "READOUT": network.readout[None], "TEACHER": teacher.readout}
    )
    noise = float(data.noise)
    reused = isinstance(data, Dataset)
    examples = example_count(problem, N) if reused else data.batch
    noisy = f" + {noise!r} * rng.standard_normal(({examples}, 1))" if noise else ""
    drawn = f"""x = rng.standard_normal(({examples}, N))
    y = teacher(x, target){noisy}"""
    activation = activation_text(teacher.activation, NUMPY)
    functions = f'''
def draw(rng):
    """Weights of student and teacher with the overlaps of the problem: ROOT ROOTᵀ = [[Q, R], [Rᵀ, T]]."""
    frame, _ = np.linalg.qr(rng.standard_normal((N, {K + M})))
    both = np.sqrt(N) * ROOT @ frame.T
    return {{"W": {{SCALE[W]}} * both[:{K}], "v": {{SCALE[v]}} * READOUT}}, both[{K}:]


def teacher(x, target):
    """y = Σ_n v*_n g(w*_n·x/√N)."""
    z = x @ target.T / np.sqrt(N)
    return ({activation} @ TEACHER)[:, None]


def test_examples(rng, target):
    """Fresh inputs with clean labels, which estimate the expectation."""
    x = rng.standard_normal(({TEST_EXAMPLES}, N))
    return x, teacher(x, target)

'''
    call, prepared, train_set = "batches(rng, target)", "", None
    if not reused:
        functions += f'''
def batches(rng, target):
    """New examples at every step."""
    while True:
        {drawn.replace("    y", "        y")}
        yield x, y
'''
    else:
        B = batch_count(problem, N)
        call, prepared, train_set = "batches(rng, data)", "data = dataset(rng, target)", "data"
        few = f"""while True:
        chosen = rng.choice({examples}, {B}, replace=False)
        yield x[chosen], y[chosen]"""
        every = """while True:
        yield x, y"""
        which = f"{B} of them, drawn anew" if examples > B else "All examples"
        functions += f'''
def dataset(rng, target):
    """{examples} examples, which are used again and again."""
    {drawn}
    return x, y


def batches(rng, data):
    """{which}, at every step."""
    x, y = data
    {few if examples > B else every}
'''
    return DataCode(
        f"which learns a teacher from {'a dataset of' if reused else 'fresh batches of'} {examples} examples",
        f"N = {N}\n{constants}",
        functions,
        batches=call,
        prepared=prepared,
        train_set=train_set,
        arrays=large,
    )

"""Infinitely wide networks that learn features: against the paper's iterations and training; how the cost grows.

Everything on one thread.
"""

import itertools
import time
from unittest import mock

import numpy as np
import threadpoolctl

import learndyn as ld
from benchmarks.naive_wide import outputs
from benchmarks.timing import best, row
from learndyn.families.wide.equations import alternating
from learndyn.families.wide.equations.linear import solve_linear
from learndyn.families.wide.equations.sampled import Adjoint, sweep
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.numerics.precision import float64


def linear(points: int, steps: int) -> ld.Problem:
    """L = 3 linear layers, γ_0 = 1, random points in 20 dimensions, η = 0.1, mean loss."""
    network, data = ld.Wide(3, "linear"), ld.Points.random(points, 20, seed=1)
    return ld.Problem(network, data, ld.GradientDescent(0.1, steps=steps))


def nonlinear(depth: int, points: int, steps: int) -> ld.Problem:
    """tanh, γ_0 = 1, random points in 6 dimensions, η = 1, mean loss; finite networks start from f = 0."""
    network = ld.Wide(depth, "tanh", centered=True)
    data = ld.Points.random(points, 6, seed=1)
    return ld.Problem(network, data, ld.GradientDescent(1.0, steps=steps))


def solved_linear(points: int, steps: int):
    return solve_linear(wide_setting(linear(points, steps), steps), lambda done: None)


def one_batch(points: int, steps: int, samples: int, precision: str = "single", seed: int = 0):
    """One batch of the causal sweep through L = 2 layers."""
    made = wide_setting(nonlinear(2, points, steps), steps)
    seeds = np.random.SeedSequence(seed)
    with float64():
        return sweep(made, samples, seeds, lambda done: None, precision=precision)


def against_eq_11(points: int, steps: int, damping: float) -> None:
    """Until all outputs are within 1e-6 of the iteration's limit, which is known from going on to changes of 1e-9."""
    made = wide_setting(linear(points, steps), steps)
    exact = solved_linear(points, steps).f[..., 0]
    seconds = best(lambda: solved_linear(points, steps))
    found, clock = [], []
    for f in itertools.islice(outputs(made, damping), 100):
        found.append(f)
        clock.append(time.perf_counter())
        if len(found) > 1 and _largest(f - found[-2]) < 1e-9:
            break
    else:
        raise RuntimeError("the iteration did not settle")
    count = next(i for i, f in enumerate(found) if _largest(f - found[-1]) < 1e-6)
    words = "undamped" if damping == 1 else f"damping {damping:g}"
    reference = f"{count} iterations of eq. (11), {words}"
    what = f"exact, linear, L = 3, P = {points}, T = {steps}"
    row(what, seconds, reference, count * min(np.diff(clock)))
    print(f"    the limit of the iteration is {_largest(found[-1] - exact):.1g} = O(η) off")


def against_alternation(what: str, made: ld.Problem, full, samples: int, batches: int) -> None:
    """The paper's alternating iteration, until no output changes by 1e-3, less than its own standard error."""
    sweep_method = full(samples=samples, batches=batches)
    causal = ld.solve(made, sweep_method)
    seconds = best(lambda: ld.solve(made, sweep_method), 3)
    method = ld.AlternatingIteration(samples=samples, batches=batches, change=1e-3)
    with mock.patch.object(alternating, "_outputs", wraps=alternating._outputs) as calls:
        found = ld.solve(made, method)
    reference = best(lambda: ld.solve(made, method), 2)
    iterations = calls.call_count / batches - 1
    row(
        f"{what}, {batches} × {samples}",
        seconds,
        f"{iterations:.0f} alternating iterations",
        reference,
    )
    apart = _rms(found["prediction"] - causal["prediction"])
    print(
        f"    they are {apart:.1g} = O(η) apart; standard errors {_rms(causal.standard_error('prediction')):.1g} and "
        f"{_rms(found.standard_error('prediction')):.1g}"
    )


def against_training(what: str, made: ld.Problem, method, width: int, seeds: int) -> None:
    """So many networks of this width that their mean prediction has the theory's standard error; one is timed."""
    saved = [0, 5, 10, 20, 30]
    theory = ld.solve(made, method, save_at=saved)
    seconds = best(lambda: ld.solve(made, method, save_at=saved), 2)
    runs = ld.simulate(made, width, seeds, save_at=saved)
    training = best(lambda: ld.simulate(made, width, 1, save_at=saved), 3)
    error = _rms(theory.standard_error("prediction"))
    spread = _rms(runs["prediction"].std("seed", ddof=1))
    needed = (spread / error) ** 2
    reference = f"training {needed:.2g} networks, N = {width} (that × one)"
    row(f"{what}, {method.batches} × {method.samples}", seconds, reference, needed * training)
    off = _rms(runs["prediction"].mean("seed") - theory["prediction"])
    print(
        f"    standard error {error:.1g} of the theory, deviation {spread:.1g} of one network; the mean of {seeds} is "
        f"{off:.1g} off, with a standard error of {spread / seeds**0.5:.1g}"
    )


def against_double_precision(points: int, steps: int, samples: int) -> None:
    """The adjoint recursion in single precision: time, and the change of f and Φ against the error of one batch."""
    seconds, reference = (
        best(lambda p=precision: one_batch(points, steps, samples, p), 3)
        for precision in ("single", "double")
    )
    what = f"sampled, L = 2, P = {points}, T = {steps}, S = {samples}"
    row(what, seconds, "in double precision", reference)
    single, double = (
        [one_batch(points, steps, samples, precision, seed) for seed in range(4)]
        for precision in ("single", "double")
    )
    largest, usual = 0.0, 0.0
    for take in (lambda x: x.f, lambda x: x.layers[-1].Phi):
        pairs = np.array([[take(a), take(b)] for a, b in zip(single, double, strict=True)])
        change, spread = pairs[:, 0] - pairs[:, 1], pairs[:, 1].std(axis=0, ddof=1)
        moves = spread > 1e-9
        largest = max(largest, _largest(change[:, moves] / spread[moves]))
        usual = max(usual, _rms(change) / _rms(spread))
    sizes = []
    for precision in ("single", "double"):
        adjoint = Adjoint(steps + 1, points, 1, samples, precision)
        sizes.append((adjoint._h.nbytes + adjoint._z.nbytes) / 1e6)
    print(
        f"    rounding changes f and Φ by {usual:.1g} standard deviations of a batch, single entries by up to "
        f"{largest:.1g}; buffers {sizes[0]:.2g} MB against {sizes[1]:.2g} MB"
    )


def power(what: str, sizes, run) -> None:
    """The exponent of the time between the largest two sizes."""
    seconds = [best(lambda size=size: run(size), 3) for size in sizes]
    exponent = np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2])
    shown = ", ".join(f"{size}: {value:.2g} s" for size, value in zip(sizes, seconds, strict=True))
    print(f"  {what:<44} time ∝ size^{exponent:.1f} ({shown})")


def _largest(values) -> float:
    return float(np.max(np.abs(values)))


def _rms(values) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def run() -> None:
    one_core = mock.patch("os.cpu_count", return_value=1)
    with one_core, threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        against_eq_11(10, 100, damping=1.0)
        against_eq_11(10, 50, damping=0.5)
        shallow, deep = nonlinear(1, 4, 30), nonlinear(2, 4, 30)
        against_alternation("particles, P = 4, T = 30", shallow, ld.Particles, 1024, 2)
        against_alternation("sampled, L = 2, P = 4, T = 30", deep, ld.SampledLayers, 256, 2)
        against_training("particles, P = 4, T = 30", shallow, ld.Particles(), 1000, 16)
        against_training("sampled, L = 2, P = 4, T = 30", deep, ld.SampledLayers(), 1000, 16)
        against_double_precision(4, 30, 1024)
        against_double_precision(16, 20, 256)
        power("linear, against points P, T = 60", [10, 20, 40], lambda P: solved_linear(P, 60))
        power("linear, against steps T, P = 10", [50, 100, 200], lambda T: solved_linear(10, T))
        power("sampled, against P, T = 20", [4, 8, 16], lambda P: one_batch(P, 20, 256))
        power("sampled, against T, P = 4", [20, 40, 80], lambda T: one_batch(4, T, 256))
        power(
            "sampled, against samples, P = 4, T = 40",
            [256, 512, 1024],
            lambda S: one_batch(4, 40, S),
        )

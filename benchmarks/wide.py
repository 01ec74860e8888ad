"""Infinitely wide networks that learn features: against the paper's iterations and training; how the cost grows.

Everything on one thread, but for the last line. Times of sampled networks are CPU seconds.
"""

import itertools
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import threadpoolctl

import learndyn as ld
from benchmarks.naive_wide import outputs, trained_outputs
from benchmarks.timing import best, row
from learndyn.families.wide.equations.linear import solve_linear
from learndyn.families.wide.problem_arrays import wide_setting


def linear(points: int, steps: int) -> ld.Problem:
    """L = 3 linear layers, γ_0 = 1, random points in 20 dimensions, η = 0.1, mean loss."""
    network, data = ld.Wide(3, "linear"), ld.Points.random(points, 20, seed=1)
    return ld.Problem(network, data, ld.GradientDescent(0.1, steps=steps))


def nonlinear(
    activation: str, depth: int, points: int, steps: int, richness: float = 1.0
) -> ld.Problem:
    """Random points in 30 dimensions with targets ±1, η = 0.5, mean loss."""
    rng = np.random.default_rng(0)
    data = ld.Points(rng.standard_normal((points, 30)), np.sign(rng.standard_normal(points)))
    network = ld.Wide(depth, activation, richness)
    return ld.Problem(network, data, ld.GradientDescent(0.5, steps=steps))


def solved_linear(points: int, steps: int):
    return solve_linear(wide_setting(linear(points, steps), steps), lambda done: None)


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


def cpu(function: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def states(steps: int) -> list[int]:
    """Ten equally spaced states."""
    return np.linspace(0, steps, 11).round().astype(int)[1:].tolist()


def network_price(made: ld.Problem, widths: tuple[int, int], count: int) -> float:
    """CPU × error² of 2 f(2N) − f(N), with the numbers of networks that make it smallest."""
    steps, price = made.training.steps, 0.0
    for width, factor in zip(widths, (1, 2), strict=True):
        start = time.process_time()
        curves = [
            list(itertools.islice(trained_outputs(made, width, seed), steps + 1))
            for seed in range(count)
        ]
        seconds = (time.process_time() - start) / count
        variance = np.var(np.array(curves)[:, states(steps)], axis=0, ddof=1).mean()
        price += factor * np.sqrt(seconds * variance)
    return float(price**2)


def against_networks(what: str, made: ld.Problem, samples: int, batches: int, count: int) -> None:
    """CPU for the same error of f."""
    networks = network_price(made, (128, 256), count)
    method, saved = ld.SampledLayers(samples=samples, batches=batches), states(made.training.steps)
    ld.solve(made, ld.SampledLayers(samples=1024, batches=2, drop=0.05), save_at=[1])
    solutions = []
    seconds = cpu(lambda: solutions.append(ld.solve(made, method, save_at=saved))) / batches
    sd = _rms(solutions[0].standard_error("prediction")) * batches**0.5
    reference = "training N = 128, 256, extrapolated in 1/N"
    row(f"{what}, S = {samples}: f to {sd:.1e}", seconds, reference, networks / sd**2)
    # A variance from n runs is known to √(2/(n − 1)) of itself, if its entries vary together.
    known = np.hypot(np.sqrt(2 / (batches - 1)), np.sqrt(2 / (count - 1)))
    print(f"    known to {known:.0%}; CPU × error² is {seconds * sd**2:.1e} against {networks:.1e}")


def headline(richness: float, samples: int, batches: int) -> None:
    """Three tanh layers, ten points, to t = 100: the loss and its relative error, on all cores."""
    made = nonlinear("tanh", 3, 10, 100, richness)
    method = ld.SampledLayers(samples=samples, batches=batches)
    found = ld.solve(made, method, save_at=[50, 100])
    spread = found.standard_error("train_loss")
    assert spread is not None
    error = spread.values / found["train_loss"].values
    what = f"γ_0 = {richness:g}, L = 3, P = 10, {batches} × {samples}"
    seconds, loss = found.evidence["wall_time"], found["train_loss"].values[-1]
    print(
        f"  {what:<44} {seconds:.0f} s; loss {loss:.2g} at step 100, known to {error[1]:.1%}, and to {error[0]:.1%} at "
        "step 50"
    )


def sampled(points: int = 10, steps: int = 50, samples: int = 4096, **options: Any) -> None:
    """One batch, by two, of three tanh layers."""
    method = ld.SampledLayers(samples=samples, batches=2, **options)
    ld.solve(nonlinear("tanh", 3, points, steps), method, save_at=[steps])


def power(what: str, sizes, run) -> None:
    """The exponent of the time, fitted to all sizes."""
    seconds = [min(cpu(lambda size=size: run(size)) for _ in range(2)) for size in sizes]
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    shown = ", ".join(f"{size}: {value:.2g} s" for size, value in zip(sizes, seconds, strict=True))
    print(f"  {what:<44} CPU ∝ size^{exponent:.2f} ({shown})")


def seconds_of(made: ld.Problem, saved: Any, **options: Any) -> float:
    """CPU seconds of two batches of 2048 samples, the quicker of two runs."""
    method = ld.SampledLayers(samples=2048, batches=2, **options)
    return min(cpu(lambda: ld.solve(made, method, save_at=saved)) for _ in range(2))


def options_of_sampling(steps: int = 30) -> None:
    """What the options of `SampledLayers` cost, against the usual ones."""
    long, short = nonlinear("tanh", 3, 10, steps), nonlinear("tanh", 3, 3, 10)
    for what, made, usual, saved, changes in (
        ("kernels at all 31 states", long, [steps], steps + 1, {}),
        ("double precision", long, [steps], [steps], {"precision": "double"}),
        ("drop 1e-3", long, [steps], [steps], {"drop": 1e-3}),
        ("responses, P = 3, T = 10", short, 11, 11, {"responses": True}),
    ):
        ratio = seconds_of(made, saved, **changes) / seconds_of(made, usual)
        print(f"  {what:<44} {ratio:.1f} times the time")


NETWORKS: dict[str, dict[str, Any]] = {
    "biases": {"bias": True},
    "widths and scales": {"widths": [2.0, 0.5], "scales": [1.2, 0.8, 1.5]},
    "skip": {"skip": 0.7},
    "layer norm": {"normalization": "layer"},
    "feedback alignment": {"learning_rule": "feedback_alignment", "feedback_overlap": 0.5},
    "direct feedback alignment": {"learning_rule": "direct_feedback_alignment"},
    "gated linear": {"activation": "linear", "learning_rule": "gated_linear"},
    "convolution, 3 positions, k = 2, gap": {"convolution": ld.Convolution(3, 2)},
    "convolution, 3 positions, k = 2, flat": {"convolution": ld.Convolution(3, 2, "flat")},
}
TRAININGS: dict[str, dict[str, Any]] = {
    "momentum 0.5": {"momentum": 0.5},
    "weight decay 0.1": {"weight_decay": 0.1},
    "Langevin noise 0.05": {"noise": 0.05},
}


def options_of_problems(points: int = 4, steps: int = 20) -> None:
    """What the options of problems cost, against two plain tanh layers, with one recorded state."""

    def problem(
        network: dict[str, Any], training: dict[str, Any], outputs: int = 1, test_points: int = 0
    ) -> ld.Problem:
        data = ld.Points.random(points, 6, 1, outputs, test_points)
        layers = {"depth": 2, "activation": "tanh"} | network
        length = {} if "time" in training else {"steps": steps}
        return ld.Problem(ld.Wide(**layers), data, ld.GradientDescent(0.3, **length, **training))

    plain = seconds_of(problem({}, {}), [steps])
    print(f"  {f'two tanh layers, P = {points}, T = {steps}':<44} {plain:.2g} s; with")
    problems = {what: problem(fields, {}) for what, fields in NETWORKS.items()}
    problems |= {what: problem({}, fields) for what, fields in TRAININGS.items()}
    problems["two outputs"] = problem({}, {}, outputs=2)
    problems[f"{points} test points"] = problem({}, {}, test_points=points)
    for what, made in problems.items():
        print(f"    {what:<42} {seconds_of(made, [steps]) / plain:.1f} times the time")
    flow = problem({}, {"time": float(steps)})
    print(f"    {'gradient flow of the same time':<42} {seconds_of(flow, 2) / plain:.1f} times")


def _largest(values) -> float:
    return float(np.max(np.abs(values)))


def _rms(values) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def run() -> None:
    one_core = mock.patch("os.cpu_count", return_value=1)
    with one_core, threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        against_eq_11(10, 100, damping=1.0)
        against_eq_11(10, 50, damping=0.5)
        shallow, deep = nonlinear("tanh", 3, 10, 30), nonlinear("tanh", 3, 10, 100)
        against_networks("tanh, L = 3, P = 10, T = 30", shallow, 16384, 8, 24)
        against_networks("tanh, L = 3, P = 10, T = 100", deep, 16384, 8, 24)
        against_networks("relu, L = 2, P = 20, T = 50", nonlinear("relu", 2, 20, 50), 16384, 6, 24)
        options_of_sampling()
        options_of_problems()
        power("linear, against points P, T = 60", [10, 20, 40], lambda P: solved_linear(P, 60))
        power("linear, against steps T, P = 10", [50, 100, 200], lambda T: solved_linear(10, T))
        power("sampled, against points P", [5, 10, 20], lambda P: sampled(points=P))
        power("sampled, against steps T", [25, 50, 100, 200], lambda T: sampled(steps=T))
        power("sampled, against samples", [1024, 4096, 16384], lambda S: sampled(samples=S))
    headline(1.0, 32768, 8)
    headline(2.0, 32768, 8)

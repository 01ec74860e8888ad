"""Gaussian programs: the limit against training networks, lazy against dense matrices, and how the cost grows.

All times are CPU seconds of one thread, without the import of SciPy.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice, pairwise

import numpy as np
import threadpoolctl

from benchmarks.naive_programs import outputs
from benchmarks.timing import row
from learndyn.programs import SGD, Lazy, Limit, Net, ProgramRun, einsum, mean
from learndyn.programs import run as run_program

RATE, INPUTS = 0.5, 30


def data(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Random points in 30 dimensions over √30, in the directions of their Gram matrix, and random signs.

    Other axes change no law: they put the few directions that matter first.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((points, INPUTS)) / np.sqrt(INPUTS)
    directions, sizes, _ = np.linalg.svd(X, full_matrices=False)
    return directions * sizes, np.sign(rng.standard_normal(points))


def mlp(net: Net, points: int = 10, steps: int = 100) -> None:
    """tanh, three hidden layers, γ_0 = 1, η = 0.5, mean loss."""
    X, y = data(points)
    dims = [net.dim(f"layer {k}") for k in (1, 2, 3)]
    V, w = net.normal(dims[0], X.shape[1]), net.normal(dims[-1])
    matrices = [net.matrix(above, below) for below, above in pairwise(dims)]
    train = SGD(net, RATE)
    for _ in net.steps(steps):
        h = einsum("pd,d->p", X, V)
        for W in matrices:
            h = W @ np.tanh(h)
        f = mean(w * np.tanh(h))
        net.record(f=f)
        train.step(((f - y) ** 2).sum() / (2 * len(y)))


def limit(samples: int, drop: float = 3e-3, seed: int = 0, **parameters: int) -> ProgramRun:
    return run_program(mlp, parameters, Limit(samples, seed, drop, single=True))


def lazy(size: int, **parameters: int) -> ProgramRun:
    return run_program(mlp, parameters, Lazy(size, drop=1e-3, single=True))


def cpu(function: Callable[[], object], repeat: int = 1) -> float:
    """CPU seconds of the quickest of `repeat` calls."""
    durations = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        durations.append(time.process_time() - start)
    return min(durations)


def ensemble(draw: Callable[[int], np.ndarray], count: int) -> tuple[float, float]:
    """CPU seconds of a run, and the standard deviation of f between runs, rms over points and times."""
    start = time.process_time()
    curves = np.array([draw(seed) for seed in range(count)])
    seconds = (time.process_time() - start) / count
    return seconds, float(np.sqrt(curves.var(axis=0, ddof=1).mean()))


def against_networks(samples: int, runs: int, networks: tuple[float, float]) -> None:
    """CPU for the same error of f; `networks` is their CPU × error², and its relative error."""
    seconds, sd = ensemble(lambda seed: limit(samples, seed=seed).records["f"], runs)
    reference, uncertainty = networks
    what = f"limit, S = {samples}: f to {sd:.1e}"
    row(what, seconds, "training N = 128, 256, extrapolated in 1/N", reference / sd**2)
    # A variance from n runs is known to √(2/(n − 1)) of itself, if its entries vary together.
    known = np.hypot(np.sqrt(2 / (runs - 1)), uncertainty)
    print(
        f"    known to {known:.0%}; CPU × error² is {seconds * sd**2:.1e} against {reference:.1e}"
    )


def trained(width: int, steps: int, seed: int) -> np.ndarray:
    """f (states × points) of one network as arrays."""
    return np.array(list(islice(outputs(*data(10), width, RATE, seed), steps + 1)))


def extrapolated_networks(count: int) -> tuple[float, float]:
    """CPU × error² of 2 f(256) − f(128), with the numbers of networks that make it smallest, and its relative error.

    With n_N networks of c_N seconds and variance s_N² the error² is 4 s²_256/n_256 + s²_128/n_128.
    """
    price = 0.0
    for width, factor in ((128, 1), (256, 2)):
        seconds, sd = ensemble(lambda seed, width=width: trained(width, 100, seed), count)
        price += factor * sd * np.sqrt(seconds)
    return price**2, float(np.sqrt(2 / (count - 1)))


def against_dense(size: int, steps: int, timed: int) -> None:
    """One lazy network against one with arrays; of the latter `timed` steps are timed and scaled."""
    seconds = cpu(lambda: lazy(size, steps=steps))
    states = outputs(*data(10), size, RATE, 0)
    start = cpu(lambda: next(states))
    training = cpu(lambda: list(islice(states, timed))) / timed * steps
    scaled = "" if timed == steps else f" (from {timed} steps)"
    row(f"lazy, N = {size}, T = {steps}", seconds, f"arrays{scaled}", start + training)


LARGE = """
import resource, sys, time
from benchmarks.programs import lazy
start = time.process_time()
lazy(int(sys.argv[1]), steps=int(sys.argv[2]))
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def large(size: int, steps: int) -> None:
    """A network in a process of its own, for its memory. A process counts what its parent held when it was started."""
    command = [sys.executable, "-c", LARGE, str(size), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, kilobytes = map(float, done.stdout.split())
    arrays = 2 * 4 * size**2 / 1e9
    print(
        f"  {f'lazy, N = {size}, T = {steps}':<44} {seconds:.1f} s, {kilobytes / 1e6:.2f} GB "
        f"(two arrays would take {arrays:.0f} GB)"
    )


def power(what: str, sizes: list[int], function: Callable[[int], object]) -> None:
    """The exponent of a power law, fitted to all sizes."""
    seconds = [cpu(lambda size=size: function(size), 2) for size in sizes]
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    shown = ", ".join(f"{size}: {value:.2g} s" for size, value in zip(sizes, seconds, strict=True))
    print(f"  {what:<44} CPU ∝ size^{exponent:.2f} ({shown})")


def ranks(samples: int, steps: int) -> None:
    """Directions asked of W and of W^⊤, both matrices, against the length dropped."""
    for drop in (3e-2, 1e-2, 3e-3, 1e-3, 1e-4):
        start = time.process_time()
        outcome = limit(samples, drop, steps=steps)
        seconds = time.process_time() - start
        shown = " ".join(f"({a}, {b})" for a, b in outcome.ranks.values())
        what = f"limit, S = {samples}, T = {steps}, drop {drop:g}"
        print(f"  {what:<44} directions {shown}, {seconds:.2g} s")


def measure() -> None:
    large(100_000, 30)
    limit(512, steps=1)
    networks = extrapolated_networks(48)
    against_networks(4096, 12, networks)
    against_networks(16384, 6, networks)
    for size, timed in ((1000, 50), (4000, 10), (16_000, 3)):
        against_dense(size, 50, timed)
    power(
        "limit, against samples, P = 10, T = 30", [1024, 4096, 16384], lambda S: limit(S, steps=30)
    )
    power(
        "limit, against P, S = 4096, T = 20",
        [5, 10, 20, 40],
        lambda P: limit(4096, points=P, steps=20),
    )
    power("limit, against T, S = 4096, P = 10", [25, 50, 100, 200], lambda T: limit(4096, steps=T))
    ranks(4096, 30)


def run() -> None:
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        measure()

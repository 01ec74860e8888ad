"""Two-layer networks on a reused dataset: against training and a forward recursion; traced and revealed inputs; growth.

Everything on one thread.
"""

import functools
import time
import tracemalloc
from unittest import mock

import numpy as np
import threadpoolctl

import learndyn as ld
from benchmarks.deep_linear import growth
from benchmarks.timing import best, row
from learndyn.families.two_layer.reused import traced
from learndyn.families.two_layer.reused.equations import ReusedTraining
from learndyn.families.two_layer.reused.revealed import INPUTS, trained
from learndyn.families.two_layer.reused.solve import setting_of
from learndyn.families.two_layer.reused.traced import TracedInputs
from learndyn.numerics.precision import float64
from learndyn.programs import Limit
from learndyn.programs import run as run_program

LOSSES = ("train_loss", "test_loss")
STEP = 0.5


def problem(steps: int, units: int = 2) -> ld.Problem:
    """A setting that groks: γ = 3, α = 0.5, ε = 0.3, with K = `units`; the same |A|² for every K."""
    start = 0.3 * np.sqrt(2 / units) * (-1.0) ** np.arange(units)
    network = ld.TwoLayer(
        ld.Polynomial([0, 1, 0.15]), np.eye(units), start[:, None], readout=[0.5 / units] * units
    )
    data = ld.Dataset(ld.Teacher(ld.Polynomial([0, 0, 0.5]), [[1.0]]), ratio=3.0)
    return ld.Problem(network, data, ld.GradientDescent(units / 0.5, time=STEP * steps))


def two_teachers() -> ld.Problem:
    """Two erf units that learn two others, in 40 steps."""
    network = ld.TwoLayer(
        "erf", [[1.0, 0.2], [0.2, 0.8]], [[0.4, 0.1], [-0.2, 0.4]], readout=[1.2, -0.8]
    )
    teacher = ld.Teacher("erf", [[1.0, 0.3], [0.3, 0.7]], [1.0, -1.5])
    data = ld.Dataset(teacher, ratio=1.5, noise=0.2)
    return ld.Problem(network, data, ld.GradientDescent(0.6, time=40 * STEP))


def batch(steps: int, samples: int, units: int = 2) -> TracedInputs:
    """One batch of samples, traced."""
    with float64():
        setting = setting_of(problem(steps, units), ld.CausalSampling(step=STEP))
        inputs = TracedInputs(setting, samples, np.random.SeedSequence(0))
        ReusedTraining(setting, np.array([0])).follow(inputs, range(steps + 1))
    return inputs


def revealed_batch(steps: int, samples: int) -> None:
    """One batch of samples, revealed."""
    with float64():
        setting = setting_of(problem(steps), ld.CausalSampling(step=60 / steps))
        training = ReusedTraining(setting, np.array([0]))
        program = functools.partial(trained, training=training)
        run_program(program, None, Limit(samples, linear=(INPUTS,)))


def against_training(steps: int, size: int, datasets: int) -> None:
    """One dataset is trained on, and its duration multiplied."""
    made = problem(steps)
    ends = [0.0, made.training.time]
    ld.simulate(made, 50, 1, method=ld.FullBatch(step=STEP), save_at=ends)
    ld.solve(problem(4), ld.CausalSampling(step=STEP))
    method = ld.FullBatch(step=STEP)
    training = best(lambda: ld.simulate(made, size, 1, method=method, save_at=ends), 2)
    seconds = best(lambda: ld.solve(made, ld.CausalSampling(step=STEP), save_at=ends), 3)
    reference = f"training on {datasets} datasets, D = {size} ({datasets} × one)"
    row(f"theory, 8 × 1024 samples, T = {steps}", seconds, reference, datasets * training)


def traced_against_revealed(made: ld.Problem, words: str, samples: int, batches: int) -> None:
    """CPU seconds times variance of traced and revealed inputs, each observable in root mean square over time."""
    sizes = {"step": STEP, "samples": samples, "batches": batches}
    names, costs = (*LOSSES, "R", "Q"), []
    for inputs in ("traced", "revealed"):
        method = ld.CausalSampling(inputs=inputs, **sizes)
        ld.solve(made, method, save_at=2)
        start = time.process_time()
        solution = ld.solve(made, method)
        # Revealed inputs are run on halves too, which takes as long again.
        seconds = (time.process_time() - start) / (2 if inputs == "revealed" else 1)
        costs.append([seconds * _rms(solution.standard_error(name)) ** 2 for name in names])
    ratios = (f"{name} {b / a:.2g}" for name, a, b in zip(names, *costs, strict=True))
    print(
        f"  {words}, {samples} samples: cost × variance, revealed over traced: {', '.join(ratios)}"
    )


def _rms(values) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def forward_response(kernel, M) -> np.ndarray:
    """R_h (T+1, K, T+1, K) by G(t, s) = M(t) [δ_ts + Σ_{s≤r<t} τ_r R_w(t, r)/γ G(r, s)], kept for all samples."""
    n, K, _, S = M.shape
    G, R_h = np.zeros((n, n, K, K, S)), np.zeros((n, K, n, K))
    for t in range(n):
        for s in range(t):
            past = G[s, s:t].reshape((t - s) * K, K * S)
            memory = (kernel[t, :, s:t].reshape(K, -1) @ past).reshape(K, K, S)
            G[s, t] = np.einsum("ijs,jks->iks", M[t], memory)
        G[t, t] = M[t]
        R_h[t] = G[:, t].mean(axis=-1).transpose(1, 0, 2)
    return R_h


def against_forward(steps: int, samples: int) -> None:
    """The responses alone, of the same samples."""
    found = batch(steps, samples)
    with float64():

        def forward():
            return forward_response(found.kernel, found.M)

        def adjoint():
            for found.t in range(steps + 1):
                found._row()

        difference = np.max(np.abs(forward() - found.R_h))
        what = f"adjoint, T = {steps}, {samples} samples (differs by {difference:.0e})"
        row(what, best(adjoint, 3), "forward recursion", best(forward, 2))
        kept = _peak(forward)
    # The adjoint recursion keeps M of all samples, as the forward one does, and Y of a chunk of them.
    needed = _peak(adjoint) + found._Y.nbytes / 2**20
    print(f"    memory beyond M: {needed:.1f} MiB against {kept:.0f} MiB")


def _peak(run) -> float:
    """The peak of new memory, in MiB."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return peak


class PlainNormals:
    """Random normals with the interface of `QuasiNormals`."""

    def __init__(self, samples: int, seed_sequence: np.random.SeedSequence):
        self.samples, self._seed = samples, seed_sequence

    def columns(self, first: int, last: int) -> np.ndarray:
        key = self._seed.spawn_key
        columns = [
            np.random.default_rng(np.random.SeedSequence(0, spawn_key=(*key, k)))
            for k in range(first, last)
        ]
        return np.stack([rng.standard_normal(self.samples) for rng in columns], axis=1)


def errors(made: ld.Problem, samples: int, batches: int) -> np.ndarray:
    """The standard errors that one batch has, root mean square over time: of the train and the test loss."""
    solution = ld.solve(made, ld.CausalSampling(step=STEP, samples=samples, batches=batches))
    return np.array([_rms(solution.standard_error(name)) * batches**0.5 for name in LOSSES])


def error_against_samples(steps: int, sizes, batches: int) -> None:
    made = problem(steps)
    quasi = np.array([errors(made, samples, batches) for samples in sizes])
    with mock.patch.object(traced, "QuasiNormals", PlainNormals):
        random = np.array([errors(made, samples, batches) for samples in sizes])
    # The logarithm of a spread of normal values has the error 1/√(2 batches − 2).
    x = np.log(sizes)
    doubt = 1 / np.sqrt(2 * (batches - 1) * np.sum((x - x.mean()) ** 2))
    for name, good, bad in zip(LOSSES, quasi.T, random.T, strict=True):
        powers = [np.polyfit(x, np.log(y), 1)[0] for y in (good, bad)]
        ratios = ", ".join(f"{ratio:.0f}" for ratio in (bad / good) ** 2)
        print(
            f"  error of the {name.replace('_', ' ')} ∝ samples^({powers[0]:.2f} ± {doubt:.2f}), of random normals "
            f"^({powers[1]:.2f} ± {doubt:.2f}); at {sizes[-1]}: {good[-1]:.1e} against {bad[-1]:.1e}"
        )
        print(f"    variance {ratios} times smaller at {', '.join(map(str, sizes))} samples")


def run() -> None:
    one_core = mock.patch("os.cpu_count", return_value=1)
    with one_core, threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        against_training(120, 3500, 10)
        traced_against_revealed(problem(120), "two quadratic units, T = 120", 8192, 8)
        traced_against_revealed(two_teachers(), "erf, K = M = 2, T = 40", 8192, 8)
        against_forward(120, 256)
        error_against_samples(60, [256, 512, 1024, 2048], 32)
        growth("against steps T, 512 samples", [50, 100, 200, 400], lambda T: batch(T, 512))
        growth(
            "revealed, against steps T through the same time, 4096 samples",
            [60, 120, 240, 480],
            lambda T: revealed_batch(T, 4096),
        )
        growth("against samples, T = 60", [1024, 2048, 4096, 8192], lambda S: batch(60, S))
        growth("against hidden units K, T = 40", [2, 4, 8, 16], lambda K: batch(40, 256, K))

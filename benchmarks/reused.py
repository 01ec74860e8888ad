"""Two-layer networks on a reused dataset: against training, iteration and a forward recursion; errors and growth.

Everything on one thread.
"""

import time
import tracemalloc
from unittest import mock

import numpy as np
import threadpoolctl

import learndyn as ld
from benchmarks.deep_linear import growth
from benchmarks.timing import best, row
from learndyn.families.two_layer.online.equations import equations
from learndyn.families.two_layer.reused import equations as reused
from learndyn.families.two_layer.reused import fixed_point
from learndyn.families.two_layer.reused.equations import ReusedSetting
from learndyn.families.two_layer.reused.time_grid import time_grid
from learndyn.numerics.precision import float64

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


def setting(made: ld.Problem) -> ReusedSetting:
    """What one batch of samples is solved from."""
    functions, start = equations(made)
    return ReusedSetting(
        functions,
        *(np.asarray(x) for x in start),
        ratio=made.data.ratio,
        tau=time_grid(made, ld.CausalSampling(step=STEP)).tau,
        decay=0.0,
        noise=0.0,
    )


def batch(steps: int, samples: int, units: int = 2):
    """One batch of samples."""
    method = ld.CausalSampling(samples=samples)
    with float64():
        chosen = setting(problem(steps, units))
        return method.batch(chosen, np.random.SeedSequence(0), lambda done: None)


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


def against_iteration(steps: int, samples: int, batches: int) -> None:
    """The iteration's loosest tolerance, of those tried, that brings it within the causal result's standard error."""
    made = problem(steps)
    size = {"step": STEP, "samples": samples, "batches": batches}
    causal = ld.solve(made, ld.CausalSampling(**size))
    seconds = best(lambda: ld.solve(made, ld.CausalSampling(**size)), 2)
    for tolerance in (3e-3, 2e-3, 1.4e-3, 1e-3, 3e-4):
        method = ld.FixedPoint(**size, damping=0.5, tolerance=tolerance)
        factor = fixed_point._damped_factor  # called once per iteration
        start = time.perf_counter()
        with mock.patch.object(fixed_point, "_damped_factor", wraps=factor) as calls:
            found = ld.solve(made, method)
        reference = time.perf_counter() - start
        distances = [
            _rms(found[name] - causal[name]) / _rms(causal.standard_error(name)) for name in LOSSES
        ]
        if max(distances) < 1:
            break
    what = f"causal, {batches} × {samples} samples, T = {steps}"
    row(what, seconds, "damped iteration at equal error", reference)
    print(
        f"    it took {calls.call_count / batches:.0f} iterations (tolerance {tolerance:g}) to come within "
        f"{max(distances):.1g} standard errors"
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
    weights, process = found.weights, found.process
    with float64():

        def forward():
            return forward_response(weights.kernel, process.M)

        def adjoint():
            return [process.response(t, weights)[0] for t in range(steps + 1)]

        difference = np.max(np.abs(forward() - found.R_h))
        what = f"adjoint, T = {steps}, {samples} samples (differs by {difference:.0e})"
        row(what, best(adjoint, 3), "forward recursion", best(forward, 2))
        kept = _peak(forward)
    # The adjoint recursion keeps M of all samples, as the forward one does, and Y of a chunk of them.
    needed = _peak(adjoint) + process._Y.nbytes / 2**20
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
    with mock.patch.object(reused, "QuasiNormals", PlainNormals):
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
        against_iteration(120, 256, 4)
        against_forward(120, 256)
        error_against_samples(60, [256, 512, 1024, 2048], 32)
        growth("against steps T, 512 samples", [50, 100, 200, 400], lambda T: batch(T, 512))
        growth("against samples, T = 60", [1024, 2048, 4096, 8192], lambda S: batch(60, S))
        growth("against hidden units K, T = 40", [2, 4, 8, 16], lambda K: batch(40, 256, K))

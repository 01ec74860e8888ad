"""Deep linear networks: both methods, its gradient, and how time and memory grow."""

import time
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import threadpoolctl

import learndyn as ld
from benchmarks import naive_deep_linear
from benchmarks.timing import best, row
from learndyn.families.deep_linear.limit_numbers import limit_numbers
from learndyn.problem.weight_response import impulse_response


def problem(steps: int, depth: int = 4, rate=0.02, network=None, data=None) -> ld.Problem:
    """The setting of all measurements: L = 4, γ_0 = 0.7, ν = 0.6, α = 1.2, σ = 0.5, η = 0.02."""
    network = network or ld.DeepLinear(depth, 0.6, 0.7)
    return ld.Problem(
        network,
        data or ld.Dataset(ld.LinearMap(), ratio=1.2, noise=0.5),
        ld.GradientDescent(rate, steps=steps),
    )


METHODS = {"rows": ld.Rows, "innovation": ld.Innovation}


def solved(made: ld.Problem, form: str, **options):
    return ld.solve(made, METHODS[form](**options), save_at=[0, made.training.steps])


def against_plain_numpy(steps: int, repeat: int) -> None:
    made = problem(steps)
    numbers, (kappa, _) = limit_numbers(made, 64), impulse_response(made.training, steps)
    plain = naive_deep_linear.test_losses(numbers, kappa, steps)[-1]
    # One thread for each of the two.
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        reference = best(lambda: naive_deep_linear.test_losses(numbers, kappa, steps), repeat)
    for form in METHODS:
        seconds = best(lambda form=form: solved(made, form), repeat)
        found = float(solved(made, form)["test_loss"][-1])
        what = f"{form}, L = 4, T = {steps} (differs by {abs(found / plain - 1):.0e})"
        row(what, seconds, "plain NumPy", reference)


def against_training() -> None:
    """One network at D = N = P = 1000, L = 4, for as many steps."""
    steps = 200
    network, data = ld.DeepLinear(4, 1.0, 0.7), ld.Dataset(ld.LinearMap(), ratio=1.0, noise=0.5)
    made = problem(steps, network=network, data=data)
    training = best(lambda: ld.simulate(made, 1000, 1, save_at=[0, steps]), 2)
    seconds = best(lambda: solved(made, "rows"), 3)
    row(f"theory, L = 4, T = {steps}", seconds, "training one network, D = N = P = 1000", training)


def gradient(steps: int) -> None:
    """The gradient with respect to every rate of a schedule, in forward solves."""

    def final(rates):
        return ld.trace(problem(steps, rate=ld.PerStep(rates)))["test_loss"][-1]

    with ld.float64():
        rates = jnp.full(steps, 0.02)
        slope, value = jax.jit(jax.grad(final)), jax.jit(final)
        jax.block_until_ready((slope(rates), value(rates)))
        forward = best(lambda: jax.block_until_ready(value(rates)), 3)
        seconds = best(lambda: jax.block_until_ready(slope(rates)), 3)
    print(f"  gradient of a schedule of {steps} rates: {seconds / forward:.1f} forward solves")


def growth(what: str, sizes, run) -> None:
    """The exponent of the time (and peak of new memory) against a size, fitted to the larger half of the sizes."""
    seconds, peaks = [], []
    for size in sizes:
        run(size)
        seconds.append(best(lambda size=size: run(size), 2))
        tracemalloc.start()
        run(size)
        peaks.append(tracemalloc.get_traced_memory()[1] / 2**20)
        tracemalloc.stop()
    exponents = [np.polyfit(np.log(sizes[-3:]), np.log(y[-3:]), 1)[0] for y in (seconds, peaks)]
    print(
        f"  {what:<44} time ∝ size^{exponents[0]:.1f}, memory ∝ size^{exponents[1]:.1f} "
        f"(at {sizes[-1]}: {seconds[-1]:.2g} s, {peaks[-1]:.0f} MiB)"
    )


def power_law(modes: int) -> ld.Problem:
    spectrum = ld.PowerLaw(1.5, 0.8, modes)
    network = ld.DeepLinear(2, 64, 0.3, centered=True)
    return problem(100, rate=0.2, network=network, data=ld.Stream(ld.LinearMap(spectrum), batch=32))


def run() -> None:
    solved(problem(20), "rows")
    solved(problem(20), "innovation")
    against_training()
    against_plain_numpy(200, 3)
    against_plain_numpy(1000, 1)
    for steps in (100, 400):
        gradient(steps)
    growth("rows, against steps T", [100, 200, 400, 800], lambda T: solved(problem(T), "rows"))
    growth(
        "innovation basis, against steps T",
        [250, 500, 1000, 2000],
        lambda T: solved(problem(T), "innovation"),
    )
    growth("rows, against depth L", [2, 4, 8, 16], lambda L: solved(problem(200, L, 0.002), "rows"))
    growth(
        "rows, against input modes (no groups)",
        [8, 16, 32, 64],
        lambda K: solved(power_law(K), "rows", bins=64),
    )
    start = time.perf_counter()
    solved(power_law(100_000), "rows")
    print(f"  100 000 eigenvalues in 64 groups, T = 100: {time.perf_counter() - start:.2g} s")
    tracemalloc.start()
    start = time.perf_counter()
    solution = solved(problem(4000), "innovation")
    seconds, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    print(
        f"  innovation basis, L = 4, T = 4000: {seconds:.3g} s, {peak:.0f} MiB, "
        f"{solution.evidence['basis']} directions"
    )

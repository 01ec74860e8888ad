"""Long trainings of deep linear networks: panels against rows and the innovation basis, and what they cost."""

import time
import tracemalloc

import numpy as np
import threadpoolctl

import learndyn as ld
from benchmarks.timing import best, row


def problem(steps: int | None = None, end: float | None = None, rate: float = 0.01) -> ld.Problem:
    """The setting of all measurements: L = 2, γ_0 = 1, ν = 0.6, α = 1.2, σ = 0.5."""
    data = ld.Dataset(ld.LinearMap(), ratio=1.2, noise=0.5)
    return ld.Problem(ld.DeepLinear(2, 0.6), data, ld.GradientDescent(rate, steps=steps, time=end))


def against_the_others(steps: int) -> None:
    """Losses of the last step only; the errors are those against the exact rows."""
    asked, last = problem(steps), [0, steps]
    exact = ld.solve(asked, ld.Rows(), save_at=last)
    others = {
        "rows": best(lambda: ld.solve(asked, ld.Rows(), save_at=last), 1),
        "innovation": best(lambda: ld.solve(asked, ld.Innovation(tolerance=1e-6), save_at=last), 1),
    }
    for tolerance in (1e-4, 1e-6):
        method = ld.Panels(tolerance=tolerance)
        seconds = best(lambda method=method: ld.solve(asked, method, save_at=last), 3)
        found = ld.solve(asked, method, save_at=last)
        error = abs(float(found["test_loss"][-1] / exact["test_loss"][-1]) - 1)
        what = f"panels, T = {steps}, {found.evidence['nodes']} nodes (error {error:.0e})"
        for name, reference in others.items():
            row(what, seconds, name, reference)


def cost(what: str, asked: ld.Problem, end: float) -> None:
    """Time, nodes and memory against the logarithm of the length, and against the tolerance."""
    ends = [end**part for part in (0.5, 0.75, 1.0)]
    for tolerance in (1e-3, 1e-5, 1e-7):
        nodes, seconds = [], []
        for last in ends:
            times = np.array([0, round(last) if asked.training.steps else last])
            start = time.process_time()
            found = ld.solve(asked, ld.Panels(tolerance=tolerance), save_at=times)
            seconds.append(time.process_time() - start)
            nodes.append(found.evidence["nodes"])
        per_decade = np.polyfit(np.log10(ends), nodes, 1)[0]
        exponent = np.polyfit(np.log(nodes), np.log(seconds), 1)[0]
        print(
            f"  {what}, tolerance {tolerance:g}: {nodes[-1]} nodes, {seconds[-1]:.2g} s of CPU; {per_decade:.0f} nodes "
            f"for a decade, time ∝ nodes^{exponent:.1f}"
        )
    tracemalloc.start()
    ld.solve(asked, save_at=[0, round(end)])
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    print(f"  {what}: {peak:.0f} MiB")


def spectra() -> None:
    """A power law of 40 modes, L = 2, to t = 1e6: fewer examples than modes, as many, and more."""
    task = ld.LinearMap(ld.PowerLaw(1.5, 1.2, 40))
    training = ld.GradientDescent(1.0, time=1e6)
    for examples in (20, 40, 60):
        data = ld.Dataset(task, examples=examples, noise=0.3)
        asked = ld.Problem(ld.DeepLinear(2, 50), data, training)
        start = time.process_time()
        found = ld.solve(asked, ld.Panels(tolerance=1e-4), save_at=[0, 1e6])
        seconds, nodes = time.process_time() - start, found.evidence["nodes"]
        print(f"  40 modes, {examples} examples, t = 1e6: {nodes} nodes, {seconds:.2g} s of CPU")


def run() -> None:
    # One thread for each method.
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        ld.solve(problem(50), ld.Rows())
        ld.solve(problem(50), ld.Innovation())
        ld.solve(problem(50), ld.Panels())
        for steps in (500, 2000):
            against_the_others(steps)
        cost("gradient flow to 1e6", problem(end=1e6, rate=1.0), 1e6)
        cost("gradient descent of 1e6 steps", problem(10**6), 1e6)
        spectra()

"""Long trainings: panels against rows and the innovation basis, modes and implicit steps against small steps."""

import dataclasses
import resource
import time
import tracemalloc

import numpy as np
import threadpoolctl

import learndyn as ld
from benchmarks.timing import best, row
from learndyn.families.wide.equations.approximations import initial_kernels, static_kernel
from learndyn.families.wide.equations.static import static_outputs
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.papers.delayed_features import GrokkingSetting


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


def online() -> None:
    """Online SGD, L = 2, γ_0 = 1, ν = 0.6, α_B = 0.5, σ = 0.5: the innovation basis against rows, and beyond them."""

    def asked(steps: int) -> ld.Problem:
        data = ld.Stream(ld.LinearMap(), batch_ratio=0.5, noise=0.5)
        return ld.Problem(ld.DeepLinear(2, 0.6), data, ld.GradientDescent(0.01, steps=steps))

    last = [0, 2000]
    exact = ld.solve(asked(2000), ld.Rows(), save_at=last)
    rows = best(lambda: ld.solve(asked(2000), ld.Rows(), save_at=last), 1)
    for tolerance in (1e-6, 1e-10):
        method = ld.Innovation(tolerance=tolerance)
        found = ld.solve(asked(2000), method, save_at=last)
        seconds = best(lambda method=method: ld.solve(asked(2000), method, save_at=last), 1)
        error = abs(float(found["test_loss"][-1] / exact["test_loss"][-1]) - 1)
        what = f"online, T = 2000, {found.evidence['basis']} directions (error {error:.0e})"
        row(what, seconds, "rows", rows)
    states = np.concatenate([[0], np.geomspace(10, 10_000, 7).astype(int)])
    without, responses = (ld.Innovation(tolerance=1e-6, responses=x) for x in (False, True))
    seconds = best(lambda: ld.solve(asked(10_000), responses, save_at=states), 1)
    what = "online, T = 10000, with responses between 8 steps"
    row(what, seconds, "without", best(lambda: ld.solve(asked(10_000), without, save_at=states), 1))
    for steps in (10_000, 100_000):
        start = time.process_time()
        found = ld.solve(asked(steps), save_at=[0, steps])
        seconds, basis = time.process_time() - start, found.evidence["basis"]
        print(f"  online, T = {steps}: {basis} directions, {seconds:.2g} s of CPU")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"  online, at most {peak:.0f} MiB of the process, all measurements before included")


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


def wide_linear(steps: int) -> None:
    """Two layers on three points, γ_0 = 1, η = 0.1: panels against rows and the innovation basis, and to t = 1e6."""
    data = ld.Points.random(3, 5, seed=2)

    def asked(**length: float) -> ld.Problem:
        return ld.Problem(ld.Wide(2, "linear"), data, ld.GradientDescent(0.1, **length))

    last = [0, steps]
    exact = ld.solve(asked(steps=steps), ld.LinearRows(), save_at=last)
    found = ld.solve(asked(steps=steps), ld.LinearPanels(), save_at=last)
    error = float(np.max(np.abs(found["prediction"] - exact["prediction"])))
    seconds = best(lambda: ld.solve(asked(steps=steps), ld.LinearPanels(), save_at=last), 3)
    what = f"wide, panels, T = {steps}, {found.evidence['nodes']} nodes (error {error:.0e})"
    for method in (ld.LinearRows(), ld.LinearInnovation()):
        reference = best(lambda m=method: ld.solve(asked(steps=steps), m, save_at=last), 1)
        row(what, seconds, type(method).__name__, reference)
    start = time.process_time()
    late = ld.solve(asked(time=1e6), ld.LinearPanels(), save_at=[0, 1e6])
    cpu = time.process_time() - start
    print(f"  wide, flow to 1e6: {late.evidence['nodes']} nodes, {cpu:.2g} s of CPU")


def static_modes(steps: int) -> None:
    """The static kernel on ten points, mode by mode against stepping."""
    made = ld.Problem(
        ld.Wide(2, "linear"), ld.Points.random(10, 20, seed=1), ld.GradientDescent(0.1, steps=steps)
    )
    setting = wide_setting(made, steps)
    K0 = initial_kernels(setting).kernel
    saved = np.array([0, steps])
    modes = best(lambda: static_outputs(setting, made.training, K0, saved), 5)
    row(
        f"static kernel by modes, T = {steps}",
        modes,
        "steps",
        best(lambda: static_kernel(setting, K0), 1),
    )
    late = dataclasses.replace(made.training, steps=10**10)
    end = np.array([0, 10**10])
    seconds = best(lambda: static_outputs(setting, late, K0, end), 5)
    print(f"  static kernel by modes, T = 1e10: {1e3 * seconds:.2g} ms")


def grokking(end: float, samples: int, batches: int) -> None:
    """The paper's network with ε = 0.3, γ = 3: implicit steps, and explicit ones of 0.5 as far as t = 80."""

    def asked(time: float) -> ld.Problem:
        return GrokkingSetting(0.5, 0.3, 3.0, time).problem()

    implicit = ld.ImplicitSampling(samples=samples, batches=batches)
    start = time.process_time()
    found = ld.solve(asked(end), implicit, save_at=[0, 80, end])
    seconds = time.process_time() - start
    explicit = ld.CausalSampling(step=0.5, samples=samples, batches=batches)
    start = time.process_time()
    other = ld.solve(asked(80.0), explicit, save_at=[0, 80])
    reference = time.process_time() - start
    # The cost of explicit steps grows as the cube of their number.
    whole = reference * (end / 80) ** 3
    nodes = found.evidence["nodes"]
    what = f"reused data to t = {end:g}, {nodes} nodes, {batches} × {samples}"
    row(what, seconds, f"explicit steps of 0.5 to t = 80 ({reference:.1f} s), times (t/80)³", whole)
    losses = [float(x["test_loss"][1]) for x in (found, other)]
    spread = [float(x.data["test_loss_standard_error"][1]) for x in (found, other)]
    print(
        f"    test loss at t = 80: {losses[0]:.4f}({spread[0]:.4f}) and {losses[1]:.4f}({spread[1]:.4f}), the latter "
        "with the error of its steps"
    )


def run() -> None:
    # One thread for each method.
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        ld.solve(GrokkingSetting(0.5, 0.3, 3.0, 5.0).problem(), ld.ImplicitSampling(samples=64))
        grokking(1000.0, 1024, 4)
        static_modes(2000)
        wide_linear(500)
        ld.solve(problem(50), ld.Rows())
        ld.solve(problem(50), ld.Innovation())
        ld.solve(problem(50), ld.Panels())
        for steps in (500, 2000):
            against_the_others(steps)
        cost("gradient flow to 1e6", problem(end=1e6, rate=1.0), 1e6)
        cost("gradient descent of 1e6 steps", problem(10**6), 1e6)
        online()
        spectra()

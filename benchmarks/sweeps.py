"""Sweeps: problems in one call against a loop over `solve`, against plain NumPy, on two cores; what a point costs."""

import os
import tempfile
import time

import numpy as np
import threadpoolctl

import learndyn as ld
from benchmarks import deep_linear, naive_deep_linear
from benchmarks.timing import best, row
from learndyn.families.deep_linear.limit_numbers import limit_numbers
from learndyn.problem.paths import changed
from learndyn.problem.weight_response import impulse_response

POINTS = 64


def two_layer(students: int, teachers: int) -> ld.Problem:
    """Online learning until t = 100 with an erf network."""
    teacher = ld.Teacher.orthonormal("erf", teachers)
    network = ld.TwoLayer.random(students, teacher, 0.5, 784)
    training = ld.GradientDescent(1.0, time=100.0)
    return ld.Problem(network, ld.Stream(teacher, noise=0.1), training)


def batched_against_loop(students: int, teachers: int) -> None:
    made, rates = two_layer(students, teachers), np.linspace(0.2, 1.5, POINTS)
    over = {"training.learning_rate": rates}
    problems = [changed(made, {"training.learning_rate": rate}) for rate in rates]

    def loop():
        return [ld.solve(problem)["test_loss"].values for problem in problems]

    def swept():
        return ld.sweep(made, over, workers=1)["test_loss"].values

    difference = np.max(np.abs(np.array(loop()) - swept()))
    what = f"{POINTS} two-layer solves, K = {students}, M = {teachers} (differ by {difference:.0e})"
    row(what, best(swept, 3), "a loop over solve, one core", best(loop, 2))


def against_plain_numpy(steps: int) -> None:
    made = deep_linear.problem(steps)
    richness = np.linspace(0.3, 1.2, POINTS)
    over = {"network.richness": richness}
    problems = [changed(made, {"network.richness": gamma}) for gamma in richness]
    numbers = [limit_numbers(problem, 64) for problem in problems]
    kappa, _ = impulse_response(made.training, steps)

    def plain():
        return [naive_deep_linear.test_losses(some, kappa, steps)[-1] for some in numbers]

    def swept(workers=1, **kept):
        kept = kept or {"observables": ["test_loss"]}
        found = ld.sweep(made, over, save_at=[0, steps], workers=workers, **kept)
        return found["test_loss"].values[:, -1]

    difference = np.max(np.abs(np.array(plain()) / swept() - 1))
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        reference = best(plain, 2)
    what = f"{POINTS} deep linear solves, T = {steps} (differ by {difference:.0e})"
    row(what, best(swept, 5), "plain NumPy, one core", reference)
    all_of_it = best(lambda: swept(observables=None), 5)
    row("the same with all observables", all_of_it, "plain NumPy, one core", reference)
    load = os.getloadavg()[0]
    two = best(lambda: swept(2), 9)
    row(f"test loss on two cores (load {load:.1f} of {os.cpu_count()})", two, "one", best(swept, 9))


def cost_of_a_point(steps: int) -> None:
    """Milliseconds that a stored point takes, next to a bare solve, and that a finished one takes to be read."""
    made = deep_linear.problem(steps)
    over = {"network.richness": np.linspace(0.3, 1.2, POINTS)}
    problems = [changed(made, {"network.richness": x}) for x in over["network.richness"]]
    bare = best(lambda: [ld.solve(problem) for problem in problems], 5)
    durations, reading = [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as store:
            for kept in (durations, reading):
                start = time.perf_counter()
                ld.sweep(made, over, store=store, workers=1)
                kept.append(time.perf_counter() - start)
    stored, solved, read = (x / POINTS * 1e3 for x in (min(durations), bare, min(reading)))
    print(
        f"  a stored point takes {stored:.2g} ms, a bare solve {solved:.2g} ms; "
        f"a finished point is read in {read:.2g} ms"
    )


def run() -> None:
    for units in ((1, 1), (2, 2), (3, 2)):
        batched_against_loop(*units)
    against_plain_numpy(100)
    cost_of_a_point(20)

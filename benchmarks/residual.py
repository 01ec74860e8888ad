"""Residual networks: how time and memory grow with depth and steps, against training, and infinite depth."""

import math

import learndyn as ld
from benchmarks.deep_linear import growth
from benchmarks.timing import best, row


def problem(depth: float, steps: int) -> ld.Problem:
    """The setting of all measurements: β = 1/√L, ν = 1, γ_0 = 1, centred, on the population, η = 0.01."""
    network = ld.DeepLinear(depth, 1.0, centered=True, skip=ld.ScaledSkip(1.0))
    return ld.Problem(network, ld.Population(ld.LinearMap()), ld.GradientDescent(0.01, steps=steps))


def solved(depth: float, steps: int):
    method = ld.LayerNodes() if math.isinf(depth) else ld.Rows()
    return ld.solve(problem(depth, steps), method, save_at=[0, steps])


def against_training(depth: int, steps: int) -> None:
    """One network with D = N = 500 for as many steps."""
    made = problem(depth, steps)
    training = best(lambda: ld.simulate(made, 500, 1, save_at=[0, steps]), 2)
    seconds = best(lambda: solved(depth, steps), 3)
    row(f"theory, L = {depth}, T = {steps}", seconds, "training one network, D = N = 500", training)


def run() -> None:
    solved(4, 20)
    growth("residual rows, against depth L", [4, 8, 16, 32], lambda L: solved(L, 150))
    growth("residual rows, against steps T", [100, 200, 400], lambda T: solved(8, T))
    against_training(32, 100)
    solved(math.inf, 20)
    growth("infinite depth, against steps T", [30, 60, 100], lambda T: solved(math.inf, T))

"""Online learning of two-layer networks: the right-hand side, a whole solve, the finite networks."""

import time

import jax
import numpy as np

import learndyn as ld
from benchmarks import naive
from benchmarks.timing import best, row
from learndyn.families.two_layer.online.equations import equations
from learndyn.numerics.precision import float64

SIZE = 784


def committee(units: int, time: float, activation: str = "erf") -> ld.Problem:
    """K = M = `units`, as in the primer."""
    teacher = ld.Teacher.orthonormal(activation, units)
    network = ld.TwoLayer.random(units, teacher, 0.3, SIZE, seed=1)
    return ld.Problem(network, ld.Stream(teacher), ld.GradientDescent(0.5, time=time))


def right_hand_side(units: int, repeat: int) -> tuple[float, float, float]:
    """Seconds for one right-hand side inside a compiled loop, for NumPy's, and the largest difference."""
    made = committee(units, 1.0)
    with float64():
        system, start = equations(made)

        @jax.jit
        def loop(y):
            # Each turn depends on the one before, so that none can be left out.
            def turn(_, y):
                return jax.tree.map(lambda a, b: a + 1e-9 * b, y, system.velocity(0.0, y, None))

            return jax.lax.fori_loop(0, repeat, turn, y)

        jax.block_until_ready(loop(start))
        seconds = best(lambda: jax.block_until_ready(loop(start))) / repeat
        exact = jax.tree.map(np.asarray, system.velocity(0.0, start, None))
    network, teacher = made.network, made.task
    arguments = (network.Q, network.R, teacher.T, network.readout, teacher.readout, 0.5, 0.0, 1)
    dQ, dR = naive.velocity(*arguments)
    reference = best(lambda: naive.velocity(*arguments), 2 if units > 16 else 5)
    difference = max(np.abs(exact.Q - dQ).max(), np.abs(exact.R - dR).max())
    return seconds, reference, difference


def run() -> None:
    """Print all ratios."""
    print(" one right-hand side, erf, inside a compiled loop")
    for units, repeat in ((4, 2000), (16, 50), (50, 3)):
        seconds, reference, difference = right_hand_side(units, repeat)
        row(f"K = M = {units}", seconds, "NumPy", reference)
        assert difference < 1e-10, f"the two differ by {difference:.2g}"
    print(f" K = M = 4, erf, to t = 1000, against SGD at N = {SIZE} (one network, one core)")
    made = committee(4, 1000.0)
    start = time.perf_counter()
    ld.solve(made)
    first = time.perf_counter() - start
    solve = best(lambda: ld.solve(made))
    steps = 50.0
    short = committee(4, steps)
    ld.simulate(short, SIZE, 1)
    sgd = best(lambda: ld.simulate(short, SIZE, 1), 3) * made.training.time / steps
    row("a whole solve, once compiled", solve, "training", sgd)
    row("the first solve, compilation included", first, "training", sgd)
    chain = ld.OverlapChain()
    ld.simulate(short, SIZE, 1, method=chain)
    duration = best(lambda: ld.simulate(short, SIZE, 1, method=chain), 3)
    row("the chain of the overlaps", duration * made.training.time / steps, "training", sgd)
    print(" K = M = 50, erf, to t = 20")
    large = committee(50, 20.0)
    start = time.perf_counter()
    ld.solve(large)
    seconds = time.perf_counter() - start
    short = committee(50, 1.0)
    ld.simulate(short, SIZE, 1)
    sgd = best(lambda: ld.simulate(short, SIZE, 1), 1) * large.training.time
    row("the first solve, compilation included", seconds, "training", sgd)

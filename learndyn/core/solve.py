"""`solve` and `trace`: find the theory of a problem, run it, wrap the result."""

import time

import jax
import jax.numpy as jnp

from learndyn.core.compilation import compile_clock
from learndyn.core.curves import Curves
from learndyn.core.evidence import versions
from learndyn.core.method import Method
from learndyn.core.progress import progress_bar
from learndyn.core.record import Record
from learndyn.core.solution import Solution, as_dataset
from learndyn.core.symmetry import with_symmetry
from learndyn.core.theory import Theory, theory_for
from learndyn.errors import LearndynError
from learndyn.numerics.precision import float64
from learndyn.problem.checks import whole
from learndyn.problem.part import traced


def solve(
    problem, method: Method | None = None, *, save_at=None, seed: int = 0, progress: bool = False
) -> Solution:
    """The learning curve of `problem` in the limit of a large network.

    `method` says how, where the theory has a choice. `save_at` is a number of times or steps, an array of them
    (`linear_times`, `log_times`), or None for 201 equally spaced ones. `seed` matters only to methods that draw
    samples. Raises `NoTheory` where none is known and `NotConverged` where the solver gave up; a training that
    diverges is not an error: the curve ends there and `diverged_at` is set.
    """
    theory = theory_for(problem)
    record = Record.of(problem.training, save_at)
    method = theory.chosen(method, problem, record)
    seed = whole(0)(seed, "seed")
    start = time.perf_counter()
    with (
        float64(),
        compile_clock() as compiling,
        progress_bar(progress, f"solving {theory.name}") as report,
    ):
        curves = theory.solve(problem, method, record, seed, report)
        curves = with_symmetry(theory, problem, method, record, seed, curves)
    wall_time = time.perf_counter() - start
    return solution_of(theory, problem, method, seed, curves, wall_time, compiling.seconds)


def solution_of(
    theory: Theory,
    problem,
    method: Method,
    seed: int,
    curves: Curves,
    wall_time: float,
    compile_time: float | None = None,
) -> Solution:
    """The solution that the curves of a limit make; `compile_time` is None if it was not measured."""
    evidence = {
        "kind": "theory",
        "theory": theory.name,
        "exactness": theory.exactness,
        "reference": theory.reference,
        "method": method.to_dict(),
        "seed": seed,
        "size_symbol": theory.size_symbol,
        "wall_time": wall_time,
        "compile_time": compile_time,
        "versions": versions(),
    } | curves.evidence
    return Solution(as_dataset(curves, theory), problem, evidence, curves.diverged_at)


def trace(problem, method: Method | None = None, *, save_at=None) -> dict[str, jax.Array]:
    """The observables of `solve` as JAX arrays, by a pure function of the numbers in the problem.

    For `jax.grad`, `jax.jit` and `jax.vmap`: build the problem inside the function that is transformed, with traced
    numbers for its fields, and transform it inside `with jax.enable_x64(True):`. No evidence is gathered and divergence
    is not caught.
    """
    if jnp.result_type(float) != jnp.float64 and any(map(traced, jax.tree.leaves(problem))):
        raise LearndynError(
            "derivatives of a learning curve need 64-bit numbers; wrap the call that transforms `trace` in "
            "`with jax.enable_x64(True):`"
        )
    theory = theory_for(problem)
    record = Record.of(problem.training, save_at)
    with float64():
        return theory.trace(problem, theory.chosen(method, problem, record), record)

"""`solve` and `trace`: find the theory of a problem, run it, wrap the result."""

import time

import jax
import jax.numpy as jnp

from learndyn.core.compilation import compile_clock
from learndyn.core.curves import Curves
from learndyn.core.evidence import versions
from learndyn.core.method import Method
from learndyn.core.progress import progress_bar
from learndyn.core.record import Record, SaveAt
from learndyn.core.solution import Solution, as_dataset
from learndyn.core.symmetry import with_symmetry
from learndyn.core.theory import Theory, theory_for
from learndyn.errors import Interrupted, LearndynError
from learndyn.numerics.precision import float64
from learndyn.problem.checks import whole
from learndyn.problem.part import traced
from learndyn.problem.problem import Problem


def solve(
    problem: Problem,
    method: Method | None = None,
    *,
    save_at: SaveAt = None,
    seed: int = 0,
    progress: bool = False,
) -> Solution:
    """The learning curve of `problem` in the limit of a large network.

    - `problem`: what to solve.
    - `method`: how, if the theory has a choice. The one that suits the problem best unless given.
    - `save_at`: the number of times or steps to record, or an array of them (`linear_times`, `log_times`). 201 equally
      spaced ones unless given.
    - `seed`: matters only to methods that draw samples. 0 unless given.
    - `progress`: whether to show a progress bar. False unless given.

    Raises `NoTheory` if there is no theory for the problem, and `NotConverged` if the solver gives up. A training that
    diverges is not an error: the curve ends there, and `diverged_at` is set.
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
        try:
            curves = theory.solve(problem, method, record, seed, report)
        except (LearndynError, Interrupted) as error:
            if error.curves is not None:
                seconds = time.perf_counter() - start
                error.solution = solution_of(theory, problem, method, seed, error.curves, seconds)
            raise
        curves = with_symmetry(theory, problem, method, record, seed, curves)
    wall_time = time.perf_counter() - start
    return solution_of(theory, problem, method, seed, curves, wall_time, compiling.seconds)


def solution_of(
    theory: Theory,
    problem: Problem,
    method: Method,
    seed: int,
    curves: Curves,
    wall_time: float,
    compile_time: float | None = None,
) -> Solution:
    """The curves of a limit as a solution with its evidence; `compile_time` is None if it was not measured."""
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


def trace(
    problem: Problem, method: Method | None = None, *, save_at: SaveAt = None
) -> dict[str, jax.Array]:
    """The observables of `solve` as JAX arrays, by a pure function of the numbers in the problem.

    For `jax.grad`, `jax.jit` and `jax.vmap`: build the problem inside the function that is transformed, with traced
    numbers for its fields, and transform it inside `with ld.float64():`. No evidence is gathered and divergence
    is not caught.
    """
    if jnp.result_type(float) != jnp.float64 and any(map(traced, jax.tree.leaves(problem))):
        raise LearndynError(
            "derivatives of a learning curve need 64-bit numbers; wrap the call that transforms `trace` in "
            "`with ld.float64():`"
        )
    theory = theory_for(problem)
    record = Record.of(problem.training, save_at)
    with float64():
        return theory.trace(problem, theory.chosen(method, problem, record), record)

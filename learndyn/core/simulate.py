"""`simulate`: finite networks, really trained, many seeds at once."""

import contextlib
import time

import numpy as np

from learndyn.core.compilation import compile_clock
from learndyn.core.curves import Curves, Table, side_by_side
from learndyn.core.evidence import versions
from learndyn.core.method import Ensemble, Simulator
from learndyn.core.progress import progress_bar
from learndyn.core.progressing import Diverged, Report, of_states
from learndyn.core.record import Record, SaveAt
from learndyn.core.solution import Solution
from learndyn.core.theory import Theory, theory_for
from learndyn.core.threads import in_threads, workers
from learndyn.errors import Interrupted, LearndynError
from learndyn.memory import require_memory
from learndyn.numerics.precision import float64
from learndyn.problem.checks import whole
from learndyn.problem.problem import Problem

BYTES_OF_CURVES = 1000
"""What the curves of a network need at least, besides their numbers."""


def simulate(
    problem: Problem,
    size: int,
    seeds: int = 1,
    *,
    method: Simulator | None = None,
    first_seed: int = 0,
    save_at: SaveAt = None,
    progress: bool = False,
) -> Solution:
    """Train `seeds` finite networks of `size` and record what the theory predicts.

    - `problem`: what to train.
    - `size`: the size of the networks, such as the number of inputs N.
    - `seeds`: how many networks to train. 1 unless given.
    - `method`: how to train, if the theory has a choice. Its first method unless given.
    - `first_seed`: the seeds are `first_seed`, `first_seed + 1`, … The curve of a seed does not depend on the others.
      0 unless given.
    - `save_at`: the number of times or steps to record, or an array of them. 201 equally spaced ones unless given.
    - `progress`: whether to show a progress bar. False unless given.

    The networks are trained on all cores. The result has the axis "seed" in front. Ctrl-C raises `Interrupted`, whose
    `solution` holds the seeds that were finished by then.
    """
    theory = theory_for(problem)
    method = theory.simulator(method)
    first = whole(0)(first_seed, "first_seed")
    start = time.perf_counter()
    finished: dict[int, Curves] = {}
    stopped: Interrupted | LearndynError | None = None
    with compile_clock() as compiling:
        ensemble = checked_ensemble(problem, size, seeds, method, save_at)
        size, count, table = int(size), int(seeds), theory.table_of(problem)

        def run(seed: int, report: Report) -> Curves:
            return trained(table, ensemble, seed, report)

        with progress_bar(progress, f"training {count} networks of size {size}") as report:
            try:
                finished |= in_threads(run, range(first, first + count), report)
            except KeyboardInterrupt:
                stopped = Interrupted()
            except LearndynError as error:
                stopped = error
    if stopped is not None and not finished:
        raise stopped
    solution = simulation_of(
        theory,
        problem,
        size,
        method,
        ensemble,
        finished,
        wall_time=time.perf_counter() - start,
        compile_time=compiling.seconds,
    )
    if stopped is not None:
        stopped.solution = solution
        raise stopped
    return solution


def checked_ensemble(
    problem: Problem, size: int, seeds: int, method: Simulator | None = None, save_at: SaveAt = None
) -> Ensemble:
    """The networks that `simulate` trains, before any is drawn; refuse those that the machine has no memory for."""
    theory = theory_for(problem)
    size, count = whole(1)(size, "size"), whole(1)(seeds, "seeds")
    with float64():
        record = Record.of(problem.training, save_at)
        ensemble = theory.train(problem, size, theory.simulator(method), record)
    require_memory_for(ensemble, workers(count))
    _require_memory_of_results(ensemble, count)
    return ensemble


def trained(table: Table, ensemble: Ensemble, seed: int, report: Report) -> Curves:
    """One network, trained to the end or until it diverges."""
    at, trainee = ensemble.record.at, ensemble.draw(seed)
    reached = trainee.advance(at, of_states(report, at[-1]))
    if reached == len(at):
        with contextlib.suppress(Diverged), np.errstate(over="ignore", invalid="ignore"):
            trainee.complete(lambda state: report(1.0))
    return Curves(table, ensemble.record, trainee.arrays(), reached, labels=ensemble.labels)


def require_memory_for(ensemble: Ensemble, at_once: int) -> None:
    """Refuse to train `at_once` networks at a time if the machine has not enough memory for them."""
    what, advice = ensemble.what, ensemble.advice
    if at_once > 1:
        what, advice = f"{what}, {at_once} at a time,", f"{advice}, or train one seed at a time"
    require_memory(at_once * ensemble.bytes, what, advice)


def _require_memory_of_results(ensemble: Ensemble, count: int) -> None:
    """Refuse more networks than the machine has memory for their curves, each at least one number per state."""
    purpose = f"seeds = {count}: the curves of so many networks"
    require_memory(count * (BYTES_OF_CURVES + 8 * len(ensemble.record)), purpose, "train fewer")


def simulation_of(
    theory: Theory,
    problem: Problem,
    size: int,
    method: Simulator,
    ensemble: Ensemble,
    finished: dict[int, Curves],
    wall_time: float,
    compile_time: float | None = None,
) -> Solution:
    """One dataset with the axis "seed"; a seed that diverged early is NaN from there on."""
    seeds = sorted(finished)
    data = side_by_side({seed: finished[seed] for seed in seeds}, theory.time_words)
    ends = [curves.diverged_at for curves in finished.values()]
    evidence = {
        "kind": "simulation",
        "theory": theory.name,
        "reference": theory.reference,
        "method": method.to_dict(),
        "size": size,
        "seeds": seeds,
        "size_symbol": theory.size_symbol,
        "wall_time": wall_time,
        "compile_time": compile_time,
        "versions": versions(),
    } | ensemble.evidence
    diverged_at = min((end for end in ends if end is not None), default=None)
    return Solution(data, problem, evidence, diverged_at)

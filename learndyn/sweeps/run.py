"""Computing tasks on all cores, or on a cluster: how, and what becomes of each.

On one machine a method says what suits it (`Method.solve_many`, `Method.way`): problems of one shape in a single call,
threads, one at a time because each uses all cores, or processes. Processes and clusters are dask's.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from learndyn.core.curves import Curves
from learndyn.core.method import Method
from learndyn.core.simulate import simulate
from learndyn.core.storage import Point
from learndyn.core.symmetry import with_symmetry
from learndyn.core.theory import Theory, theory_for
from learndyn.core.threads import in_threads
from learndyn.errors import LearndynError, UnknownObservable, nearest
from learndyn.numerics.precision import float64
from learndyn.sweeps.plan import Task

TOGETHER = 64
"""Problems of one shape that are solved in one call."""
STARTING = 10.0
"""About the time in seconds in which worker processes start and compile for themselves."""
ONE_CORE = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
"""The environment of a worker process, of which there is one a core."""

Done = Callable[[Task, Point], None]


def compute(task: Task) -> Point:
    """One task; an error is a result too."""
    start = time.perf_counter()
    try:
        arrays, labels, info = _solved(task) if task.runs is None else _simulated(task)
    except Exception as error:
        return _failed(error, time.perf_counter() - start)
    return _result(task, arrays, labels, info, time.perf_counter() - start)


def _solved(task: Task) -> Point:
    """The theory, without what `solve` says about it: a dataset can take longer than the theory."""
    theory, given = _theory(task), (task.problem, _method(task), task.record, task.seed)
    with float64():
        return _of(theory, with_symmetry(theory, *given, theory.solve(*given)))


def _simulated(task: Task) -> Point:
    assert task.runs is not None
    size, seeds, first, method = task.runs
    save_at = task.record.at if task.record.chosen else None
    given = {"method": method, "first_seed": first, "save_at": save_at}
    found = simulate(task.problem, size, seeds, **given)
    arrays = {str(name): array.variable for name, array in found.data.data_vars.items()}
    labels = {str(name): array.variable for name, array in found.data.coords.items()}
    info = {"diverged_at": found.diverged_at, "evidence": dict(found.evidence)}
    return Point(arrays, labels, info)


def _of(theory: Theory, curves: Curves) -> Point:
    info = {"diverged_at": curves.diverged_at, "evidence": curves.evidence}
    return Point(*curves.variables(theory.time_words), info)


def _failed(error: Exception, wall_time: float) -> Point:
    name = "" if isinstance(error, LearndynError) else f"{type(error).__name__}: "
    return failure(f"{name}{error}", wall_time)


def failure(error: str, wall_time: float = 0.0) -> Point:
    """The result of a task that failed."""
    return Point({}, {}, {"error": error, "wall_time": wall_time})


def compute_together(tasks: list[Task]) -> list[Point]:
    """Theories of problems of one shape in one call; one by one what cannot be solved so."""
    return _together(tasks) or [compute(task) for task in tasks]


def _together(tasks: list[Task]) -> list[Point] | None:
    """Theories of problems of one shape in one call, None for what cannot be solved so; or a single task."""
    if len(tasks) == 1:
        return [compute(tasks[0])]
    first, theory, start = tasks[0], _theory(tasks[0]), time.perf_counter()
    problems, method, wanted = [task.problem for task in tasks], _method(first), first.observables
    given = (method, first.record, first.seed)
    try:
        if not theory.pays_together(problems, method, first.record):
            return None
        with float64():
            curves = theory.solve_many(problems, *given, wanted)
            pairs = zip(problems, curves, strict=True)
            curves = [with_symmetry(theory, problem, *given, one) for problem, one in pairs]
    except LearndynError:
        # One problem that cannot be solved spoils the call; which it was shows when each is solved alone.
        return None
    except Exception as error:
        # A fault of the theory must be seen, even if its problems could be solved alone.
        return [_failed(error, time.perf_counter() - start) for _ in tasks]
    if not set(wanted or ()) <= curves[0].arrays.keys():
        return None
    share = (time.perf_counter() - start) / len(tasks)
    return [
        _result(task, *_of(theory, one), share) for task, one in zip(tasks, curves, strict=True)
    ]


def _result(task: Task, arrays: dict, labels: dict, info: dict, wall_time: float) -> Point:
    if task.observables is not None:
        for name in task.observables:
            if name not in arrays:
                raise UnknownObservable(f"no observable {name!r}; {nearest(name, arrays)}")
        arrays = {
            name: array
            for name, array in arrays.items()
            if array.attrs.get("standard_error_of", name) in task.observables
        }
        used = {axis for array in arrays.values() for axis in array.dims}
        labels = {axis: label for axis, label in labels.items() if axis in used}
    return Point(arrays, labels, info | {"wall_time": wall_time})


def run_all(tasks: list[Task], scheduler: str | None, workers: int | None, done: Done) -> None:
    """Every task; `done` is called in this thread as each is finished."""
    cores = workers or os.cpu_count() or 1
    if scheduler is not None:
        _on_dask([[task] for task in tasks], scheduler, cores, done)
        return
    ways: dict[str, list[list[Task]]] = {"threads": [], "alone": [], "processes": []}
    for way, group in _ways(tasks, cores):
        ways[way].append(group)
    refused, ways["threads"] = _in_threads(ways["threads"], cores, done), []
    for task in refused:
        ways[_theory(task).way(task.problem, _method(task))].append([task])
    # What uses all cores by itself comes one after the other, in this thread.
    for (task,) in ways["alone"]:
        done(task, compute(task))
    _in_threads(ways["threads"], cores, done)
    _in_processes(ways["processes"], cores, done)


def _theory(task: Task) -> Theory:
    return task.theory or theory_for(task.problem)


def _method(task: Task) -> Method:
    assert task.method is not None
    return task.method


def _ways(tasks: list[Task], cores: int) -> Iterator[tuple[str, list[Task]]]:
    """How each task, or group of them, is best computed."""
    groups: dict = {}
    for task in tasks:
        if task.runs is not None:
            # Seeds run on threads of their own, so that points come one at a time unless there are few seeds.
            yield "threads" if task.runs.seeds < cores else "alone", [task]
        elif _theory(task).solves_many(_method(task)):
            groups.setdefault((_theory(task).name, *shape_of(task)), []).append(task)
        else:
            yield _theory(task).way(task.problem, _method(task)), [task]
    for group in groups.values():
        length = min(TOGETHER, max(1, -(-len(group) // cores)))
        for first in range(0, len(group), length):
            yield "threads", group[first : first + length]


def shape_of(task: Task) -> tuple:
    """What problems must have in common to be solved in one call: all but the values of their numbers."""
    leaves, structure = jax.tree.flatten(task.problem)
    shapes = tuple(
        np.shape(leaf) if isinstance(leaf, float | np.ndarray) else repr(leaf) for leaf in leaves
    )
    training: Any = task.problem.training
    return structure, shapes, training.time, training.steps, id(task.method)


def _in_threads(groups: list[list[Task]], cores: int, done: Done) -> list[Task]:
    """Every group on a thread; the tasks of groups that cannot be solved in one call are left to the caller."""
    if not groups:
        return []
    seeds = max(task.runs.seeds if task.runs else 1 for task, *_ in groups)
    refused: list[Task] = []
    numbered = dict(enumerate(groups))
    at_once = max(1, cores // seeds)
    for number, points in in_threads(lambda n, _: _together(numbered[n]), numbered, None, at_once):
        group = numbered[number]
        if points is None:
            refused += group
            continue
        for task, point in zip(group, points, strict=True):
            done(task, point)
    return refused


def _in_processes(groups: list[list[Task]], cores: int, done: Done) -> None:
    """One after the other here, unless the first shows that starting processes pays."""
    for number, (task,) in enumerate(groups):
        start = time.perf_counter()
        done(task, compute(task))
        left = (len(groups) - number - 1) * (time.perf_counter() - start)
        if cores > 1 and left * (1 - 1 / cores) > STARTING:
            _on_dask(groups[number + 1 :], "local", cores, done)
            return


def _on_dask(groups: list[list[Task]], scheduler: str, cores: int, done: Done) -> None:
    """The groups on the workers of a dask cluster: one that is running, or ("local") one made here."""
    from distributed import Client, LocalCluster, as_completed

    with contextlib.ExitStack() as stack:
        address: object = scheduler
        if scheduler == "local":
            stack.enter_context(_main_left_alone())
            address = stack.enter_context(
                LocalCluster(
                    n_workers=cores,
                    threads_per_worker=1,
                    dashboard_address=None,  # pyright: ignore[reportArgumentType]
                    env=ONE_CORE,
                    silence_logs=50,
                )
            )
        try:
            # Not the default: one that failed would stand in the way of others, such as that of xarray's files.
            client = Client(address, timeout="30s", set_as_default=False)
            stack.enter_context(client)
            stack.enter_context(client.as_current())
        except (OSError, ValueError) as error:
            raise LearndynError(f"cannot reach the scheduler {scheduler}: {error}") from error
        sent = [[task._replace(theory=None) for task in group] for group in groups]
        futures = client.map(compute_together, sent, pure=False)
        owner = dict(zip((future.key for future in futures), groups, strict=True))
        for future in as_completed(futures):
            group = owner[future.key]
            error = future.exception()
            if isinstance(error, UnknownObservable):
                raise error
            if error is not None:
                results = [failure(f"{type(error).__name__}: {error}")] * len(group)
            else:
                results = future.result()
            for task, result in zip(group, results, strict=True):
                done(task, result)
            future.release()


@contextlib.contextmanager
def _main_left_alone() -> Iterator[None]:
    """Worker processes do not run the user's script again, as Python's would; nothing they are sent is in it."""
    main = sys.modules["__main__"]
    hidden = {name: vars(main)[name] for name in ("__file__", "__spec__") if name in vars(main)}
    vars(main).update(__file__=None, __spec__=None)
    try:
        yield
    finally:
        del main.__file__
        vars(main).update(hidden)

"""Computing jobs on all cores, or on a cluster.

On one machine a method says what suits it (`Method.solve_many`, `Method.way`): problems of one shape in a single call,
threads, one at a time because each uses all cores, or processes. Dask runs processes and clusters.
"""

import contextlib
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from learndyn.core.curves import Curves
from learndyn.core.method import Method
from learndyn.core.simulate import simulate
from learndyn.core.storage import Point, Variables
from learndyn.core.symmetry import with_symmetry
from learndyn.core.theory import Theory, theory_for
from learndyn.core.threads import in_threads
from learndyn.errors import LearndynError, ProblemError, UnknownObservable, nearest
from learndyn.numerics.precision import float64
from learndyn.sweeps.plan import Job

TOGETHER = 64
"""Problems of one shape that are solved in one call."""
STARTING = 10.0
"""About how many seconds worker processes take to start and to compile."""
CLUSTER = "pip install 'learndyn[cluster]'"
"""How to get dask, which starts worker processes."""
ONE_CORE = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
"""The environment of a worker process; there is one process per core."""

Done = Callable[[Job, Point], None]


def compute(job: Job) -> Point:
    """Compute one job; an error is a result, too."""
    start = time.perf_counter()
    try:
        arrays, labels, info = _solved(job) if job.runs is None else _simulated(job)
    except Exception as error:
        return _failed(error, time.perf_counter() - start)
    return _result(job, arrays, labels, info, time.perf_counter() - start)


def _solved(job: Job) -> Point:
    """The limit, without the dataset that `solve` makes, which can take longer than solving."""
    theory, method = _theory(job), _method(job)
    with float64():
        curves = theory.solve(job.problem, method, job.record, job.seed)
        curves = with_symmetry(theory, job.problem, method, job.record, job.seed, curves)
        return _point_of(theory, curves)


def _simulated(job: Job) -> Point:
    """The finite networks."""
    assert job.runs is not None
    size, seeds, first, method = job.runs
    save_at = job.record.at if job.record.chosen else None
    solution = simulate(job.problem, size, seeds, method=method, first_seed=first, save_at=save_at)
    arrays = {str(name): array.variable for name, array in solution.data.data_vars.items()}
    labels = {str(name): array.variable for name, array in solution.data.coords.items()}
    info = {"diverged_at": solution.diverged_at, "evidence": dict(solution.evidence)}
    return Point(arrays, labels, info)


def _point_of(theory: Theory, curves: Curves) -> Point:
    """The curves of a limit as a point."""
    info = {"diverged_at": curves.diverged_at, "evidence": curves.evidence}
    return Point(*curves.variables(theory.time_words), info)


def _failed(error: Exception, wall_time: float) -> Point:
    """The result of a job that raised `error`."""
    name = "" if isinstance(error, LearndynError) else f"{type(error).__name__}: "
    return failure(f"{name}{error}", wall_time)


def failure(error: str, wall_time: float = 0.0) -> Point:
    """The result of a job that failed."""
    return Point({}, {}, {"error": error, "wall_time": wall_time})


def compute_together(jobs: list[Job]) -> list[Point]:
    """The limits of problems of one shape in one call; one by one if they cannot be solved together."""
    return _together(jobs) or [compute(job) for job in jobs]


def _together(jobs: list[Job]) -> list[Point] | None:
    """The limits of problems of one shape in one call, or a single job; None if they cannot be solved together."""
    if len(jobs) == 1:
        return [compute(jobs[0])]
    first, theory, start = jobs[0], _theory(jobs[0]), time.perf_counter()
    problems, method, wanted = [job.problem for job in jobs], _method(first), first.observables
    try:
        if not theory.pays_together(problems, method, first.record):
            return None
        with float64():
            all_curves = [
                with_symmetry(theory, problem, method, first.record, first.seed, curves)
                for problem, curves in zip(
                    problems,
                    theory.solve_many(problems, method, first.record, first.seed, wanted),
                    strict=True,
                )
            ]
    except LearndynError:
        # One problem that cannot be solved spoils the call; solving each alone shows which one it is.
        return None
    except Exception as error:
        # A fault of the theory must be seen, even if its problems could be solved alone.
        return [_failed(error, time.perf_counter() - start) for _ in jobs]
    if not set(wanted or ()) <= all_curves[0].arrays.keys():
        return None
    share = (time.perf_counter() - start) / len(jobs)
    return [
        _result(job, *_point_of(theory, curves), share)
        for job, curves in zip(jobs, all_curves, strict=True)
    ]


def _result(
    job: Job, arrays: Variables, labels: Variables, info: dict[str, Any], wall_time: float
) -> Point:
    """The point with the observables that the job asks for."""
    if job.observables is not None:
        for name in job.observables:
            if name not in arrays:
                raise UnknownObservable(f"no observable {name!r}; {nearest(name, arrays)}")
        arrays = {
            name: array
            for name, array in arrays.items()
            if array.attrs.get("standard_error_of", name) in job.observables
        }
        used = {axis for array in arrays.values() for axis in array.dims}
        labels = {axis: label for axis, label in labels.items() if axis in used}
    return Point(arrays, labels, info | {"wall_time": wall_time})


def run_all(jobs: list[Job], scheduler: str | None, workers: int | None, done: Done) -> None:
    """Compute every job; `done` is called in this thread as each is finished."""
    cores = workers or os.cpu_count() or 1
    if scheduler is not None:
        _on_dask([[job] for job in jobs], scheduler, cores, done)
        return
    ways: dict[str, list[list[Job]]] = {"threads": [], "alone": [], "processes": []}
    for way, group in _ways(jobs, cores):
        ways[way].append(group)
    refused, ways["threads"] = _in_threads(ways["threads"], cores, done), []
    for job in refused:
        ways[_theory(job).way(job.problem, _method(job))].append([job])
    # Jobs that use all cores by themselves run one after the other, in this thread.
    for (job,) in ways["alone"]:
        done(job, compute(job))
    _in_threads(ways["threads"], cores, done)
    _in_processes(ways["processes"], cores, done)


def _theory(job: Job) -> Theory:
    return job.theory or theory_for(job.problem)


def _method(job: Job) -> Method:
    assert job.method is not None
    return job.method


def _ways(jobs: list[Job], cores: int) -> Iterator[tuple[str, list[Job]]]:
    """How each job, or group of jobs, is best computed."""
    groups: dict[tuple, list[Job]] = {}
    for job in jobs:
        if job.runs is not None:
            # Seeds run on threads of their own, so points are computed one at a time unless there are few seeds.
            yield "threads" if job.runs.seeds < cores else "alone", [job]
        elif _theory(job).solves_many(_method(job)):
            groups.setdefault((_theory(job).name, *shape_of(job)), []).append(job)
        else:
            yield _theory(job).way(job.problem, _method(job)), [job]
    for group in groups.values():
        length = min(TOGETHER, max(1, -(-len(group) // cores)))
        for first in range(0, len(group), length):
            yield "threads", group[first : first + length]


def shape_of(job: Job) -> tuple:
    """Everything but the values of the numbers: problems that have it in common can be solved in one call."""
    leaves, structure = jax.tree.flatten(job.problem)
    shapes = tuple(
        np.shape(leaf) if isinstance(leaf, float | np.ndarray) else repr(leaf) for leaf in leaves
    )
    training: Any = job.problem.training
    return structure, shapes, training.time, training.steps, id(job.method)


def _in_threads(groups: list[list[Job]], cores: int, done: Done) -> list[Job]:
    """Compute every group on a thread; the jobs of groups that cannot be solved in one call are returned."""
    if not groups:
        return []
    seeds = max(job.runs.seeds if job.runs else 1 for job, *_ in groups)
    refused: list[Job] = []
    numbered = dict(enumerate(groups))
    at_once = max(1, cores // seeds)
    for number, points in in_threads(lambda n, _: _together(numbered[n]), numbered, None, at_once):
        group = numbered[number]
        if points is None:
            refused += group
            continue
        for job, point in zip(group, points, strict=True):
            done(job, point)
    return refused


def _in_processes(groups: list[list[Job]], cores: int, done: Done) -> None:
    """Compute one after the other here, unless the first takes so long that starting processes is faster."""
    for number, (job,) in enumerate(groups):
        start = time.perf_counter()
        done(job, compute(job))
        left = (len(groups) - number - 1) * (time.perf_counter() - start)
        if cores > 1 and left * (1 - 1 / cores) > STARTING:
            if importlib.util.find_spec("distributed") is None:
                if number == 0:
                    warnings.warn(f"this sweep uses one core; {CLUSTER} to use all", stacklevel=2)
                continue
            _on_dask(groups[number + 1 :], "local", cores, done)
            return


def _on_dask(groups: list[list[Job]], scheduler: str, cores: int, done: Done) -> None:
    """Compute the groups on a dask cluster: one that is already running, or ("local") one started here."""
    try:
        from distributed import Client, LocalCluster, as_completed
    except ImportError:
        raise ProblemError(
            "scheduler", scheduler, f"needs the package distributed: {CLUSTER}"
        ) from None
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
            # Not the default client: if it failed, it would stand in the way of others, such as that of xarray's files.
            client = Client(address, timeout="30s", set_as_default=False)
            stack.enter_context(client)
            stack.enter_context(client.as_current())
        except (OSError, ValueError) as error:
            raise LearndynError(f"cannot reach the scheduler {scheduler}: {error}") from error
        sent = [[job._replace(theory=None) for job in group] for group in groups]
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
            for job, result in zip(group, results, strict=True):
                done(job, result)
            future.release()


@contextlib.contextmanager
def _main_left_alone() -> Iterator[None]:
    """Hide the user's script from worker processes, which would run it again; they need nothing that is in it."""
    main = sys.modules["__main__"]
    hidden = {name: vars(main)[name] for name in ("__file__", "__spec__") if name in vars(main)}
    vars(main).update(__file__=None, __spec__=None)
    try:
        yield
    finally:
        del main.__file__
        vars(main).update(hidden)

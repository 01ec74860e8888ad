"""`simulate`: finite networks, really trained, many seeds at once."""

import concurrent.futures
import contextlib
import itertools
import os
import signal
import threading
import time

import numpy as np
import threadpoolctl
import xarray as xr

from learndyn.errors import Interrupted
from learndyn.memory import require_memory
from learndyn.numerics.precision import float64
from learndyn.part import whole
from learndyn.progress import progress_bar
from learndyn.solution import Solution
from learndyn.solve import as_dataset, versions
from learndyn.theory import Trainer, choose, theory_for


class _Stop(Exception):
    """Raised inside a run to end it."""


def simulate(
    problem,
    size: int,
    seeds: int = 1,
    *,
    method=None,
    first_seed: int = 0,
    save_at=None,
    progress: bool = False,
) -> Solution:
    """Train `seeds` finite networks of `size` and record what the theory predicts.

    The seeds are `first_seed`, `first_seed + 1`, …; each gives the same curve whatever the others are. They run on all
    cores. The result has the axis "seed" in front. Ctrl-C raises `Interrupted`, whose `solution` holds the seeds that
    were finished by then.
    """
    theory = theory_for(problem)
    method = choose(method, theory.simulators, "method")
    size = whole(1)(size, "size")
    count = whole(1)(seeds, "seeds")
    first = whole(0)(first_seed, "first_seed")
    workers = min(count, os.cpu_count() or 1)
    start = time.perf_counter()
    with float64():
        run = theory.finite(problem, size, method, save_at)
    if isinstance(run, Trainer):
        _require_memory(run, workers)
    # One thread of BLAS for each network: faster than many that compete, and the same sums for every number of seeds.
    single = threadpoolctl.threadpool_limits(limits=1, user_api="blas")
    with single, progress_bar(progress, f"training {count} networks of size {size}") as report:
        finished, interrupted = _run_all(run, range(first, first + count), workers, report)
    if interrupted and not finished:
        raise Interrupted
    solution = _collect(finished, theory, problem, size, method, time.perf_counter() - start)
    if interrupted:
        raise Interrupted(solution)
    return solution


def _require_memory(trainer: Trainer, workers: int) -> None:
    """Refuse to train as many networks at a time as the machine has no memory for."""
    what, advice = trainer.what, trainer.advice
    if workers > 1:
        what, advice = f"{what}, {workers} at a time,", f"{advice}, or train one seed at a time"
    require_memory(workers * trainer.bytes, what, advice)


def _run_all(run, seeds: range, workers: int, report) -> tuple[dict, bool]:
    """Every seed on a pool of threads: what was finished, and whether Ctrl-C cut it short."""
    stop = threading.Event()
    finished, under_way = {}, {}

    def one(seed):
        def advance(fraction):
            if stop.is_set():
                raise _Stop
            under_way[seed] = fraction
            report((len(finished) + sum(list(under_way.values()))) / len(seeds))

        with float64(), contextlib.suppress(_Stop):
            finished[seed] = run(seed, advance)
        under_way.pop(seed, None)

    queue, pending = iter(seeds), set()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool, _ctrl_c_sets(stop):
        try:
            while not stop.is_set():
                free = workers - len(pending)
                pending |= {pool.submit(one, seed) for seed in itertools.islice(queue, free)}
                if not pending:
                    return finished, False
                done, pending = concurrent.futures.wait(pending, 0.2, "FIRST_COMPLETED")
                for future in done:
                    future.result()
        finally:
            stop.set()
    return finished, True


@contextlib.contextmanager
def _ctrl_c_sets(stop: threading.Event):
    """Ctrl-C sets `stop` instead of raising: an exception may be raised, and lost, inside a callback of JAX."""
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _collect(finished: dict, theory, problem, size, method, wall_time) -> Solution:
    """One dataset with the axis "seed"; a seed that diverged early is NaN from there on."""
    seeds = sorted(finished)
    axis = finished[seeds[0]].axis
    datasets = [as_dataset(finished[seed]) for seed in seeds]
    longest = max(datasets, key=lambda dataset: dataset.sizes[axis])
    axes = {name: longest[name] for name in (axis, f"{axis}2") if name in longest.dims}
    aligned = [dataset.reindex(axes) for dataset in datasets]
    data = xr.concat(
        aligned, dim=xr.Variable("seed", np.array(seeds), {"long_name": "seed"}), join="exact"
    )
    for name in data.data_vars:
        data[name] = data[name].transpose("seed", *longest[name].dims)
        data[name].attrs = longest[name].attrs
    data[axis].attrs = longest[axis].attrs
    diverged = [
        finished[seed].diverged_at for seed in seeds if finished[seed].diverged_at is not None
    ]
    evidence = {
        "kind": "simulation",
        "theory": theory.name,
        "reference": theory.reference,
        "method": method.to_dict(),
        "size": size,
        "seeds": seeds,
        "wall_time": wall_time,
        "versions": versions(),
    } | finished[seeds[0]].evidence
    return Solution(data, problem, evidence, True, min(diverged, default=None))

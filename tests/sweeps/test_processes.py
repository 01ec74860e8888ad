"""Sweeps in real processes that are killed, that share a store, and whose workers are killed.

What was computed is counted by the theory itself, in a file (`logged.py`), not by the sweep.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from learndyn.sweeps.store import Store

RATES = [0.1 * (k + 1) for k in range(12)]
PATIENCE = 120.0
"""After so many seconds something hangs."""


class Program:
    """A Python program that knows the theory of `logged.py`, in a process of its own."""

    def __init__(self, folder: Path, seconds: float, *command: str):
        package = folder / "package" / "logged-1.dist-info"
        package.mkdir(parents=True, exist_ok=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: logged\nVersion: 1\n")
        (package / "entry_points.txt").write_text("[learndyn.theories]\nlogged = logged\n")
        here = Path(__file__).parent
        folders = [*map(str, (package.parent, here, here.parents[1])), os.environ.get("PYTHONPATH")]
        self.log = folder / "log"
        environment = {
            "PYTHONPATH": os.pathsep.join(filter(None, folders)),
            "LOGGED_FILE": str(self.log),
            "LOGGED_SECONDS": str(seconds),
        }
        self.process = subprocess.Popen(
            [sys.executable, *command],
            env=os.environ | environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def found(self) -> list[dict]:
        """What it printed."""
        output, errors = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, errors
        return json.loads(output.splitlines()[-1])

    def until(self, condition) -> None:
        """Wait, as long as it runs, until something holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end, "it hangs"
            time.sleep(0.005)


def sweeping(folder: Path, seconds: float, **arguments) -> Program:
    """A script that sweeps, as users write them: not guarded against being run again by its workers."""
    script = folder / "script.py"
    script.write_text("import json, logged, sys\n\nlogged.main(**json.loads(sys.argv[1]))\n")
    return Program(folder, seconds, str(script), json.dumps(arguments))


def lines(log: Path, word: str) -> list[tuple[int, float]]:
    """(process, rate) of the lines with a word, in order."""
    if not log.exists():
        return []
    whole = log.read_text().splitlines()
    split = [line.split() for line in whole]
    return [(int(process), float(rate)) for first, process, rate in split if first == word]


def entries(store: Path) -> list[Path]:
    return list(store.glob("*/*.point"))


def expected(rates) -> np.ndarray:
    return np.exp(-np.outer(rates, np.linspace(0, 2.0, 5)))


def test_a_killed_sweep_goes_on_where_it_was_and_ends_as_an_uninterrupted_one(tmp_path):
    store = tmp_path / "store"
    stored = {"store": str(store), "workers": 2}
    with sweeping(tmp_path, 0.15, rates=RATES, sweeps=[stored]) as first:
        first.until(lambda: len(entries(store)) >= 4)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        finished = len(entries(store))
        before = {rate for _, rate in lines(first.log, "finished")}
    assert 4 <= finished < len(RATES)
    # Written at once: all but what two threads may finish while one entry is on its way to the disk.
    assert finished <= len(before) <= finished + 4
    with sweeping(tmp_path, 0.0, rates=RATES, sweeps=[stored, stored, {}]) as second:
        resumed, again, uninterrupted = second.found()
        done = [process for process, _ in lines(second.log, "finished")]
    # The second program computed what was missing, then nothing, then all points for itself.
    assert done.count(second.process.pid) == (len(RATES) - finished) + 0 + len(RATES)
    own = [rate for process, rate in lines(second.log, "finished") if process == second.process.pid]
    resumed_rates = own[: len(RATES) - finished]
    assert len(set(resumed_rates)) == len(resumed_rates)
    assert set(resumed_rates) | before == set(RATES)
    counts = {key: resumed["evidence"][key] for key in ("computed", "reused", "failed", "damaged")}
    missing = len(RATES) - finished
    assert counts == {"computed": missing, "reused": finished, "failed": 0, "damaged": 0}
    assert again["evidence"]["computed"] == 0
    assert again["evidence"]["reused"] == len(RATES)
    assert resumed["loss"] == again["loss"] == uninterrupted["loss"]
    # Each number is an exponential of a product, correct to a few units in the last place.
    np.testing.assert_allclose(resumed["loss"], expected(RATES), rtol=1e-14)


@pytest.mark.slow
def test_two_sweeps_at_once_share_a_store(tmp_path):
    store = tmp_path / "store"
    arguments = {"rates": RATES, "sweeps": [{"store": str(store), "workers": 2}], "together": 2}
    with sweeping(tmp_path, 0.05, **arguments) as one, sweeping(tmp_path, 0.05, **arguments) as two:
        (first,), (second,) = one.found(), two.found()
        history = one.log.read_text().splitlines()
    # They did run at the same time: both had started before one of them ended.
    ends = next(k for k, line in enumerate(history) if line.startswith("swept"))
    started = {line.split()[1] for line in history[:ends] if line.startswith("started")}
    assert started == {str(program.process.pid) for program in (one, two)}
    assert first["loss"] == second["loss"]
    np.testing.assert_allclose(first["loss"], expected(RATES), rtol=1e-14)
    for found in (first, second):
        assert set(found["errors"]) == {""}
        assert found["evidence"]["damaged"] == 0
    kept = entries(store)
    assert len(kept) == len(RATES)
    assert all(Store(store).get(path.stem) is not None for path in kept)
    assert sorted(path for path in store.rglob("*") if path.is_file()) == sorted(kept)


def kill_a_worker(program: Program) -> float:
    """Kill the worker that computes, once some points are finished; the rate it was at."""
    program.until(lambda: len(lines(program.log, "finished")) >= 2)

    def busy():
        ended = set(lines(program.log, "finished"))
        return [line for line in lines(program.log, "started") if line not in ended]

    program.until(busy)
    process, rate = busy()[-1]
    assert process != program.process.pid
    os.kill(process, signal.SIGKILL)
    return rate


def check_that_nothing_was_lost(program: Program, found: dict, rate: float) -> None:
    rates = found["rates"]
    assert set(found["errors"]) == {""}
    assert found["evidence"]["computed"] == len(rates)
    assert found["evidence"]["failed"] == 0
    np.testing.assert_allclose(found["loss"], expected(rates), rtol=1e-14)
    started = [at for _, at in lines(program.log, "started")]
    assert started.count(rate) == 2
    assert program.process.pid not in {process for process, _ in lines(program.log, "started")}
    finished = [at for _, at in lines(program.log, "finished")]
    assert set(finished) == set(rates)


@pytest.mark.slow
def test_a_killed_worker_of_a_running_cluster_loses_no_point(tmp_path):
    """A scheduler and two workers that were there before; nobody starts the killed one again."""
    rates, address = RATES[:8], tmp_path / "scheduler.json"
    file = ("--scheduler-file", str(address), "--no-dashboard")
    command = ("-m", "distributed.cli.dask_worker", *file, "--no-nanny", "--nthreads", "1")
    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(
            Program(tmp_path, 0, "-m", "distributed.cli.dask_scheduler", *file, "--port", "0")
        )
        for _ in range(2):
            stack.enter_context(Program(tmp_path, 0.5, *command))
        scheduler.until(lambda: address.exists() and address.read_text().endswith("}"))
        options = {"scheduler": json.loads(address.read_text())["address"]}
        program = stack.enter_context(sweeping(tmp_path, 0.5, rates=rates, sweeps=[options]))
        rate = kill_a_worker(program)
        (found,) = program.found()
        check_that_nothing_was_lost(program, found, rate)


@pytest.mark.slow
def test_a_killed_worker_of_the_local_cluster_loses_no_point(tmp_path):
    rates = RATES[:6]
    options = {"scheduler": "local", "workers": 2, "store": str(tmp_path / "store")}
    with sweeping(tmp_path, 0.7, rates=rates, sweeps=[options]) as program:
        rate = kill_a_worker(program)
        (found,) = program.found()
        check_that_nothing_was_lost(program, found, rate)
    assert len(entries(tmp_path / "store")) == len(rates)

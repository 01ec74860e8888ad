"""`learndyn warm`, and what it leaves for other processes."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from learndyn import xla_flags
from learndyn.cli.stores import compile_quickly

HITS = """
import jax
events = []
jax.monitoring.register_event_listener(lambda event, **details: events.append(event))
from learndyn.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
print(events.count("/jax/compilation_cache/cache_misses"))
"""
COUNT = """
import sys
from numba.core import event
import learndyn as ld
from learndyn.core.theory import theories
from learndyn.families.deep_linear.equations import feedforward

with event.install_recorder("numba:compile") as recorder:
    theory = next(theory for theory in theories() if theory.name == "deep_linear/dataset")
    ld.solve(ld.Problem.from_toml(theory.template))
print(len(recorder.buffer), len(feedforward.advance_with.signatures))
"""


def test_an_unknown_theory_is_refused_by_name(learndyn):
    outcome = learndyn("warm", "deep_linear/datasets")
    assert outcome.exit_code == 2
    assert "deep_linear/dataset" in outcome.stderr


def test_a_flag_that_the_compiler_lacks_is_left_out():
    flags = xla_flags.QUICK_TO_COMPILE | {"xla_cpu_such_a_flag_is_not_there": "true"}
    assert xla_flags.as_text(flags) == xla_flags.as_text(xla_flags.QUICK_TO_COMPILE)


def test_a_flag_that_is_gone_is_left_out_although_its_name_still_stands_in_the_library(
    monkeypatch, tmp_path
):
    """Within a description of messages; the name of a flag that is there ends with a zero."""
    (tmp_path / "libjax_common.so").write_bytes(b"R\x08xla_gone\x18\x01\0xla_here\0")
    package = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(xla_flags.importlib.util, "find_spec", lambda name: package)
    assert xla_flags.as_text({"xla_gone": "1", "xla_here": "2"}) == "--xla_here=2"


def test_the_command_leaves_flags_of_the_user_alone(monkeypatch):
    monkeypatch.setenv(xla_flags.VARIABLE, "--xla_cpu_multi_thread_eigen=true")
    compile_quickly()
    assert os.environ[xla_flags.VARIABLE] == "--xla_cpu_multi_thread_eigen=true"
    monkeypatch.delenv(xla_flags.VARIABLE)
    compile_quickly()
    assert os.environ[xla_flags.VARIABLE] == xla_flags.as_text(xla_flags.QUICK_TO_COMPILE)


@pytest.mark.slow
def test_a_second_process_compiles_nothing_after_warming(tmp_path):
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
        "LEARNDYN_CACHE_DIR": str(tmp_path / "learndyn"),
    }
    command = "from learndyn.cli import main; main()"
    warming = [sys.executable, "-c", command, "warm", "deep_linear/dataset"]
    first = subprocess.run(warming, env=environment, capture_output=True, text=True, check=True)
    assert "deep_linear/dataset" in first.stdout
    assert "compiling, once on this machine" in first.stderr
    assert list(Path(tmp_path / "numba").rglob("*.nbi"))
    counting = [sys.executable, "-c", COUNT]
    second = subprocess.run(counting, env=environment, capture_output=True, text=True, check=True)
    assert second.stdout.split() == ["0", "1"]


@pytest.mark.slow
def test_the_integration_of_a_two_layer_network_is_stored(tmp_path):
    environment = {name: x for name, x in os.environ.items() if not name.startswith("JAX_")}
    environment["LEARNDYN_CACHE_DIR"] = str(tmp_path)
    warming = [sys.executable, "-c", HITS, "warm", "two_layer/stream"]
    misses = []
    for _ in range(2):
        done = subprocess.run(warming, env=environment, capture_output=True, text=True, check=True)
        misses.append(int(done.stdout.split()[-1]))
    assert misses[0] > 0
    assert misses[1] == 0
    # Functions that call back to Python are not even looked up, so that they are not missed either.
    assert list((tmp_path / "jax").glob("jit__integrate-*"))

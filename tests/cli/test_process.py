"""The command as a process of its own: signals and pipes."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import learndyn
from learndyn.core.solution import load

COMMAND = [sys.executable, "-c", "from learndyn.cli import main; main()"]


def environment():
    root = str(Path(learndyn.__file__).parents[1])
    ours = {"PYTHONPATH": root, "COLUMNS": "100", "TERM": "xterm"}
    return {key: value for key, value in os.environ.items() if key != "LEARNDYN_DEBUG"} | ours


def read_until(handle: int, pattern: str, seconds: float) -> str:
    """What a pseudo-terminal shows, without its control codes, until `pattern` appears."""
    raw, text, end = b"", "", time.monotonic() + seconds
    while not re.search(pattern, text):
        assert time.monotonic() < end, f"{pattern!r} did not appear in {text[-1000:]!r}"
        raw += os.read(handle, 65536)
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw.decode(errors="replace"))
    return text


@pytest.mark.slow
def test_ctrl_c_in_a_long_simulation_keeps_what_was_finished(problem_file, tmp_path):
    path = tmp_path / "runs.nc"
    text = problem_file.read_text(encoding="utf-8")
    # Each network takes a fraction of a second; all of them would take minutes.
    problem_file.write_text(text.replace("time = 1.0", "time = 100.0"), encoding="utf-8")
    options = ["--size", "50", "--seeds", "2000", "--save-at", "linear:3", "-o", str(path)]
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "simulate", str(problem_file), *options],
        env=environment(),
        stderr=terminal,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    os.close(terminal)
    try:
        read_until(screen, "training 2000 networks", seconds=120)
        # An estimate of the remaining time means that compilation is over.
        read_until(screen, r"\d:\d\d:\d\d", seconds=60)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        said = read_until(screen, r"interrupted: .*\.nc", seconds=60)
        code = process.wait(60)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(screen)
    assert code == 130
    finished = re.search(r"(\d+) of 2000 networks were finished", said)
    assert finished is not None
    count = int(finished.group(1))
    assert count >= 1
    assert "Traceback" not in said
    seeds = load(path).seeds
    assert seeds is not None
    assert len(seeds) == count


def test_a_pipe_gets_plain_text_of_fixed_width():
    done = subprocess.run([*COMMAND, "theories"], env=environment(), capture_output=True)
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "two_layer/stream" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100
    assert done.stderr == b""


def test_a_pipe_that_closes_early_is_not_an_error_message():
    process = subprocess.Popen(
        [*COMMAND, "--help"], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


def test_a_console_without_greek_letters_does_not_break_the_command():
    ascii_only = environment() | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMMAND, "theories"], env=ascii_only, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"two_layer/stream" in done.stdout

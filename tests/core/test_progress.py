"""What a progress bar says about compiling."""

import sys
import time

import numba
import numba.extending
import numpy as np
import pytest

import learndyn as ld
from learndyn.core import progress
from learndyn.core.compilation import running
from learndyn.core.theory import registered, theory_for
from tests import problems
from tests.fakes import Fake


@pytest.fixture
def solve_compiling(monkeypatch):
    """Solve a theory that compiles a new numba function for half a second, with or without progress."""
    monkeypatch.setattr(progress, "WORTH_SAYING", 0.0)

    def solve(visible: bool) -> None:
        def decay(times):
            return np.exp(-times)

        @numba.extending.overload(decay)
        def compiled_decay(times):
            # Numba calls this once while it compiles; what is being compiled is looked for every tenth of a second.
            time.sleep(0.5)
            return lambda times: np.exp(-times)

        @numba.njit
        def formula(times):
            return decay(times)

        problem, times = problems.two_layer(time=1.0), np.linspace(0, 1, 7)
        theory = Fake(lambda problem, times: {"test_loss": formula(times)})
        with registered(theory.in_place_of(theory_for(problem)), alone=True):
            ld.solve(problem, save_at=times, progress=visible)

    return solve


def test_compiling_is_said_in_two_lines_without_a_terminal(solve_compiling, capsys):
    solve_compiling(True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("compiling, once in this process")
    assert ": compiled in " in lines[1]
    assert running() is None


def test_nothing_is_said_without_progress(solve_compiling, capsys):
    solve_compiling(False)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_the_seconds_of_compiling(solve_compiling, monkeypatch, capsys):
    texts = []
    render = progress._CompilingColumn.render

    def noted(self, task):
        text = render(self, task)
        texts.append(text.plain)
        return text

    monkeypatch.setattr(progress._CompilingColumn, "render", noted)
    monkeypatch.setattr(progress._CompilingColumn, "max_refresh", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    solve_compiling(True)
    assert any(text.startswith("compiling, once in this process: ") for text in texts)


def test_an_interrupted_solution_leaves_nothing_compiling(capsys):
    with pytest.raises(KeyboardInterrupt), progress.progress_bar(True, "solving"):
        raise KeyboardInterrupt
    assert running() is None
    assert capsys.readouterr().err == ""

"""A problem that is solved and simulated in a moment, and a way to call the command."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from learndyn.cli.app import app

QUICK = """
[network]
kind = "two_layer"
activation = "erf"
Q = [[0.25]]
R = [[0.1]]

[data]
kind = "stream"
noise = 0.1

[data.task]
kind = "teacher.orthonormal"
activation = "erf"
hidden = 1

[training]
kind = "gradient_descent"
learning_rate = 0.5
time = 1.0
"""
SMALL = ["--size", "50", "--seeds", "3", "--save-at", "linear:11"]


@pytest.fixture(scope="session")
def learndyn():
    """Call the command in this process: learndyn("run", path, …)."""

    def call(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call


@pytest.fixture
def no_work(stand_in):
    """Fails a test in which something is computed or trained."""
    fake = stand_in()
    yield
    assert not fake.worked, "the work was started"


@pytest.fixture
def problem_file(tmp_path) -> Path:
    path = tmp_path / "quick.toml"
    path.write_text(QUICK, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Options for a quick `run` or `simulate`."""
    return SMALL


@pytest.fixture(scope="session")
def finished(tmp_path_factory, learndyn):
    """The folder and the outcome of a `learndyn run` of the quick problem."""
    folder = tmp_path_factory.mktemp("finished")
    path = folder / "quick.toml"
    path.write_text(QUICK, encoding="utf-8")
    outcome = learndyn("run", path, *SMALL, "--output", folder)
    return folder, outcome

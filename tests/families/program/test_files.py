"""Programs in Python files, by the library and by the command."""

import pytest
from typer.testing import CliRunner

import learndyn as ld
from learndyn.cli.app import app
from learndyn.families.program.files import problem_in

LOOP = """
import numpy as np
from learndyn.programs import SGD, mean

def mine(net, alpha=2.0, steps=3, fail_at=99):
    D, P = net.dim("inputs"), net.dim("examples", alpha)
    X, w = net.matrix(P, D, trained=False), net.normal(D)
    train = SGD(net, 0.2)
    for state in net.steps(steps):
        loss = mean(np.tanh(X @ w) ** 2)
        net.record(loss=loss)
        if state == fail_at:
            raise RuntimeError("out of ideas")
        train.step(loss)
"""
SMALL = ["--size", "60", "--seeds", "3"]


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def loop_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(LOOP, encoding="utf-8")
    return path


def test_the_loop_of_a_file_is_the_function_of_its_name(loop_file):
    problem = problem_in(loop_file)
    assert problem.network.name == "mine"
    assert problem.training.steps == 3
    assert "net.record(loss=loss)" in problem.network.source


def test_a_file_may_hold_a_problem(tmp_path):
    path = tmp_path / "with_problem.py"
    path.write_text(
        LOOP + "import learndyn as ld\nproblem = ld.Problem(ld.Program(mine, alpha=4.0))\n",
        encoding="utf-8",
    )
    assert problem_in(path).network.parameters["alpha"] == 4.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "must hold `problem = ld.Problem"),
        ("def a(net):\n    pass\ndef b(net):\n    pass\n", "it has a, b"),
        ("def mine(net:\n", "bad.py:1"),
        ("1 / 0\n", "raised ZeroDivisionError: division by zero"),
        ("def mine(net):\n    pass\n", "mine has no loop over net.steps"),
        (
            "def mine(net):\n    W = net.matrix(net.dim('a'), net.dim('b'))\n    W @ W\n",
            "bad.py:3: W @ W\n  a product of two matrices has no limit of its own",
        ),
    ],
)
def test_files_without_a_program_are_refused_in_words(text, message, tmp_path):
    path = tmp_path / "bad.py"
    path.write_text(text, encoding="utf-8")
    outcome = call("run", path)
    assert outcome.exit_code == 2
    assert message in outcome.stderr


def test_the_command_runs_a_program(loop_file, tmp_path):
    folder = tmp_path / "results"
    outcome = call("run", loop_file, *SMALL, "--set", "alpha=3", "-o", folder)
    assert outcome.exit_code == 0, outcome.output
    theory = ld.load(folder / "theory.nc")
    assert theory.problem.network.parameters["alpha"] == 3
    assert (folder / "curve.png").exists()
    assert "agreement in every observable" in (folder / "comparison.txt").read_text()


def test_the_command_solves_to_a_tolerance_and_sweeps(loop_file, tmp_path):
    options = ["--method", "sampled_limit", "--option", "tolerance=0.005"]
    outcome = call("solve", loop_file, *options, "-o", tmp_path / "theory.nc")
    assert outcome.exit_code == 0, outcome.output
    assert ld.load(tmp_path / "theory.nc").evidence["tolerance"] == 0.005
    over = ["--over", "network.alpha=1,2", "--method", "sampled_limit", "--option", "samples=256"]
    outcome = call("sweep", loop_file, *over, "-o", tmp_path / "sweep.nc")
    assert outcome.exit_code == 0, outcome.output
    assert ld.load_sweep(tmp_path / "sweep.nc")["loss"].sizes["alpha"] == 2


def test_what_was_finished_before_an_error_is_saved(loop_file, tmp_path):
    path = tmp_path / "theory.nc"
    outcome = call("solve", loop_file, "--set", "fail_at=2", "-o", path)
    assert outcome.exit_code == 2
    assert "RuntimeError in state 2: out of ideas" in outcome.stderr
    assert f"what was finished is saved in {path}" in outcome.stderr
    assert ld.load(path)["step"].values.tolist() == [0, 1, 2]


def test_set_changes_fields_of_problem_files_too(tmp_path):
    path = tmp_path / "mine.toml"
    assert call("new", "two_layer/stream", "-o", path).exit_code == 0
    for wrong, message in (
        ("rate=1", "is not a field of the problem"),
        ("noise=1", "could be data.noise or training.noise"),
        ("training.learning_rate", "must look like FIELD=VALUE"),
        ("learning_rate=-1", "learning_rate = -1: must be at least 0"),
    ):
        outcome = call("solve", path, "--set", wrong)
        assert outcome.exit_code == 2
        assert message in outcome.stderr

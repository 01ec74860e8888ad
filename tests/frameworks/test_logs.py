"""The log of a PyTorch loop goes through the command and agrees with the theory; a wrong loop does not."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import learndyn as ld
from learndyn.cli.app import app

pytest.importorskip(
    "torch",
    reason="PyTorch is not installed: make test-frameworks installs and runs these tests",
)
SIZE, SEEDS = 100, 6
PROBLEM = ld.Problem(
    ld.DeepLinear(depth=2, width=1.0),
    ld.Dataset(ld.LinearMap(), ratio=2.0, noise=0.3),
    ld.GradientDescent(learning_rate=0.05, steps=30),
)


def learndyn(*arguments) -> int:
    outcome = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert outcome.exit_code in (0, 1), outcome.output
    return outcome.exit_code


def verdict_on(loop: str, folder) -> int:
    """Train with a loop, seed by seed, and have the command compare its logs: 0 if they agree, else 1."""
    path = folder / "loop.py"
    path.write_text(loop, encoding="utf-8")
    logs = []
    for seed in range(SEEDS):
        command = [sys.executable, str(path), str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        logs.append(folder / f"log{seed}.csv")
        logs[-1].write_text(done.stdout, encoding="utf-8")
    runs = folder / "runs.nc"
    stated = ["--size", SIZE, "--no-half", "--noise", "-o", runs]
    assert learndyn("runs", folder / "mine.toml", *logs, *stated) == 0
    return learndyn("compare", folder / "theory.nc", runs)


def test_a_log_of_the_recipe_agrees_and_one_without_the_root_of_the_width_does_not(tmp_path):
    PROBLEM.to_toml(tmp_path / "mine.toml")
    ld.solve(PROBLEM).save(tmp_path / "theory.nc")
    recipe = ld.recipe(PROBLEM, SIZE)
    right = recipe.torch("ntk")
    assert verdict_on(right, tmp_path) == 0
    multiplier = recipe.layers("ntk")[1].multiplier
    assert multiplier == pytest.approx(SIZE**-0.5)
    # √N forgotten in the second layer.
    wrong = right.replace(f'"multiplier": {multiplier!r}', '"multiplier": 1.0', 1)
    assert wrong != right
    assert verdict_on(wrong, tmp_path) == 1

"""`learndyn runs`: logs of other trainings through the command."""

import numpy as np
import pandas as pd
import pytest

import learndyn as ld


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A problem file, its theory, and logs of networks that follow it, with the half and on clean labels."""
    path = tmp_path_factory.mktemp("logs")
    problem = ld.Problem(
        ld.DeepLinear(depth=1, width=1.0),
        ld.Dataset(ld.LinearMap(), ratio=2.0, noise=0.5),
        ld.GradientDescent(learning_rate=0.1, steps=10),
    )
    problem.to_toml(path / "mine.toml")
    ld.solve(problem).save(path / "theory.nc")
    networks = ld.simulate(problem, size=60, seeds=4)
    for seed in range(4):
        loss = networks["test_loss"].values[seed]
        log = pd.DataFrame({"step": np.arange(11), "val": (loss - 0.25) / 2})
        log.to_csv(path / f"log{seed}.csv", index=False)
    return path


def test_a_log_becomes_runs_that_compare_accepts(learndyn, folder):
    logs = [str(folder / f"log{seed}.csv") for seed in range(4)]
    options = ["--size", "60", "--column", "test_loss=val", "-o", str(folder / "runs.nc")]
    done = learndyn("runs", str(folder / "mine.toml"), *logs, *options, "--half", "--no-noise")
    assert done.exit_code == 0, done.output
    assert "4 seeds at size 60" in done.output
    compared = learndyn("compare", str(folder / "theory.nc"), str(folder / "runs.nc"))
    assert compared.exit_code == 0, compared.output
    # The half forgotten: the theory does not agree.
    learndyn("runs", str(folder / "mine.toml"), *logs, *options, "--no-half", "--no-noise")
    compared = learndyn("compare", str(folder / "theory.nc"), str(folder / "runs.nc"))
    assert compared.exit_code == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--column", "test_loss=val", "--no-noise"], "half = None: must be given"),
        (["--column", "test_loss"], "must look like NAME=COLUMN"),
        (["--half", "--noise"], "has no column that is called like an observable"),
    ],
)
def test_what_is_missing_is_said(learndyn, folder, options, message):
    log = str(folder / "log0.csv")
    done = learndyn("runs", str(folder / "mine.toml"), log, "--size", "60", *options)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())

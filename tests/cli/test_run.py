"""`run`, `solve`, `simulate`, `compare` and `plot` on a quick problem."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from learndyn.core.simulate import simulate
from learndyn.core.solution import load
from learndyn.errors import NotConverged
from learndyn.problem.problem import Problem

RESULTS = {"theory.nc", "runs.nc", "comparison.csv", "comparison.txt"}
PICTURES = {"curve.png", "order_parameters.png", "deviations.png"}


def test_run_leaves_everything_in_the_folder_and_prints_the_table(finished):
    folder, outcome = finished
    assert outcome.exit_code == 0, outcome.output
    assert {path.name for path in folder.iterdir()} == RESULTS | PICTURES | {"quick.toml"}
    assert outcome.stdout == (folder / "comparison.txt").read_text(encoding="utf-8")
    assert "agreement in every observable" in outcome.stdout
    table = pd.read_csv(folder / "comparison.csv", index_col="observable")
    assert set(table["verdict"]) == {"agrees"}
    for name in PICTURES:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_run_records_the_problem_the_size_and_the_times_asked_for(finished):
    folder, _ = finished
    theory, runs = load(folder / "theory.nc"), load(folder / "runs.nc")
    assert theory.problem == runs.problem == Problem.from_toml(folder / "quick.toml")
    assert runs.size == 50
    assert runs.seeds is not None
    assert runs.seeds.tolist() == [0, 1, 2]
    assert np.array_equal(theory["time"], np.linspace(0, 1, 11))


def test_run_uses_a_folder_named_after_the_problem(
    learndyn, problem_file, small, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    outcome = learndyn("run", "quick.toml", *small)
    assert outcome.exit_code == 0, outcome.output
    assert {path.name for path in (tmp_path / "quick").iterdir()} == RESULTS | PICTURES


def test_disagreement_has_its_own_exit_code(finished, learndyn, tmp_path):
    folder, _ = finished
    csv = tmp_path / "table.csv"
    files = folder / "theory.nc", folder / "runs.nc"
    # At this level nearly every deviation counts, so the honest runs count as different.
    outcome = learndyn("compare", *files, "--level", "0.999999", "--csv", csv)
    assert outcome.exit_code == 1
    assert "differ" in outcome.stdout
    assert "differs" in set(pd.read_csv(csv)["verdict"])
    assert learndyn("compare", *files).exit_code == 0


def test_seeds_can_be_added_later(learndyn, problem_file, tmp_path, finished):
    path = tmp_path / "more.nc"
    options = ["--size", "50", "--save-at", "linear:11", "--seeds", "1", "--first-seed", "2"]
    outcome = learndyn("simulate", problem_file, "-o", path, *options)
    assert outcome.exit_code == 0, outcome.output
    again, before = load(path), load(finished[0] / "runs.nc")
    assert again["test_loss"].sel(seed=2).equals(before["test_loss"].sel(seed=2))


def test_the_method_of_a_simulation_is_chosen_by_its_kind(learndyn, problem_file, small, tmp_path):
    path = tmp_path / "runs.nc"
    outcome = learndyn("simulate", problem_file, *small, "-o", path, "--method", "overlap_chain")
    assert outcome.exit_code == 0, outcome.output
    assert load(path).evidence["method"] == {"kind": "overlap_chain"}
    outcome = learndyn("simulate", problem_file, *small, "-o", path, "--method", "overlap")
    assert outcome.exit_code == 2
    assert "did you mean 'overlap_chain'?" in outcome.stderr


def test_the_tolerance_reaches_the_solver(learndyn, problem_file, tmp_path):
    path = tmp_path / "theory.nc"
    outcome = learndyn(
        "solve", problem_file, "-o", path, "--rtol", "1e-6", "--save-at", "linear:11"
    )
    assert outcome.exit_code == 0, outcome.output
    assert load(path).evidence["method"]["rtol"] == 1e-6


def test_pictures_of_saved_files(finished, learndyn, tmp_path):
    folder, _ = finished
    files = folder / "runs.nc", folder / "theory.nc"
    picture = tmp_path / "picture.svg"
    outcome = learndyn("plot", *files, "-o", picture, "--observable", "Q", "--observable", "R")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.strip() == str(picture)
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_networks_that_cannot_be_trained_are_refused_before_the_work(
    learndyn, problem_file, tmp_path
):
    folder = tmp_path / "out"
    for size, code, words in ((1, 2, "must be at least 2"), (10**15, 3, "GiB of memory")):
        outcome = learndyn("run", problem_file, "--size", size, "--output", folder)
        assert outcome.exit_code == code
        assert words in outcome.stderr
        assert not folder.exists()


def test_old_tables_and_pictures_do_not_stay_beside_a_new_theory(
    learndyn, problem_file, small, tmp_path, stand_in
):
    stand_in("two_layer/stream", interrupted_at=0)
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "comparison.txt").write_text("agreement", encoding="utf-8")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    assert learndyn("run", problem_file, *small, "--output", folder).exit_code == 130
    assert {path.name for path in folder.iterdir()} == {"theory.nc", "notes.txt"}


@pytest.mark.parametrize("count", [2, 0])
@pytest.mark.parametrize("command", ["run", "simulate"])
def test_ctrl_c_keeps_the_finished_networks(
    command, count, learndyn, problem_file, small, tmp_path, stand_in
):
    stand_in("two_layer/stream", interrupted_at=count)
    output = tmp_path / "out" if command == "run" else tmp_path / "runs.nc"
    path = tmp_path / "out" / "runs.nc" if command == "run" else output
    outcome = learndyn(command, problem_file, *small, "--output", output)
    assert outcome.exit_code == 130
    if count:
        assert f"interrupted: 2 of 3 networks were finished and are saved in {path}" in (
            outcome.stderr
        )
        kept = load(path)
        uninterrupted = simulate(kept.problem, 50, 2, save_at=11)
        assert kept["test_loss"].equals(uninterrupted["test_loss"])
    else:
        assert "none of the 3 networks was finished" in outcome.stderr
        assert not path.exists()
    if command == "run":
        assert not load(tmp_path / "out" / "theory.nc").is_simulation


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "{problem}", "--output", "{file}/out"),
        ("solve", "{problem}", "--output", "{file}/theory.nc"),
        ("solve", "{problem}", "--output", "{folder}"),
        ("simulate", "{problem}", "--output", "{file}/runs.nc"),
        ("demo", "--output", "{file}/report.html"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(
    arguments, learndyn, problem_file, tmp_path, no_work
):
    places = {"problem": problem_file, "file": problem_file, "folder": tmp_path}
    outcome = learndyn(*(argument.format(**places) for argument in arguments))
    assert outcome.exit_code == 2, outcome.output
    assert outcome.stderr.startswith("error: cannot write")


def test_a_read_only_folder_is_refused_before_the_work(learndyn, problem_file, no_work):
    root = os.geteuid() == 0
    # Others may not enter pytest's folders.
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        file = Path(place) / "quick.toml"
        file.write_bytes(problem_file.read_bytes())
        folder = Path(place) / "read-only"
        folder.mkdir(mode=0o555)
        try:
            if root:
                # Nothing is read-only to root.
                os.seteuid(65534)
            outcome = learndyn("run", file, "--output", folder)
        finally:
            if root:
                os.seteuid(0)
    assert outcome.exit_code == 2, outcome.output
    assert "cannot write to the folder" in outcome.stderr
    assert "Permission denied" in outcome.stderr


def test_a_solver_that_gives_up_has_its_own_exit_code(learndyn, problem_file, stand_in):
    def give_up(problem):
        raise NotConverged("the residual is 0.1; try a smaller step")

    stand_in(before=give_up)
    outcome = learndyn("solve", problem_file, "-o", problem_file.with_name("theory.nc"))
    assert outcome.exit_code == 3
    assert outcome.stderr == "error: the residual is 0.1; try a smaller step\n"

"""`learndyn sweep`, and `learndyn plot` of a saved sweep."""

import threading
from typing import Any

import numpy as np
import pytest
from distributed import LocalCluster, get_worker

import learndyn as ld
from learndyn.cli.grids import fields_and_values
from learndyn.errors import NotConverged, ProblemError
from learndyn.sweeps import load_sweep

DEEP = """
[network]
kind = "deep_linear"
depth = 1
width = 2.0
richness = 0.5

[data]
kind = "stream"
batch_ratio = 2.0
task = { kind = "linear_map" }

[training]
kind = "gradient_descent"
learning_rate = 0.1
steps = 8
"""
GRID = ["--over", "network.width=1,2", "--over", "training.learning_rate=log:0.05:0.2:3"]
LOSS = ["--observable", "test_loss"]


@pytest.fixture
def deep_file(tmp_path):
    path = tmp_path / "deep.toml"
    path.write_text(DEEP, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def saved(tmp_path_factory, learndyn):
    """The folder of a sweep of theory and runs, and what the command said."""
    folder = tmp_path_factory.mktemp("saved")
    path = folder / "deep.toml"
    path.write_text(DEEP, encoding="utf-8")
    options = [*GRID, *LOSS, "--simulate", "20", "--seeds", "2", "-o", folder / "out.nc"]
    return folder, learndyn("sweep", path, *options, "--picture", folder / "map.svg")


@pytest.fixture
def giving_up(stand_in):
    """Let the theory give up where the learning rate is larger than a number."""

    def install(largest):
        def give_up(problem):
            if problem.training.learning_rate > largest:
                raise NotConverged("the solver gave up")

        return stand_in("deep_linear/stream", before=give_up)

    return install


def assert_refused(outcome, *words):
    assert outcome.exit_code == 2, outcome.output
    assert outcome.stdout == ""
    for word in words:
        assert word in outcome.stderr


@pytest.mark.parametrize("command", ["sweep", "plot"])
def test_every_option_is_explained_with_an_example(command, learndyn):
    outcome = learndyn(command, "--help")
    assert outcome.exit_code == 0
    assert f"learndyn {command} " in outcome.stdout
    for line in outcome.stdout.splitlines():
        words = line.strip("│ ").split()
        if words and words[0].startswith("--"):
            assert len(words) > 3, line


def test_a_sweep_is_saved_with_what_solve_and_simulate_give(saved):
    folder, outcome = saved
    assert outcome.exit_code == 0, outcome.output
    sweep = load_sweep(folder / "out.nc")
    assert sweep.over == {"network.width": [1, 2], "training.learning_rate": [0.05, 0.1, 0.2]}
    assert sweep.axes == ["width", "learning_rate"]
    assert sweep.observables == ["test_loss", "test_loss_runs"]
    # The problem as it stands in the file is the point of the width 2 and the rate 0.1.
    problem = ld.Problem.from_toml(folder / "deep.toml")
    point = sweep.data.sel(width=2, learning_rate=0.1)
    np.testing.assert_allclose(point["test_loss"], ld.solve(problem)["test_loss"], rtol=1e-12)
    runs = ld.simulate(problem, 20, 2)
    np.testing.assert_allclose(point["test_loss_runs"], runs["test_loss"], rtol=1e-12)
    assert outcome.stdout.splitlines() == [
        "sweep over width (2) × learning_rate (3): 6 points",
        "  12 results computed, 0 reused, 0 failed",
    ]
    assert f"saved in {folder / 'out.nc'}" in outcome.stderr


def test_the_picture_is_drawn_as_well(saved):
    folder, _ = saved
    text = (folder / "map.svg").read_text(encoding="utf-8")
    assert "<svg" in text


def test_points_are_kept_beside_the_output_and_used_again(saved, learndyn, no_work):
    folder, _ = saved
    assert (folder / "out.points").is_dir()
    options = [*GRID, *LOSS, "--simulate", "20", "--seeds", "2"]
    again = folder / "again.nc"
    store = ["--store", folder / "out.points"]
    outcome = learndyn("sweep", folder / "deep.toml", *options, "-o", again, *store)
    assert outcome.exit_code == 0, outcome.output
    assert "0 results computed, 12 reused, 0 failed" in outcome.stdout
    assert load_sweep(again).data.equals(load_sweep(folder / "out.nc").data)


def test_the_options_reach_the_sweep(learndyn, deep_file, tmp_path):
    path = tmp_path / "out.nc"
    options = ["--over", "network.width=1,2", "--no-solve", "--simulate", "20", "--seeds", "2"]
    options += ["--first-seed", "5", "--save-at", "linear:3", "-o", path]
    outcome = learndyn("sweep", deep_file, *options)
    assert outcome.exit_code == 0, outcome.output
    data = load_sweep(path).data
    assert "test_loss" not in data
    assert data["seed"].values.tolist() == [5, 6]
    assert data["step"].values.tolist() == [0, 4, 8]


def test_the_method_has_its_options_and_the_runs_four_seeds(learndyn, deep_file, stand_in):
    fake = stand_in("deep_linear/stream")
    options = ["--over", "network.width=1", "--option", "bins=32", "--simulate", "9"]
    outcome = learndyn("sweep", deep_file, *options, "-o", deep_file.with_name("out.nc"))
    assert outcome.exit_code == 0, outcome.output
    assert fake.methods == [ld.Rows(bins=32)]
    assert sorted(fake.trained_networks) == [(9, seed) for seed in range(4)]


def test_an_interrupted_sweep_says_how_to_go_on(learndyn, deep_file, stand_in, monkeypatch):
    def interrupt(problem):
        if problem.network.width == 2:
            raise KeyboardInterrupt

    fake = stand_in("deep_linear/stream", before=interrupt)
    monkeypatch.chdir(deep_file.parent)
    command = ("sweep", "deep.toml", "--over", "network.width=1,2", "--workers", "1")
    outcome = learndyn(*command)
    assert outcome.exit_code == 130
    assert "finished points are in sweep.points; the same command goes on" in outcome.stderr
    fake.before = lambda problem: None
    outcome = learndyn(*command)
    assert outcome.exit_code == 0, outcome.output
    assert "1 results computed, 1 reused, 0 failed" in outcome.stdout


def test_failed_points_are_computed_again_only_if_asked_for(learndyn, deep_file, giving_up):
    fake = giving_up(0.15)
    command = ("sweep", deep_file, *GRID, "-o", deep_file.with_name("out.nc"))
    assert "6 results computed, 0 reused, 2 failed" in learndyn(*command).stdout
    fake.before = lambda problem: None
    assert "0 results computed, 6 reused, 2 failed" in learndyn(*command).stdout
    outcome = learndyn(*command, "--retry-failed")
    assert "2 results computed, 4 reused, 0 failed" in outcome.stdout


def test_as_many_points_at_a_time_as_there_are_workers(learndyn, deep_file, stand_in):
    """Three points wait for each other, whatever the number of cores; two workers would wait in vain."""
    together = threading.Barrier(3)
    stand_in("deep_linear/stream", before=lambda problem: together.wait(timeout=30))
    options = ["--over", "network.width=1,2,3", "--workers", "3"]
    outcome = learndyn("sweep", deep_file, *options, "-o", deep_file.with_name("out.nc"))
    assert outcome.exit_code == 0, outcome.output
    assert "3 results computed, 0 reused, 0 failed" in outcome.stdout


def test_a_scheduler_is_found_by_its_address(learndyn, deep_file, stand_in):
    # Only on a worker of a cluster there is a worker to be had.
    fake = stand_in("deep_linear/stream", before=lambda problem: get_worker())
    path = deep_file.with_name("out.nc")
    no_dashboard: Any = None
    cluster = LocalCluster(n_workers=1, processes=False, dashboard_address=no_dashboard)
    with cluster:
        address = cluster.scheduler_address
        outcome = learndyn("sweep", deep_file, *GRID, "-o", path, "--scheduler", address)
    assert outcome.exit_code == 0, outcome.output
    assert "6 results computed, 0 reused, 0 failed" in outcome.stdout
    assert len(fake.computed) == 6


def test_some_failed_points_do_not_stop_the_others(learndyn, deep_file, tmp_path, giving_up):
    giving_up(0.15)
    path, picture = tmp_path / "out.nc", tmp_path / "out.png"
    outcome = learndyn("sweep", deep_file, *GRID, *LOSS, "-o", path, "--picture", picture)
    assert outcome.exit_code == 1, outcome.output
    assert outcome.stdout.splitlines()[1:] == [
        "  6 results computed, 0 reused, 2 failed",
        "  failed at width = 1, learning_rate = 0.2 (theory): the solver gave up",
        "  failed at width = 2, learning_rate = 0.2 (theory): the solver gave up",
    ]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert load_sweep(path).data["test_loss"].notnull().sum() == 4 * 9


def test_if_all_points_failed_the_exit_code_says_so(learndyn, deep_file, tmp_path, giving_up):
    giving_up(0)
    path, picture = tmp_path / "out.nc", tmp_path / "out.png"
    outcome = learndyn("sweep", deep_file, *GRID, "-o", path, "--picture", picture)
    assert outcome.exit_code == 3, outcome.output
    assert "6 failed" in outcome.stdout
    assert "… and 1 more" in outcome.stdout
    assert not picture.exists()


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("0.5,1,2", [0.5, 1, 2]),
        ("mup, ntk", ["mup", "ntk"]),
        ("true,false", [True, False]),
        ("1,inf", [1, np.inf]),
        ("lin:0:1:5", [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("lin:-1:1:2", [-1.0, 1.0]),
        # Whole numbers stay whole.
        ("log:1:8:4", [1.0, 2.0, 4.0, 8.0]),
        ("log:1e-3:10:5", [1e-3, 1e-2, 0.1, 1.0, 10.0]),
    ],
)
def test_values_are_lists_or_evenly_spaced(words, values):
    assert fields_and_values([f"network.width={words}"]) == {"network.width": values}


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        ("", "must look like network.width=0.5,1,2"),
        ("1,,2", "must look like"),
        ("1,2,1", "contains the value 1 twice"),
        ("log:1:2", "must look like log:LOW:HIGH:COUNT"),
        ("log:1:2:3:4", "must look like log:LOW:HIGH:COUNT"),
        ("lin:a:2:3", "must look like lin:LOW:HIGH:COUNT"),
        ("lin:0:inf:3", "must look like lin:LOW:HIGH:COUNT"),
        ("lin:0:1:2.5", "must look like lin:LOW:HIGH:COUNT"),
        ("log:0:1:3", "must have 0 < LOW < HIGH and a COUNT of at least 2"),
        ("lin:2:1:3", "must have LOW < HIGH"),
        ("lin:1:2:1", "COUNT of at least 2"),
    ],
)
def test_bad_values_are_refused_with_the_grammar(words, allowed):
    with pytest.raises(ProblemError) as caught:
        fields_and_values([f"network.width={words}"])
    assert str(caught.value).startswith(f"--over = 'network.width={words}'")
    assert allowed in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--over", "network.width"], ["--over = 'network.width'", "must look like"]),
        (["--over", "network.widht=1,2"], ["did you mean 'network.width'?"]),
        (["--over", "network.width=1,-2"], ["width = -2"]),
        (["--over", "network.depth=lin:1:2:3"], ["depth = 1.5", "whole number"]),
        ([*GRID, "--over", "network.width=3"], ["network.width was already given"]),
        ([*GRID, "--seeds", "3"], ["--seeds = 3", "needs --simulate"]),
        ([*GRID, "--no-solve"], ["--no-solve", "nothing to do"]),
        ([*GRID, "--simulate", "0"], ["--simulate = 0", "at least 1"]),
        ([*GRID, "--kind", "map"], ["--kind = 'map'", "needs --picture"]),
        ([*GRID, "--picture", "a.jpg"], ["must end in .png, .svg, .pdf"]),
        ([*GRID, "--picture", "a.png", "--kind", "heat"], ["--kind = 'heat'", "curves, map"]),
        (
            [*GRID, "--picture", "a.png", "--x", "depth"],
            ["--x = 'depth'", "not one of the swept fields"],
        ),
        ([*GRID, "--picture", "a.png", "--select", "width"], ["--select", "must look like"]),
        ([*GRID, "--option", "bin=8"], ["--option bin", "did you mean 'bins'?"]),
        ([*GRID, "--save-at", "linear:x"], ["linear"]),
        ([*GRID, "--store", "out.nc", "-o", "out.nc"], ["--store", "another path"]),
        ([*GRID, "--workers", "0"], ["workers = 0"]),
        (["--over", "training.steps=5,9", "--save-at", "log:5"], ["--save-at", "training.steps"]),
    ],
)
def test_bad_sweeps_are_refused_before_the_work(
    options, words, learndyn, deep_file, no_work, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    assert_refused(learndyn("sweep", deep_file, *options), *words)


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--kind", "best"],
        ["--kind", "line", "--x", "width", "--at", "4"],
        ["--kind", "curves", "--colour", "learning_rate", "--select", "width=2"],
    ],
)
def test_plot_draws_a_saved_sweep(options, saved, learndyn, tmp_path):
    folder, _ = saved
    picture = tmp_path / "sweep.png"
    outcome = learndyn("plot", folder / "out.nc", "-o", picture, *options)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.strip() == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kind", "heat"], ["--kind = 'heat'", "curves, map, best, line"]),
        (["--x", "widht"], ["--x = 'widht'", "did you mean 'width'?"]),
        (["--at", "9"], ["--at = 9", "from 0 to 8"]),
        (["--select", "width=3"], ["--select width = 3", "must be one of"]),
        (["--observable", "tets_loss"], ["did you mean 'test_loss'?"]),
        (["--observable", "a", "--observable", "b"], ["--observable = 'b'", "given once"]),
    ],
)
def test_bad_pictures_of_a_sweep_name_the_option(options, words, saved, learndyn, tmp_path):
    folder, _ = saved
    picture = tmp_path / "sweep.png"
    assert_refused(learndyn("plot", folder / "out.nc", "-o", picture, *options), *words)
    assert not picture.exists()


def test_a_sweep_is_drawn_alone_and_its_options_are_for_it_alone(
    saved, deep_file, learndyn, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    folder, _ = saved
    theory = tmp_path / "theory.nc"
    ld.solve(ld.Problem.from_toml(deep_file)).save(theory)
    assert_refused(learndyn("plot", folder / "out.nc", theory), "is a sweep", "drawn alone")
    assert_refused(learndyn("plot", theory, "--kind", "map"), "--kind", "saved sweep only")
    assert_refused(learndyn("plot", theory, folder / "out.nc"), "not a solution")


def test_too_many_fields_are_refused_with_the_option_to_use(learndyn, deep_file, tmp_path):
    path, picture = tmp_path / "out.nc", tmp_path / "out.png"
    options = ["--over", "network.richness=0.5,1", *GRID, *LOSS, "-o", path]
    outcome = learndyn("sweep", deep_file, *options, "--picture", picture)
    assert_refused(outcome, "--kind = 'map'", "for example with --select learning_rate=0.05")
    # What was computed is not lost with the picture.
    outcome = learndyn("plot", path, "-o", picture, "--select", "learning_rate=0.1")
    assert outcome.exit_code == 0, outcome.output

"""`rates`, `exponent` and the options of a theory's method."""

import numpy as np
import pandas as pd
import pytest

import learndyn as ld
from learndyn.cli.problems import value_of

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
steps = 10
"""


@pytest.fixture
def deep_file(tmp_path):
    path = tmp_path / "deep.toml"
    path.write_text(DEEP, encoding="utf-8")
    return path


@pytest.fixture
def theory_file(deep_file):
    path = deep_file.with_name("theory.nc")
    ld.solve(ld.Problem.from_toml(deep_file)).save(path)
    return path


def assert_refused(outcome, *words):
    assert outcome.exit_code == 2, outcome.output
    assert outcome.stdout == ""
    for word in words:
        assert word in outcome.stderr


def numbers(line: str) -> list[float]:
    return [float(word) for word in line.split()]


@pytest.mark.parametrize("command", ["rates", "exponent", "solve"])
def test_every_option_is_explained_with_an_example(command, learndyn):
    outcome = learndyn(command, "--help")
    assert outcome.exit_code == 0
    assert f"learndyn {command} " in outcome.stdout
    for line in outcome.stdout.splitlines():
        words = line.strip("│ ").split()
        if words and words[0].startswith("--"):
            assert len(words) > 3, line


def test_the_rates_of_one_problem_are_one_row(learndyn, deep_file):
    outcome = learndyn("rates", deep_file)
    assert outcome.exit_code == 0, outcome.output
    *_, header, row = outcome.stdout.splitlines()
    assert " ".join(header.split()) == "problem best rate best loss largest stable rate"
    name, *shown = row.split()
    problem = ld.Problem.from_toml(deep_file)
    expected = [*ld.best_rate(problem), ld.largest_stable_rate(problem)]
    assert name == "deep"
    # Four digits are shown.
    np.testing.assert_allclose([float(word) for word in shown], expected, rtol=5e-4)


def test_transfer_over_a_field_is_said_written_and_drawn(learndyn, deep_file, tmp_path):
    csv, picture = tmp_path / "rates.csv", tmp_path / "rates.svg"
    options = ["--over", "network.width=1,16", "--parameterization", "mup,ntk"]
    outcome = learndyn("transfer", deep_file, *options, "--csv", csv, "-o", picture)
    assert outcome.exit_code == 0, outcome.output
    found = ld.transfer(
        ld.Problem.from_toml(deep_file), "network.width", [1, 16], parameterizations=["mup", "ntk"]
    )
    pd.testing.assert_frame_equal(
        pd.read_csv(csv, keep_default_na=False), found.table, check_dtype=False
    )
    for statement in found.statements:
        assert statement in outcome.stdout
    assert "<svg" in picture.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--over", "network.widht=1,2"], ["did you mean 'network.width'?"]),
        (["--over", "network.width"], ["--over", "must look like network.width=0.5,1,2"]),
        (["--over", "network.width="], ["must look like"]),
        (["--over", "network.width=1,,2"], ["must look like"]),
        (["--over", "network.width=1,wide"], ["DeepLinear.width = 'wide'", "must be a number"]),
        (["--over", "network.depth=1.5"], ["DeepLinear.depth = 1.5", "whole number"]),
        (["--over", "network.width=1,2", "-o", "rates.jpg"], ["must end in .png, .svg, .pdf"]),
        (["--over", "network.width=1,2", "--csv", "{folder}"], ["it is a folder"]),
        (["--over", "network.width=1,2", "--check", "1"], ["check", "needs a size"]),
        (
            ["--over", "network.width=1", "--parameterization", "sp"],
            ["must be one of 'mup', 'ntk'"],
        ),
    ],
)
def test_bad_transfers_are_refused_before_the_work(
    options, words, learndyn, deep_file, no_work, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    options = [option.format(folder=tmp_path) for option in options]
    assert_refused(learndyn("transfer", deep_file, *options), *words)


def test_a_schedule_has_no_single_best_rate(learndyn, deep_file):
    schedule = '{ kind = "exponential_decay", initial = 0.1, rate = 0.1 }'
    deep_file.write_text(DEEP.replace("= 0.1\n", f"= {schedule}\n"), encoding="utf-8")
    assert_refused(learndyn("rates", deep_file), "training.learning_rate", "not a schedule")


def test_a_search_that_finds_no_edge_has_its_own_exit_code(learndyn, deep_file, stand_in):
    # The loss exp(−ηt) falls at every rate.
    stand_in()
    outcome = learndyn("rates", deep_file)
    assert outcome.exit_code == 3
    assert outcome.stderr.startswith("error: training is stable at every learning rate tried")


def test_exponents_of_a_theory_are_printed_written_and_drawn(learndyn, theory_file, tmp_path):
    csv, picture = tmp_path / "exponent.csv", tmp_path / "exponent.png"
    outcome = learndyn("exponent", theory_file, "--window", "0.8", "--csv", csv, "-o", picture)
    assert outcome.exit_code == 0, outcome.output
    found = ld.local_exponent(ld.load(theory_file)["test_loss"], window=0.8)
    table = pd.read_csv(csv)
    assert list(table) == ["step", "exponent", "standard_error"]
    np.testing.assert_allclose(table["exponent"], found["exponent"], rtol=1e-12)
    last = numbers(outcome.stdout.splitlines()[-1])
    # Four decimals are shown.
    expected = [10, *(float(found[name][-1]) for name in ("exponent", "standard_error"))]
    np.testing.assert_allclose(last, expected, atol=5.1e-5)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_exponents_of_runs_have_the_error_of_their_seeds(learndyn, finished):
    folder, _ = finished
    outcome = learndyn("exponent", folder / "runs.nc", "--observable", "test_loss")
    assert outcome.exit_code == 0, outcome.output
    found = ld.local_exponent(ld.load(folder / "runs.nc")["test_loss"])
    expected = [1.0, *(float(found[name][-1]) for name in ("exponent", "standard_error"))]
    np.testing.assert_allclose(
        numbers(outcome.stdout.splitlines()[-1]), expected, rtol=0, atol=5.1e-5
    )


def test_one_seed_has_an_exponent_of_unknown_error(learndyn, deep_file, tmp_path):
    path = tmp_path / "runs.nc"
    ld.simulate(ld.Problem.from_toml(deep_file), 30, 1).save(path)
    outcome = learndyn("exponent", path, "--window", "1")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.splitlines()[-1].split()[-1] == "unknown"
    assert "nan" not in outcome.stdout


def test_about_a_dozen_exponents_of_a_long_curve_are_shown(learndyn, deep_file, tmp_path):
    deep_file.write_text(DEEP.replace("steps = 10", "steps = 100"), encoding="utf-8")
    path = tmp_path / "long.nc"
    ld.solve(ld.Problem.from_toml(deep_file)).save(path)
    outcome = learndyn("exponent", path)
    assert outcome.exit_code == 0, outcome.output
    steps = [numbers(line)[0] for line in outcome.stdout.splitlines() if line[0].isdigit()]
    assert 10 <= len(steps) <= 12
    assert steps == sorted(set(steps))
    assert steps[-1] == 100


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--observable", "tets_loss"], ["did you mean 'test_loss'?"]),
        (["--observable", "C_v"], ["axes of the curve", "step2"]),
        (["--window", "0"], ["window = 0.0", "greater than 0"]),
        (["--window", "1e-3"], ["--window = 0.001", "fewer than three"]),
        (["--offset", "2"], ["test_loss − offset", "at step 1", "smaller offset"]),
        (["-o", "exponent.jpg"], ["must end in .png, .svg, .pdf"]),
    ],
)
def test_bad_exponents_are_refused(options, words, learndyn, theory_file, tmp_path):
    csv = tmp_path / "exponent.csv"
    assert_refused(learndyn("exponent", theory_file, "--csv", csv, *options), *words)
    assert not csv.exists()


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e-3", 1e-3),
        ("inf", np.inf),
        ("true", True),
        ("[1, 2.5]", [1, 2.5]),
        ("rows", "rows"),
        ("'rows'", "rows"),
        ("a b", "a b"),
    ],
)
def test_words_are_numbers_where_they_can_be(word, value):
    assert value_of(word) == value
    assert type(value_of(word)) is type(value)


def test_options_reach_the_method(learndyn, deep_file, tmp_path):
    path = tmp_path / "theory.nc"
    options = ["--option", "bins=128", "--option", "ensembles=true"]
    outcome = learndyn("solve", deep_file, "-o", path, *options)
    assert outcome.exit_code == 0, outcome.output
    assert ld.load(path).evidence["method"] == ld.Rows(bins=128, ensembles=True).to_dict()


@pytest.mark.parametrize("options", [[], ["--option", "tolerance=1e-8"]])
def test_a_method_can_be_named(options, learndyn, deep_file, tmp_path):
    path = tmp_path / "theory.nc"
    outcome = learndyn("solve", deep_file, "-o", path, "--method", "innovation", *options)
    assert outcome.exit_code == 0, outcome.output
    expected = ld.Innovation(tolerance=1e-8) if options else ld.Innovation()
    assert ld.load(path).evidence["method"] == expected.to_dict()


def test_an_option_and_a_tolerance_go_together(learndyn, problem_file, tmp_path):
    path = tmp_path / "theory.nc"
    options = ["--option", "atol=1e-9", "--rtol", "1e-6", "--save-at", "linear:11"]
    outcome = learndyn("solve", problem_file, "-o", path, *options)
    assert outcome.exit_code == 0, outcome.output
    method = ld.load(path).evidence["method"]
    assert (method["atol"], method["rtol"]) == (1e-9, 1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--option", "bins"], ["--option = 'bins'", "must look like NAME=VALUE"]),
        (["--option", "bin=8"], ["--option bin = '8'", "did you mean 'bins'?"]),
        (["--method", "row"], ["--method = 'row'", "did you mean 'rows'?"]),
        (["--option", "bins=1"], ["--option bins = 1", "at least 2"]),
        (
            ["--method", "innovation", "--option", "ensembles=true"],
            ["--option ensembles = 'true'", "the method Innovation has no such option"],
        ),
        (["--rtol", "1e-6"], ["--rtol", "has no tolerance"]),
    ],
)
def test_bad_options_of_a_method_are_refused_by_name(options, words, learndyn, deep_file):
    assert_refused(learndyn("solve", deep_file, *options), *words)


def test_two_tolerances_are_refused(learndyn, problem_file):
    options = ["--option", "rtol=1e-6", "--rtol", "1e-7"]
    assert_refused(learndyn("solve", problem_file, *options), "--option rtol", "not both")

"""`new`, `theories`, `figures`, `version` and the help."""

import importlib.metadata

import pytest
from matplotlib.figure import Figure

from learndyn.cli.problems import read_problem
from learndyn.core.theory import theories
from learndyn.papers.registry import PaperFigure, registered_alone

COMMANDS = [
    "new",
    "run",
    "solve",
    "simulate",
    "compare",
    "plot",
    "rates",
    "exponent",
    "cite",
    "theories",
    "figures",
    "demo",
    "version",
]


@pytest.fixture
def figures():
    """Two pictures that are made at once; the list of those that were made."""
    made = []

    def picture(name):
        def make(report):
            made.append(name)
            report(1.0)
            return Figure()

        return PaperFigure(name, f"Title of {name}", "A caption.", "Somebody 2025", 0.5, make)

    with registered_alone(picture("one"), picture("two")):
        yield made


def test_new_without_a_kind_lists_the_kinds(learndyn):
    outcome = learndyn("new")
    assert outcome.exit_code == 0
    for theory in theories():
        assert theory.name in outcome.stdout


@pytest.mark.parametrize("theory", theories(), ids=lambda theory: theory.name)
def test_new_writes_a_problem_that_the_theory_solves(theory, learndyn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = learndyn("new", theory.name)
    assert outcome.exit_code == 0
    (path,) = tmp_path.iterdir()
    assert f"learndyn run {path.name}" in outcome.stdout
    problem = read_problem(path)
    assert isinstance(problem.network, theory.network)
    assert isinstance(problem.data, theory.supply)


def test_new_replaces_a_file_only_when_told_to(learndyn, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("precious", encoding="utf-8")
    kind = theories()[0].name
    outcome = learndyn("new", kind, "-o", path)
    assert outcome.exit_code == 2
    assert "already exists" in outcome.stderr
    assert path.read_text(encoding="utf-8") == "precious"
    assert learndyn("new", kind, "-o", path, "--force").exit_code == 0
    assert "[network]" in path.read_text(encoding="utf-8")


def test_an_unknown_kind_is_answered_with_the_nearest(learndyn):
    outcome = learndyn("new", "two_layer/steam")
    assert outcome.exit_code == 2
    assert "did you mean 'two_layer/stream'?" in outcome.stderr


def test_the_table_of_theories_is_complete(learndyn):
    outcome = learndyn("theories")
    assert outcome.exit_code == 0
    words = " ".join(outcome.stdout.split())
    for theory in theories():
        assert theory.name in words
        assert theory.exactness in words
    assert max(map(len, outcome.stdout.splitlines())) <= 100


def test_figures_without_names_are_listed_not_made(figures, learndyn):
    outcome = learndyn("figures")
    assert outcome.exit_code == 0
    for words in ("one", "two", "A caption.", "Somebody 2025", "0.5 min"):
        assert words in outcome.stdout
    assert figures == []


@pytest.mark.parametrize(("names", "expected"), [(["two"], ["two"]), (["all"], ["one", "two"])])
def test_named_figures_are_made_with_their_caption(names, expected, figures, learndyn, tmp_path):
    outcome = learndyn("figures", *names, "--output", tmp_path)
    assert outcome.exit_code == 0, outcome.output
    assert figures == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.png" for name in expected]
    assert outcome.stdout.count("A caption.") == len(expected)


def test_an_unknown_figure_is_refused_before_any_is_made(figures, learndyn, tmp_path):
    outcome = learndyn("figures", "one", "too", "--output", tmp_path)
    assert outcome.exit_code == 2
    assert "did you mean 'two'?" in outcome.stderr
    assert figures == []


def test_the_version_is_that_of_the_package(learndyn):
    version = importlib.metadata.version("learndyn")
    for arguments in (["version"], ["--version"]):
        outcome = learndyn(*arguments)
        assert outcome.exit_code == 0
        assert outcome.stdout.startswith(f"learndyn {version} (jax ")


def test_help_shows_every_command_and_the_exit_codes(learndyn):
    outcome = learndyn("--help")
    assert outcome.exit_code == 0
    for word in [*COMMANDS, "Exit codes", "130", "Examples"]:
        assert word in outcome.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(command, learndyn):
    outcome = learndyn(command, "--help")
    assert outcome.exit_code == 0
    # A line that starts an option and holds nothing but its name and type explains nothing.
    for line in outcome.stdout.splitlines():
        words = line.strip("│ ").split()
        if words and words[0].startswith("--"):
            assert len(words) > 3, line

"""Bad input ends with a line or two that say what is wrong, and with the right exit code."""

import pytest

from learndyn.errors import CannotCompare, FileError, NotEnoughMemory, NoTheory, ProblemError


def assert_refused(outcome, *words):
    """Refused with an error of a line or two; remarks on what was saved before may precede it."""
    assert outcome.exit_code == 2, outcome.output
    assert outcome.stdout == ""
    lines = outcome.stderr.splitlines()
    while " saved in " in lines[0]:
        lines.pop(0)
    assert lines[0].startswith("error: ")
    assert "Traceback" not in outcome.stderr
    assert len(lines) <= 2
    for word in words:
        assert word in "\n".join(lines)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kind = "stream"', 'kind = "streem"', ["data.kind = 'streem'", "did you mean 'stream'?"]),
        ("noise = 0.1", "nois = 0.1", ["data.nois = 0.1", "did you mean 'noise'?"]),
        ("[data.task]", "[data.master]", ["data.master"]),
        ("Q = [[0.25]]", "Q = [[0.25, 0.1]]", ["TwoLayer.Q", "must be square"]),
        ("R = [[0.1]]", "R = [[0.1, 0.1]]", ["network.R", "one column per teacher unit (1)"]),
        ("R = [[0.1]]", "R = [[0.9]]", ["network.R", "positive semidefinite"]),
        ("rate = 0.5", "rate = -0.5", ["learning_rate = -0.5", "must be at least 0"]),
        ("rate = 0.5", "rate = nan", ["learning_rate = nan", "not NaN"]),
        ("time = 1.0", "time = inf", ["GradientDescent.time = inf", "must be finite"]),
        ("time = 1.0", 'time = "long"', ["GradientDescent.time = 'long'", "must be a number"]),
        ("time = 1.0", "time = 1.0 2.0", ["not valid TOML"]),
        ("[training]", "[teaching]", ["teaching", "unknown table"]),
    ],
)
def test_a_bad_problem_file_is_refused_with_the_field_the_value_and_what_is_allowed(
    old, new, words, learndyn, problem_file
):
    text = problem_file.read_text(encoding="utf-8")
    assert old in text
    problem_file.write_text(text.replace(old, new), encoding="utf-8")
    assert_refused(learndyn("solve", problem_file), *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        # Releases of click differ in what stands between the two.
        (["--sizes", "10"], ["No such option", "--sizes", "Try: learndyn run --help"]),
        (["--size", "ten"], ["'--size'", "integer"]),
        (["--size", "0"], ["size = 0", "at least 1"]),
        (["--size", "-5"], ["size = -5", "at least 1"]),
        (["--seeds", "1"], ["--seeds = 1", "at least 2"]),
        (["--first-seed", "-1"], ["first_seed = -1", "at least 0"]),
        (["--save-at", "often"], ["save_at = 'often'", "linear:200"]),
        (["--save-at", "log:200:7"], ["save_at = 'log:200:7'"]),
        (["--level", "0"], ["--level = 0", "greater than 0"]),
        (["--level", "nan"], ["--level = nan", "not NaN"]),
        (["--finite-size", "-1"], ["--finite-size = -1", "at least 0"]),
    ],
)
def test_bad_options_are_refused(options, words, learndyn, problem_file, tmp_path, stand_in):
    stand_in()
    outcome = learndyn("run", problem_file, "--output", tmp_path / "out", *options)
    assert_refused(outcome, *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rum"], ["No such command 'rum'", "Did you mean 'run'?"]),
        (["run"], ["Missing argument", "PROBLEM", "Try: learndyn run --help"]),
        (["run", "missing.toml"], ["cannot read the problem file missing.toml"]),
        (["run", "."], ["cannot read the problem file ."]),
        (["solve", "{problem}", "--rtol", "-1"], ["rtol = -1", "greater than 0"]),
        (["compare", "missing.nc", "missing.nc"], ["missing.nc", "does not exist"]),
        (["compare", "{runs}", "{theory}"], ["swapped"]),
        (["compare", "{theory}", "{theory}"], ["the second argument is a theory"]),
        (["compare", "{problem}", "{runs}"], ["not a NetCDF file"]),
        (["compare", "{theory}", "{cut}"], ["damaged or incomplete"]),
        (["plot", "{cut}", "-o", "{cut}.png"], ["damaged or incomplete"]),
        (["plot", "{theory}", "-o", "{cut}.jpg"], ["must end in .png, .svg, .pdf"]),
        (["plot", "{theory}", "-o", "{cut}.png", "--observable", "QQ"], ["did you mean 'Q'?"]),
    ],
)
def test_bad_arguments_are_refused(arguments, words, learndyn, problem_file, finished, tmp_path):
    folder, _ = finished
    cut = tmp_path / "cut.nc"
    whole = (folder / "runs.nc").read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    places = {
        "problem": problem_file,
        "theory": folder / "theory.nc",
        "runs": folder / "runs.nc",
        "cut": cut,
    }
    outcome = learndyn(*(argument.format(**places) for argument in arguments))
    assert_refused(outcome, *words)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProblemError("field", 1, "must be 2"), 2),
        (NoTheory("there is none"), 2),
        (FileError("cannot write"), 2),
        (CannotCompare("swapped"), 2),
        (NotEnoughMemory("needs 10 GiB"), 3),
        (MemoryError("Unable to allocate 1 TiB"), 3),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), 3),
        (KeyboardInterrupt(), 130),
        (ValueError("negative dimension"), 70),
        (OSError("disk on fire"), 70),
    ],
)
def test_every_error_has_its_exit_code_and_no_traceback(
    error, code, learndyn, problem_file, stand_in, tmp_path
):
    def fail(problem):
        raise error

    stand_in(before=fail)
    outcome = learndyn("solve", problem_file, "-o", tmp_path / "theory.nc")
    assert outcome.exit_code == code
    assert "Traceback" not in outcome.stderr
    first = outcome.stderr.splitlines()[0]
    assert first.startswith("interrupted" if code == 130 else "error: ")
    assert ("LEARNDYN_DEBUG=1" in outcome.stderr) == (code == 70)


@pytest.mark.parametrize("by_option", [True, False])
def test_the_traceback_can_be_asked_for(
    by_option, learndyn, problem_file, monkeypatch, stand_in, tmp_path
):
    def fail(problem):
        raise ValueError("negative dimension")

    stand_in(before=fail)
    solve = ("solve", problem_file, "-o", tmp_path / "theory.nc")
    if by_option:
        outcome = learndyn("--debug", *solve)
    else:
        monkeypatch.setenv("LEARNDYN_DEBUG", "1")
        outcome = learndyn(*solve)
    assert outcome.exit_code == 70
    assert "Traceback (most recent call last)" in outcome.stderr
    assert "ValueError: negative dimension" in outcome.stderr

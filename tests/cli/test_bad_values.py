"""Huge and odd values of options, and files that are not what they should be, end with a sentence and no traceback."""

import os
import tempfile

import pytest

from tests.cli.conftest import QUICK

HUGE = "1" + 12 * "0"
LONG = 400 * "a"


@pytest.fixture
def folder(tmp_path, monkeypatch, finished):
    """A folder with files that are no problem files, and a good one."""
    monkeypatch.chdir(tmp_path)
    texts = {"quick.toml": QUICK, "empty.toml": "", "broken.toml": "this is = = not"}
    texts["double_key.toml"] = QUICK.replace("noise = 0.1", "noise = 0.1\nnoise = 0.2")
    texts["double_table.toml"] = f"{QUICK}\n[training]\nsteps = 1\n"
    texts["digits.toml"] = QUICK.replace("time = 1.0", f"time = {'9' * 5000}")
    texts["nested.toml"] = f"x = {'[' * 50_000}"
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    (tmp_path / "utf16.toml").write_text(QUICK, encoding="utf-16")
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "theory.nc").write_bytes((finished[0] / "theory.nc").read_bytes())
    return tmp_path


def assert_one_error(outcome, code, *words):
    """One line that begins with « error: », after remarks on what was saved, and the exit code."""
    lines = [line for line in outcome.stderr.splitlines() if " saved in " not in line]
    assert outcome.exit_code == code, outcome.output
    assert lines[0].startswith("error: ")
    assert len(lines) <= 2
    assert "Traceback" not in outcome.stderr
    for word in words:
        assert word in outcome.stderr


@pytest.mark.parametrize("command", ["solve", "simulate", "run", "rates", "sweep"])
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("missing.toml", ["cannot read the problem file missing.toml"]),
        ("folder.toml", ["cannot read the problem file folder.toml"]),
        ("binary.toml", ["cannot read the problem file binary.toml", "not a text"]),
        ("utf16.toml", ["cannot read the problem file utf16.toml"]),
        ("theory.nc", ["cannot read the problem file theory.nc", "not a text"]),
        (f"{LONG}.toml", ["cannot read the problem file", "too long"]),
        ("empty.toml", ["data = None", "missing", "[data]"]),
        ("broken.toml", ["not valid TOML"]),
        ("double_key.toml", ["not valid TOML"]),
        ("double_table.toml", ["not valid TOML"]),
        ("digits.toml", ["not valid TOML", "4300 digits"]),
        ("nested.toml", ["not valid TOML", "too deeply nested"]),
    ],
)
@pytest.mark.usefixtures("no_work", "folder")
def test_a_file_that_is_no_problem_file_is_refused(command, file, words, learndyn):
    over = ["--over", "data.noise=1,2"] if command == "sweep" else []
    assert_one_error(learndyn(command, file, *over), 2, *words)


def reads_everything() -> bool:
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0)
        return os.access(file.name, os.R_OK)


@pytest.mark.skipif(reads_everything(), reason="the superuser may read and write everything")
def test_a_file_that_may_not_be_read_and_a_folder_that_may_not_be_written_are_refused(
    learndyn, folder
):
    closed = folder / "closed"
    closed.mkdir(mode=0o500)
    assert_one_error(learndyn("solve", "quick.toml", "-o", closed / "x.nc"), 2, "cannot write")
    (folder / "quick.toml").chmod(0)
    assert_one_error(learndyn("solve", "quick.toml"), 2, "quick.toml", "not readable")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["solve", "quick.toml", "--save-at", f"linear:{HUGE}"], 3, [f"save_at = {HUGE}", "GiB"]),
        (["solve", "quick.toml", "--save-at", f"log:{HUGE}"], 3, [f"save_at = {HUGE}", "GiB"]),
        (["solve", "quick.toml", "--save-at", "linear:1e12"], 2, ["save_at", "linear:200"]),
        (["solve", "quick.toml", "--save-at", f"linear:{'9' * 5000}"], 2, ["save_at"]),
        (
            ["solve", "quick.toml", "--option", f"points={'9' * 30}"],
            2,
            ["--option points", "at most"],
        ),
        (["simulate", "quick.toml", "--size", HUGE], 3, [f"size {HUGE}", "GiB"]),
        (["simulate", "quick.toml", "--size", "9" * 30], 2, ["size = 9999", "at most"]),
        (["simulate", "quick.toml", "--seeds", "9" * 30], 2, ["seeds = 9999", "at most"]),
        (["simulate", "quick.toml", "--size", "9", "--seeds", HUGE], 3, [f"seeds = {HUGE}", "GiB"]),
        (["simulate", "quick.toml", "--first-seed", "9" * 30], 2, ["first_seed = 9999", "at most"]),
        (["sweep", "quick.toml", "--over", f"data.noise=lin:0:1:{HUGE}"], 3, ["--over", "GiB"]),
        (["sweep", "quick.toml", "--over", f"data.noise=lin:0:1:{'9' * 30}"], 3, ["--over", "GiB"]),
        (["sweep", "quick.toml", "--over", "data.noise=2026-01-01"], 2, ["noise", "a number"]),
        (["sweep", "quick.toml", "--over", f"data.noise={'[' * 3000}"], 2, ["noise", "a number"]),
        (
            ["transfer", "quick.toml", "--over", f"data.noise={'[' * 3000}"],
            2,
            ["noise", "a number"],
        ),
        (["solve", "quick.toml", "-o", f"{LONG}.nc"], 2, ["cannot write", "too long"]),
        (["solve", "quick.toml", "-o", "folder.toml"], 2, ["cannot write", "it is a folder"]),
        (["solve", "quick.toml", "-o", "quick.toml/x.nc"], 2, ["cannot write", "quick.toml"]),
        (["new", "two_layer/stream", "-o", f"{LONG}.toml"], 2, ["cannot write", "too long"]),
        (["compare", f"{LONG}.nc", "theory.nc"], 2, ["cannot read", "too long"]),
        (["compare", "quick.toml", "theory.nc"], 2, ["not a NetCDF file"]),
        (["exponent", "folder.toml"], 2, ["is a folder"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else str(value),
)
@pytest.mark.usefixtures("folder")
def test_a_huge_or_odd_value_is_refused(arguments, code, words, learndyn):
    assert_one_error(learndyn(*arguments), code, *words)

"""The examples do what the docs say they do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def python(*arguments, folder, path=()):
    """The output of another Python process, in which what an example registers stays."""
    paths = os.pathsep.join([str(EXAMPLES.parent), *map(str, path)])
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
    )


CHANGES = [
    ("learning_rate = 0.5", "learning_rate = 2.5", "must be less than 2"),
    (
        "learning_rate = 0.5",
        "learning_rate = 0.5\nweight_decay = 0.1",
        "training.weight_decay = 0.1",
    ),
    ("noise = 0.3", "noise = 0.3\nbatch = 2", "data.batch = 2: the theory"),
    ('activation = "linear"', 'activation = "erf"', "one linear unit"),
]
"""What is changed in the problem of the template, and words of the refusal."""
REFUSED = "what is refused:\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The process that runs the template of a theory, and then tries the changes."""
    text = (EXAMPLES / "own_theory.toml").read_text(encoding="utf-8")
    assert all(right in text for right, _, _ in CHANGES)
    code = f"""
import runpy
import learndyn as ld
runpy.run_path({str(EXAMPLES / "own_theory.py")!r}, run_name="__main__")
print({REFUSED!r}, end="")
for text in {[text.replace(right, wrong) for right, wrong, _ in CHANGES]!r}:
    try:
        ld.Problem.from_text(text)
        print("accepted")
    except ld.ProblemError as error:
        print(error)
"""
    return python("-c", code, folder=tmp_path_factory.mktemp("template"))


def test_the_template_of_a_theory_is_short_and_its_finite_network_agrees(template):
    example = EXAMPLES / "own_theory.py"
    assert len(example.read_text(encoding="utf-8").splitlines()) < 150
    assert template.stderr == ""
    assert "agreement in every observable" in template.stdout.partition(REFUSED)[0]


def test_the_template_refuses_what_it_has_no_term_for(template):
    lines = template.stdout.partition(REFUSED)[2].splitlines()
    for line, (_, _, words) in zip(lines, CHANGES, strict=True):
        assert words in line


@pytest.fixture
def installed(tmp_path_factory):
    """A folder with the template as an installed package that names it as an entry point."""
    folder = tmp_path_factory.mktemp("site")
    for ending in ("py", "toml"):
        name = f"own_theory.{ending}"
        (folder / name).write_bytes((EXAMPLES / name).read_bytes())
    facts = folder / "own_theory-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: own-theory\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[learndyn.theories]\nmine = own_theory\n")
    return folder


@pytest.mark.slow
def test_an_installed_theory_is_known_to_the_command(installed, tmp_path):
    """`learndyn new` writes its problem file and `learndyn run` reads it, in a process that imports nothing of it."""
    commands = [
        ["new", "linear_unit/stream", "-o", "mine.toml"],
        ["run", "mine.toml", "--size", "50", "--seeds", "4"],
    ]
    code = f"""
import sys
import learndyn.cli
for arguments in {commands!r}:
    sys.argv[1:] = arguments
    try:
        learndyn.cli.main()
    except SystemExit as end:
        assert not end.code, arguments
"""
    outcome = python("-c", code, folder=tmp_path, path=[installed])
    assert outcome.returncode == 0, outcome.stderr
    assert "agreement in every observable" in outcome.stdout
    assert (tmp_path / "mine" / "curve.png").is_file()


def test_the_ten_lines_run_when_made_short(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (EXAMPLES / "committee.py").read_text(encoding="utf-8")
    for long, short in (("time=80.0", "time=2.0"), ("seeds=10", "seeds=3")):
        assert long in text
        text = text.replace(long, short)
    exec(compile(text, "committee.py", "exec"), {})
    assert "test_loss" in capsys.readouterr().out
    assert (tmp_path / "committee.png").stat().st_size > 0


@pytest.mark.slow
def test_the_ten_lines_print_what_the_docs_show(tmp_path):
    outcome = python(EXAMPLES / "committee.py", folder=tmp_path)
    page = (EXAMPLES.parent / "docs" / "concepts.md").read_text(encoding="utf-8")
    verdict = outcome.stdout.splitlines()[0]
    assert "agreement in every observable" in verdict
    assert verdict in page


@pytest.mark.slow
def test_the_best_learning_rate_is_where_the_slope_vanishes(tmp_path):
    outcome = python(EXAMPLES / "best_learning_rate.py", folder=tmp_path)
    assert outcome.stdout.startswith("best learning rate 0.139")
    # The root is found to 2e-12 in the rate, and the slope changes by order one per unit of the rate.
    assert abs(float(outcome.stdout.split()[-1])) < 1e-10


@pytest.mark.slow
def test_the_schedule_that_the_gradient_finds_beats_the_best_constant_rate(tmp_path):
    """In theory and, by more than five standard errors, in finite networks."""
    outcome = python(EXAMPLES / "learning_rate_schedule.py", folder=tmp_path)
    assert outcome.stderr == ""
    lines = outcome.stdout.splitlines()
    constant, schedule = (float(line.rpartition(" ")[2]) for line in lines[:2])
    assert schedule < constant
    trained = [
        [float(word) for word in line.rpartition(": ")[2].split(" ± ")] for line in lines[2:4]
    ]
    (slow, slow_error), (fast, fast_error) = trained
    assert slow - fast > 5 * (slow_error**2 + fast_error**2) ** 0.5
    # Theory and training agree within the errors and O(1/D).
    for theory, (mean, error) in zip((constant, schedule), trained, strict=True):
        assert abs(mean - theory) < 4 * error + theory / 400


@pytest.mark.slow
def test_the_deep_linear_example_agrees(tmp_path):
    outcome = python(EXAMPLES / "deep_linear.py", folder=tmp_path)
    assert outcome.stderr == ""
    assert "agreement in every observable" in outcome.stdout
    assert (tmp_path / "deep_linear.png").exists()


@pytest.mark.slow
def test_the_best_rate_converges_with_depth_only_if_branches_are_scaled(tmp_path):
    outcome = python(EXAMPLES / "residual_depth.py", folder=tmp_path)
    assert outcome.stderr == ""
    table = [[float(word) for word in line.split()] for line in outcome.stdout.splitlines()[1:6]]
    (_, fixed_8, scaled_8), (_, fixed_16, scaled_16) = table[3:]
    assert fixed_16 < 0.1 * fixed_8
    assert scaled_16 > 0.7 * scaled_8
    assert "infinitely deep" in outcome.stdout


@pytest.mark.slow
def test_the_network_that_groks_drops_when_the_theory_says(tmp_path):
    outcome = python(EXAMPLES / "grokking.py", folder=tmp_path)
    assert outcome.stderr == ""
    assert "agreement in every observable" in outcome.stdout
    assert (tmp_path / "grokking.png").stat().st_size > 0
    found = {}
    for line in outcome.stdout.splitlines()[-3:]:
        name, _, rest = line.partition(": theory ")
        theory, _, trained = rest.partition(", D = 1000: ")
        found[name] = [tuple(map(float, part.split(" ± "))) for part in (theory, trained)]
    assert list(found) == ["train_drop", "test_drop", "grokking_delay"]
    for (theory, error), (mean, spread) in found.values():
        # Both standard errors, from 8 batches and 8 seeds: Student's t with 7 degrees of freedom at 1e-3 is 5.4.
        assert abs(theory - mean) < 5.4 * (error**2 + spread**2) ** 0.5
        assert max(error / theory, spread / mean) < 0.1
    assert found["grokking_delay"][0][0] > 4


@pytest.mark.slow
def test_wide_networks_follow_the_theory_and_not_its_approximations(tmp_path):
    outcome = python(EXAMPLES / "wide.py", folder=tmp_path)
    assert outcome.stderr == ""
    assert "agreement in every observable" in outcome.stdout
    assert (tmp_path / "wide.png").stat().st_size > 0
    final = {}
    for line in outcome.stdout.splitlines()[-4:]:
        name, _, rest = line.removeprefix("final loss, ").partition(": ")
        final[name] = [float(word) for word in rest.split(" ± ")]
    mean, spread = final["trained"]
    # Of 8 seeds: Student's t with 7 degrees of freedom at 1e-3 is 5.4.
    assert abs(final["theory"][0] - mean) < 5.4 * spread
    assert final["static kernel"][0] > mean + 20 * spread
    assert final["gradient independence"][0] > mean + 10 * spread


@pytest.mark.slow
def test_superfluous_neurons_vanish_and_the_sum_of_two_windows_is_learned_first(tmp_path):
    code = "import neural_ode_family; neural_ode_family.main(size=40, seeds=6)"
    outcome = python("-c", code, folder=tmp_path, path=[EXAMPLES])
    assert outcome.stderr == ""
    assert outcome.stdout.count("agreement in every observable") == 2
    assert (tmp_path / "neural_ode_family.png").stat().st_size > 0
    found = dict(line.split(": ") for line in outcome.stdout.splitlines() if "theory: " in line)
    first, *others = (float(a) for a in found["amplitudes, theory"].strip("[]").split())
    assert max(map(abs, others)) < 0.1 < 2 < first
    # Both end at 1: the mean of the two controls is there, their order is not.
    learned, order = (float(found[name]) for name in list(found)[1:])
    assert abs(learned - 1) < 0.05
    assert order < 0.7

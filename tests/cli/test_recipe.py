"""`learndyn recipe`."""

import pytest

import learndyn as ld

DEEP = """
[network]
kind = "deep_linear"
depth = 2
width = 1.0

[data]
kind = "dataset"
ratio = 2.0

[data.task]
kind = "linear_map"

[training]
kind = "gradient_descent"
learning_rate = 0.1
steps = 5
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "deep.toml"
    file.write_text(DEEP, encoding="utf-8")
    return file


def test_the_table_and_the_programs_are_those_of_the_library(learndyn, path):
    recipe = ld.recipe(ld.Problem.from_toml(path), 20)
    outcome = learndyn("recipe", path, "--size", 20)
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.stdout.strip() == str(recipe)
    for framework in ("torch", "optax"):
        options = "--framework", framework, "--parameterization", "mup"
        outcome = learndyn("recipe", path, "--size", 20, *options)
        assert outcome.stdout.strip() == getattr(recipe, framework)("mup").strip()


def test_a_program_is_written_with_its_arrays(learndyn, path, tmp_path):
    points = ld.Points.random(60, 10)
    problem = ld.Problem(ld.Wide(1, "tanh"), points, ld.GradientDescent(0.1, steps=2))
    problem.to_toml(path)
    output = tmp_path / "loop.py"
    outcome = learndyn("recipe", path, "--size", 8, "--framework", "torch", "-o", output)
    assert outcome.exit_code == 0, outcome.stderr
    assert (tmp_path / "loop.py.npz").is_file()
    assert 'np.load("loop.py.npz")' in output.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--framework", "tensorflow"), "known: optax, table, torch"),
        (("--parameterization", "mupp"), "did you mean 'mup'?"),
        (("--size", "0"), "must be a whole number of at least 1"),
        (("--set", "training.steps=x"), "GradientDescent.steps"),
    ],
)
def test_bad_options_are_named(learndyn, path, options, reason):
    outcome = learndyn("recipe", path, *options)
    assert outcome.exit_code == 2
    assert reason in outcome.stderr

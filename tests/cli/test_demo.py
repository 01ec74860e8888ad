"""`learndyn demo` on quick problems, with and without a theory that fails."""

import dataclasses

import pytest

from learndyn.errors import Interrupted
from learndyn.theory import theories


@pytest.fixture
def quick(problem_file):
    """The theory of the quick problem, with that problem as its example."""
    (theory,) = (theory for theory in theories() if theory.name == "two_layer/stream")
    return dataclasses.replace(theory, template=problem_file, demo_size=50, demo_seeds=8)


@pytest.fixture
def show(monkeypatch, learndyn, tmp_path):
    """Run the demo of the given theories; the outcome and the page."""

    def call(*shown):
        monkeypatch.setattr("learndyn.theory.theories", lambda: list(shown))
        path = tmp_path / "report.html"
        outcome = learndyn("demo", "--output", path)
        return outcome, path.read_text(encoding="utf-8")

    return call


def test_the_demo_says_where_the_report_is_and_what_it_found(show, quick, tmp_path):
    outcome, page = show(quick)
    assert outcome.exit_code == 0, outcome.output
    assert "two_layer/stream: agrees" in outcome.stdout
    assert str(tmp_path / "report.html") in outcome.stdout
    assert page.count("<img") == 3
    assert "[data.teacher]" in page


def test_a_failing_theory_does_not_stop_the_others(show, quick, tmp_path):
    bad = tmp_path / "bad.toml"
    text = quick.template.read_text(encoding="utf-8")
    bad.write_text(text.replace("rate = 0.5", "rate = -0.5"), encoding="utf-8")
    outcome, page = show(dataclasses.replace(quick, name="a/broken", template=bad), quick)
    assert outcome.exit_code == 2
    assert "a/broken: failed" in outcome.stdout
    assert "two_layer/stream: agrees" in outcome.stdout
    assert "learning_rate = -0.5: must be at least 0" in page


def test_a_theory_that_differs_has_its_exit_code(show, quick, substitute):
    from learndyn.compare import compare

    # Without allowance and at this level, nearly every deviation counts.
    strict = {"level": 0.999999, "finite_size": 0}
    substitute("compare", lambda theory, runs: compare(theory, runs, **strict))
    outcome, page = show(quick)
    assert outcome.exit_code == 1
    assert "two_layer/stream: differs" in outcome.stdout
    assert 'class="differs"' in page


def test_ctrl_c_keeps_the_finished_theories(show, quick, substitute):
    from learndyn.simulate import simulate

    calls = []

    def second_is_interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            raise Interrupted
        return simulate(*arguments, **options)

    substitute("simulate", second_is_interrupted)
    second, third = (dataclasses.replace(quick, name=f"{name}/other") for name in "bc")
    outcome, page = show(quick, second, third)
    assert outcome.exit_code == 130
    assert len(calls) == 2
    assert "two_layer/stream: agrees" in outcome.stdout
    assert "b/other: failed (interrupted)" in outcome.stdout
    assert "c/other" not in page

"""`learndyn demo` on quick problems, with and without a theory that fails."""

import numpy as np
import pytest

from learndyn.core.theory import registered, theories
from tests.fakes import Fake, shown


def known(name):
    return {theory.name: theory for theory in theories()}[name]


@pytest.fixture
def quick(problem_file):
    """The theory of the quick problem, with that problem as its example."""
    return shown(known("two_layer/stream"), problem_file, 50, 8)


@pytest.fixture
def show(learndyn, tmp_path):
    """Run the demo of the given theories, in the order of their names; the outcome and the page."""

    def call(*some):
        path = tmp_path / "report.html"
        with registered(*some, alone=True):
            outcome = learndyn("demo", "--output", path)
        return outcome, path.read_text(encoding="utf-8")

    return call


def test_the_demo_says_where_the_report_is_and_what_it_found(show, quick, tmp_path):
    outcome, page = show(quick)
    assert outcome.exit_code == 0, outcome.output
    assert "two_layer/stream: agrees" in outcome.stdout
    assert str(tmp_path / "report.html") in outcome.stdout
    assert page.count("<img") == 3
    assert "[data.task]" in page


def test_a_failing_theory_does_not_stop_the_others(show, quick, tmp_path):
    bad = tmp_path / "bad.toml"
    text = quick.template.read_text(encoding="utf-8")
    bad.write_text(text.replace("rate = 0.5", "rate = -0.5"), encoding="utf-8")
    outcome, page = show(shown(quick, bad, 50, 8, "a/broken"), quick)
    assert outcome.exit_code == 2
    assert "a/broken: failed" in outcome.stdout
    assert "two_layer/stream: agrees" in outcome.stdout
    assert "learning_rate = -0.5: must be at least 0" in page


def test_a_theory_that_differs_has_its_exit_code(show, quick):
    slower = Fake(trained=lambda problem, times: {"test_loss": np.exp(-0.1 * times)})
    outcome, page = show(slower.in_place_of(quick))
    assert outcome.exit_code == 1
    assert "two_layer/stream: differs" in outcome.stdout
    assert 'class="differs"' in page


def test_ctrl_c_keeps_the_finished_theories(show, quick):
    # Theories of other parts, since those of the same would take each other's problem.
    second, third = Fake(interrupted_at=0), Fake()
    others = (
        second.in_place_of(known("deep_linear/stream"), "u/other"),
        third.in_place_of(known("neural_ode/stream"), "v/other"),
    )
    outcome, page = show(quick, *others)
    assert outcome.exit_code == 130
    assert second.trained_networks
    assert not third.worked
    assert "two_layer/stream: agrees" in outcome.stdout
    assert "u/other: failed (interrupted)" in outcome.stdout
    assert "v/other" not in page

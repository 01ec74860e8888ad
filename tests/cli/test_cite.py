"""`learndyn cite`."""

import learndyn as ld


def test_a_saved_result_is_cited(learndyn, finished):
    folder, _ = finished
    for name in ("theory.nc", "runs.nc"):
        outcome = learndyn("cite", folder / name)
        assert outcome.exit_code == 0
        assert outcome.stdout.strip() == ld.cite(ld.load(folder / name))


def test_a_theory_is_cited_by_name(learndyn):
    outcome = learndyn("cite", "neural_ode/stream")
    assert outcome.exit_code == 0
    assert "@misc{urbani2025theory," in outcome.stdout
    assert "@software{learndyn," in outcome.stdout


def test_what_is_neither_is_refused_with_the_nearest_theory(learndyn):
    outcome = learndyn("cite", "two_layer/steam")
    assert outcome.exit_code == 2
    assert "did you mean 'two_layer/stream'?" in outcome.stderr

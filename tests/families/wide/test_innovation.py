"""The innovation basis and the row recursion have nothing in common, and agree."""

from functools import partial

import numpy as np
import pytest

import learndyn as ld
from tests import problems

RULES = {
    "descent": {},
    "momentum and decay": {"momentum": 0.4, "weight_decay": 0.3},
    "coupled rule": {"momentum": 0.4, "weight_decay": 0.3, "momentum_rule": "coupled"},
    "cross-entropy": {"criterion": "cross_entropy", "loss": "mean"},
}


_rng = np.random.default_rng(3)
_inputs, _classes = _rng.standard_normal((5, 6)), _rng.dirichlet(np.ones(2), 4)
POINTS = ld.Points(_inputs[:4], _classes, _inputs[4:])
problem = partial(
    problems.wide,
    activation="linear",
    richness=0.8,
    data=POINTS,
    rate=ld.PowerDecay(0.06, 0.2),
    loss="sum",
)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_both_forms_agree(depth, rule):
    """To rounding, and the share of 1e-10 below which a direction is dropped."""
    asked = problem(depth=depth, steps=30, bias=depth == 1, **RULES[rule])
    rows, basis = (ld.solve(asked, method) for method in (ld.LinearRows(), ld.LinearInnovation()))
    assert basis.evidence["solver"].startswith("innovation")
    for name in ("prediction", "test_prediction", "train_loss", "Phi", "G", "kernel", "alignment"):
        np.testing.assert_allclose(basis[name], rows[name], rtol=0, atol=1e-8, err_msg=name)


def test_long_runs_take_the_basis_by_themselves():
    """Twelve hundred steps, at the start of which it is the row recursion."""
    long = ld.solve(problem(depth=2, steps=1200), save_at=[0, 20, 1200])
    assert long.evidence["solver"].startswith("innovation")
    assert long.evidence["basis"] < 600
    short = ld.solve(problem(depth=2, steps=20), save_at=[0, 20])
    assert short.evidence["solver"].startswith("exact")
    np.testing.assert_allclose(long["prediction"][:2], short["prediction"], rtol=0, atol=1e-8)
    assert np.all(long["train_loss"][1:] < long["train_loss"][0])


def test_what_the_basis_cannot_do_is_refused():
    method = ld.LinearInnovation()
    for asked in (problem(depth=2, steps=3, temperature=0.1), problem(depth=2, steps=3, bias=True)):
        with pytest.raises(ld.ProblemError, match="must be LinearRows"):
            ld.solve(asked, method)
        assert ld.solve(asked).diverged_at is None

"""The forward pass as a program: its dense network is the finite network, from the same weights."""

import functools

import numpy as np
import pytest

from learndyn.core.record import Record
from learndyn.families.wide import descent
from learndyn.families.wide.forward import ForwardPass
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.numerics.precision import float64
from learndyn.programs import Dense
from tests.families.wide.architectures import marked, problem, trained, trainee, with_weights_of

pytestmark = pytest.mark.compiles


@pytest.mark.parametrize("rule", ["decoupled", pytest.param("coupled", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", marked())
def test_the_dense_program_is_the_network(case, rule, monkeypatch):
    """Trained with momentum and decay, all observables agree to rounding."""
    options = {"momentum": 0.5, "weight_decay": 0.1, "momentum_rule": rule}
    asked = problem(case, rate=0.3, steps=4, **options)
    with float64():
        network, setting = trainee(asked, 40), wide_setting(asked, 1)

    class Watched(ForwardPass):
        def __init__(self, net, problem):
            super().__init__(net, problem)
            with float64():
                with_weights_of(network, self)

    monkeypatch.setattr(descent, "ForwardPass", Watched)
    record = Record.of(asked.training, None)
    options = {"problem": asked, "setting": setting, "record": record, "tolerance": 1e-3}
    loop = functools.partial(descent.training_loop, **options)
    with float64():
        program = descent.WideProgram(loop, Dense(40, seed=1), record, asked, setting)
        found, expected = trained(program, asked), trained(network, asked)
    assert np.abs(expected["f"][-1] - expected["f"][0]).max() > 0.1
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-12, err_msg=name)

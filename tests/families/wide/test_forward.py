"""The forward pass as a program: its dense network is the finite network, from the same weights."""

import numpy as np
import pytest

from learndyn.families.wide.forward import ForwardPass
from learndyn.families.wide.loss import loss_of
from learndyn.numerics.precision import float64
from learndyn.programs import SGD, Dense, run
from tests.families.wide.architectures import CASES, problem, trained, trainee, with_weights_of

pytestmark = pytest.mark.compiles


@pytest.mark.parametrize("case", CASES)
def test_the_dense_program_is_the_network(case):
    """Trained with momentum and decay, the outputs of all points agree to rounding."""
    eta, beta, decay = 0.3, 0.5, 0.1
    asked = problem(case, rate=eta, steps=5, momentum=beta, weight_decay=decay)
    with float64():
        network = trainee(asked, 40)
    loss = loss_of(asked)

    def program(net):
        forward = ForwardPass(net, asked)
        with float64():
            with_weights_of(network, forward)
        gamma2 = forward.gamma**2
        train = SGD(net, eta * gamma2, beta, decay / gamma2)
        for _ in net.steps(5):
            net.record(f=forward(slice(None)).f)
            f = forward(slice(3)).f
            train.step(-(loss.force(np.asarray(f)) * f).sum())

    f = run(program, None, Dense(40, seed=1)).records["f"]
    with float64():
        expected = trained(network, asked)["f"]
    assert np.abs(expected[-1] - expected[0]).max() > 0.1
    np.testing.assert_allclose(f, expected, rtol=0, atol=1e-13)

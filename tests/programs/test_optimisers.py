"""Rules of training, on one number, against their recursions by hand."""

import numpy as np

from learndyn.programs import SGD, Adam, Dense, Net, Sign, run

STEPS = 6


def trained(rule) -> np.ndarray:
    """θ(t) on the loss θ²/2 from θ = 1.5, whose gradient is θ."""

    def program(net: Net) -> None:
        theta = net.parameter(1.5)
        train = rule(net)
        for _ in net.steps(STEPS):
            net.record(theta=theta)
            train.step(theta * theta / 2)

    return run(program, {}, Dense(1)).records["theta"]


def test_descent_follows_the_rule_of_the_library():
    theta, B, curve = 1.5, 0.0, [1.5]
    for t in range(STEPS):
        eta = 0.3 / (1 + t)
        B = 0.6 * B - eta * theta
        theta = (1 - eta * 0.2) * theta + B
        curve.append(theta)
    values = trained(lambda net: SGD(net, lambda t: 0.3 / (1 + t), momentum=0.6, decay=0.2))
    np.testing.assert_allclose(values, curve, rtol=1e-14)


def test_descent_follows_the_coupled_rule():
    theta, B, curve = 1.5, 0.0, [1.5]
    for t in range(STEPS):
        B = 0.6 * B - theta - 0.2 * theta
        theta = theta + 0.3 / (1 + t) * B
        curve.append(theta)
    options = {"momentum": 0.6, "decay": 0.2, "coupled": True}
    values = trained(lambda net: SGD(net, lambda t: 0.3 / (1 + t), **options))
    np.testing.assert_allclose(values, curve, rtol=1e-14)


def test_sign_moves_by_the_rate():
    values = trained(lambda net: Sign(net, 0.1))
    np.testing.assert_allclose(values, 1.5 - 0.1 * np.arange(STEPS + 1), rtol=1e-14)


def test_adam_follows_its_recursion():
    theta, m, v, curve = 1.5, 0.0, 0.0, [1.5]
    for t in range(1, STEPS + 1):
        m, v = 0.8 * m + 0.2 * theta, 0.9 * v + 0.1 * theta**2
        step = m / (1 - 0.8**t) / (np.sqrt(v / (1 - 0.9**t)) + 0.05)
        theta = (1 - 0.1 * 0.3) * theta - 0.1 * step
        curve.append(theta)
    values = trained(lambda net: Adam(net, 0.1, betas=(0.8, 0.9), eps=0.05, decay=0.3))
    np.testing.assert_allclose(values, curve, rtol=1e-14)

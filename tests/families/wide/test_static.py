"""The static kernel, mode by mode: against stepping, and at times that no stepping reaches."""

import time

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.wide.equations.approximations import initial_kernels, static_kernel
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.problem.schedules import as_schedule

pytestmark = pytest.mark.compiles

POINTS = ld.Points(
    inputs=[[1.0, 0.2], [-0.3, 0.8], [0.5, 0.5]],
    targets=[[1.0, 0.3], [-1.0, 0.5], [0.2, -0.7]],
    test_inputs=[[0.4, -0.6]],
    test_targets=[[0.1, 0.2]],
)
"""Three points of two dimensions, so that the kernel is singular, and two outputs."""
RULES = {
    "rate": {},
    "sum": {"loss": "sum"},
    "momentum": {"momentum": 0.7},
    "schedule": {"rate": ld.PowerDecay(0.3, 0.5, 10.0)},
    "jump": {"rate": ld.Piecewise([13.0, 30.5], [0.3, 0.1, 0.4])},
    "momentum, schedule": {"momentum": 0.4, "rate": ld.WarmUp(8.0, 0.2)},
    "oscillating": {"rate": 1.1, "loss": "sum"},
}


def problem(rate=0.3, steps=None, time=None, activation="linear", **training):
    rule = ld.GradientDescent(rate, steps=steps, time=time, **training)
    return ld.Problem(ld.Wide(2, activation, 1.0), POINTS, rule)


@pytest.mark.parametrize("name", RULES)
def test_modes_are_descent_step_by_step(name):
    """Sixty steps, to rounding."""
    asked = problem(steps=60, **RULES[name])
    found = ld.solve(asked, ld.StaticKernel(), save_at=[0, 1, 2, 13, 14, 31, 60])
    with ld.float64():
        setting = wide_setting(asked, 60)
    f = static_kernel(setting, initial_kernels(setting).kernel)[found["step"].values]
    outputs = np.concatenate([found["prediction"], found["test_prediction"]], axis=1)
    np.testing.assert_allclose(outputs, f, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found["train_loss"], setting.loss.value(f[:, :3]), rtol=1e-10)


def test_critical_momentum_is_as_good():
    """λ for which both roots are one: x = (1 − √β)²."""
    beta, one = 0.25, ld.Points(gram=[[0.5]], targets=[1.0])
    training = ld.GradientDescent((1 - beta**0.5) ** 2, steps=40, momentum=beta)
    asked = ld.Problem(ld.Wide(1, "linear", 1.0), one, training)
    found = ld.solve(asked, ld.StaticKernel(), save_at=41)
    setting = wide_setting(asked, 40)
    stepped = static_kernel(setting, initial_kernels(setting).kernel)
    np.testing.assert_allclose(found["prediction"], stepped, atol=1e-9)


@pytest.mark.parametrize(
    "rate", [0.3, ld.Piecewise([3.0], [0.3, 0.1]), ld.ExponentialDecay(0.3, 0.1)]
)
def test_flow_is_the_limit_of_small_steps(rate):
    """Euler's steps of 1/2000 and 1/4000, extrapolated, err at second order: by a hundredth of their difference."""
    flow = ld.solve(problem(rate, time=8.0), ld.StaticKernel(), save_at=[0.0, 2.0, 8.0])
    found = []
    for pieces in (2000, 4000):
        times = np.arange(8 * pieces) / pieces
        with ld.float64():
            rates = np.asarray(as_schedule(rate)(times)) / pieces
        asked = problem(ld.PerStep(rates), steps=8 * pieces)
        saved = [0, 2 * pieces, 8 * pieces]
        found.append(ld.solve(asked, ld.StaticKernel(), save_at=saved)["prediction"])
    first, second = (x.values for x in found)
    error = np.max(np.abs(2 * second - first - flow["prediction"].values))
    assert error < 0.01 * np.max(np.abs(second - first))


SLOW = ld.Points(gram=np.diag([1.0, 1e-10]), targets=[1.0, 1.0])


def test_ten_to_the_tenth():
    """An eigenvalue of 2e-10: flow leaves e^{−2} of it, steps of 0.5 leave e^{−1}, and with momentum ½ e^{−2}."""
    fast = []
    for training, left in (
        (ld.GradientDescent(1.0, time=1e10, loss="sum"), np.exp(-2)),
        (ld.GradientDescent(0.5, steps=10**10, loss="sum"), np.exp(-1)),
        (ld.GradientDescent(0.5, steps=10**10, loss="sum", momentum=0.5), np.exp(-2)),
    ):
        start = time.process_time()
        asked = ld.Problem(ld.Wide(1, "linear", 1.0), SLOW, training)
        last = 10**10
        found = ld.solve(asked, ld.StaticKernel(), save_at=[0, last // 2, last])
        fast.append(time.process_time() - start)
        prediction = found["prediction"].values[-1, :, 0]
        # The exponent is 1e10 log(1 − 1e-10) = −1 − 5e-11; with momentum it has a correction of the same order.
        np.testing.assert_allclose(prediction, [1.0, 1 - left], rtol=1e-9)
    # A few milliseconds for the modes; the rest is labelling, and other processes.
    assert min(fast) < 0.5


def test_a_rate_that_is_too_large_diverges():
    found = ld.solve(problem(3.0, steps=400, loss="sum"), ld.StaticKernel())
    assert found.diverged_at is not None
    assert np.all(np.isfinite(found["train_loss"]))


def test_decay_is_refused():
    for asked in (problem(steps=10, weight_decay=0.1), problem(time=3.0, weight_decay=0.1)):
        with pytest.raises(ld.NoTheory, match="weight_decay and noise to 0"):
            ld.solve(asked, ld.StaticKernel())


def test_other_losses_are_stepped():
    signs = ld.Points(inputs=[[1.0, 0.2], [-0.3, 0.8]], targets=[1.0, -1.0])
    training = ld.GradientDescent(0.5, steps=20, criterion="logistic")
    found = ld.solve(ld.Problem(ld.Wide(1, "linear", 1.0), signs, training), ld.StaticKernel())
    assert 0 < found["train_loss"][-1] < found["train_loss"][0]

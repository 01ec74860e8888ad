"""Theory against finite flows with several units, windows, observations, delays and stacks, by the 1/d law.

As in `test_neural_ode.py`: 2X(2d) − X(d) is compared strictly, at the level 0.01/14 for each of fourteen settings; d =
20 and 40 for five of them, d = 40 and 80 for all in the slow suite.
"""

from functools import partial

import numpy as np
import pytest
import scipy.stats

import learndyn as ld
from tests import problems
from tests.agreement.test_neural_ode import extrapolated

CONTEXT = [[[0, 0], [0, 0.6]], [[0, 0.3], [0.4, 0]]]
"""G = 0.6 q m + s (0.3 m + 0.4 q)."""
problem = partial(problems.neural_ode, steps=6, epochs=8)


def seen(times=(0.5, 1.0), visible=1.0, mask="observation"):
    return ld.Observations(list(times), visible, mask)


SIXTHS = [n / 6 for n in range(1, 7)]
LEARNED = {"train_amplitudes": True, "amplitude_rate": 0.8}
SETTINGS = {
    "superfluous neurons": problem(rate=1.0, amplitudes=[1.0, 0.8, -0.6], **LEARNED),
    "neurons of one field": problem(
        rate=1.0, amplitudes=[1.0, -0.5, 0.8], teacher_amplitudes=[1.0, 0.7], own_fields=False,
        teacher_overlaps=[[1.0, 0.3], [0.3, 1.0]], **LEARNED,
    ),
    "fewer neurons": problem(rate=1.0, amplitudes=[1.0], teacher_amplitudes=[1.0, 0.7], **LEARNED),
    "windows": problem(batch=2, rate=1.0, windows=2, teacher_windows=3),
    "two times": problem(observations=seen()),
    "masks": problem(observations=seen(visible=0.4)),
    "one mask, noise": problem(
        observations=seen(SIXTHS, visible=0.2, mask="trajectory"), noise=0.05, teacher_noise=0.05,
        adjoint_noise=0.1, weight_decay=0.05,
    ),
    "times in turn": problem(observations=ld.Observations([[0.5], [0.5, 1.0], [1.0]])),
    "delay": problem(field=CONTEXT, delay=0.5),
    "stack": problem(driven=CONTEXT, driver_loss=0.3),
    "reused, noisy": problem(
        supply="dataset", examples=1, control_ratio=1.0, teacher_noise=1 / 3, steps=5,
    ),
    "reused: windows, neurons": problem(
        supply="dataset", examples=2, rate=1.0, windows=2, amplitudes=[1.0, 0.5], own_fields=False,
        **LEARNED,
    ),
    "reused: delay, masks": problem(
        supply="dataset", examples=1, observations=seen(visible=0.6), field=CONTEXT, delay=0.5,
    ),
    "chained: stack, windows, masks": problem(
        chained=True, observations=seen(visible=0.6, mask="trajectory"), driven=CONTEXT, windows=2,
        driver_loss=0.3,
    ),
}  # fmt: skip
pytestmark = pytest.mark.compiles
LEVEL = 0.01 / len(SETTINGS)
QUICK = (
    "superfluous neurons",
    "windows",
    "one mask, noise",
    "delay",
    "stack",
)


def check_law(asked, d, seeds):
    theory = ld.solve(asked)
    runs = [
        ld.simulate(asked, size, seeds, first_seed=seeds * k) for k, size in enumerate((d, 2 * d))
    ]
    comparison = ld.compare(theory, extrapolated(*runs), level=LEVEL, finite_size=0)
    assert comparison.agrees, comparison
    assert {"Q", "m", "test_loss"} <= set(comparison.table.index)
    assert "a" in comparison.table.index


@pytest.mark.parametrize("setting", QUICK)
def test_theory_agrees_with_training(setting):
    check_law(SETTINGS[setting], 20, 40)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_theory_agrees_with_training_at_80(setting):
    check_law(SETTINGS[setting], 40, 60)


@pytest.mark.parametrize(
    ("setting", "name"),
    [("superfluous neurons", "a"), pytest.param("windows", "m", marks=pytest.mark.slow)],
)
def test_the_deviation_shrinks(setting, name):
    """Amplitudes, and overlaps of windows: the variance of single systems falls as 1/d (F distribution at 1e-3)."""
    variance = {}
    for size in (16, 64):
        runs = ld.simulate(SETTINGS[setting], size, 40, save_at=[8], first_seed=500)
        variance[size] = float(runs[name].isel(unit=0).var("seed", ddof=1).mean())
    # Several entries of m only narrow the distribution.
    low, high = scipy.stats.f.ppf([0.0005, 0.9995], 39, 39)
    assert low < variance[16] / variance[64] / 4 < high


@pytest.mark.slow
def test_the_stationary_state_of_a_noisy_chain_is_known():
    """Numbers of the theory's reference calculation at step 80, printed to five digits; fresh data end elsewhere."""
    given = {"rate": 0.4, "epochs": 80, "steps": 5, "noise": 0.1, "teacher_noise": 0.1}
    chained = ld.solve(problem(chained=True, **given), save_at=[80])
    fresh = ld.solve(problem(**given), save_at=[80])
    for name, expected in (("m", 1.00737), ("train_loss", 0.147932), ("test_loss", 0.172786)):
        np.testing.assert_allclose(chained[name][0], expected, atol=2e-5)
    for name, expected in (("m", 0.9626), ("Q", 1.033)):
        np.testing.assert_allclose(fresh[name][0], expected, atol=1e-3)

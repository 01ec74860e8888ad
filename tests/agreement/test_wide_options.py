"""Theory against finite networks with a convolution, other learning rules, skips, layer norm, widths or scales.

Every setting is compared with `compare` at level 0.01/2: a few steps at width 300 in the quick suite, more at width
1000 in the slow one. The variance of single runs around the theory must fall as 1/N: from 250 to 1000 by 4, within the
F distribution at the level 1e-3.
"""

import math
from functools import partial

import numpy as np
import pytest
import scipy.stats

import learndyn as ld
from tests import problems
from tests.optional import not_none

POINTS = ld.Points.random(4, 6, seed=1, test_points=2)
TWO = ld.Points.random(3, 6, seed=2, outputs=2)


def problem(depth=2, activation="tanh", richness=1.5, data=POINTS, rate=0.5, steps=16, **options):
    rule = {name: options.pop(name) for name in ("momentum", "weight_decay") if name in options}
    network = ld.Wide(depth, activation, richness, centered=not rule, **options)
    return problems.wide(network=network, data=data, rate=rate, steps=steps, **rule)


convolution = partial(ld.Convolution, 3, 2)
feedback = partial(problem, learning_rule="feedback_alignment")
SETTINGS = {
    "gap": problem(convolution=convolution(), rate=1.0),
    "flat": problem(convolution=convolution("flat")),
    "gap, relu, one layer": problem(1, "relu", convolution=convolution(), rate=1.0),
    "flat, erf, three layers": problem(3, "erf", convolution=convolution("flat"), steps=10),
    "gap, linear, two outputs": problem(
        activation="linear", data=TWO, convolution=convolution(), momentum=0.4, weight_decay=0.1
    ),
    "feedback": feedback(feedback_overlap=0.5),
    "feedback, linear, three layers": feedback(3, "linear", feedback_overlap=0.5, richness=1.0),
    "feedback, gap": feedback(feedback_overlap=0.3, convolution=convolution(), rate=1.0),
    "feedback, weight decay": feedback(feedback_overlap=0.5, weight_decay=0.1, momentum=0.3),
    "direct feedback": problem(
        3, learning_rule="direct_feedback_alignment", feedback_overlap=0.5, data=TWO
    ),
    "gates": problem(activation="linear", learning_rule="gated_linear", steps=12),
    "skips": problem(4, skip=ld.ScaledSkip(1.0)),
    "skips, relu, norm": problem(
        3, "relu", skip=0.7, normalization="layer", rate=0.3, richness=1.0, steps=8
    ),
    "norm": problem(normalization="layer", rate=0.3),
    "widths and scales": problem(widths=[2.0, 0.5], scales=[1.2, 0.8, 1.5], rate=0.3),
}
pytestmark = pytest.mark.compiles
QUICK = ["gap", "feedback", "skips", "norm", "widths and scales"]
SAVED = 5


def check(asked, size, seeds, method=None):
    theory = ld.solve(asked, method, save_at=SAVED)
    comparison = ld.compare(theory, ld.simulate(asked, size, seeds, save_at=SAVED), level=0.01 / 2)
    assert comparison.agrees, comparison


@pytest.mark.parametrize("setting", QUICK)
def test_theory_agrees_with_short_training(setting):
    asked = SETTINGS[setting]
    data = ld.Points(POINTS.inputs[:2], POINTS.targets[:2], POINTS.test_inputs[:1])
    training = ld.GradientDescent(asked.training.learning_rate, steps=6)
    short = asked.with_values(data=data, training=training)
    check(short, 300, 8, ld.SampledLayers(samples=1024, batches=4))


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_theory_agrees_with_training(setting):
    check(SETTINGS[setting], 1000, 10)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_deviation_shrinks(setting):
    asked = SETTINGS[setting]
    theory = ld.solve(asked, save_at=SAVED)
    variance = {}
    for size in (250, 1000):
        runs = ld.simulate(asked, size, 30, save_at=SAVED, first_seed=100)
        variance[size] = float(((runs["prediction"] - theory["prediction"])[:, 1:] ** 2).mean())
    low, high = scipy.stats.f.ppf([0.0005, 0.9995], 30, 30)
    assert low < variance[250] / variance[1000] / 4 < high


@pytest.mark.slow
def test_infinite_depth_agrees_with_deep_networks():
    """At depth 32 networks are a quarter as far from the limit as at depth 8, up to O(1/L²).

    Within the stated accuracy, 1/N of the largest output, and four standard errors; at N = 400 the variance between
    networks is a quarter of that at 100 (F at 1e-3: outputs of a network are correlated, so that 24 seeds count 24).
    """
    data = ld.Points.random(2, 5, seed=2)

    def of_depth(depth):
        return problem(depth, skip=ld.ScaledSkip(1.0), data=data, steps=6)

    limit = ld.solve(of_depth(math.inf), ld.DepthExtrapolation(depth=3, batches=4), save_at=3)
    eight = ld.solve(of_depth(8), ld.SampledLayers(batches=4), save_at=3)
    expected = limit["prediction"] + (eight["prediction"] - limit["prediction"]) / 4
    own = not_none(limit.standard_error("prediction"))
    variance = {}
    for width in (100, 400):
        runs = ld.simulate(of_depth(32), width, 24, save_at=3)["prediction"]
        error = runs.std("seed", ddof=1) / np.sqrt(24)
        allowed = limit.evidence["accuracy"]["prediction"] + float(abs(expected).max()) / width
        allowed = allowed + 4 * np.hypot(error, own)
        assert bool((abs(runs.mean("seed") - expected) <= allowed + 1e-12).all())
        variance[width] = float(runs.isel(step=-1).var("seed", ddof=1).mean())
    low, high = scipy.stats.f.ppf([0.0005, 0.9995], 24, 24)
    assert low < variance[100] / variance[400] / 4 < high

"""Theory against finite deep linear networks, at D = 100 and 400, and at 200, 500 and 1000 in the slow suite.

Every setting, some of them in the slow suite, is compared with `compare`, at level 0.01/2 at the former sizes (two
looks) and 0.01/3 at the latter (three).
Thirty networks at D = 400 have a mean as sharp as that of twelve at 1000. The variance of the loss of single runs
around the theory must fall as 1/D: from 100 to 400 by 4. Times within a run are strongly correlated, so that 30 seeds
give an estimate with no more than 30 degrees of freedom; the bounds are those of the F distribution at the level 1e-3.
"""

from functools import partial

import numpy as np
import pytest
import scipy.stats

import learndyn as ld
from tests import problems
from tests.optional import not_none

SEEDS = 10
STEPS = 40
SAVED = np.arange(0, STEPS + 1, 5)
problem = partial(problems.deep_linear, depth=2, width=0.8, richness=0.7, steps=STEPS)

DATA = ld.Dataset(ld.LinearMap(), ratio=1.2, noise=0.5)
SETTINGS = {
    "plain": problem(width=0.6, data=DATA, rate=0.05),
    "lazy": problem(width=1.0, richness=0.1, centered=True, data=DATA, rate=0.1),
    "rich": problem(width=1.0, richness=2.0, centered=True, data=DATA, rate=0.05),
    "one hidden layer": problem(depth=1, richness=1.0, data=DATA, rate=0.15),
    "deep": problem(
        depth=4, width=0.7, richness=0.5, centered=True, ratio=1.0, noise=0.3, rate=0.02
    ),
    "narrow": problem(width=0.3, richness=1.0, data=DATA, rate=0.05),
    "wide": problem(width=2.0, richness=1.0, data=DATA, rate=0.05),
    "few examples": problem(ratio=0.4, rate=0.03),
    "many examples": problem(ratio=3.0, noise=1.0, rate=0.08),
    "widths by layer": problem(depth=3, width=[1.5, 0.5, 0.8], data=DATA, rate=0.03),
    "two outputs": problem(outputs=2, data=DATA, rate=0.04),
    "ntk": problem(width=2.0, richness=1.0, parameterization="ntk", data=DATA, rate=0.08),
    "momentum": problem(data=DATA, rate=0.02, momentum=0.7),
    "weight decay": problem(data=DATA, rate=0.05, weight_decay=0.4),
    "coupled rule": problem(
        data=DATA,
        rate=ld.WarmUp(10, 0.03),
        momentum=0.7,
        weight_decay=0.4,
        momentum_rule="coupled",
    ),
    "schedule": problem(data=DATA, rate=ld.WarmUp(10, ld.PowerDecay(0.15, 0.5, 10.0))),
    "stream": problem(width=0.6, supply="stream", batch_ratio=0.6, noise=0.5, rate=0.05),
    "stream, centred": problem(
        depth=3, width=1.0, richness=1.0, centered=True, supply="stream", batch_ratio=2.0, rate=0.03
    ),
    "population": problem(depth=3, width=0.7, supply="population", rate=0.05),
}

QUICK = (
    "rich",
    "one hidden layer",
    "few examples",
    "two outputs",
    "momentum",
    "stream",
    "population",
)


def check_agreement(setting, size, seeds, looks):
    theory = ld.solve(SETTINGS[setting], save_at=SAVED)
    assert theory.evidence["edge_of_stability"] is None
    runs = ld.simulate(SETTINGS[setting], size, seeds, save_at=SAVED)
    comparison = ld.compare(theory, runs, level=0.01 / looks)
    assert comparison.agrees, comparison
    return theory, runs


@pytest.mark.parametrize(
    "setting",
    [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in SETTINGS],
)
def test_theory_agrees_with_training_and_the_deviation_shrinks(setting):
    variance = {}
    for size in (100, 400):
        theory, runs = check_agreement(setting, size, 30, looks=2)
        variance[size] = float((np.log(runs["test_loss"] / theory["test_loss"]) ** 2).mean())
    low, high = scipy.stats.f.ppf([0.0005, 0.9995], 30, 30)
    assert low < variance[100] / variance[400] / 4 < high


@pytest.mark.slow
@pytest.mark.parametrize("size", [200, 500, 1000])
@pytest.mark.parametrize("setting", SETTINGS)
def test_theory_agrees_with_training(setting, size):
    check_agreement(setting, size, SEEDS, looks=3)


@pytest.mark.parametrize(
    "data",
    [DATA, ld.Stream(ld.LinearMap(), noise=0.5, batch_ratio=1.2), ld.Population(ld.LinearMap())],
    ids=lambda d: d.kind,
)
def test_ensembles_agree_with_training(data):
    """Bias and the overlaps of networks that share the data, or the weights, only."""
    setting = problem(data=data, rate=0.05)
    theory = ld.solve(setting, ld.Rows(ensembles=True), save_at=SAVED)
    method = ld.Descent(partners=True)
    runs = ld.simulate(setting, 400, SEEDS, method=method, save_at=SAVED)
    names = ["bias", "overlap_same_data", "overlap_same_weights"]
    table = ld.compare(theory, runs).table.loc[names]
    assert (table["verdict"] == "agrees").all(), table
    for members, pair in ((4, "data"), (3, "weights"), (2, None)):
        one, many = theory["test_loss"], ld.ensemble_loss(theory, members, shared=pair)
        same_network = pair == "weights" and data.kind == "population"
        assert (abs(many / one - 1) < 1e-12 if same_network else many < one)[1:].all()


def test_responses_agree_with_the_label_noise_in_the_errors():
    """Δ = R_Δ (X v-part + σε), so ⟨Δ(t) ε⟩ = σ Σ_s R_Δ(t, s): a response, measured without perturbing anything."""
    from learndyn.families.deep_linear import finite
    from learndyn.numerics.precision import float64
    from learndyn.problem.weight_response import PerStepRule

    setting, size = SETTINGS["plain"], 500
    R = ld.solve(setting, save_at=np.arange(STEPS + 1))["R_Delta"].sum("step2").squeeze()
    found, rule = [], PerStepRule.of(setting.training)
    for seed in range(SEEDS):
        with float64():
            made = finite.finite_spec(setting, size)
            sources, networks, _ = finite.draw(made, seed, False)
            network, noise = networks[0][0], not_none(sources[0].at(0))[1]
            rows = []
            for step in range(STEPS + 1):
                fields = network.fields(sources[0].at(step))
                rows.append(np.sum(fields.Delta * noise) / np.sum(noise**2))
                if step < STEPS:
                    network.step(fields, rule.at(step))
        found.append(rows)
    found = np.array(found)
    error = found.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    z = (found.mean(axis=0) - R.values)[1:] / error[1:]
    # Steps are strongly correlated: one or two independent looks, at the level 1e-3.
    assert np.abs(z).max() < 4.8, z


def test_edge_of_stability_is_flagged_where_finite_networks_stray():
    network = {"depth": 4, "width": 0.7, "richness": 0.5, "centered": True}
    setting = problem(**network, supply="dataset", ratio=1.0, rate=0.05)
    theory = ld.solve(setting, save_at=SAVED)
    assert theory.evidence["edge_of_stability"] is not None
    assert "edge of stability" in repr(theory)
    runs = ld.simulate(setting, 200, SEEDS, save_at=SAVED)
    assert any("edge of stability" in note for note in ld.compare(theory, runs).notes)
    stray = abs(runs["test_loss"].mean("seed") / theory["test_loss"] - 1).max()
    calm = problem(**network, supply="dataset", ratio=1.0, rate=0.02)
    calm_runs = ld.simulate(calm, 200, SEEDS, save_at=SAVED)
    calm_theory = ld.solve(calm, save_at=SAVED)
    assert calm_theory.evidence["edge_of_stability"] is None
    calm_stray = abs(calm_runs["test_loss"].mean("seed") / calm_theory["test_loss"] - 1).max()
    assert stray > 3 * calm_stray


def test_dimension_free_theory_is_close_for_many_units_and_examples():
    """Approximate at finite N and B: within 8 % of the mean of the runs at N = B = 64, and closer than at 16."""
    spectrum = ld.PowerLaw(1.5, 1.2, 300)
    deviation = {}
    for count in (16, 64):
        setting = problem(
            width=count,
            richness=0.3,
            centered=True,
            supply="stream",
            batch=count,
            noise=0.0,
            spectrum=spectrum,
            rate=0.2,
        )
        theory = ld.solve(setting, save_at=SAVED)
        runs = ld.simulate(setting, 300, 60, save_at=SAVED)
        ratio = runs["test_loss"].mean("seed") / theory["test_loss"]
        deviation[count] = float(abs(np.log(ratio)).max())
    assert deviation[64] < 0.08
    assert deviation[64] < deviation[16]


def test_comparison_notices_a_wrong_theory():
    """Without the response of v to the data, i.e. with R_Δ = 1, the training loss is wrong (a slip of the paper)."""
    setting = SETTINGS["plain"]
    fresh = ld.Problem(
        setting.network, ld.Stream(ld.LinearMap(), noise=0.5, batch_ratio=1.2), setting.training
    )
    theory = ld.solve(fresh, save_at=SAVED)
    forged = ld.Solution(theory.data, setting, theory.evidence)
    assert not ld.compare(forged, ld.simulate(setting, 400, 5, save_at=SAVED)).agrees


@pytest.mark.slow
def test_best_rate_transfers_across_width_in_mup_and_not_in_ntk():
    """Widths 2 and 8, rich, online: in theory, and by training at D = 200 on a grid of rates 20 % apart.

    The minimum of the measured curve is that of a parabola in log η through the lowest point and its neighbours, good
    to about half a grid step, whence 12 %.
    """

    def online(width, parameterization, rate):
        network = ld.DeepLinear(2, width, 4.0, centered=True, parameterization=parameterization)
        training = ld.GradientDescent(rate, steps=12)
        return ld.Problem(network, ld.Stream(ld.LinearMap(), batch_ratio=1.0), training)

    moved = {}
    for parameterization in ("mup", "ntk"):
        best, trained = [], []
        for width in (2.0, 8.0):
            best.append(ld.best_rate(online(width, parameterization, 0.05)).rate)
            grid = best[-1] * 1.2 ** np.arange(-3.0, 3.0)
            losses = []
            for rate in grid:
                runs = ld.simulate(online(width, parameterization, rate), 200, 6, save_at=[0, 12])
                final = runs["test_loss"].values[:, -1] if runs.diverged_at is None else [np.inf]
                losses.append(np.mean(np.log(final)))
            i = int(np.clip(np.argmin(losses), 1, len(grid) - 2))
            near = slice(i - 1, i + 2)
            curvature, slope, _ = np.polyfit(np.log(grid[near]), losses[near], 2)
            trained.append(np.exp(-slope / (2 * curvature)))
        assert np.abs(np.log(np.array(trained) / best)).max() < np.log(1.12)
        moved[parameterization] = best[1] / best[0], trained[1] / trained[0]
    assert all(0.8 < ratio < 1.25 for ratio in moved["mup"]), moved
    assert all(ratio > 1.3 for ratio in moved["ntk"]), moved

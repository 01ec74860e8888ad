"""Programs in the limit against trained networks, with error bars."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from learndyn.programs import Dense, Lazy, Limit, ProgramError, ProgramRun, replicates, run
from tests.programs.cases import CASES, EXAMPLES, tied
from tests.programs.statistics import agreement, fitted, together

ALLOWED = 1.0
"""Networks deviate from the limit by a/N; |a| is below this in all programs (see the fits of the slow test)."""
LEVEL = 1e-3


def late_loss(outcome: ProgramRun) -> float:
    """One number chosen beforehand: the first record, a loss, averaged over the last three states.

    Of logistic regression the norm, because its loss has next to no deviation.
    """
    name = "norm" if "norm" in outcome.records else next(iter(outcome.records))
    return float(outcome.records[name][-3:].mean())


def limits(program: Callable, parameters: dict, samples: int = 2048, count: int = 8) -> np.ndarray:
    """The late loss of replicates of the limit."""
    return np.array(
        [late_loss(x) for x in replicates(program, parameters, Limit(samples), count).runs]
    )


def deviations(
    program: Callable, parameters: dict, sizes: list[int], seeds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Late losses of networks minus that of the limit at each size, and their standard errors."""
    limit = limits(program, parameters)
    means, errors = [], []
    for size in sizes:
        losses = [late_loss(run(program, parameters, Dense(size, seed))) for seed in range(seeds)]
        means.append(np.mean(losses) - limit.mean())
        errors.append(np.hypot(stats.sem(losses), stats.sem(limit)))
    return np.array(means), np.array(errors)


@pytest.mark.slow
def test_deviation_of_networks_from_the_limit_falls_as_one_over_size():
    (first, second), errors = deviations(EXAMPLES["mlp"], {"steps": 10}, [16, 64], 200)
    # Seen clearly at the smaller size; at four times the size a quarter of it is left, up to 1/N² (of relative order
    # 1/16 of the first) and errors.
    assert abs(first) > 5 * errors[0]
    assert abs(second - first / 4) < 3.3 * np.hypot(errors[1], errors[0] / 4) + abs(first) / 16


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "muon"])
def test_deviation_of_every_example_falls_as_one_over_size(name):
    # Ratios such as 0.8 make whole numbers of these.
    sizes = [10, 20, 40, 80]
    # Logistic regression deviates little, and takes little time.
    seeds = 700 if name == "logistic_adam" else 250
    means, errors = deviations(EXAMPLES[name], {}, sizes, seeds)
    (a, _), (error, _), p = fitted(np.array(sizes), means, errors, powers=2)
    # a/N + b/N² is all there is, a constant is not needed.
    assert p > LEVEL
    assert abs(a) < ALLOWED + 3 * error
    # The deviation is seen at the smallest size, and at most a fifth of it is left at eight times that.
    assert abs(means[0]) > 3 * errors[0]
    assert abs(means[-1]) < abs(means[0]) / 5 + 3 * np.hypot(errors[-1], errors[0] / 5)


@pytest.mark.slow
def test_large_networks_trained_with_muon_reach_the_limit():
    # The number of the docstring of the example: ⟨h²⟩ of the first point after 8 steps.
    def after_8_steps(backend: Limit | Lazy, seeds: int) -> np.ndarray:
        runs = (run(EXAMPLES["muon"], {}, backend.reseeded(seed)) for seed in range(seeds))
        return np.array([outcome.records["size"][8, 0] for outcome in runs])

    limit = after_8_steps(Limit(16384), 8)
    z = []
    for size, seeds in ((400, 200), (12_800, 60)):
        networks = after_8_steps(Lazy(size, drop=1e-5), seeds)
        error = np.hypot(stats.sem(networks), stats.sem(limit))
        z.append((networks.mean() - limit.mean()) / error)
    # Far at N = 400, where singular values still scatter over the wiggles of the iteration; there at 12 800.
    assert abs(z[0]) > 4
    assert abs(z[1]) < 3.3
    # Directions that are dropped have no part in it: they change less than the error of the limit.
    tight = after_8_steps(Limit(16384, drop=1e-6), 2)
    assert np.all(np.abs(tight - limit[:2]) < stats.sem(limit))


@pytest.mark.parametrize("name", EXAMPLES)
def test_networks_agree_with_the_limit(name):
    check_agreement(*CASES[name], steps=4)


@pytest.mark.parametrize("name", ["reused", "mixture", "layered", "late"])
def test_data_and_rectangular_networks_agree_with_the_limit(name):
    check_agreement(*CASES[name])


@pytest.mark.parametrize("rule", ["adam", "sign", "langevin"])
def test_rules_on_entries_of_matrices_and_noise_agree_with_networks(rule):
    check_agreement(tied, {"rule": rule}, samples=512, steps=4)


def check_agreement(program: Callable, parameters: dict, samples: int = 1024, **other: int) -> None:
    """24 networks of N = 250: no record of any state deviates beyond a/N and errors."""
    parameters, size = {**parameters, **other}, 250
    limit = together(list(replicates(program, parameters, Limit(samples, seed=50), 8).runs))
    networks = together([run(program, parameters, Dense(size, seed)) for seed in range(24)])
    assert agreement(limit, networks, ALLOWED / size) > LEVEL


def test_more_samples_scatter_less():
    program, parameters = EXAMPLES["mlp"], {"steps": 6}
    spread = []
    for samples in (256, 4096):
        runs = together(list(replicates(program, parameters, Limit(samples), 10).runs))
        spread.append(np.sqrt(runs.var(0, ddof=1).mean()))
    # At least as S^{-1/2}, a factor of 4; each spread is known to 1/√(2·9) = 24 %.
    assert spread[1] < spread[0] / 4 * 1.7


def test_too_few_samples_are_refused_in_words():
    with pytest.raises(ProgramError, match="32 samples are too few: the dimension 'neurons'"):
        run(EXAMPLES["mlp"], {"steps": 20}, Limit(32))
    with pytest.raises(ProgramError, match="samples = 1000: must be a power of two"):
        Limit(1000)

"""Programs in the limit against trained networks, with error bars."""

import numpy as np
import pytest

from learndyn.programs import Dense, Limit, ProgramError, replicates, run
from tests.programs.cases import CASES, EXAMPLES, tied
from tests.programs.statistics import rms, together, z_of_means


def test_deviation_of_networks_from_the_limit_falls_as_one_over_size():
    program, parameters = EXAMPLES["mlp"], {"steps": 10}
    limit = together(list(replicates(program, parameters, Limit(2048), 8).runs))
    deviations, errors = [], []
    for size, seeds in ((16, 300), (64, 300)):
        networks = together([run(program, parameters, Dense(size, seed)) for seed in range(seeds)])
        late = np.s_[:, 8:11]  # the loss at the last states
        deviations.append(networks[late].mean() - limit[late].mean())
        variance = [x[late].mean(1).var(ddof=1) / len(x) for x in (networks, limit)]
        errors.append(np.sqrt(sum(variance)))
    first, second = deviations
    # Seen clearly at the smaller size; at four times the size a quarter of it is left, up to 1/N² (of relative order
    # 1/16 of the first) and errors.
    assert abs(first) > 5 * errors[0]
    bound = 4 * np.hypot(errors[1], errors[0] / 4) + abs(first) / 16
    assert abs(second - first / 4) < bound


@pytest.mark.parametrize("name", EXAMPLES)
def test_networks_agree_with_the_limit(name):
    program, parameters = CASES[name]
    parameters = {**parameters, "steps": 4}
    limit = together(list(replicates(program, parameters, Limit(1024, seed=50), 8).runs))
    # Networks deviate by 1/N and scatter by 1/√N: 24 of them at N = 250 scatter by .013 of the single entry's sd, and
    # deviate by .004 of the same order.
    networks = together([run(program, parameters, Dense(250, seed)) for seed in range(24)])
    assert rms(z_of_means(limit, networks)) < 2


@pytest.mark.parametrize("name", ["reused", "mixture", "layered", "late"])
def test_data_and_rectangular_networks_agree_with_the_limit(name):
    program, parameters = CASES[name]
    limit = together(list(replicates(program, parameters, Limit(1024, seed=50), 8).runs))
    networks = together([run(program, parameters, Dense(250, seed)) for seed in range(24)])
    assert rms(z_of_means(limit, networks)) < 2


@pytest.mark.parametrize("rule", ["adam", "sign", "langevin"])
def test_rules_on_entries_of_matrices_and_noise_agree_with_networks(rule):
    parameters = {"rule": rule, "steps": 4}
    limit = together(list(replicates(tied, parameters, Limit(512, seed=70), 8).runs))
    networks = together([run(tied, parameters, Dense(200, seed)) for seed in range(24)])
    assert rms(z_of_means(limit, networks)) < 2


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

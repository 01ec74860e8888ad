"""Several problems in the same memory give what each gives alone."""

from functools import partial

import numpy as np
import pytest
from learndyn.deep_linear.causal import solve
from learndyn.deep_linear.together import solve_many

import learndyn as ld
from learndyn.core.theory import theory_for
from learndyn.numerics.precision import float64
from learndyn.paths import changed
from tests import problems
from tests.deep_linear.test_rows import SETTINGS

METHOD = ld.Causal()


def alone(problem, save_at=None, method=METHOD):
    with float64():
        return solve(problem, method, save_at, 0, lambda _: None)


def together(problems, save_at=None, method=METHOD, wanted=None):
    with float64():
        return solve_many(problems, method, save_at, 0, wanted)


def assert_same(found, expected, names=None):
    """To rounding: the order of a sum may depend on where its terms lie in memory, so 1e-13 of the largest entry."""
    assert found.diverged_at == expected.diverged_at
    assert found.evidence == expected.evidence
    assert found.coordinates.keys() == expected.coordinates.keys()
    np.testing.assert_array_equal(found.times, expected.times)
    for name in names or expected.observables:
        one, other = found.observables[name], expected.observables[name]
        assert (one.dims, one.long_name) == (other.dims, other.long_name)
        scale = np.max(np.abs(other.values), initial=0.0)
        np.testing.assert_allclose(one.values, other.values, rtol=0, atol=1e-13 * scale)


linear = partial(
    problems.deep_linear,
    depth=2,
    width=0.8,
    richness=0.7,
    data=ld.Dataset(1.5, 0.4),
    rate=0.1,
    steps=40,
)

NAMES = ["deep", "decay, centred, momentum", "stream, two outputs", "spectrum, dataset"]


@pytest.mark.parametrize("name", [*NAMES, "spectrum, population"])
def test_every_problem_keeps_its_own_numbers(name):
    """Their rates, richness and noise differ, and so do all curves."""
    made = SETTINGS[name]
    values = [
        {},
        {"training.learning_rate": 0.03},
        {"network.richness": 0.4, "data.noise": 0.7},
        {"training.weight_decay": 0.2, "training.momentum": 0.3},
    ]
    problems = [changed(made, some) for some in values]
    found = together(problems)
    ends = [curves.observables["test_loss"].values[-1] for curves in found]
    assert len(set(ends)) == len(ends)
    for curves, problem in zip(found, problems, strict=True):
        expected = alone(problem)
        assert list(curves.observables) == list(expected.observables)
        assert_same(curves, expected)


@pytest.mark.parametrize("save_at", [None, [2, 7, 40], [39, 40]])
def test_training_that_diverges_leaves_nothing_behind_for_the_next(save_at):
    """Rates that diverge at once, later and never; the last recorded steps are not reached by some."""
    problems = [linear(rate=rate) for rate in (0.05, 50.0, 0.1, 1.5, 0.2)]
    found = together(problems, save_at)
    assert [curves.diverged_at is None for curves in found] == [True, False, True, False, True]
    for curves, problem in zip(found, problems, strict=True):
        assert_same(curves, alone(problem, save_at))


def test_only_what_is_wanted_is_made():
    problems = [linear(rate=0.05), linear(rate=0.1)]
    for wanted in (("test_loss",), ("bias",), ("C_h", "train_loss"), ("R_gu", "R_hr0")):
        found = together(problems, [0, 9, 40], wanted=wanted)
        for curves, problem in zip(found, problems, strict=True):
            assert set(wanted) <= curves.observables.keys()
            assert_same(curves, alone(problem, [0, 9, 40]), wanted)
    (curves, _) = together(problems, wanted=("test_loss",))
    assert set(curves.observables) == {"test_loss", "train_loss"}


ZERO = ld.Spectrum([1.0, 0.5, 0.0], [1.0, -0.5, 2.0])
FULL = ld.Spectrum([1.0, 0.5, 0.2], [1.0, -0.5, 2.0])
MANY = ld.PowerLaw(1.5, 0.7, 20)
UNSUITED = {
    "innovation basis": (linear(), ld.Causal(form="innovation")),
    "ensembles": (linear(), ld.Causal(ensembles=True)),
    "long": (linear(steps=250), METHOD),
    "grouped": (linear(width=20, data=ld.Stream(batch=5, spectrum=MANY)), ld.Causal(bins=8)),
}


@pytest.mark.parametrize("name", UNSUITED)
def test_what_it_does_not_suit_is_left_to_solve(name):
    problem, method = UNSUITED[name]
    assert together([problem, problem], method=method) is None


def test_spectra_with_another_number_of_modes_do_not_share_memory():
    spectra = [linear(width=20, data=ld.Stream(batch=5, spectrum=some)) for some in (FULL, ZERO)]
    assert together(spectra) is None
    assert together([spectra[1], spectra[1]]) is not None


def test_residual_networks_are_solved_one_by_one():
    assert theory_for(linear(skip=0.5)).many is None
    assert theory_for(linear()).many is solve_many

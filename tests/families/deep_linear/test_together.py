"""Several problems in the same memory give what each gives alone."""

from functools import partial

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.record import Record
from learndyn.core.theory import theory_for
from learndyn.numerics.precision import float64
from learndyn.problem.paths import changed
from tests import problems
from tests.families.deep_linear.test_rows import SETTINGS

METHOD = ld.Rows()


def alone(problem, save_at=None, method=METHOD):
    with float64():
        record = Record.of(problem.training, save_at)
        return theory_for(problem).solve(problem, method, record)


def pays_together(problems, save_at=None, method=METHOD):
    with float64():
        record = Record.of(problems[0].training, save_at)
        return theory_for(problems[0]).pays_together(problems, method, record)


def together(problems, save_at=None, method=METHOD, wanted=None):
    with float64():
        record = Record.of(problems[0].training, save_at)
        return theory_for(problems[0]).solve_many(problems, method, record, 0, wanted)


def assert_same(found, expected, names=None):
    """To rounding: the order of a sum may depend on where its terms lie in memory, so 1e-13 of the largest entry."""
    assert found.diverged_at == expected.diverged_at
    assert found.evidence == expected.evidence
    assert found.table == expected.table
    assert found.labels.keys() == expected.labels.keys()
    np.testing.assert_array_equal(found.times, expected.times)
    for name in names or expected.arrays:
        scale = np.max(np.abs(expected[name]), initial=0.0)
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-13 * scale)


linear = partial(
    problems.deep_linear,
    depth=2,
    width=0.8,
    richness=0.7,
    data=ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.4),
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
    assert pays_together(problems)
    found = together(problems)
    ends = [curves["test_loss"][-1] for curves in found]
    assert len(set(ends)) == len(ends)
    for curves, problem in zip(found, problems, strict=True):
        expected = alone(problem)
        assert list(curves.arrays) == list(expected.arrays)
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
            assert set(wanted) <= curves.arrays.keys()
            assert_same(curves, alone(problem, [0, 9, 40]), wanted)
    (curves, _) = together(problems, wanted=("test_loss",))
    assert set(curves.arrays) == {"test_loss", "train_loss"}


ZERO = ld.Spectrum([1.0, 0.5, 0.0], [1.0, -0.5, 2.0])
FULL = ld.Spectrum([1.0, 0.5, 0.2], [1.0, -0.5, 2.0])
MANY = ld.PowerLaw(1.5, 0.7, 20)
UNSUITED = {
    "innovation basis": (linear(), ld.Innovation()),
    "ensembles": (linear(), ld.Rows(ensembles=True)),
    "long": (linear(steps=250), METHOD),
    "grouped": (linear(width=20, data=ld.Stream(ld.LinearMap(MANY), batch=5)), ld.Rows(bins=8)),
    "residual": (linear(skip=0.5), METHOD),
    "infinitely deep": (linear(depth=np.inf, skip=ld.ScaledSkip(1.0)), ld.LayerNodes()),
}


@pytest.mark.parametrize("name", UNSUITED)
def test_what_does_not_pay_is_said(name):
    problem, method = UNSUITED[name]
    assert not pays_together([problem, problem], method=method)


@pytest.mark.parametrize("name", sorted(UNSUITED.keys() - {"infinitely deep"}))
def test_what_does_not_pay_is_solved_all_the_same(name):
    problem, method = UNSUITED[name]
    for curves in together([problem, problem], [0, 3, 12], method):
        assert_same(curves, alone(problem, [0, 3, 12], method))


def test_spectra_with_another_number_of_modes_do_not_share_memory():
    spectra = [
        linear(width=20, data=ld.Stream(ld.LinearMap(some), batch=5)) for some in (FULL, ZERO)
    ]
    assert not pays_together(spectra)
    assert pays_together([spectra[1], spectra[1]])
    for curves, problem in zip(together(spectra), spectra, strict=True):
        assert_same(curves, alone(problem))

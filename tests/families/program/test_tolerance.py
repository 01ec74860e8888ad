"""Sampling until the error is small enough, and the bias of batches."""

import functools

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.record import Record
from learndyn.programs import mean
from learndyn.sampling.batches import sampled
from tests.families.program.loops import perceptron
from tests.optional import not_none

PROBLEM = ld.Problem(ld.Program(perceptron, alpha=1.5, steps=5))


@functools.cache
def solved(**method) -> ld.Solution:
    """The problem by `SampledLimit`, solved once for all tests that ask for it."""
    return ld.solve(PROBLEM, ld.SampledLimit(**method))


def largest_error(solution):
    """The largest standard error of the solution, in units of max(1, largest value)."""
    return max(
        float((solution.standard_error(name) / max(1.0, float(abs(solution[name]).max()))).max())
        for name in solution.observables
    )


@pytest.mark.parametrize("tolerance", [4e-3, 1e-3])
def test_the_standard_error_is_below_the_tolerance(tolerance):
    solution = solved(tolerance=tolerance)
    assert largest_error(solution) <= tolerance
    assert solution.evidence["tolerance"] == tolerance


@pytest.mark.slow
def test_two_tolerances_agree_within_their_errors():
    coarse, fine = (solved(tolerance=x) for x in (4e-3, 1e-3))
    difference = (coarse["overlaps"] - fine["overlaps"]).values
    error = np.hypot(*(not_none(s.standard_error("overlaps")).values for s in (coarse, fine)))
    moving = error > 0
    # Student's t with 7 degrees of freedom exceeds 5.4 in one of 1000; few of the numbers are independent.
    assert np.abs(difference[moving] / error[moving]).max() < 5.4


def test_a_tighter_tolerance_takes_more_samples():
    numbers = []
    for tolerance in (4e-3, 1e-3):
        evidence = solved(tolerance=tolerance).evidence
        numbers.append(evidence["samples"] * evidence["batches"])
    assert numbers[1] > numbers[0]


def test_with_given_samples_batches_are_added():
    solution = solved(tolerance=8e-3, samples=128, batches=4)
    assert solution.evidence["samples"] == 128
    assert solution.evidence["batches"] > 4
    assert largest_error(solution) <= 8e-3


def test_a_tolerance_out_of_reach_says_how_far_it_came():
    method = ld.SampledLimit(tolerance=1e-9, samples=64, batches=4)
    with pytest.raises(
        ld.NotConverged, match=r"after 4 batches of 64 samples, and 1e-09 would take \d+"
    ):
        ld.solve(PROBLEM, method)


def test_what_the_tolerance_costs_is_said(capsys):
    ld.solve(PROBLEM, ld.SampledLimit(tolerance=8e-3, samples=128, batches=4), progress=True)
    said = capsys.readouterr().err
    assert "for 0.008 next" in said
    assert " batches of 128 samples: about " in said
    assert said.splitlines()[0].endswith("MB")
    ld.solve(PROBLEM, ld.SampledLimit(tolerance=8e-3, samples=128, batches=4))
    assert capsys.readouterr().err == ""


def fluctuating(net, steps=1):
    """(⟨x⟩ − ½)² of uniform numbers, which is 0 in the limit and 1/(12 S) on average over S samples.

    The first 64 vectors of a dimension are quasi-random, and their means fluctuate less; 16 others are averaged.
    """
    x = net.uniform(net.dim("n"), 80)
    for _ in net.steps(steps):
        net.record(square=((mean(x[64:]) - 0.5) ** 2).sum() / 16)


def test_a_bias_is_seen_and_extrapolated_away():
    problem = ld.Problem(ld.Program(fluctuating))
    setting = ld.SampledLimit().setting(problem, Record.of(problem.training), 0)
    samples = 256
    few = sampled(setting, samples, range(64), True, lambda done: None)
    assert few.bias_is_seen()
    expected = 1 / (12 * samples)
    bias, error = few.bias()["square"]
    # Four standard errors of 64 batches: one in 6000.
    assert abs(bias[0] - expected) < 4 * error[0] < expected
    plain, better = (few.curves(extrapolate) for extrapolate in (False, True))
    assert abs(plain["square"][0] - expected) < 4 * plain.errors["square"][0] < expected
    assert abs(better["square"][0]) < 4 * better.errors["square"][0]
    chosen = ld.solve(problem, ld.SampledLimit(samples=samples, batches=64))
    assert chosen.evidence["extrapolated"] is True
    assert chosen["square"].values[0] == better["square"][0]


def test_no_bias_is_seen_where_there_is_none():
    setting = ld.SampledLimit().setting(PROBLEM, Record.of(PROBLEM.training), 0)
    many = sampled(setting, 2048, range(8), True, lambda done: None)
    assert not many.bias_is_seen()
    assert set(many.bias()) == {"train_loss", "overlaps"}


def test_samples_that_are_few_for_the_directions_are_warned_of():
    problem = ld.Problem(ld.Program(perceptron, steps=12))
    solution = ld.solve(problem, ld.SampledLimit(samples=64, batches=2, extrapolate=False))
    assert solution.evidence["fullness"] > 0.2
    assert "64 samples are few for" in not_none(solution.evidence.warnings)[0]
    assert ld.solve(problem).evidence["fullness"] <= 0.2


def test_fewer_samples_than_directions_are_refused():
    problem = ld.Problem(ld.Program(perceptron, steps=30))
    with pytest.raises(ld.ProgramError, match="samples are too few: the dimension"):
        ld.solve(problem, ld.SampledLimit(samples=16, extrapolate=False))


def test_samples_whose_halves_are_too_few_are_enough_without_a_bias():
    problem = ld.Problem(ld.Program(perceptron, steps=12))
    solution = ld.solve(problem, ld.SampledLimit(samples=64, batches=2))
    assert "bias" not in solution.evidence
    assert "64 samples are few for" in not_none(solution.evidence.warnings)[0]
    with pytest.raises(ld.ProgramError, match="32 samples are too few"):
        ld.solve(problem, ld.SampledLimit(samples=64, batches=2, extrapolate=True))

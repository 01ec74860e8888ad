from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import t as student

from learndyn.core.compare import compare
from learndyn.core.solution import Solution, load
from learndyn.errors import CannotCompare, ProblemError
from learndyn.numerics.max_t import independent_looks, max_t_test
from learndyn.problem.activations import Custom
from tests import problems

SIZE = 500
TIMES = np.linspace(0.0, 10.0, 41)
make_problem = partial(problems.two_layer, teacher_activation="erf", rate=0.1)

PROBLEM = make_problem()


def loss(times):
    return 0.5 * np.exp(-times / 4) + 0.1


def overlaps(times):
    return np.tanh(times[:, None, None] / np.array([[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]))


def dataset(times, test_loss, R, front=(), axis="time"):
    arrays = {"test_loss": ((*front, axis), test_loss, {"long_name": "test loss", "units": "1"})}
    arrays["R"] = ((*front, axis, "student", "teacher"), R, {"long_name": "overlaps R"})
    return xr.Dataset(arrays, {axis: times, "student": [0, 1], "teacher": [0, 1, 2]})


def make_theory(
    times: np.ndarray = TIMES, problem=PROBLEM, axis="time", diverged_at=None, **evidence
):
    data = dataset(times, loss(times), overlaps(times), axis=axis)
    return Solution(data, problem, {"kind": "theory"} | evidence, diverged_at=diverged_at)


def noise(rng, *shape, ell=0.1):
    """Gaussian processes of unit variance, periodic in the last axis, correlated over `ell`."""
    count = shape[-1]
    frequencies = np.fft.fftfreq(count, 1 / count)
    filtering = np.exp(-((np.pi * ell * frequencies) ** 2))
    filtering /= np.sqrt(np.mean(filtering**2))
    white = np.fft.rfft(rng.standard_normal(shape))
    return np.fft.irfft(white * filtering[: white.shape[-1]], count)


def make_runs(
    seeds=10,
    times: np.ndarray = TIMES,
    bias=0.0,
    spread=0.01,
    problem=PROBLEM,
    seed=0,
    axis="time",
    diverged_at=None,
):
    """Runs whose residuals are smooth noise that starts at zero, plus `bias` on the test loss."""
    rng = np.random.default_rng(seed)
    growth = spread * np.minimum(times, 1.0)
    test_loss = loss(times) + bias * (times > 0) + growth * noise(rng, seeds, len(times))
    R = overlaps(times) + np.moveaxis(growth * noise(rng, seeds, 2, 3, len(times)), -1, 1)
    data = dataset(times, test_loss, R, ("seed",), axis).assign_coords(seed=np.arange(seeds))
    evidence = {"kind": "simulation", "size": SIZE}
    return Solution(data, problem, evidence, diverged_at=diverged_at)


CASES = [(seeds, ell) for seeds in (3, 5, 10, 30) for ell in (0.0, 0.02, 0.1, 0.5)]


def test_the_rate_of_false_alarms_is_the_level_for_any_correlation_and_few_seeds():
    level, repetitions = 0.05, 200
    rng = np.random.default_rng(0)
    rates = []
    for seeds, ell in CASES:
        trials = noise(rng, repetitions, seeds, 200, ell=ell)
        p = [max_t_test(x, 0.0, level, draws=100)[1] for x in trials]
        rates.append(np.mean(np.array(p) < level))
    # Three binomial standard errors, of one case and of all together.
    error = np.sqrt(level * (1 - level) / repetitions)
    assert max(rates) < level + 3 * error
    assert abs(np.mean(rates) - level) < 3 * error / np.sqrt(len(CASES))


@pytest.mark.parametrize("ell", [0.02, 0.1, 0.5])
def test_a_shift_of_five_standard_errors_is_found_with_ten_seeds(ell):
    rng = np.random.default_rng(1)
    trials = noise(rng, 100, 10, 200, ell=ell) + 5 / np.sqrt(10)
    p = [max_t_test(x, 0.0, 0.05, draws=200)[1] for x in trials]
    assert np.mean(np.array(p) < 0.05) > 0.9


@pytest.mark.parametrize("mean", [0.0, 0.5, 1.0])
def test_a_bias_within_the_allowance_raises_no_more_false_alarms(mean):
    level, repetitions = 0.05, 300
    rng = np.random.default_rng(2)
    trials = noise(rng, repetitions, 5, 100) + mean
    p = [max_t_test(x, 1.0, level, draws=200)[1] for x in trials]
    # Three binomial standard errors.
    assert np.mean(np.array(p) < level) < level + 3 * np.sqrt(level * (1 - level) / repetitions)


@pytest.mark.parametrize("single", [1e-3, 1e-2, 0.1])
@pytest.mark.parametrize(("seeds", "ell"), [(2, 0.5), (3, 0.1), (10, 0.0)])
def test_looks_give_the_chance_of_a_large_t_under_random_rotations(seeds, ell, single):
    rng = np.random.default_rng(3)
    residuals = noise(rng, seeds, 60, ell=ell)
    directions = residuals / np.linalg.norm(residuals, axis=0)
    looks = independent_looks(directions, single, 20_000)
    count = 20_000
    rotated = rng.standard_normal((count, seeds))
    rotated /= np.linalg.norm(rotated, axis=1, keepdims=True)
    cosine = np.abs(rotated @ directions).max(axis=1)
    edge = student.isf(single / 2, seeds - 1)
    rate = np.mean(cosine * np.hypot(edge, np.sqrt(seeds - 1)) >= edge)
    # Four binomial standard errors; that of the looks, with as many draws, is not larger.
    tolerance = 4 * np.sqrt(2 * rate * (1 - rate) / count)
    assert 1 - (1 - single) ** looks == pytest.approx(rate, abs=tolerance)


def test_looks_count_what_is_independent():
    rng = np.random.default_rng(4)
    white = noise(rng, 30, 200, ell=0)
    assert max_t_test(white, 0.0, 0.01)[2] > 150
    copies = np.repeat(white[:, :1], 200, axis=1) * np.linspace(0.1, 7, 200)
    # All caps coincide, so each sample counts as one two-hundredth, up to rounding.
    assert max_t_test(copies, 0.0, 0.01)[2] == pytest.approx(1.0, rel=1e-9)
    both = np.concatenate([np.repeat(white[:, :1], 200, axis=1), white[:, 1:11]], axis=1)
    # Twenty draws in 2000 · 10/210 hit one of the ten others: a sampling error of a tenth.
    assert max_t_test(both, 0.0, 0.01)[2] == pytest.approx(11, rel=0.4)


def test_thousands_of_looks_are_counted_though_p_is_one():
    white = noise(np.random.default_rng(6), 30, 3000, ell=0)
    # Caps of measure 0.01/3000 hardly overlap, so all but a few draws are covered once.
    assert max_t_test(white, 10.0, 0.01) == (0.0, 1.0, pytest.approx(3000, rel=0.05))


def test_very_small_p_values_are_finite_and_ordered():
    rng = np.random.default_rng(5)
    x = noise(rng, 5, 50)
    p = [max_t_test(x + shift, 0.0, 0.01)[1] for shift in (10.0, 1e3, 1e8)]
    assert 0 < p[2] < p[1] < p[0] < 1e-2


def test_good_runs_agree_and_biased_ones_do_not():
    theory = make_theory()
    good = compare(theory, make_runs(), finite_size=0)
    assert good.agrees
    assert list(good.table.index) == ["test_loss", "R"]
    assert set(good.table["verdict"]) == {"agrees"}
    bad = compare(theory, make_runs(bias=0.02), finite_size=0)
    assert not bad.agrees
    assert bad.table["verdict"].to_dict() == {"test_loss": "differs", "R": "agrees"}
    assert (bad.table["p"] >= bad.level).tolist() == [False, True]


def test_one_wrong_component_of_a_matrix_is_found():
    runs = make_runs()
    data = runs.data.copy(deep=True)
    data["R"][:, 20:, 1, 2] += 0.05
    result = compare(make_theory(), Solution(data, PROBLEM, runs.evidence))
    assert result.table["verdict"].to_dict() == {"test_loss": "agrees", "R": "differs"}
    assert result.table.loc["R", "at"] >= TIMES[20]
    worst = abs(result.deviations["R_in_errors"]).max("time")
    assert worst.argmax(...)["student"] == 1
    assert worst.argmax(...)["teacher"] == 2


def test_a_deviation_of_order_one_over_size_is_allowed_unless_the_test_is_strict():
    scale = loss(TIMES).max()
    runs = make_runs(bias=0.9 * scale / SIZE, spread=1e-5)
    assert compare(make_theory(), runs).agrees
    assert not compare(make_theory(), runs, finite_size=0).agrees
    assert not compare(make_theory(), runs, finite_size=0.5).agrees
    # The accuracy that the theory states for itself is allowed on top.
    known = make_theory(accuracy={"test_loss": scale / SIZE})
    assert compare(known, runs, finite_size=0).agrees
    assert not compare(make_theory(accuracy={"R": 1.0}), runs, finite_size=0).agrees


def test_the_table_holds_the_numbers_it_says():
    theory, runs = make_theory(), make_runs(bias=0.004)
    result = compare(theory, runs)
    residuals = runs["test_loss"].values - loss(TIMES)
    mean = residuals.mean(0)
    error = residuals.std(0, ddof=1) / np.sqrt(10)
    with np.errstate(invalid="ignore"):
        ratio = mean[1:] / error[1:]
    row = result.table.loc["test_loss"]
    size = np.sqrt(np.mean(loss(TIMES) ** 2))
    expected = {
        "largest_in_errors": np.abs(ratio).max(),
        "at": TIMES[1 + np.abs(ratio).argmax()],
        "beyond_allowance": ((np.abs(mean) - 0.6 / SIZE - 0.6e-9)[1:] / error[1:]).max(),
        "rms_in_errors": np.sqrt(np.mean(ratio**2)),
        "rms_per_cent": 100 * np.sqrt(np.mean(mean**2)) / size,
        "worst_per_cent": 100 * np.abs(mean).max() / size,
    }
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-9), name
    deviations = result.deviations
    np.testing.assert_allclose(deviations["test_loss"], mean, atol=1e-15)
    np.testing.assert_allclose(deviations["test_loss_standard_error"], error, atol=1e-15)
    np.testing.assert_allclose(deviations["test_loss_in_errors"][1:], ratio)
    np.testing.assert_allclose(deviations["test_loss_per_cent"], 100 * mean / size, atol=1e-12)
    assert deviations["R_in_errors"].dims == ("time", "student", "teacher")
    assert deviations["test_loss"].attrs["long_name"] == "mean of the runs minus theory: test loss"


def test_without_spread_a_deviation_counts_only_beyond_the_allowance():
    scale = loss(TIMES).max()
    exact = compare(make_theory(), make_runs(spread=0.0), finite_size=0)
    assert exact.agrees
    assert exact.table.loc["test_loss", "largest_in_errors"] == 0
    assert compare(make_theory(), make_runs(spread=0.0, bias=0.9 * scale / SIZE)).agrees
    off = compare(make_theory(), make_runs(spread=0.0, bias=1.1 * scale / SIZE))
    assert off.table.loc["test_loss", ["p", "verdict"]].tolist() == [0.0, "differs"]
    assert np.isinf(off.table.loc["test_loss", "beyond_allowance"])


@pytest.mark.parametrize("spread", [1e-14, 1e-11])
def test_rounding_is_no_difference_even_if_all_seeds_round_alike(spread):
    """Zeros of the theory that are 10⁻¹⁰ of the scale in all runs agree strictly; 10⁻⁸ of it do not."""
    scale = np.max(np.abs(overlaps(TIMES)))
    for size, agrees in ((1e-10, True), (1e-8, False)):
        theory, runs = make_theory(), make_runs(spread=0.0)
        theory.data["R"][:, 0] = 0.0
        rounding = np.random.default_rng(1).standard_normal(runs.data["R"][:, :, 0].shape)
        runs.data["R"][:, :, 0] = scale * size * (1 + spread / size * rounding)
        assert compare(theory, runs, finite_size=0).agrees == agrees


def test_axes_in_another_order_compare_the_same():
    theory, runs = make_theory(), make_runs()
    turned = theory.data.transpose("teacher", "time", "student")
    other = compare(Solution(turned, PROBLEM, theory.evidence), runs)
    xr.testing.assert_equal(compare(theory, runs).deviations, other.deviations)


def test_the_theory_is_interpolated_to_whole_steps():
    size = 37
    steps = np.rint(np.linspace(0, 10, 33) * size) / size
    runs = make_runs(times=steps)
    runs = Solution(runs.data, PROBLEM, {"kind": "simulation", "size": size})
    result = compare(make_theory(), runs, finite_size=0)
    exact = runs["test_loss"].mean("seed").values - loss(steps)
    # A cubic spline errs by at most 5/384 h⁴ max|f''''|, a little more near the ends.
    bound = 4 * 5 / 384 * 0.25**4 * 0.5 / 4**4
    np.testing.assert_allclose(result.deviations["test_loss"], exact, atol=bound)
    assert result.agrees
    assert any("interpolated" in note for note in result.notes)
    for same in (TIMES, TIMES / 3 * 3, TIMES * (1 + 1e-15)):
        notes = compare(make_theory(), make_runs(times=same)).notes
        assert not any("interpolated" in note for note in notes)


def test_a_coarse_theory_grid_is_no_reason_to_differ():
    times = np.linspace(0, 10, 61)
    coarse = make_theory(times=np.linspace(0, 10, 21))
    assert compare(coarse, make_runs(times=times, spread=1e-6), finite_size=0).agrees
    pair = make_theory(times=np.array([0.0, 10.0]))
    assert compare(pair, make_runs(times=times), finite_size=0).deviations.sizes["time"] == 61


def test_runs_beyond_the_theory_are_refused_but_half_a_step_is_not():
    with pytest.raises(
        CannotCompare, match=r"runs have the time 9\.25, but the theory spans 0 to 9"
    ):
        compare(make_theory(times=np.linspace(0, 9, 37)), make_runs())
    ends = TIMES + 0.4 / SIZE
    assert compare(make_theory(), make_runs(times=ends)).agrees


def test_steps_are_matched_exactly():
    steps = np.arange(0, 41, 2)
    theory = make_theory(times=np.arange(41), axis="step")
    result = compare(theory, make_runs(times=steps, axis="step"))
    assert result.agrees
    assert result.table.loc["R", "at"] in steps
    assert "at step" in str(result)
    with pytest.raises(CannotCompare, match=r"lacks step \[1\.5\]"):
        compare(theory, make_runs(times=np.array([0, 1.5, 2]), axis="step"))
    with pytest.raises(CannotCompare, match="over step, the runs are over time"):
        compare(theory, make_runs())


def test_only_what_precedes_divergence_is_compared():
    runs = make_runs(diverged_at=6.0)
    data = runs.data.copy(deep=True)
    data["test_loss"][1, TIMES >= 6.0] = np.nan
    runs = Solution(data, PROBLEM, runs.evidence, diverged_at=6.0)
    result = compare(make_theory(), runs)
    assert result.deviations["time"].max() < 6.0
    assert "The runs diverged at time 6" in str(result)
    short = TIMES[TIMES < 4]
    earlier = compare(make_theory(times=short, diverged_at=4.0), runs)
    assert "The theory diverged at time 4" in str(earlier)
    assert earlier.deviations["time"].max() == short[-1]
    with pytest.raises(CannotCompare, match="nothing to compare: the runs diverged at time 0"):
        compare(make_theory(), make_runs(diverged_at=0.0))


def test_numbers_that_are_not_finite_are_never_passed_over():
    data = make_runs().data.copy(deep=True)
    data["R"][3, 7, 0, 0] = np.nan
    with pytest.raises(CannotCompare, match="R of the runs is not a finite number"):
        compare(make_theory(), Solution(data, PROBLEM, make_runs().evidence))
    data = make_theory().data.copy(deep=True)
    data["test_loss"][-1] = np.inf
    shifted = make_runs(times=TIMES[:-1] + 0.1)
    with pytest.raises(CannotCompare, match="test_loss of the theory is not a finite number"):
        compare(Solution(data, PROBLEM, {"kind": "theory"}), shifted)


def test_the_first_field_in_which_problems_differ_is_named():
    text = r"training\.learning_rate is 0\.1 in the theory and 0\.2 in the runs"
    with pytest.raises(CannotCompare, match=text):
        compare(make_theory(), make_runs(problem=make_problem(rate=0.2)))
    with pytest.raises(CannotCompare, match=r"network\.activation"):
        compare(make_theory(), make_runs(problem=make_problem(activation="relu")))


def test_python_functions_compare_if_they_are_the_same_or_both_from_files(tmp_path):
    problem = make_problem(activation=Custom(jnp.tanh, "mine"))
    theory, runs = make_theory(problem=problem), make_runs(problem=problem)
    assert compare(theory, runs).agrees
    theory.save(tmp_path / "theory.nc")
    runs.save(tmp_path / "runs.nc")
    loaded = load(tmp_path / "theory.nc"), load(tmp_path / "runs.nc")
    assert compare(*loaded).agrees
    with pytest.raises(CannotCompare, match="Python function"):
        compare(theory, loaded[1])


def test_solutions_that_cannot_be_compared_are_refused_with_the_reason():
    theory, runs = make_theory(), make_runs()
    number: Any = 3
    with pytest.raises(CannotCompare, match="swapped"):
        compare(runs, theory)
    with pytest.raises(CannotCompare, match="first argument is a simulation"):
        compare(runs, runs)
    with pytest.raises(CannotCompare, match="second argument is a theory"):
        compare(theory, theory)
    with pytest.raises(CannotCompare, match="runs = 3: must be a Solution"):
        compare(theory, number)
    with pytest.raises(CannotCompare, match="at least 2 seeds"):
        compare(theory, make_runs(seeds=1))
    other = Solution(runs.data.rename(test_loss="a", R="b"), PROBLEM, runs.evidence)
    with pytest.raises(CannotCompare, match="no observable in common"):
        compare(theory, other)
    lost = Solution(runs.data, PROBLEM, {"kind": "simulation"})
    with pytest.raises(CannotCompare, match="do not state their size"):
        compare(theory, lost)
    assert compare(theory, lost, finite_size=0).agrees
    flat = Solution(runs.data.isel(teacher=0), PROBLEM, runs.evidence)
    with pytest.raises(CannotCompare, match="R has the axes"):
        compare(theory, flat)
    with pytest.raises(ProblemError, match="level"):
        compare(theory, runs, level=1.5)
    with pytest.raises(ProblemError, match="finite_size"):
        compare(theory, runs, finite_size=-1)


def test_an_observable_in_one_solution_only_is_mentioned():
    theory = make_theory()
    more = Solution(theory.data.assign(kernel=theory["test_loss"]), PROBLEM, theory.evidence)
    assert "only one of the two has it: kernel" in str(compare(more, make_runs()))


def test_two_time_observables_are_interpolated_in_both_times():
    def correlation(a, b):
        return np.exp(-((a[:, None] - b) ** 2) / 50)

    steps = np.rint(TIMES[::4] * 30) / 30
    data = xr.Dataset({"C": (("time", "time2"), correlation(TIMES, TIMES))})
    data = data.assign_coords(time=TIMES, time2=TIMES)
    theory = Solution(data, PROBLEM, {"kind": "theory"})
    C = correlation(steps, steps) + 0.01 * np.random.default_rng(0).standard_normal((4, 11, 11))
    data = xr.Dataset({"C": (("seed", "time", "time2"), C)})
    data = data.assign_coords(time=steps, time2=steps, seed=range(4))
    result = compare(theory, Solution(data, PROBLEM, {"kind": "simulation", "size": 30}))
    assert result.agrees
    exact = C.mean(0) - correlation(steps, steps)
    # Spline error 5/384 h⁴ |f''''| with f'''' = 12/50², in two directions, and more near the ends.
    np.testing.assert_allclose(
        result.deviations["C"], exact, atol=8 * 5 / 384 * 0.25**4 * 12 / 2500
    )


def test_the_text_is_a_table_of_at_most_100_columns_with_a_verdict():
    result = compare(make_theory(), make_runs(bias=0.05))
    lines = str(result).splitlines()
    assert lines[0] == "theory against 10 runs of size 500: test_loss differs"
    assert max(map(len, lines)) <= 100
    assert repr(result) == str(result)
    assert "1 × (largest value)/500" in str(result)
    assert "strict" in str(compare(make_theory(), make_runs(), finite_size=0))
    assert "agreement in every observable" in str(compare(make_theory(), make_runs()))
    assert "<table" in result._repr_html_()


def test_the_same_solutions_give_the_same_numbers():
    first, second = (compare(make_theory(), make_runs()) for _ in range(2))
    assert first.table.equals(second.table)


def sampled_theory(errors, times: np.ndarray = TIMES, values=None, axis="time", **more):
    """The theory with standard errors of the test loss."""
    data = dataset(times, loss(times) if values is None else values, overlaps(times), axis=axis)
    words = {"standard_error_of": "test_loss"}
    data = data.assign(test_loss_standard_error=(axis, errors, words), **more)
    return Solution(data, PROBLEM, {"kind": "theory"})


def test_the_error_bar_of_a_deviation_holds_the_sampling_error_of_the_theory():
    errors = 0.001 + 0.0005 * TIMES
    runs = make_runs(bias=0.004)
    result = compare(sampled_theory(errors), runs)
    residuals = runs["test_loss"].values - loss(TIMES)
    mean = residuals.mean(0)
    error = np.sqrt(residuals.var(0, ddof=1) / 10 + errors**2)
    row, deviations = result.table.loc["test_loss"], result.deviations
    np.testing.assert_allclose(deviations["test_loss_standard_error"], error, rtol=1e-12)
    np.testing.assert_allclose(deviations["test_loss_in_errors"], mean / error, atol=1e-12)
    assert row["largest_in_errors"] == pytest.approx(np.max(np.abs(mean) / error))
    assert row["rms_in_errors"] == pytest.approx(np.sqrt(np.mean((mean / error) ** 2)))
    beyond = np.max((np.abs(mean) - 0.6 / SIZE) / error)
    assert row["beyond_allowance"] == pytest.approx(beyond)
    plain = compare(make_theory(), runs)
    pd.testing.assert_series_equal(result.table.loc["R"], plain.table.loc["R"])
    assert row["rms_per_cent"] == plain.table.loc["test_loss", "rms_per_cent"]
    assert "only one of the two" not in str(result)
    assert "its standard errors of test_loss are part of the error bars" in str(result)
    assert "sampled" not in str(plain)


def test_vanishing_sampling_errors_change_nothing():
    for bias in (0.0, 0.01):
        runs = make_runs(bias=bias)
        with_errors = compare(sampled_theory(np.zeros(len(TIMES))), runs)
        # The same draws and the same caps.
        pd.testing.assert_frame_equal(with_errors.table, compare(make_theory(), runs).table)


def test_sampling_errors_are_taken_to_the_times_of_the_runs():
    times = np.rint(TIMES * 37) / 37
    runs = make_runs(times=times, spread=0.0)
    runs = Solution(runs.data, PROBLEM, {"kind": "simulation", "size": 37})
    result = compare(sampled_theory(0.001 + 0.0005 * TIMES), runs)
    np.testing.assert_allclose(
        result.deviations["test_loss_standard_error"], 0.001 + 0.0005 * times, rtol=1e-12
    )
    steps = np.arange(0, 41, 2)
    theory = sampled_theory(0.01 * np.arange(41), np.arange(41), axis="step")
    result = compare(theory, make_runs(times=steps, axis="step", spread=0.0))
    np.testing.assert_allclose(result.deviations["test_loss_standard_error"], 0.01 * steps)


def test_runs_without_spread_are_judged_by_the_sampling_error_alone():
    errors = np.full(len(TIMES), 0.01)
    good = compare(sampled_theory(errors), make_runs(spread=0.0, bias=0.01), finite_size=0)
    assert good.agrees
    # Student's law of nine degrees of freedom at 0.01/41: 5.7.
    bad = compare(sampled_theory(errors), make_runs(spread=0.0, bias=0.08), finite_size=0)
    assert bad.table["verdict"].to_dict() == {"test_loss": "differs", "R": "agrees"}


def test_a_standard_error_that_is_not_known_is_never_passed_over():
    for value in (np.nan, np.inf, -1.0):
        errors = np.full(len(TIMES), 0.01)
        errors[3] = value
        with pytest.raises(CannotCompare, match="standard error of test_loss in the theory"):
            compare(sampled_theory(errors), make_runs())


def test_single_numbers_are_compared_and_those_that_are_not_judged_may_be_no_numbers():
    rng = np.random.default_rng(7)
    error = xr.DataArray(0.02, attrs={"standard_error_of": "limit"})
    theory = sampled_theory(np.full(len(TIMES), 0.01), limit=3.5, limit_standard_error=error)
    drop = xr.DataArray(np.nan, attrs={"judged": 0})
    theory = Solution(theory.data.assign(drop=drop), PROBLEM, theory.evidence)
    runs = make_runs()
    limits = 3.5 + 0.01 * rng.standard_normal(10)
    data = runs.data.assign(drop=("seed", np.full(10, np.nan)))
    for shift, verdict in ((0.0, "agrees"), (0.5, "differs")):
        both = Solution(data.assign(limit=("seed", limits + shift)), PROBLEM, runs.evidence)
        result = compare(theory, both, finite_size=0)
        assert result.table.loc["limit", "verdict"] == verdict
        expected = (np.mean(limits) + shift - 3.5) / np.hypot(
            np.std(limits, ddof=1), 0.02 * 10**0.5
        )
        expected *= 10**0.5
        assert result.deviations["limit_in_errors"] == pytest.approx(expected)
        assert result.table.loc["limit", "largest_in_errors"] == pytest.approx(abs(expected))
        assert np.isnan(result.table.loc["limit", "at"])
        assert "Not judged: drop" in str(result)


@pytest.mark.parametrize(
    ("seeds", "ratio", "ell"),
    [
        *((4, 1.0, 0.0), (10, 0.3, 0.3), (10, 2.0, 0.0), (30, 1.0, 0.3)),
        *(
            pytest.param(*other, marks=pytest.mark.slow)
            for other in ((4, 1.0, 0.3), (10, 0.3, 0.0), (10, 2.0, 0.3), (30, 1.0, 0.0))
        ),
    ],
)
def test_sampling_errors_raise_no_false_alarms(seeds, ratio, ell):
    """Theories whose errors are `ratio` times those of the runs, and correlated over `ell`."""
    level, repetitions = 0.05, 200
    rng = np.random.default_rng(8)
    errors = np.full(60, ratio / np.sqrt(seeds))
    p = []
    for _ in range(repetitions):
        residuals = noise(rng, seeds, 60, ell=0.3) - errors * noise(rng, 60, ell=ell)
        p.append(max_t_test(residuals, 0.0, level, draws=200, further=errors)[1])
    # Three binomial standard errors.
    bound = level + 3 * np.sqrt(level * (1 - level) / repetitions)
    assert np.mean(np.array(p) < level) < bound


def test_false_alarms_are_rare_with_the_sampling_errors_and_common_without():
    level, repetitions, few = 0.05, 200, 40
    times = np.linspace(0.0, 10.0, 11)
    errors = 0.01 * np.minimum(times, 1.0)
    rng = np.random.default_rng(9)
    alarms = np.zeros(2)
    for seed in range(repetitions):
        runs = make_runs(times=times, seed=seed, problem=PROBLEM)
        runs = Solution(runs.data.drop_vars("R"), PROBLEM, runs.evidence)
        sampled = sampled_theory(
            errors, times, loss(times) + errors * rng.standard_normal(len(times))
        )
        ignored = Solution(
            sampled.data.drop_vars("test_loss_standard_error"), PROBLEM, sampled.evidence
        )
        alarms[0] += not compare(sampled, runs, level=level, finite_size=0).agrees
        if seed < few:
            alarms[1] += not compare(ignored, runs, level=level, finite_size=0).agrees
    rates = alarms / [repetitions, few]
    # Three binomial standard errors above the level; without them, errors three times as large as those of the runs.
    assert rates[0] < level + 3 * np.sqrt(level * (1 - level) / repetitions)
    assert rates[1] > 0.9


def test_a_deviation_beyond_both_errors_is_found():
    rng = np.random.default_rng(10)
    errors = np.full(60, 1 / np.sqrt(10))
    residuals = noise(rng, 100, 10, 60, ell=0.3) - errors * noise(rng, 100, 1, 60, ell=0.0)
    # Seven combined standard errors, where Student's law of nine degrees of freedom at 0.05/60 ends at 4.9.
    p = [
        max_t_test(x + 7 * np.sqrt(2 / 10), 0.0, 0.05, draws=200, further=errors)[1]
        for x in residuals
    ]
    assert np.mean(np.array(p) < 0.05) > 0.9


@pytest.mark.parametrize(
    ("share", "ell"),
    [
        *((0.0, 0.0), (0.4, 0.3), (0.8, 0.0), (0.95, 0.3)),
        *(
            pytest.param(*other, marks=pytest.mark.slow)
            for other in ((0.0, 0.3), (0.4, 0.0), (0.8, 0.3), (0.95, 0.0))
        ),
    ],
)
def test_looks_with_sampling_errors_give_the_chance_of_a_large_deviation(share, ell):
    rng = np.random.default_rng(11)
    seeds, points, single, count = 200, 40, 1e-2, 20_000
    residuals = noise(rng, seeds, points, ell=ell)
    directions = residuals / np.linalg.norm(residuals, axis=0)
    looks = independent_looks(directions, single, 20_000, np.full(points, share))
    rotated = rng.standard_normal((count, seeds))
    cosine = rotated / np.linalg.norm(rotated, axis=1, keepdims=True) @ directions
    t = np.sqrt(seeds - 1) * cosine / np.sqrt(1 - cosine**2)
    u = share * t + np.sqrt(1 - share**2) * rng.standard_normal(t.shape)
    edge = student.isf(single / 2, seeds - 1)
    rate = np.mean(np.any(np.abs(u) >= edge, axis=1))
    # Four binomial standard errors, and 7.5 %, by which the tail of Student's law with 199 degrees of freedom is
    # heavier than the Gaussian one.
    tolerance = 4 * np.sqrt(2 * rate * (1 - rate) / count) + 0.075 * rate
    assert 1 - (1 - single) ** looks == pytest.approx(rate, abs=tolerance)

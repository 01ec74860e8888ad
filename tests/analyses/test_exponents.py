"""Local exponents of power laws, of sums of them, and of noisy runs."""

import numpy as np
import pytest
import xarray as xr

import learndyn as ld


def curve(values, times, axis="step"):
    dims = ("seed", axis) if np.ndim(values) == 2 else (axis,)
    return xr.DataArray(values, dims=dims, coords={axis: times}, name="test_loss")


@pytest.mark.parametrize("axis", ["step", "time"])
@pytest.mark.parametrize(
    "times", [ld.log_times(1e4, 101, 1.0), np.arange(301.0)], ids=["log", "linear"]
)
@pytest.mark.parametrize("offset", [0.0, 0.25])
def test_a_power_law_has_its_exponent_everywhere_and_no_error(times, axis, offset):
    with np.errstate(divide="ignore"):
        values = 3.0 * times**-0.7 + offset
    found = ld.local_exponent(curve(values, times, axis), offset=offset)
    assert found[axis].values.tolist() == times[1:].tolist()
    known = np.isfinite(found["exponent"].values)
    # On a linear grid the first steps are more than a quarter of a decade apart.
    assert known[5:].all()
    # Rounding of 1e-16 in the loss, 1e-14 relative to the smallest loss − offset, over a window of ln 3.
    np.testing.assert_allclose(found["exponent"].values[known], 0.7, rtol=0, atol=1e-10)
    error = found["standard_error"].values
    assert np.nanmax(error) < 1e-10
    assert np.isfinite(error[8:]).all()


def test_a_sum_of_two_power_laws_goes_from_the_steep_to_the_flat_one():
    times = ld.log_times(1e8, 4001, 1e-4)
    steep, flat = times[1:] ** -1.5, times[1:] ** -0.5
    found = ld.local_exponent(curve(steep + flat, times[1:]), window=0.2)
    exact = (1.5 * steep + 0.5 * flat) / (steep + flat)
    # The exponent's second derivative in ln t is below 0.1; half a window is 0.23. At the ends the window is one-sided,
    # but there the curve is a power law.
    np.testing.assert_allclose(found["exponent"].values, exact, atol=0.1 * 0.23**2 / 2)
    # The halves are centred a quarter window to both sides: error = |slope of the exponent| × half their distance,
    # up to one of the 33 recorded times in a half.
    slope = np.abs(np.gradient(exact, np.log(times[1:])))
    middle = np.abs(np.log(times[1:])) < 2
    np.testing.assert_allclose(
        found["standard_error"].values[middle], slope[middle] * 0.23 / 2, rtol=0.05
    )


@pytest.mark.parametrize("points", [16, 40])
def test_an_exponent_comes_with_an_error_up_to_the_last_time(points):
    """Half a window at the end of a sparse curve holds one point only."""
    times = np.geomspace(1.0, 1e3, points)
    found = ld.local_exponent(curve(times**-1.0 + times**-0.5, times), window=0.8)
    known = np.isfinite(found["exponent"])
    assert known[-1]
    assert np.all(np.isfinite(found["standard_error"]) == known)
    assert np.all(found["standard_error"][known] > 0)


def test_the_density_of_the_records_does_not_move_the_exponent():
    sparse = np.geomspace(1, 100, 81)
    both = np.union1d(sparse, np.geomspace(10, 100, 2001))
    for times in (sparse, both):
        values = times**-1.0 + times**-0.2
        found = ld.local_exponent(curve(values, times), window=1.0)
        at_ten = float(found["exponent"].sel(step=10.0, method="nearest"))
        expected = (1 + 0.2 * 10**0.8) / (1 + 10**0.8)
        # Bent by a second derivative of the exponent of less than 0.03, over half a window of 1.15.
        assert at_ten == pytest.approx(expected, abs=0.03 * 1.15**2 / 2)


def test_the_standard_error_of_runs_covers_the_truth():
    rng = np.random.default_rng(5)
    times, seeds = np.geomspace(1, 1e4, 81), 40
    noise = 0.1 * rng.standard_normal((seeds, len(times)))
    found = ld.local_exponent(curve(2 * times**-0.6 * np.exp(noise), times))
    deviation = (found["exponent"] - 0.6) / found["standard_error"]
    # About 81/11 independent windows: beyond 4 standard errors (39 degrees of freedom) with a chance below 0.01.
    assert np.abs(deviation).max() < 4
    # Least squares of independent noise 0.1 in a full window of 11 points at distance h: σ/(h √110).
    h = np.log(10) * 4 / 80
    expected = 0.1 / (h * np.sqrt(110)) / np.sqrt(seeds)
    # A spread of 40 numbers is known to 1/√78 = 11 %; the mean over about 7 windows to 4 %.
    middle = found["standard_error"].values[10:-10]
    assert middle.mean() == pytest.approx(expected, rel=3 * 0.05)
    assert "seeds" in found["standard_error"].attrs["long_name"]


def test_a_theory_and_its_runs_say_which_error_they_have():
    times = np.geomspace(1, 100, 21)
    theory = ld.local_exponent(curve(times**-0.5, times))
    assert "halves of the window" in theory["standard_error"].attrs["long_name"]
    one_run = ld.local_exponent(curve(times[None] ** -0.5, times))
    np.testing.assert_allclose(one_run["exponent"], 0.5, atol=1e-12)
    assert np.isnan(one_run["standard_error"]).all()


def test_fewer_than_three_points_give_no_exponent():
    times = np.array([0.0, 1.0, 10.0, 100.0, 101.0, 102.0])
    found = ld.local_exponent(curve(1 / (1 + times), times))["exponent"].values
    assert np.isfinite(found).tolist() == [False, False, True, True, True]


def test_losses_without_a_logarithm_are_refused_with_the_place():
    times = np.arange(5)
    for values, options in (
        ([1.0, 0.5, 0.0, 0.1, 0.1], {}),
        ([1.0, 0.5, 0.2, 0.1, 0.1], {"offset": 0.3}),
        ([1.0, 0.5, np.nan, 0.1, 0.1], {}),
    ):
        with pytest.raises(ld.ProblemError, match=r"test_loss − offset = .* at step 2"):
            ld.local_exponent(curve(values, times), **options)


@pytest.mark.parametrize("dims", [("seed",), ("step", "step2"), ("time", "step")])
def test_what_is_no_curve_is_refused(dims):
    array = xr.DataArray(np.ones((3,) * len(dims)), dims=dims)
    with pytest.raises(ld.ProblemError, match="axes of the curve"):
        ld.local_exponent(array)


@pytest.mark.parametrize("window", [0.0, -1.0, np.nan])
def test_a_window_must_have_a_width(window):
    with pytest.raises(ld.ProblemError, match="window"):
        ld.local_exponent(curve(np.ones(3), np.arange(1, 4)), window=window)

"""Local exponents of learning curves that fall as powers of time."""

import math

import numpy as np
import xarray as xr

from learndyn.errors import ProblemError
from learndyn.numerics.statistics import mean_and_error
from learndyn.problem.checks import number

SEEDS = "standard error over seeds of the local exponent"
HALVES = "half the difference between the exponents of the two halves of the window"
# Times on the border of a window belong to it whatever the rounding of their logarithm.
BORDER = 1e-9


def local_exponent(curve: xr.DataArray, *, window: float = 0.5, offset: float = 0.0) -> xr.Dataset:
    """The local exponent −d log(loss)/d log(t) of a curve over "step" or "time", and its uncertainty.

    At each recorded t > 0 it is minus the slope of the straight line through log(loss − `offset`) against log t in a
    window of `window` decades whose middle in log t is t, by least squares. The weight of a point is the stretch of
    log t that it stands for, so that the result does not depend on how densely the curve was recorded. At the ends of
    the curve the window is cut off; with fewer than three points in it the exponent is NaN. `offset` is a loss that
    does not fall, such as the variance σ² of the label noise.

    The dataset has `exponent` and `standard_error`. For runs (a curve with the axis "seed") they are the mean over
    seeds of the exponents of the single runs, and its standard error. A theory has no statistical error; there
    `standard_error` is half the difference between the exponents of the left and the right half of the window, each of
    at least two points; it says how far the curve is from a power law across the window.
    """
    window = number(above=0)(window, "window")
    offset = number()(offset, "offset")
    axis = _axis(curve)
    curve = curve.isel({axis: curve[axis].values > 0})
    seeds = "seed" in curve.dims
    times = curve[axis].values.astype(float)
    values = curve.transpose("seed", axis).values if seeds else curve.values[None]
    x, y = np.log(times), np.log(_positive(curve, axis, values - offset))
    weights = np.diff(np.concatenate([x[:1], (x[1:] + x[:-1]) / 2, x[-1:]]))

    def slopes(first: float, last: float, least: int) -> np.ndarray:
        """Minus the slope between two logarithms of time, one for each seed."""
        chosen = slice(np.searchsorted(x, first - BORDER), np.searchsorted(x, last + BORDER))
        if chosen.stop - chosen.start < least:
            return np.full(len(y), np.nan)
        w = weights[chosen]
        centred = x[chosen] - np.average(x[chosen], weights=w)
        return -(y[:, chosen] @ (w * centred)) / (w @ centred**2)

    def halves(first: float, last: float) -> tuple[np.ndarray, np.ndarray]:
        """The slopes of the two halves of a window, each made longer if it has fewer than two points."""
        inside = x[(x >= first - BORDER) & (x <= last + BORDER)]
        if len(inside) < 3:
            return slopes(first, last, 3), slopes(first, last, 3)
        middle = (first + last) / 2
        return slopes(first, max(middle, inside[1]), 2), slopes(min(middle, inside[-2]), last, 2)

    half = window * math.log(10) / 2
    ends = [(max(t - half, x[0]), min(t + half, x[-1])) for t in x]
    single = np.array([slopes(first, last, 3) for first, last in ends]).reshape(len(x), len(y))
    if seeds:
        error, words = mean_and_error(single, axis=1)[1], SEEDS
    else:
        error = [np.abs(np.subtract(*halves(first, last)))[0] / 2 for first, last in ends]
        words = HALVES
    long_name = f"local exponent −d log({curve.name or 'loss'})/d log t"
    arrays = {
        "exponent": (axis, single.mean(axis=1), {"long_name": long_name, "units": "1"}),
        "standard_error": (axis, error, {"long_name": words, "units": "1"}),
    }
    coordinate = (axis, curve[axis].values, curve[axis].attrs)
    return xr.Dataset(arrays, {axis: coordinate}, {"window": window, "offset": offset})


def _axis(curve: xr.DataArray) -> str:
    """The axis of the curve, "step" or "time"; refuses an array that is not a curve."""
    axes = [axis for axis in ("step", "time") if axis in curve.dims]
    if len(axes) != 1 or set(curve.dims) - {"seed", *axes}:
        allowed = 'must be "step" or "time", and at most "seed" besides'
        raise ProblemError("axes of the curve", list(curve.dims), allowed)
    return axes[0]


def _positive(curve: xr.DataArray, axis: str, values: np.ndarray) -> np.ndarray:
    """The values; refuses values that are not positive numbers."""
    bad = ~((values > 0) & np.isfinite(values)).all(axis=0)
    if bad.any():
        where = int(np.argmax(bad))
        value = float(values[:, where].min())
        allowed = (
            f"at {axis} {curve[axis].values[where]:g}: must be positive, to have a logarithm; "
            "cut off the curve there, or use a smaller offset"
        )
        raise ProblemError(f"{curve.name or 'loss'} − offset", value, allowed)
    return values

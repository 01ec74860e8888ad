"""`compare`: do finite networks do what the theory says?

For every observable, residuals r_s(t) = run_s(t) − theory(t) over the seeds s = 1 … S, at every time
and component, called points below. The hypothesis is that their expectation is small,

    |⟨r(t)⟩| ≤ a(t),    a = finite_size · scale/size + accuracy,

with scale the largest |theory| over times and components: the theory is the limit of large networks,
and networks of finite size differ from it by O(1/size). finite_size = 0 is the strict test.

At each point the statistic is Student's, t = max(|mean r| − a, 0)/(standard error), with S − 1 degrees
of freedom; p₁ is the p-value of the largest one. Points are correlated, so looking at n of them is not
n independent looks. The effective number n_eff of looks follows from a fact of Gaussian residuals: as
columns x of S numbers (one for each seed), their law under the null does not change under rotations
of the S seeds. Then |t| exceeds c at a point when a uniformly random direction w falls into the double
cap |cos ∠(w, x)| ≥ c/√(c² + S − 1), and somewhere when it falls into the union of the caps around the
S-dimensional directions of all points. The union's measure, p(c), is estimated by sampling cap by
cap: (measure of one cap) × (number of caps) × (mean of 1/the number of caps that cover the sample),
with a relative error that does not grow as p shrinks. n_eff is defined by p = 1 − (1 − p₁)^n_eff.

This is exact for Gaussian residuals with a = 0, whatever their correlations and however few the seeds,
and errs on the side of agreement for a > 0. Estimates from the eigenvalues of the sample correlation
matrix are not used: S seeds show no more than S − 1 of them, which makes such tests far too strict.
References: Langsrud 2005 (rotation tests); Naiman and Priebe 2001 (the sampling).
"""

import dataclasses
import html
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats
from scipy.interpolate import make_interp_spline

from learndyn.errors import CannotCompare, shown
from learndyn.part import number
from learndyn.solution import Solution

ROUNDING = 1e-12
"""Differences below this fraction of an observable's scale are rounding errors."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """How far the mean of the runs is from the theory, observable by observable.

    `table` has one row per observable:

    - `largest_in_errors`, `at`: the largest deviation in standard errors of the mean, and when it is;
    - `beyond_allowance`: the largest deviation in standard errors that is not within the allowance;
    - `rms_in_errors`: the root mean square over times and components, in standard errors;
    - `rms_per_cent`, `worst_per_cent`: the same and the largest, in per cent of the theory's rms size;
    - `p`: the chance of so large a deviation beyond the allowance if the theory is right;
    - `looks`: the effective number of independent looks for which p is corrected;
    - `verdict`: "agrees" if p is at least the level, else "differs".

    `deviations` holds over time, for an observable x: `x`, the mean of the runs minus the theory;
    `x_standard_error`; `x_in_errors` and `x_per_cent`. `notes` says what was left out, and why.
    """

    table: pd.DataFrame
    deviations: xr.Dataset
    axis: str
    level: float
    finite_size: float
    size: int | None
    seeds: int
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether every observable agrees."""
        return bool((self.table["verdict"] == "agrees").all())

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        what = f"theory against {self.seeds} runs of size {self.size}"
        if self.agrees:
            return f"{what}: agreement in every observable, at the level {self.level:g}"
        bad = self.table.index[self.table["verdict"] != "agrees"]
        return f"{what}: {', '.join(bad)} {'differs' if len(bad) == 1 else 'differ'}"

    def __str__(self):
        return "\n".join([_wrapped(self.verdict), "", *_rows(self), "", *map(_wrapped, _footer(self))])

    __repr__ = __str__

    def _repr_html_(self):
        footer = "".join(f"<p>{html.escape(line)}</p>" for line in _footer(self))
        table = self.table.to_html(float_format="{:.3g}".format)
        return f"<p><b>{html.escape(self.verdict)}</b></p>{table}{footer}"


def compare(
    theory: Solution, runs: Solution, *, level: float = 0.01, finite_size: float = 1.0
) -> Comparison:
    """Test whether the mean of the runs agrees with the theory, observable by observable.

    An observable differs if a deviation as large as the one found, beyond the allowance
    `finite_size` · (largest value)/(size of the runs) + (accuracy of the theory), has a chance below
    `level` where the theory is right; the chance accounts for looking at many correlated times
    and components. `level` is the rate of false alarms of each observable, not of all together.
    The allowance is there because the theory is a limit, from which finite networks differ by
    O(1/size); `finite_size=0` is the strict test. At least two seeds are needed for an error bar.
    """
    level = number(above=0, below=1)(level, "level")
    finite_size = number(minimum=0)(finite_size, "finite_size")
    _check_comparable(theory, runs, finite_size)
    common = [name for name in runs.observables if name in theory.observables]
    if not common:
        raise CannotCompare(
            f"no observable in common: the theory has {', '.join(theory.observables)}, "
            f"the runs have {', '.join(runs.observables)}"
        )
    compared, notes = _before_divergence(theory, runs)
    if left_out := set(runs.observables) ^ set(theory.observables):
        notes.append(f"In one of the two only, so not compared: {', '.join(sorted(left_out))}.")
    if not theory.converged:
        notes.append("The theory did not converge.")
    rows, deviations, between = {}, {}, 0.0
    for name in common:
        predicted, interpolation = _theory_for(name, theory, compared[name], runs)
        limits = _Limits.of(name, theory, predicted, interpolation, finite_size, runs.size)
        rows[name], arrays = _judge(name, compared[name], predicted, limits, level, runs.axis)
        deviations |= arrays
        relative = float(np.max(interpolation)) / (limits.scale or 1.0)
        between = max(between, relative)
    if between > 0:
        notes.append(
            "The theory was interpolated to the times of the runs, with an error of at most "
            f"{100 * between:.1g} % of the largest value, which is part of the allowance."
        )
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("observable")
    seeds = len(runs.seeds)
    return Comparison(
        table, xr.Dataset(deviations), runs.axis, level, finite_size, runs.size, seeds, tuple(notes)
    )


def _check_comparable(theory: Solution, runs: Solution, finite_size: float) -> None:
    for name, value in (("theory", theory), ("runs", runs)):
        if not isinstance(value, Solution):
            raise CannotCompare(f"{name} = {shown(value)}: must be a Solution")
    if theory.is_simulation and not runs.is_simulation:
        raise CannotCompare("the arguments are swapped: give the theory first, then the runs")
    if theory.is_simulation:
        raise CannotCompare("the first argument is a simulation: it must be a theory, from solve")
    if not runs.is_simulation:
        raise CannotCompare("the second argument is a theory: it must be a simulation")
    if theory.problem != runs.problem:
        difference = _first_difference(theory.problem.to_dict(), runs.problem.to_dict())
        raise CannotCompare(f"theory and runs are of different problems: {difference}")
    if theory.axis != runs.axis:
        raise CannotCompare(f"the theory is over {theory.axis}, the runs are over {runs.axis}")
    if len(runs.seeds) < 2:
        raise CannotCompare("one seed has no error bar: simulate with at least 2 seeds")
    if finite_size > 0 and not runs.size:
        raise CannotCompare("the runs do not say their size: set finite_size=0 for the strict test")


def _first_difference(a, b, path: str = "") -> str:
    """Where two pieces of plain data first differ, in words."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            if key not in a or key not in b or a[key] != b[key]:
                return _first_difference(a.get(key), b.get(key), f"{path}.{key}" if path else key)
        return (
            "they hold different Python functions, or one was read from a file, which cannot hold "
            "a function; save and load both, or write the function as a formula"
        )
    return f"{path} is {shown(a, 60)} in the theory and {shown(b, 60)} in the runs"


def _before_divergence(theory: Solution, runs: Solution) -> tuple[xr.Dataset, list[str]]:
    """The runs' observables up to where the first of theory and runs diverged."""
    ends = {"theory": theory.diverged_at, "runs": runs.diverged_at}
    ends = {who: end for who, end in ends.items() if end is not None}
    if not ends:
        return runs.data, []
    who = min(ends, key=lambda key: ends[key])
    kept = {}
    for axis in {runs.axis, f"{runs.axis}2"} & set(runs.data.dims):
        times = runs.data[axis].values
        inside = times < ends[who]
        if theory.diverged_at is not None and theory.data.sizes[theory.axis]:
            inside &= times <= theory.data[theory.axis].values[-1]
        kept[axis] = np.flatnonzero(inside)
    if not len(kept[runs.axis]):
        raise CannotCompare(f"nothing to compare: training diverged at {runs.axis} {ends[who]:g}")
    note = f"The {who} diverged at {runs.axis} {ends[who]:g}; compared is what comes before."
    return runs.data.isel(kept), [note]


def _theory_for(name: str, theory: Solution, run: xr.DataArray, runs: Solution):
    """The theory's observable on the axes of the runs, and the error of interpolating it."""
    array = theory[name].astype(float)
    components = [dim for dim in run.dims if dim != "seed"]
    if set(components) != set(array.dims):
        had = f"{list(array.dims)} in the theory and {components} in the runs"
        raise CannotCompare(f"{name} has the axes {had}")
    array = array.transpose(*components)
    error = np.zeros(())
    for position, dim in enumerate(components):
        have, want = array[dim].values, run[dim].values
        if np.array_equal(have, want):
            continue
        if dim == "time" or dim == "time2":
            values, extra = _interpolated(name, array, position, have, want, runs.size)
            error = np.max(error) + extra
        else:
            missing = np.setdiff1d(want, have)
            if missing.size:
                text = f"{dim} {shown(missing.tolist(), 40)} of the runs is not in the theory"
                raise CannotCompare(f"{name}: {text}; save both at the same {dim}s")
            values = array.sel({dim: want}).values
        coordinates = {d: run[d] for d in components[: position + 1] if d in run.coords}
        coordinates |= {d: array[d] for d in components[position + 1 :] if d in array.coords}
        array = xr.DataArray(values, coordinates, components)
    for who, values in (("theory", array), ("runs", run)):
        if not np.isfinite(values).all():
            raise CannotCompare(f"{name} of the {who} is not a finite number everywhere")
    return array.values, error


def _interpolated(name, array, position: int, have, want, size):
    """A cubic spline in time, and its distance to a quintic one as its error."""
    # Runs can be recorded after whole steps of 1/size only, so half a step beyond is the same time.
    slack = 0.5 / size * (1 + 1e-9) if size else 0.0
    outside = want[(want < have[0] - slack) | (want > have[-1] + slack)]
    if outside.size:
        span = f"the theory spans {have[0]:g} to {have[-1]:g}"
        raise CannotCompare(f"{name}: the runs have the time {outside[0]:g}, but {span}")
    last = len(have) - 1
    cubic, other = [
        make_interp_spline(have, array.values, k=k, axis=position)(want)
        for k in (min(3, last), min(5, last) if last > 3 else max(last - 1, 0))
    ]
    return cubic, np.abs(cubic - other)


class _Limits(NamedTuple):
    """What counts as a deviation of one observable."""

    scale: float
    allowance: np.ndarray
    rounding: float

    @classmethod
    def of(cls, name, theory, predicted, interpolation, finite_size, size):
        scale = float(np.max(np.abs(predicted), initial=0.0))
        accuracy = float(theory.evidence.get("accuracy", {}).get(name, 0.0))
        allowance = (finite_size * scale / size if finite_size else 0.0) + accuracy + interpolation
        return cls(scale, np.broadcast_to(allowance, predicted.shape), ROUNDING * scale)


def _judge(name, run: xr.DataArray, predicted, limits: _Limits, level: float, axis: str):
    """The row of the table and the deviations over time of one observable."""
    run = run.transpose("seed", ...)
    residuals = run.values - predicted
    mean = residuals.mean(axis=0)
    error = residuals.std(axis=0, ddof=1) / np.sqrt(len(residuals))
    exact = error <= limits.rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        in_errors = np.where(exact & (np.abs(mean) <= limits.rounding), 0.0, mean / error)
        size = np.sqrt(np.mean(predicted**2))
        per_cent = np.where(mean == 0, 0.0, 100 * mean / size)
    beyond, p, looks = max_t_test(residuals[:, ~exact], limits.allowance[~exact], level)
    if np.any(np.abs(mean[exact]) > limits.allowance[exact] + limits.rounding):
        beyond, p = np.inf, 0.0
    worst = np.unravel_index(np.argmax(np.abs(in_errors)), mean.shape)
    place = run.dims[1:].index(axis) if axis in run.dims else None
    row = {
        "largest_in_errors": np.abs(in_errors[worst]),
        "at": np.nan if place is None else run[axis].values[worst[place]],
        "beyond_allowance": beyond,
        "rms_in_errors": np.sqrt(np.mean(in_errors[~exact] ** 2)) if not exact.all() else 0.0,
        "rms_per_cent": np.sqrt(np.mean(per_cent**2)),
        "worst_per_cent": np.max(np.abs(per_cent)),
        "p": p,
        "looks": looks,
        "verdict": "agrees" if p >= level else "differs",
    }
    words, units = run.attrs.get("long_name", name), run.attrs.get("units", "1")
    arrays = {
        name: (mean, f"mean of the runs minus theory: {words}", units),
        f"{name}_standard_error": (error, f"standard error of the mean: {words}", units),
        f"{name}_in_errors": (in_errors, f"deviation in standard errors: {words}", "1"),
        f"{name}_per_cent": (per_cent, f"deviation in per cent of the rms size: {words}", "%"),
    }
    frame = run.isel(seed=0, drop=True)
    return row, {
        key: frame.copy(data=values).assign_attrs(long_name=text, units=unit)
        for key, (values, text, unit) in arrays.items()
    }


def max_t_test(residuals, allowance, level: float, draws: int = 2000):
    """The largest t-statistic of S × points `residuals`, its p-value and the number of looks.

    The equations are in the module's docstring. The number of looks is that at the largest t or, if
    that is smaller, at the t at which the verdict at `level` turns. Needs a spread at every point.
    """
    S, points = residuals.shape
    if points == 0:
        return 0.0, 1.0, 0.0
    mean = residuals.mean(axis=0)
    error = residuals.std(axis=0, ddof=1) / np.sqrt(S)
    largest = np.max(np.maximum(np.abs(mean) - allowance, 0.0) / error)
    # The floor keeps the quantiles below finite.
    p_single = max(2 * stats.t.sf(largest, S - 1), 1e-100)
    columns = residuals - np.clip(mean, -allowance, allowance)
    directions = columns / np.linalg.norm(columns, axis=0)
    # Far more points than draws can visit would cost time without changing the answer.
    draws = int(np.clip(4e7 / points, draws / 10, draws))
    looks = float(points)
    # The number of looks hardly depends on the threshold, so three rounds find where they meet.
    for _ in range(3):
        threshold = min(p_single, level / looks)
        looks = _independent_looks(directions, threshold, draws)
        if threshold == p_single:
            break
    return float(largest), float(-np.expm1(looks * np.log1p(-p_single))), looks


def _independent_looks(directions, p_single: float, draws: int) -> float:
    """n with 1 − (1 − p₁)^n = the measure of the union of double caps of measure p₁ each."""
    S, points = directions.shape
    rng = np.random.default_rng(0)
    centres = directions[:, np.arange(draws) * points // draws if draws < points else _evenly(points, draws)]
    edge = stats.t.isf(p_single / 2, S - 1)
    t = stats.t.isf(p_single / 2 * (1 - rng.random(draws)), S - 1)
    aside = rng.standard_normal((S, draws))
    aside -= centres * np.sum(centres * aside, axis=0)
    aside /= np.linalg.norm(aside, axis=0)
    samples = (t * centres + np.sqrt(S - 1) * aside) / np.hypot(t, np.sqrt(S - 1))
    cosine = edge / np.hypot(edge, np.sqrt(S - 1))
    chunk = max(1, 2**22 // points)
    covering = np.concatenate(
        [
            np.count_nonzero(np.abs(samples[:, i : i + chunk].T @ directions) >= cosine, axis=1)
            for i in range(0, draws, chunk)
        ]
    )
    union = p_single * points * np.mean(1 / np.maximum(covering, 1))
    union = min(max(union, p_single), 1 - 1e-12)
    return float(min(np.log1p(-union) / np.log1p(-p_single), points))

"""`compare`: do finite networks do what the theory says?

For every observable there are residuals r_s = run_s − theory, one for each of the seeds s = 1 … S,
at every point: a time and a component. The hypothesis is that their expectation is small,

    |⟨r⟩| ≤ a,    a = finite_size · scale/size + accuracy + 10⁻⁹ scale,

with scale the largest |theory| of all points: the theory is the limit of large networks, from which
finite ones differ by O(1/size). finite_size = 0 is the strict test. The last term is for rounding:
an entry that is exactly 0 in the limit may come out of a run as 10⁻¹², in every seed alike.

The largest deviation beyond a is judged in standard errors by `learndyn.numerics.max_t`, which
accounts for the correlation between times and components. Where the theory was sampled, with the
standard errors e_theory, the error bar of a deviation is √(e_runs² + e_theory²).
"""

import dataclasses
import html
import textwrap
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float
from scipy.interpolate import make_interp_spline

from learndyn.core.solution import Solution
from learndyn.core.symmetry_words import note_on_runs
from learndyn.errors import CannotCompare, shown
from learndyn.numerics.max_t import max_t_test
from learndyn.numerics.statistics import mean_and_error
from learndyn.problem.checks import number

ROUNDING = 1e-9
"""Differences below this fraction of an observable's scale say nothing about a theory.

Runs round: responses are central differences over 10⁻⁵, whose errors are 2·10⁻¹⁶/10⁻⁵ and (10⁻⁵)².
"""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """How far the mean of the runs is from the theory, observable by observable.

    `table` has one row per observable:

    - `largest_in_errors`, `at`: the largest deviation in its standard errors (of the mean of the
      runs and, where it was sampled, of the theory), and its time;
    - `beyond_allowance`: the largest part of a deviation beyond the allowance, in standard errors;
    - `rms_in_errors`: the root mean square over times and components, in standard errors;
    - `rms_per_cent`, `worst_per_cent`: root mean square and largest, in per cent of the theory's
      own root mean square;
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
        pair = f"theory against {self.seeds} runs of size {self.size}"
        if self.agrees:
            return f"{pair}: agreement in every observable, at the level {self.level:g}"
        differing = self.table.query("verdict != 'agrees'").index.tolist()
        return f"{pair}: {', '.join(differing)} {'differs' if len(differing) == 1 else 'differ'}"

    def __str__(self) -> str:
        paragraphs = [textwrap.fill(line, 98) for line in (self.verdict, *_footer(self))]
        return "\n".join([paragraphs[0], "", _text(self), "", *paragraphs[1:]])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        footer = "".join(f"<p>{html.escape(line)}</p>" for line in _footer(self))
        table = self.table.to_html(float_format="{:.3g}".format)
        return f"<p><b>{html.escape(self.verdict)}</b></p>{table}{footer}"


def compare(
    theory: Solution, runs: Solution, *, level: float = 0.01, finite_size: float = 1.0
) -> Comparison:
    """Test whether the mean of the runs agrees with the theory, observable by observable.

    An observable differs if a deviation as large as the observed one, beyond the allowance
    `finite_size` · (largest value)/(size of the runs) + (accuracy of the theory) + (rounding, 10⁻⁹
    of the largest value), has a chance below `level` if the theory is right; the chance accounts
    for looking at many correlated times and components. `level` is the rate of false alarms of each
    observable, not of all together. The allowance is there because the theory is a limit, from
    which finite networks differ by O(1/size); `finite_size=0` is the strict test. An error bar
    needs two seeds or more.

    Raises `CannotCompare` if the two do not belong to the same problem, or have nothing in common.
    """
    level = number(above=0, below=1)(level, "level")
    finite_size = number(minimum=0)(finite_size, "finite_size")
    _check_comparable(theory, runs, finite_size)
    data, notes = _before_divergence(theory, runs)
    size = runs.evidence.limiting_size or runs.size
    common = [name for name in runs.observables if name in theory.observables]
    judged = [name for name in common if theory[name].attrs.get("judged", 1)]
    notes += _notes_before_judging(theory, runs, size, set(common) - set(judged))
    rows, deviations, between, sampled = {}, {}, 0.0, []
    for name in judged:
        run = data[name].transpose("seed", ...)
        predicted, interpolation = _theory_on(run, theory[name], runs.size)
        scale = float(np.max(np.abs(predicted)))
        allowance = finite_size * scale / (size or 1) + interpolation
        allowance = allowance + (theory.evidence.accuracy or {}).get(name, 0.0)
        allowance = allowance + ROUNDING * scale
        sampling = _sampling_error_on(run, theory.standard_error(name))
        if sampling is not None:
            sampled.append(name)
        rows[name], arrays = _judge(run, predicted, sampling, allowance, ROUNDING * scale, level)
        deviations |= arrays
        between = max(between, interpolation / (scale or 1.0))
    if between > 0:
        notes.append(
            "The theory was interpolated to the times of the runs, with an error of at most "
            f"{100 * between:.1g} % of the largest value, which is part of the allowance."
        )
    if sampled:
        which = "" if len(sampled) == len(judged) else f" of {', '.join(sampled)}"
        notes.append(
            f"The theory was sampled; its standard errors{which} are part of the error bars."
        )
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("observable")
    seeds = runs.data.sizes["seed"]
    return Comparison(
        table,
        xr.Dataset(deviations),
        axis=runs.axis,
        level=level,
        finite_size=finite_size,
        size=size,
        seeds=seeds,
        notes=tuple(notes),
    )


def _notes_before_judging(
    theory: Solution, runs: Solution, size: int | None, not_judged: set[str]
) -> list[str]:
    """What is left out of the comparison, the warnings of the theory, and whether the runs leave a symmetric start."""
    notes = []
    if left_out := set(runs.observables) ^ set(theory.observables):
        notes.append(f"Not compared, as only one of the two has it: {', '.join(sorted(left_out))}.")
    notes += [f"Warning: {text}." for text in theory.evidence.warnings or []]
    if note := note_on_runs(theory.evidence, size):
        notes.append(note)
    if not_judged:
        names = ", ".join(sorted(not_judged))
        notes.append(f"Not judged: {names}, whose finite-size bias is larger than O(1/size).")
    return notes


def on_common_axes(
    theory: Solution, runs: Solution
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(name, runs with the seeds in front, theory at the times of the runs) for every observable that both have."""
    _check_comparable(theory, runs, 0.0, least=1)
    data, _ = _before_divergence(theory, runs)
    for name in runs.observables:
        if name in theory.observables:
            run = data[name].transpose("seed", ...)
            if np.all(np.isfinite(run.values)) and np.all(np.isfinite(theory[name].values)):
                yield name, run.values, _theory_on(run, theory[name], runs.size)[0]


def _check_comparable(theory: Solution, runs: Solution, finite_size: float, least: int = 2) -> None:
    """Refuse a pair that cannot be compared; the runs need at least `least` seeds."""
    for name, value in (("theory", theory), ("runs", runs)):
        if not isinstance(value, Solution):
            raise CannotCompare(f"{name} = {shown(value)}: must be a Solution")
    if theory.is_simulation and not runs.is_simulation:
        raise CannotCompare("the arguments are swapped: give the theory first, then the runs")
    if theory.is_simulation:
        raise CannotCompare("the first argument is a simulation; it must be a theory, from solve")
    if not runs.is_simulation:
        raise CannotCompare("the second argument is a theory; it must be runs, from simulate")
    if theory.problem != runs.problem:
        difference = _first_difference(theory.problem.to_dict(), runs.problem.to_dict())
        raise CannotCompare(f"theory and runs belong to different problems: {difference}")
    if theory.axis != runs.axis:
        raise CannotCompare(f"the theory is over {theory.axis}, the runs are over {runs.axis}")
    if runs.data.sizes["seed"] < least:
        raise CannotCompare("one seed has no error bar: simulate with at least 2 seeds")
    if finite_size > 0 and not runs.size:
        raise CannotCompare(
            "the runs do not state their size, so that only finite_size=0 is possible"
        )
    common = set(theory.observables) & set(runs.observables)
    if not any(theory[name].attrs.get("judged", 1) for name in common):
        names = [", ".join(solution.observables) for solution in (theory, runs)]
        raise CannotCompare(
            "theory and runs have no observable in common to judge: "
            f"the theory has {names[0]}, the runs have {names[1]}"
        )


def _first_difference(a: object, b: object, path: str = "") -> str:
    """Where two pieces of plain data first differ, in words."""
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return f"{path} is {shown(a, 60)} in the theory and {shown(b, 60)} in the runs"
    for key in dict.fromkeys([*a, *b]):
        if key not in a or key not in b or a[key] != b[key]:
            return _first_difference(a.get(key), b.get(key), f"{path}.{key}" if path else key)
    return (
        "they hold different Python functions, or one was read from a file, which cannot hold a "
        "function; save and load both, or write the function as a formula"
    )


def _before_divergence(theory: Solution, runs: Solution) -> tuple[xr.Dataset, list[str]]:
    """The runs up to where the first of theory and runs diverged."""
    axis, data = runs.axis, runs.data
    ends = {"theory": theory.diverged_at, "runs": runs.diverged_at}
    ends = {who: end for who, end in ends.items() if end is not None}
    if not ends:
        return data, []
    who = min(ends, key=lambda key: ends[key])
    for dim in {axis, f"{axis}2"} & set(data.dims):
        inside = data[dim].values < ends[who]
        if "theory" in ends:
            # A diverged theory ends at its last recorded time, which is earlier than diverged_at.
            inside &= data[dim].values <= max(theory.data[axis].values, default=-np.inf)
        data = data.isel({dim: np.flatnonzero(inside)})
    if not data.sizes[axis]:
        raise CannotCompare(f"nothing to compare: the {who} diverged at {axis} {ends[who]:g}")
    return data, [f"The {who} diverged at {axis} {ends[who]:g}; only what came before is compared."]


def _theory_on(
    run: xr.DataArray, array: xr.DataArray, size: int | None
) -> tuple[np.ndarray, float]:
    """The theory on the axes of the runs, and the error of interpolating it."""
    name, dims = run.name, run.dims[1:]
    if set(dims) != set(array.dims):
        raise CannotCompare(f"{name} has the axes {array.dims} in the theory, {dims} in the runs")
    values = array.transpose(*dims).values.astype(float)
    for who, numbers in (("theory", values), ("runs", run.values)):
        if not np.all(np.isfinite(numbers)):
            raise CannotCompare(f"{name} of the {who} is not a finite number everywhere")
    error = 0.0
    for position, dim in enumerate(dims):
        have, want = array[dim].values, run[dim].values
        same = have.shape == want.shape
        if same and np.array_equal(have, want):
            continue
        if dim in ("time", "time2"):
            # Times that were computed in two ways may differ in the last digit.
            if same and np.allclose(have, want, rtol=1e-12, atol=0):
                continue
            values, extra = _interpolated(name, values, position, have, want, size)
            error += extra
            continue
        missing = np.setdiff1d(want, have)
        if missing.size:
            labels = shown(missing.tolist(), 40)
            advice = f"record both at the same values of {dim}"
            raise CannotCompare(f"{name}: the theory lacks {dim} {labels} of the runs; {advice}")
        values = np.take(values, [np.flatnonzero(have == label)[0] for label in want], position)
    return values, error


def _sampling_error_on(run: xr.DataArray, error: xr.DataArray | None) -> np.ndarray | None:
    """The standard error of a sampled theory on the axes of the runs, linear between its times; or None."""
    if error is None:
        return None
    dims = run.dims[1:]
    values = error.transpose(*dims).values.astype(float)
    if not np.all(np.isfinite(values) & (values >= 0)):
        raise CannotCompare(
            f"the standard error of {run.name} in the theory is not known everywhere"
        )
    for position, dim in enumerate(dims):
        have, want = error[dim].values, run[dim].values
        if np.array_equal(have, want):
            continue
        if dim in ("time", "time2"):
            # Outside, by the half step that `_interpolated` allows, it is that of the last time.
            values = np.apply_along_axis(partial(np.interp, want, have), position, values)
        else:
            values = np.take(values, [np.flatnonzero(have == label)[0] for label in want], position)
    return values


def _interpolated(
    name: object,
    values: Float[np.ndarray, "..."],
    axis: int,
    have: Float[np.ndarray, " T"],
    want: Float[np.ndarray, " T2"],
    size: int | None,
) -> tuple[Float[np.ndarray, "..."], float]:
    """A cubic spline from the times `have` to the times `want`, and its error.

    The error is taken to be twice the largest distance to a quintic spline.
    """
    # Runs are recorded after whole steps of 1/size, up to half a step after the time asked for.
    slack = 0.5 / size * (1 + 1e-9) if size else 0.0
    outside = want[(want < have[0] - slack) | (want > have[-1] + slack)]
    if outside.size:
        span = f"the theory spans {have[0]:g} to {have[-1]:g}"
        raise CannotCompare(f"{name}: the runs have the time {outside[0]:g}, but {span}")
    most = len(have) - 1
    orders = (3, min(5, most)) if most > 3 else (most, max(most - 1, 0))
    cubic, other = (make_interp_spline(have, values, k, axis=axis)(want) for k in orders)
    return cubic, 2 * float(np.max(np.abs(cubic - other)))


def _judge(
    run: xr.DataArray,
    predicted: Float[np.ndarray, "..."],
    sampling: Float[np.ndarray, "..."] | None,
    allowance: float,
    rounding: float,
    level: float,
) -> tuple[dict[str, Any], dict[str, xr.DataArray]]:
    """The row of the table and the deviations over time of one observable.

    `sampling` is the theory's own standard error, or None.
    """
    residuals = run.values - predicted
    mean, error = mean_and_error(residuals)
    if sampling is not None:
        error = np.hypot(error, sampling)
    exact = error <= rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        in_errors = np.where(exact & (np.abs(mean) <= rounding), 0.0, mean / error)
        per_cent = np.where(mean == 0, 0.0, 100 * mean / np.sqrt(np.mean(predicted**2)))
    further = None if sampling is None else sampling[~exact]
    beyond, p, looks = max_t_test(residuals[:, ~exact], allowance, level, further=further)
    if np.any(np.abs(mean[exact]) > allowance):
        beyond, p = np.inf, 0.0
    worst = np.unravel_index(np.argmax(np.abs(in_errors)), mean.shape)
    label = dict(zip(run.dims[1:], worst, strict=True))
    times = [run[axis].values[label[axis]] for axis in ("time", "step") if axis in label]
    row = {
        "largest_in_errors": np.abs(in_errors[worst]),
        "at": times[0] if times else np.nan,
        "beyond_allowance": beyond,
        "rms_in_errors": 0.0 if exact.all() else np.sqrt(np.mean(in_errors[~exact] ** 2)),
        "rms_per_cent": np.sqrt(np.mean(per_cent**2)),
        "worst_per_cent": np.max(np.abs(per_cent)),
        "p": p,
        "looks": looks,
        "verdict": "agrees" if p >= level else "differs",
    }
    arrays = {
        "": (mean, "mean of the runs minus theory"),
        "_standard_error": (error, "standard error of the deviation"),
        "_in_errors": (in_errors, "deviation in standard errors"),
        "_per_cent": (per_cent, "deviation in per cent of the theory's root mean square"),
    }
    frame, words = run.isel(seed=0, drop=True), run.attrs.get("long_name", run.name)
    return row, {
        f"{run.name}{suffix}": frame.copy(data=values).assign_attrs(long_name=f"{text}: {words}")
        for suffix, (values, text) in arrays.items()
    }


def _text(comparison: Comparison) -> str:
    """The table as aligned text of at most 100 columns."""
    table = comparison.table.copy()
    table.columns = [
        "largest",
        f"at {comparison.axis}",
        "beyond",
        "rms",
        "rms %",
        "worst %",
        *table.columns[6:],
    ]
    for column in table.columns.drop("verdict"):
        table[column] = [f"{value:.3g}" for value in table[column]]
    table.index = [textwrap.shorten(name, 24, placeholder="…") for name in table.index]
    return table.to_string()


def _footer(comparison: Comparison) -> list[str]:
    """What the columns mean, the allowance, and the notes."""
    allowance = "the accuracy of the theory and rounding alone (finite_size=0, the strict test)."
    if comparison.finite_size:
        allowance = (
            f"{comparison.finite_size:g} × (largest value)/{comparison.size} for the finite size "
            "of the networks, plus the accuracy of the theory; finite_size=0 is the strict test."
        )
    return [
        "largest, beyond, rms: deviation of the mean of the runs, in its standard errors; "
        "beyond: what exceeds the allowance; %: in per cent of the theory's root mean square; "
        "p: chance of so large an excess in that many independent looks, if the theory is right.",
        f"Allowance: {allowance}",
        *comparison.notes,
    ]

"""`transfer`: does the best learning rate of one problem still serve when a field of it changes?"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from learndyn.analyses.rates import FinalLoss, Optimum, optimum
from learndyn.core.progress import progress_bar
from learndyn.core.simulate import simulate
from learndyn.errors import ProblemError
from learndyn.numerics.statistics import mean_and_error
from learndyn.problem.checks import number, whole
from learndyn.problem.part import Part
from learndyn.problem.paths import changed, check_paths
from learndyn.problem.problem import Problem

TOLERATED = 0.05
"""A rate transfers if keeping it loses no more than this part of the best loss."""
SIDES = "network.parameterization"
RATE = "training.learning_rate"
WORDS = {
    "best_rate": "learning rate with the smallest loss at the end",
    "best_rate_error": "error of the best rate",
    "best_loss": "loss at the end, at the best rate",
    "largest_stable_rate": "largest stable learning rate",
    "kept_loss": "loss at the end, at the best rate of the first value",
    "lost": "part of the best loss that is lost by keeping the rate of the first value",
    "network_lost": "the same, in trained networks",
    "network_lost_error": "standard error of the same over seeds",
}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Transfer:
    """Best and largest stable rates along one field or two, and what keeping the first best rate costs.

    `data` has an axis for each field, called by the last word of its path, after the axis "parameterization" if several
    were asked for:

    - `best_rate`, `best_rate_error`, `best_loss`: the best rate, how well it is known, and the loss there;
    - `largest_stable_rate`;
    - `kept_loss`, `lost`: the loss at the best rate of the *first* value, and the part by which it exceeds the best
      one (0.013 is 1.3 %; inf if training diverges);
    - `network_lost`, `network_lost_error`: the same from trained networks, where they were asked for; NaN elsewhere;
    - `flags`: what makes an optimum doubtful; empty if nothing does;
    - `rate`, `loss`: the curves on which the optima were sought, along the axis "point".
    """

    data: xr.Dataset
    problem: Problem
    observable: str
    paths: tuple[str, ...]

    @property
    def fields(self) -> list[str]:
        """The axes of the fields that were varied."""
        return [path.rpartition(".")[2] for path in self.paths]

    @property
    def table(self) -> pd.DataFrame:
        """One row for each problem."""
        axes = [str(dim) for dim in self.data["best_rate"].dims]
        columns = [name for name in (*WORDS, "flags") if name in self.data]
        return self.data[columns].to_dataframe().reset_index().reindex(columns=[*axes, *columns])

    @property
    def statements(self) -> list[str]:
        """In words, for each parameterisation: whether the rate transfers, and what is lost where."""
        return [f"{self._head(part)}{_statement(part, self.fields)}" for part in self.sides()]

    def sides(self) -> list[xr.Dataset]:
        """The data of each parameterisation."""
        if "parameterization" not in self.data.dims:
            return [self.data]
        return [
            self.data.isel(parameterization=k) for k in range(self.data.sizes["parameterization"])
        ]

    def _head(self, part: xr.Dataset) -> str:
        return f"{part['parameterization'].item()}: " if "parameterization" in part.coords else ""

    def __repr__(self) -> str:
        table = self.table
        table["lost"] = [_per_cent(x) for x in table["lost"]]
        if "network_lost" in table:
            pairs = zip(table["network_lost"], table.pop("network_lost_error"), strict=True)
            table["network_lost"] = [
                "" if x != x else f"{_per_cent(x)} ± {100 * e:.2g}" for x, e in pairs
            ]
        shown = table.drop(columns="kept_loss")
        shown.columns = [name.replace("_", " ") for name in shown.columns]
        text = shown.to_string(index=False, float_format="{:.4g}".format)
        return "\n".join([*self.statements, "", text])

    __str__ = __repr__


def transfer(
    problem: Problem,
    over: str | Mapping[str, Iterable],
    values: Iterable | None = None,
    *,
    parameterizations: Sequence[str] | None = None,
    observable: str = "test_loss",
    rtol: float = 1e-3,
    size: int | None = None,
    seeds: int = 8,
    check: Iterable | None = None,
    progress: bool = False,
) -> Transfer:
    """The best and the largest stable learning rate along a field of the problem, and what keeping the first one costs.

    - `over`, `values`: the path of the field and its values: "network.width", [0.5, 1, 2]; "network.depth",
      "training.steps" (the horizon), "data.batch_ratio", "data.noise", "training.weight_decay", … Or a dictionary with
      two paths and their values, for a map.
    - `parameterizations`: several to compare, such as ["mup", "ntk"]. That of the problem unless given.
    - `observable`: what should be small at the end of training. "test_loss" unless given.
    - `rtol`: the relative accuracy of the search. 1e-3 unless given.
    - `size`, `seeds`: also train so many networks of this size at the best rate and at the one that is kept, the same
      seeds at both. No networks unless given; 8 seeds.
    - `check`: the values at which networks are trained, if not at all of them.
    - `progress`: whether to show a progress bar. False unless given.

    The loss lost by keeping a rate is relative to the best loss. A rate *transfers* if it is at most 5 %. An optimum
    that is at the edge of stability, rough, or one of several is flagged.
    """
    rtol, seeds = number(above=0, below=1)(rtol, "rtol"), whole(2)(seeds, "seeds")
    axes = _axes(problem, over, values)
    checked = None if check is None else [_single(value, "check") for value in check]
    if checked is not None and (size is None or len(axes) > 1):
        raise ProblemError("check", checked, "needs a size of the networks, and one field only")
    problems = _problems(problem, axes, parameterizations)
    shape = np.array([len(labels) for labels in axes.values()])
    sides = [None] if parameterizations is None else list(parameterizations)
    cells: list[dict[str, Any]] = []
    with progress_bar(progress, f"learning rates over {', '.join(axes)}") as report:
        kept = math.nan
        for done, (place, varied) in enumerate(problems):
            best = optimum(varied, observable, rtol)
            kept = best.rate if not any(place) else kept
            cell = _cell(varied, best, kept, observable)
            label = list(next(iter(axes.values())))[place[0]]
            if size is not None and (checked is None or label in checked):
                cell |= _in_networks(varied, best.rate, kept, observable, size, seeds)
            cells.append(cell)
            report((done + 1) / len(problems))
    data = _dataset(cells, axes, [len(sides), *shape] if parameterizations else list(shape), sides)
    return Transfer(data, problem, observable, tuple(axes))


def _axes(
    problem: Problem, over: str | Mapping[str, Iterable], values: Iterable | None
) -> dict[str, list]:
    """The values of each field by its path."""
    if isinstance(over, Mapping):
        if values is not None:
            raise ProblemError("values", values, "must not be given with a dictionary of fields")
        fields = dict(over)
    elif values is None:
        raise ProblemError("values", None, f"missing; give the values of {over}")
    else:
        fields = {over: values}
    if not 1 <= len(fields) <= 2:
        raise ProblemError("over", list(fields), "must be one field or two")
    if RATE in fields:
        raise ProblemError(
            "over", RATE, "cannot be varied, because it is what the search looks for"
        )
    check_paths(problem, list(fields), "over")
    axes = {path: [_single(value, path) for value in labels] for path, labels in fields.items()}
    for path, labels in axes.items():
        if not labels:
            raise ProblemError(path, labels, "needs at least one value")
    return axes


def _single(value: Any, path: str) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Part) or np.ndim(value):
        raise ProblemError(path, value, "every value must be a single number or word")
    return value


def _problems(
    problem: Problem, axes: Mapping[str, list], parameterizations: Sequence[str] | None
) -> list[tuple[tuple[int, ...], Problem]]:
    """All problems with their places along the fields; for each parameterisation, the first value comes first."""
    sides: list[dict[str, Any]] = [{}]
    if parameterizations is not None:
        if SIDES in axes:
            raise ProblemError(
                "parameterizations", parameterizations, "is varied as a field already"
            )
        check_paths(problem, [SIDES], "parameterizations")
        sides = [{SIDES: word} for word in parameterizations]
        if not sides:
            raise ProblemError("parameterizations", [], "needs at least one word")
    places = list(itertools.product(*(range(len(labels)) for labels in axes.values())))
    return [
        (
            place,
            changed(
                problem, side | {path: axes[path][k] for path, k in zip(axes, place, strict=True)}
            ),
        )
        for side in sides
        for place in places
    ]


def _cell(problem: Problem, best: Optimum, kept: float, observable: str) -> dict[str, Any]:
    """What is told of one problem."""
    kept_loss = best.loss if kept == best.rate else FinalLoss(problem, observable)(math.log(kept))
    return {
        "best_rate": best.rate,
        "best_rate_error": best.error,
        "best_loss": best.loss,
        "largest_stable_rate": best.largest,
        "kept_loss": kept_loss,
        "lost": _relative(kept_loss, best.loss),
        "flags": "; ".join(best.flags),
        "rate": best.rates,
        "loss": best.losses,
    }


def _relative(loss: float, best: float) -> float:
    return 0.0 if loss == best else (loss - best) / best if best > 0 else math.inf


def _in_networks(
    problem: Problem, best: float, kept: float, observable: str, size: int, seeds: int
) -> dict[str, float]:
    """What keeping a rate costs trained networks; the same seeds at both rates, so that their luck cancels."""
    if best == kept:
        return {"network_lost": 0.0, "network_lost_error": 0.0}
    ends = []
    for rate in (best, kept):
        runs = simulate(changed(problem, {RATE: rate}), size, seeds, save_at=2)
        last = runs[observable].isel({runs.axis: -1}).values
        whole_runs = runs.diverged_at is None and bool(np.all(np.isfinite(last)))
        ends.append(last if whole_runs else np.full(seeds, np.inf))
    if not np.all(np.isfinite(ends)):
        return {"network_lost": math.inf, "network_lost_error": math.nan}
    mean, error = mean_and_error((ends[1] - ends[0]) / ends[0].mean())
    return {"network_lost": float(mean), "network_lost_error": float(error)}


def _dataset(
    cells: list[dict[str, Any]], axes: Mapping[str, list], shape: list[int], sides: list
) -> xr.Dataset:
    """All cells on labelled axes; curves of different lengths are filled up with NaN."""
    names = [path.rpartition(".")[2] for path in axes]
    dims = [*(["parameterization"] if len(shape) > len(names) else []), *names]
    points = max(len(cell["rate"]) for cell in cells)
    variables: dict[str, Any] = {}
    for name, words in WORDS.items():
        if not any(name in cell for cell in cells):
            continue
        column = np.array([cell.get(name, np.nan) for cell in cells]).reshape(shape)
        variables[name] = (dims, column, {"long_name": words, "units": "1"})
    variables["flags"] = (dims, np.array([cell["flags"] for cell in cells]).reshape(shape))
    for name, words in (("rate", "learning rate η"), ("loss", "loss at the end of training")):
        padded = [
            np.pad(cell[name], (0, points - len(cell[name])), constant_values=np.nan)
            for cell in cells
        ]
        variables[name] = (
            [*dims, "point"],
            np.reshape(padded, (*shape, points)),
            {"long_name": words},
        )
    labels = {
        name: (name, np.array(list(values)), {"long_name": path})
        for name, (path, values) in zip(names, axes.items(), strict=True)
    }
    if len(dims) > len(names):
        labels["parameterization"] = ("parameterization", np.array(sides), {"long_name": SIDES})
    return xr.Dataset(variables, labels)


def _statement(part: xr.Dataset, names: list[str]) -> str:
    """Whether the rate transfers, with the largest loss."""
    lost = part["lost"]
    worst = lost.where(lost == lost.max(), drop=True).stack(all=names).isel(all=0)
    where = ", ".join(f"{name} {_label(worst[name].item())}" for name in names)
    largest = float(worst)
    first = ", ".join(f"{name} {_label(part[name].values[0])}" for name in names)
    doubtful = int((part["flags"] != "").sum())
    note = f"; {doubtful} of {lost.size} optima are doubtful, see flags" if doubtful else ""
    if math.isinf(largest):
        return (
            f"does not transfer: training with the best rate of {first} diverges at {where}{note}"
        )
    verb = "transfers" if largest <= TOLERATED else "does not transfer"
    if largest == 0:
        return f"transfers: nothing is lost by keeping the best rate of {first}{note}"
    return f"{verb}: {_per_cent(largest)} lost at {where} by keeping the best rate of {first}{note}"


def _label(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _per_cent(part: float) -> str:
    if math.isinf(part):
        return "diverges"
    return f"{100 * part:.0f} %" if part >= 0.1 else f"{100 * part:.2g} %"

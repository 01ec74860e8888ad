"""`runs`: networks that a user trained elsewhere, as a `Solution`.

A loss is counted in one of several ways, and a log does not say in which. So whatever can make a factor or an offset is
asked for by name, and losses are converted to the convention of the theory.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from learndyn.core.curves import Curves, Quantity, Table, side_by_side
from learndyn.core.divergence import diverged
from learndyn.core.evidence import versions
from learndyn.core.record import Record
from learndyn.core.solution import Solution
from learndyn.core.theory import Theory, theory_for
from learndyn.errors import FileError, ProblemError, UnknownObservable, nearest, shown
from learndyn.numerics.precision import float64
from learndyn.problem.checks import array, boolean, choice, optional, whole
from learndyn.problem.problem import Problem

Reduction = Literal["mean", "sum"]


class Runs:
    """Called: networks trained elsewhere as a `Solution`, like one of `simulate`. `from_csv` reads their logs."""

    def __call__(
        self,
        problem: Problem,
        arrays: Mapping[str, ArrayLike],
        *,
        size: int,
        steps: ArrayLike | None = None,
        times: ArrayLike | None = None,
        half: bool | None = None,
        noise: bool | None = None,
        outputs: Reduction | None = None,
        points: Reduction | None = None,
        seeds: Sequence[int] | None = None,
    ) -> Solution:
        """Curves of networks that you trained, for `compare`, `plot` and `Solution.save`.

        - `problem`: what they were trained on.
        - `arrays`: by the name of the observable, values at each step or time; with several networks, a row for each.
        - `size`: the size of the networks, as in `simulate`.
        - `steps` or `times`: when the values were measured. Step k is the state after k updates, so that step 0 is the
          start. Where the theory measures time as t = steps/size, either will do.
        - `half`: whether your losses have the factor ½, as in ½(y − f)². Must be given with a squared loss.
        - `noise`: whether your test loss is on noisy labels. Must be given with a test loss if the labels have noise.
        - `outputs`: whether your losses are the "sum" or the "mean" over several outputs (the mean is what PyTorch's
          `MSELoss` takes). Must be given with a loss if there are several outputs.
        - `points`: whether your losses are the "mean" or the "sum" over given points. Must be given with the loss of a
          network on `Points`.
        - `seeds`: numbers for the networks. 0, 1, … unless given.

        Values that are not finite, and losses as large as `simulate` calls diverged, end a curve.
        """
        theory = theory_for(problem)
        table = {quantity.name: quantity for quantity in theory.table_of(problem)}
        if not isinstance(arrays, Mapping) or not arrays:
            raise ProblemError("arrays", arrays, "must be a dictionary of at least one observable")
        for name in arrays:
            if name not in table:
                raise UnknownObservable(f"no observable {name!r}; {nearest(str(name), table)}")
        record = _record(theory, problem, whole(1)(size, "size"), steps, times)
        values = {
            name: _with_seeds(table[name], value, len(record)) for name, value in arrays.items()
        }
        count = _common_count(values)
        labels = list(range(count)) if seeds is None else [whole(0)(s, "seeds") for s in seeds]
        if len(set(labels)) != count:
            allowed = f"must be {count} different numbers, one for each network"
            raise ProblemError("seeds", seeds, allowed)
        stated = {"half": half, "noise": noise, "outputs": outputs, "points": points}
        for name, value in values.items():
            values[name] = _converted(theory, problem, table[name], value, **stated)
        with float64():
            ensemble = theory.train(problem, int(size), theory.simulator(None), record)
        curves = {
            label: _curves(theory.table_of(problem), record, values, place, ensemble.labels)
            for place, label in enumerate(labels)
        }
        ends = [curve.diverged_at for curve in curves.values() if curve.diverged_at is not None]
        evidence = {
            "kind": "simulation",
            "theory": theory.name,
            "reference": theory.reference,
            "method": {"kind": "given"},
            "size": int(size),
            "seeds": labels,
            "size_symbol": theory.size_symbol,
            "versions": versions(),
            "conventions": {name: value for name, value in stated.items() if value is not None},
        } | ensemble.evidence
        data = side_by_side(curves, theory.time_words)
        return Solution(data, problem, evidence, min(ends, default=None))

    def from_csv(
        self,
        problem: Problem,
        files: str | Path | Iterable[str | Path],
        *,
        size: int,
        columns: Mapping[str, str] | None = None,
        step: str | None = None,
        time: str | None = None,
        seed: str | None = None,
        half: bool | None = None,
        noise: bool | None = None,
        outputs: Reduction | None = None,
        points: Reduction | None = None,
    ) -> Solution:
        """The same from logs of training: one file for each network, or one with a column for the seed.

        - `columns`: the column of each observable, {"test_loss": "val/mse"}. Unless given, the columns that are called
          like observables of the theory.
        - `step` or `time`: the column of steps or times. The column "step" unless given.
        - `seed`: the column that tells networks in one file apart. None unless given.

        Rows in which one of these columns is empty are left out; a loss of "nan" or "inf" ends a curve. The other
        arguments are those of `runs`.
        """
        paths = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
        if not paths:
            raise ProblemError("files", [], "must be at least one file")
        if step is not None and time is not None:
            raise ProblemError("step, time", (step, time), "give only one of the two columns")
        axis = time or step or "step"
        known = [quantity.name for quantity in theory_for(problem).table_of(problem)]
        chosen = dict(columns or {})
        networks: list[tuple[Any, pd.DataFrame]] = []
        for path in paths:
            log: Any = _read(path)  # pandas has no types for what is done with it here
            chosen = chosen or {name: name for name in known if name in log}
            if not chosen:
                raise FileError(
                    f"{path} has no column that is called like an observable; say which is which with columns, such as "
                    f"{{'test_loss': {list(log.columns)[-1]!r}}}"
                )
            wanted = [axis, *chosen.values(), *([seed] if seed else [])]
            for column in wanted:
                if column not in log:
                    raise FileError(f"{path} has no column {column!r}; {nearest(column, log)}")
            log = log[list(dict.fromkeys(wanted))]
            log = log[(log != "").all(axis=1)]
            if log.empty:
                raise FileError(f"{path} has no row in which all of {', '.join(wanted)} are given")
            try:
                log = log.astype(float)
            except (ValueError, TypeError) as error:
                raise FileError(f"{path} has entries that are not numbers: {error}") from None
            networks += (
                [(label, log[log[seed] == label]) for label in log[seed].unique()]
                if seed
                else [(None, log)]
            )
        first = networks[0][1][axis].to_numpy()
        for number, (_, log) in enumerate(networks):
            if not np.array_equal(log[axis].to_numpy(), first):
                where = paths[number] if len(paths) > 1 else paths[0]
                raise FileError(
                    f"{where}: the networks were not measured at the same values of {axis!r}; keep the common ones"
                )
        arrays = {
            name: np.stack([log[column].to_numpy(float) for _, log in networks])
            for name, column in chosen.items()
        }
        return self(
            problem,
            arrays,
            size=size,
            steps=None if time else first,
            times=first if time else None,
            half=half,
            noise=noise,
            outputs=outputs,
            points=points,
            seeds=[_whole_seed(label, paths[0]) for label, _ in networks] if seed else None,
        )


runs = Runs()
"""Networks that you trained yourself, as a `Solution`; see `Runs`."""


def _record(
    theory: Theory, problem: Problem, size: int, steps: ArrayLike | None, times: ArrayLike | None
) -> Record:
    """The states at which a user measured, on the axis of the theory."""
    if (steps is None) == (times is None):
        allowed = "give one of the two: when the values were measured"
        raise ProblemError("steps, times", (steps, times), allowed)
    timed = problem.training.time is not None
    if not timed and steps is None:
        raise ProblemError("times", times, "give steps: this training is counted in steps")
    if timed and times is None:
        if theory.time_words != Theory.time_words:
            raise ProblemError("steps", steps, "give times: this training flows in continuous time")
        times = array(1)(steps, "steps") / size
    name, values = ("times", times) if timed else ("steps", steps)
    at = array(1)(values, name)
    falling = np.flatnonzero(np.diff(at) <= 0)
    if len(falling):
        place = int(falling[0])
        allowed = f"must increase, but {at[place]:g} is followed by {at[place + 1]:g}"
        raise ProblemError(name, shown(list(at[place : place + 2])), allowed)
    try:
        return Record.of(problem.training, at)
    except ProblemError as error:
        raise ProblemError(name, error.value, error.allowed) from None


def _with_seeds(quantity: Quantity, value: ArrayLike, count: int) -> np.ndarray:
    """The values with an axis for the networks in front."""
    try:
        values = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ProblemError(quantity.name, value, "must be an array of numbers") from None
    if values.ndim == len(quantity.axes):
        values = values[None]
    axes = ", ".join(quantity.axes)
    if values.ndim != len(quantity.axes) + 1:
        allowed = f"must have the axes {axes}, or seed, {axes}; its shape is {values.shape}"
        raise ProblemError(quantity.name, f"an array of {values.ndim} axes", allowed)
    for axis, length in zip(quantity.axes, values.shape[1:], strict=True):
        if axis in ("step", "step2") and length != count:
            allowed = f"must have one value for each of the {count} steps or times; it has {length}"
            raise ProblemError(quantity.name, f"shape {values.shape}", allowed)
    return values


def _common_count(values: Mapping[str, np.ndarray]) -> int:
    """The number of networks, the same for all observables."""
    counts = {name: len(value) for name, value in values.items()}
    if len(set(counts.values())) > 1:
        words = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise ProblemError("arrays", words, "must have equally many networks in every observable")
    return next(iter(counts.values()))


def _converted(
    theory: Theory,
    problem: Problem,
    quantity: Quantity,
    values: np.ndarray,
    half: bool | None,
    noise: bool | None,
    outputs: str | None,
    points: str | None,
) -> np.ndarray:
    """A loss in the convention of the theory; other observables as they are."""
    convention = quantity.convention
    if not convention.words:
        return values
    half, noise = optional(boolean)(half, "half"), optional(boolean)(noise, "noise")
    outputs = optional(choice("mean", "sum"))(outputs, "outputs")
    points = optional(choice("mean", "sum"))(points, "points")
    count, name = theory.outputs(problem), quantity.name
    squared = convention.half is not None or problem.training.criterion == "squared"
    if squared:
        if half is None:
            _ask("half", name, "True for ½(y − f)², False for (y − f)²")
        own = convention.half is None or convention.half
        values = values * ((0.5 if own else 1.0) / (0.5 if half else 1.0))
        if count > 1:
            if outputs is None:
                _ask("outputs", name, f"'sum' or 'mean' over the {count} outputs")
            values = values * (count if outputs == "mean" else 1)
    if convention.half is None:
        if points is None:
            _ask("points", name, "'mean' or 'sum' over the points")
        trained = (
            problem.data.trained
            if name == "train_loss"
            else problem.data.total - problem.data.trained
        )
        factor = {("mean", "sum"): trained, ("sum", "mean"): 1 / trained}
        values = values * factor.get((str(points), problem.training.loss), 1.0)
    power = theory.label_noise(problem) ** 2 * count * (0.5 if convention.half else 1.0)
    if name == "test_loss" and convention.noise is not None and power:
        if noise is None:
            _ask(
                "noise",
                name,
                "True if the labels of the test have their noise, False if they are clean",
            )
        values = values + power * (int(convention.noise) - int(bool(noise)))
    return values


def _ask(argument: str, name: str, answers: str) -> None:
    raise ProblemError(argument, None, f"must be given, because {name} is a loss: {answers}")


def _curves(
    table: Table,
    record: Record,
    values: Mapping[str, np.ndarray],
    place: int,
    labels: dict[str, np.ndarray],
) -> Curves:
    """The curves of one network, up to the first state at which something is not finite or a loss has diverged."""
    reached = len(record)
    known = {quantity.name: quantity for quantity in table}
    for name, value in values.items():
        axes = known[name].axes
        if "step" not in axes:
            continue
        states = np.moveaxis(value[place], axes.index("step"), 0).reshape(len(record), -1)
        fine = np.isfinite(states).all(axis=1)
        if known[name].convention.words:
            fine &= ~diverged(states[:, 0], abs(states[0, 0]))
        bad = np.flatnonzero(~fine)
        reached = min(reached, int(bad[0])) if len(bad) else reached
    if reached == 0:
        raise ProblemError(
            "arrays", "NaN or inf", f"network {place} has no finite value at its start"
        )
    arrays = {name: value[place] for name, value in values.items()}
    return Curves(table, record, arrays, reached, labels=labels)


def _read(path: Path) -> pd.DataFrame:
    """A log, with spaces around the names of its columns left out."""
    try:
        # As text, because an empty entry was not measured, while NaN was: training diverged.
        log = pd.read_csv(path, skipinitialspace=True, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise FileError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # what pandas raises for files that are not tables, too
        raise FileError(f"{path} cannot be read as a table: {error}") from None
    return log.rename(columns=lambda column: str(column).strip())


def _whole_seed(label: Any, path: Path) -> int:
    if float(label) != int(label):
        raise FileError(f"{path}: the seed {label} is not a whole number")
    return int(label)

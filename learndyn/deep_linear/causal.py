"""`Causal`: the exact limit of a deep linear network, forward in training time, in one of two forms."""

import dataclasses
import math

import numpy as np

from learndyn.deep_linear import residual, rows
from learndyn.deep_linear.functions import Functions
from learndyn.deep_linear.gradient import losses_of
from learndyn.deep_linear.infinite_depth import (
    BLOCKS,
    at_layer_times,
    extrapolated,
    finite_depth,
    layer_times,
)
from learndyn.deep_linear.innovation import solve_innovation
from learndyn.deep_linear.observables import observables
from learndyn.deep_linear.setting import POPULATION, STREAM, Setting, setting
from learndyn.errors import NotConverged, NoTheory, ProblemError
from learndyn.memory import require_memory
from learndyn.numerics.times import resolve_steps
from learndyn.part import Part, boolean, choice, field, number, whole
from learndyn.theory import Curves
from learndyn.training import impulse_response, rates

ROWS_WORK = 1.5e9
"""Up to this many (layers + modes) × rows³ the row recursion takes seconds, and it gives the responses too."""
SMALL_RICHNESS = 1e-2
"""Below it, the innovation basis of a centred network loses digits that the row recursion keeps."""


class Causal(Part):
    """Solve forward in training time, without iteration.

    `form` is "rows" (the row recursion: responses, ensembles and gradients too), "innovation" (the innovation basis:
    long runs) or "auto": rows while they take seconds. `tolerance` is the relative size below which the innovation
    basis drops a new direction. A spectrum of more than `bins` eigenvalues is grouped into so many. `ensembles` adds
    the error overlaps of networks that share the data or the initial weights only.
    """

    form: str = field(choice("auto", "rows", "innovation"), default="auto")
    tolerance: float = field(number(minimum=1e-14, maximum=1e-2), default=1e-10)
    bins: int = field(whole(2), default=64)
    ensembles: bool = field(boolean, default=False)

    def validate(self):
        if self.ensembles and self.form == "innovation":
            raise ProblemError("Causal.ensembles", True, "needs form = 'rows'")


def pick_form(method: Causal, made: Setting, steps: int) -> str:
    """The form that `method` asks for, or the one that suits so many steps."""
    if made.branch is not None and method.ensembles:
        raise ProblemError("Causal.ensembles", True, "is not known for residual networks")
    if method.form != "auto":
        return method.form
    n = (steps + 1) * made.outputs
    lazy = made.centered and made.gamma < SMALL_RICHNESS
    quick = (made.depth + len(made.lam)) * float(n) ** 3 <= ROWS_WORK
    # Fresh noise at every step leaves the innovation basis nothing to compress, and skip connections make one large
    # space of all layers.
    poor_basis = made.data == STREAM or made.branch is not None
    return "rows" if method.ensembles or lazy or quick or poor_basis else "innovation"


def solve(problem, method: Causal, save_at, seed: int, report) -> Curves:
    """All observables at the recorded steps."""
    if math.isinf(problem.network.depth):
        return _solve_infinite_depth(problem, method, save_at, seed, report)
    saved = resolve_steps(save_at, problem.training.steps)
    made = setting(problem, method.bins)
    form = pick_form(method, made, int(saved[-1]))
    solver = _by_rows if form == "rows" else _by_innovation
    coarse = setting(problem, method.bins // 2) if made.grouped else None
    share = 1.0 if coarse is None else 0.7
    arrays, reached, evidence = solver(problem, method, made, saved, lambda x: report(share * x))
    if coarse is not None:
        # The error of grouping modes falls as 1/bins², so that a third of the difference is left.
        kept = saved[saved < reached]
        rest = solver(problem, method, coarse, kept, lambda x: report(share + (1 - share) * x))
        for name, values in rest[0].items():
            if rest[1] >= reached:
                error = float(np.max(np.abs(values - arrays[name]), initial=0.0)) / 3
                evidence["accuracy"][name] = evidence["accuracy"].get(name, 0.0) + error
    return curves_of(problem, form, made, saved, reached, arrays, evidence)


def curves_of(problem, form: str, made, saved, reached: int, arrays: dict, evidence: dict):
    """The curves from arrays at those of the `saved` steps that come before `reached`."""
    kept = saved[saved < reached]
    return Curves(
        observables(arrays),
        kept,
        axis="step",
        coordinates={"layer": np.arange(1, made.depth + 1), "step2": kept},
        diverged_at=float(saved[len(kept)]) if len(kept) < len(saved) else None,
        evidence=_evidence(problem, form, made) | evidence | _warnings(evidence),
    )


def _solve_infinite_depth(problem, method: Causal, save_at, seed: int, report) -> Curves:
    """The extrapolation of `infinite_depth`."""
    curves: list[Curves] = []
    for done, blocks in enumerate(BLOCKS):
        deep = finite_depth(problem, blocks)
        curves.append(
            solve(deep, method, save_at, seed, lambda x, i=done: report((i + x) / len(BLOCKS)))
        )
    deepest = curves[-1]
    reached = min(len(np.asarray(curve.times)) for curve in curves)
    if reached < len(np.asarray(deepest.times)) or any(curve.diverged_at for curve in curves):
        raise NotConverged(
            f"training diverges at some of the depths {BLOCKS}, from which infinite depth is extrapolated; "
            "use a smaller learning rate"
        )
    found, accuracy = {}, {}
    everywhere = [at_layer_times(curve.observables) for curve in curves]
    for name, observable in everywhere[-1].items():
        sequence = [np.asarray(one[name].values) for one in everywhere]
        values, error = extrapolated(sequence, BLOCKS)
        if name == "test_loss" and np.any(error > 0.1 * np.abs(values) + 1e-9 * np.max(values)):
            raise NotConverged(
                f"the extrapolation from the depths {BLOCKS} to infinite depth is uncertain by up to "
                f"{np.max(error):.2g} in the test loss, more than a tenth of it; use a smaller learning rate"
            )
        accuracy[name] = float(np.max(error, initial=0.0))
        accuracy[name] += deepest.evidence["accuracy"].get(name, 0.0)
        found[name] = dataclasses.replace(observable, values=values)
    return dataclasses.replace(
        deepest,
        observables=found,
        coordinates=deepest.coordinates | {"tau": layer_times()},
        evidence=deepest.evidence | {"accuracy": accuracy, "blocks": list(BLOCKS)},
    )


def _evidence(problem, form: str, made) -> dict:
    found = {"form": form, "modes": len(made.lam), "size_symbol": "D"}
    if problem.data.spectrum is not None:
        found["exactness"] = "mean-field approximation at finite width and data"
    return found


def _warnings(evidence: dict) -> dict:
    step = evidence["edge_of_stability"]
    if step is None:
        return {}
    text = (
        f"training is at the edge of stability from step {step}: its gradients turn round and hardly shrink, and "
        "finite networks approach the limit slowly; a smaller learning rate avoids it"
    )
    return {"warnings": [text]}


def _by_rows(problem, method: Causal, made, saved, report):
    steps = int(saved[-1])
    needed = (2.3 if method.ensembles else 1.3) * rows.memory(made, steps)
    if made.branch is not None:
        needed += residual.memory(made, steps)
    require_memory(
        needed, f"a row recursion of {steps} steps", "use form = 'innovation' or fewer steps"
    )
    kappa, d = impulse_response(problem.training, problem.training.steps)
    w = rows.weights(made, kappa[: steps + 1, : steps + 1], d[: steps + 1])
    found = rows.empty_rows(made, steps)
    blocks = None if made.branch is None else residual.empty_blocks(found)

    def advance(first: int, last: int) -> None:
        if blocks is None:
            rows.advance(first, last, found, w)
        else:
            residual.advance_residual(first, last, found, blocks, w, float(made.branch))

    reached = _advance(advance, found, w, steps + 1, report)
    arrays, evidence = read_off(found, w, made, saved, reached, method.ensembles)
    return arrays, reached, evidence


def read_off(found: rows.Rows, w, made, saved, reached: int, ensembles=False, wanted=None):
    """The wanted observables (all of them for None) of a row recursion before training diverged, and the evidence."""
    kept = saved[saved < reached]
    functions = Functions(found, w, made, kept if len(kept) else np.zeros(1, dtype=int))
    arrays = functions.some(wanted)
    if ensembles:
        arrays |= functions.overlaps()
    if not len(kept):
        arrays = {name: _no_steps(values) for name, values in arrays.items()}
    return arrays, {"edge_of_stability": functions.edge(), "accuracy": {}}


def _no_steps(values: np.ndarray) -> np.ndarray:
    """An array of observables without its steps, for a training that diverged before the first recorded one."""
    return values[:0] if values.ndim == 1 else values[..., :0, :, :0, :]


def _advance(advance, found: rows.Rows, w: rows.Weights, count: int, report) -> int:
    """Compute `count` rows by `advance(first, last)`; the number of them before training diverged."""
    first, start = 0, 0.0
    while first < count:
        # Equal work in each piece: the cost of a row grows with its square.
        last = min(count, max(first + 16, int(first * 1.05)))
        advance(first, last)
        loss = rows.errors(found, w, first, last)
        start = loss[0] if first == 0 else start
        bad = rows.diverged(loss, start)
        if bad.any():
            return first + int(np.argmax(bad))
        first = last
        report((first / count) ** 3)
    return count


def _by_innovation(problem, method: Causal, made, saved, report):
    steps = int(saved[-1])
    training = problem.training
    eta = np.asarray(rates(training, training.steps))[:steps]
    arrays = solve_innovation(
        made, eta, training.momentum, training.weight_decay, saved, method.tolerance, report
    )
    reached, basis, edge = (arrays.pop(name) for name in ("reached", "basis", "edge"))
    # Measured against the row recursion: 0.02 tolerances in smooth runs, up to 40 at the edge of stability.
    relative = method.tolerance * (1.0 if edge is None else 40.0)
    evidence = {
        "basis": basis,
        "tolerance": method.tolerance,
        "edge_of_stability": edge,
        "accuracy": {
            name: relative * float(np.max(np.abs(x), initial=0.0)) for name, x in arrays.items()
        },
    }
    return arrays, reached + 1, evidence


def trace(problem, method: Causal, save_at) -> dict:
    """Test and train loss at the recorded steps as a JAX function of the training rule."""
    if problem.network.branch is not None:
        raise NoTheory("derivatives are not known for residual networks")
    saved = resolve_steps(save_at, problem.training.steps)
    made = setting(problem, method.bins)
    # A gradient needs the finished matrices and their adjoints.
    needed = 2.5 * rows.memory(made, problem.training.steps)
    require_memory(needed, "the gradient of a row recursion", "use fewer steps")
    test, train = losses_of(made)(*impulse_response(problem.training, problem.training.steps))
    found = {"test_loss": test[saved], "train_loss": train[saved]}
    return {name: found[name] for name in found if name == "test_loss" or made.data != POPULATION}

"""From the arrays of a solver to labelled curves, the same for all forms and depths."""

import math

import numpy as np

from learndyn.deep_linear import rows
from learndyn.deep_linear.functions import Functions
from learndyn.deep_linear.observables import observables
from learndyn.divergence import diverged
from learndyn.theory import Curves

LAYER_TIMES = np.linspace(0.0, 1.0, 9)
"""τ of the recorded layers of infinitely deep networks."""


def curves_of(problem, form: str, made, saved, reached: int, arrays: dict, evidence: dict):
    """The curves from arrays at those of the `saved` steps that come before `reached`."""
    kept = saved[saved < reached]
    deep = math.isinf(problem.network.depth)
    layers = {"tau": LAYER_TIMES} if deep else {"layer": np.arange(1, made.depth + 1)}
    return Curves(
        observables(arrays, *layers),
        kept,
        axis="step",
        coordinates={**layers, "step2": kept},
        diverged_at=float(saved[len(kept)]) if len(kept) < len(saved) else None,
        evidence=_evidence(problem, form, made) | evidence | _warnings(evidence),
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


def read_off(found: rows.Rows, w, made, saved, reached: int, ensembles=False, wanted=None):
    """The wanted observables (all of them for None) of a row recursion before training diverged, and the evidence."""
    kept = saved[saved < reached]
    functions = Functions(found, w, made, kept if len(kept) else np.zeros(1, dtype=int))
    arrays = functions.some(wanted)
    if ensembles:
        arrays |= functions.overlaps()
    if not len(kept):
        arrays = {name: first_steps(values, 0) for name, values in arrays.items()}
    return arrays, {"edge_of_stability": functions.edge(), "accuracy": {}}


def first_steps(values: np.ndarray, count: int) -> np.ndarray:
    """An array of `read_off` at the first `count` of its steps."""
    return values[:count] if values.ndim == 1 else values[..., :count, :, :count, :]


def advance_rows(advance, found: rows.Rows, w: rows.Weights, count: int, report) -> int:
    """Compute `count` rows by `advance(first, last)`; the number of them before training diverged.

    `advance` returns the number of rows that it finished, or None for all of them.
    """
    first, start = 0, 0.0
    while first < count:
        # Equal work in each piece: the cost of a row grows with its square.
        last = min(count, max(first + 16, int(first * 1.05)))
        finished = advance(first, last)
        finished = last if finished is None else finished
        loss = rows.errors(found, w, first, finished)
        start = loss[0] if first == 0 and finished else start
        bad = diverged(loss, max(start, 1e-300))
        if bad.any():
            return first + int(np.argmax(bad))
        if finished < last:
            return finished
        first = last
        report((first / count) ** 3)
    return count

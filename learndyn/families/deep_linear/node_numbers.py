"""Infinite depth with as many nodes of the layer time as it takes: two numbers of nodes state each other's accuracy.

The equations of `infinite_depth` are solved with more and more nodes, until the test loss of the last two solutions
agrees at all steps and so do all observables. Errors fall exponentially with the number of nodes, so that the
difference is the error of the coarser solution, and the finer one, which is returned, is better than stated. If the
largest number of nodes is not enough, the difference is stated all the same, up to a tenth of the test loss.
"""

from typing import Any, NamedTuple

import numpy as np

from learndyn.core.curves import Curves
from learndyn.core.memory import require_memory
from learndyn.core.progressing import Report, of_states
from learndyn.core.record import Record
from learndyn.errors import NotConverged
from learndyn.families.deep_linear import layer_time
from learndyn.families.deep_linear.equations import feedforward as rows
from learndyn.families.deep_linear.equations import infinite_depth
from learndyn.families.deep_linear.functions import Functions
from learndyn.families.deep_linear.observables import INFINITE_TABLE
from learndyn.families.deep_linear.recursion import advance_rows
from learndyn.families.deep_linear.setting import Setting
from learndyn.numerics.lobatto import lobatto
from learndyn.problem.weight_response import impulse_response, rates

LAYER_TIMES = np.linspace(0.0, 1.0, 9)
"""τ of the recorded layers."""
NUMBERS = (6, 8, 10, 12, 16, 24, 32, 48, 64)
"""Numbers of nodes."""
LOSS_AGREES, OTHERS_AGREE = 1e-7, 1e-5
"""Two solutions agree if their test losses differ by no more than this part of each, and every other observable by no
more than this part of its largest value."""
NEGLIGIBLE = 1e-13
"""Differences of the test loss below this part of its largest value are rounding."""
ROUNDING = 1e-12
"""No observable is claimed to be known to a smaller part of its largest value."""
UNKNOWN = 0.1
"""A test loss that is uncertain by this part of itself is not known."""
RUNAWAY = 10.0
"""A loss that has risen to this many times its start before the largest number of nodes loses it counts as diverged
there. This is a judgement, not a proof: a loss may rise that far and fall again, but such curves were all resolved."""
OVERSHOOT = 20.0
"""At such a rate, in parts of the inverse kernel at the start, the first step alone may be too much for any nodes."""
LAYERED = ("C_h", "C_g", "R_hr", "R_gu")


class Resolved(NamedTuple):
    """A solution with some number of nodes.

    `arrays` are the observables at the recorded steps, `loss` is the error at all steps that were `reached`, and
    `ending` says how it ended.
    """

    nodes: int
    arrays: dict[str, np.ndarray]
    loss: np.ndarray
    edge: int | None
    ending: int

    @property
    def reached(self) -> int:
        return len(self.loss)


def by_nodes(
    problem, made: Setting, saved: np.ndarray, report: Report
) -> tuple[dict[str, np.ndarray], int, dict[str, Any]]:
    """Observables at the saved steps, the number of steps before training diverged, and the evidence."""
    # Fewer nodes would not do for this β_0; the largest number is kept to confirm the one before it.
    nodes = _at_least(4 + 2 * problem.network.skip.beta0**2, NUMBERS[:-1])
    fine, left = _resolved(problem, made, nodes, saved, lambda x: report(x / 2)), 0.5
    while True:
        # Fields that change so fast along τ that sweeps fail need many more nodes.
        least = 2 * nodes if fine.ending != layer_time.FINISHED else nodes + 1
        nodes, coarse = _at_least(least, NUMBERS), fine
        # How many numbers of nodes it takes is not known: each gets half of what is left.
        fine = _resolved(problem, made, nodes, saved, lambda x, a=left: report(1 - a + a * x / 2))
        left /= 2
        if nodes == NUMBERS[-1] or _agree(coarse, fine):
            break
    report(1.0)
    reached = _known(coarse, fine, int(saved[-1]) + 1, _first_steps_overshoot(problem, made))
    first, second = (_cut(one.arrays, saved, reached) for one in (fine, coarse))
    accuracy = {
        name: _largest(values - second[name]) + ROUNDING * _largest(values)
        for name, values in first.items()
    }
    nodes_taken = [coarse.nodes, fine.nodes]
    evidence = {"edge_of_stability": fine.edge, "accuracy": accuracy, "nodes": nodes_taken}
    return first, reached, evidence


def _at_least(least: float, numbers: tuple[int, ...]) -> int:
    """The smallest of the `numbers` that is large enough, or the largest."""
    return next((number for number in numbers if number >= least), numbers[-1])


def _resolved(problem, made: Setting, nodes: int, saved, report) -> Resolved:
    """The solution with so many nodes."""
    steps, rule = int(saved[-1]), lobatto(nodes)
    layered = made._replace(rho=np.ones(nodes + 1))
    needed = 1.3 * rows.memory(layered, steps) + infinite_depth.memory(layered, steps)
    purpose = f"a row recursion of {steps} steps with {nodes} nodes of the layer time"
    require_memory(needed, purpose, "use fewer steps")
    kappa, d = impulse_response(problem.training, problem.training.steps)
    w = rows.weights(layered, kappa[: steps + 1, : steps + 1], d[: steps + 1])
    found = rows.empty_rows(layered, steps)
    functions = infinite_depth.empty_nodes(found)
    room = layer_time.empty_sweeps(found, made.outputs)
    ways = layer_time.integrations(problem.network.skip.beta0**2, rule)
    finished, ending = 0, layer_time.FINISHED

    def advance(first: int, last: int) -> int:
        nonlocal finished, ending
        finished, ending = layer_time.advance_nodes(first, last, found, functions, w, *ways, room)
        return finished

    reached = advance_rows(advance, found, w, 0, steps + 1, 0.0, of_states(report, steps, 3))
    if reached < finished:
        # The loss had diverged before a row failed.
        ending = layer_time.FINISHED
    kept = saved[saved < reached]
    functions = Functions(found, w, layered, kept if len(kept) else np.zeros(1, dtype=int))
    arrays = functions.some()
    at_layer_times = rule.at(LAYER_TIMES)
    for name in LAYERED:
        arrays[name] = np.tensordot(at_layer_times, arrays[name], axes=1)
    loss = rows.errors(found, w, 0, reached) + made.outputs * made.noise**2
    return Resolved(nodes, arrays, loss, functions.edge(), ending)


def _cut(arrays: dict[str, np.ndarray], saved: np.ndarray, reached: int) -> dict[str, np.ndarray]:
    """The arrays at the saved steps before `reached`."""
    count = int(np.count_nonzero(saved < reached))
    return Curves(INFINITE_TABLE, Record("step", saved), arrays, count).arrays


def _largest(values: np.ndarray) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def _relative_differences(coarse: Resolved, fine: Resolved) -> np.ndarray:
    """Of the test loss, at the steps that both have."""
    both = min(coarse.reached, fine.reached)
    scale = np.abs(fine.loss[:both])
    difference = np.abs(fine.loss[:both] - coarse.loss[:both])
    return np.maximum(difference - NEGLIGIBLE * np.max(scale, initial=0.0), 0.0) / scale


def _agree(coarse: Resolved, fine: Resolved) -> bool:
    """Whether the finer solution needs no further confirmation."""
    # Few nodes may fail at the same row for want of nodes, so that a failure is never confirmed by another one.
    if coarse.reached != fine.reached or fine.ending != layer_time.FINISHED:
        return False
    differences = _relative_differences(coarse, fine)
    return bool(np.all(differences <= LOSS_AGREES)) and all(
        _largest(values - coarse.arrays[name]) <= OTHERS_AGREE * _largest(values)
        for name, values in fine.arrays.items()
    )


def _runs_away(loss: np.ndarray) -> bool:
    """Whether a curve that is not known any further counts as diverged."""
    return bool(np.any(loss > RUNAWAY * loss[:1]))


def _first_steps_overshoot(problem, made: Setting) -> bool:
    """Whether a lazy network would diverge at once: η λ 𝒦 far above 2, with its kernel 𝒦 = (2 + β_0²) exp(β_0²)."""
    square = problem.network.skip.beta0**2
    rate = float(np.max(rates(problem.training, problem.training.steps)))
    return rate * np.max(made.lam) * (2 + square) * np.exp(square) > OVERSHOOT


def _known(coarse: Resolved, fine: Resolved, count: int, overshoots: bool) -> int:
    """The number of steps, of `count`, at which the test loss is known; fewer than all only if training diverges."""
    differences = _relative_differences(coarse, fine)
    unknown = differences > UNKNOWN
    known = int(np.argmax(unknown)) if unknown.any() else len(differences)
    if known == count or _runs_away(fine.loss[:known]) or (known and overshoots):
        return known
    raise NotConverged(
        f"{fine.nodes} nodes of the layer time do not resolve infinite depth from step {known} on, where the test loss "
        "is uncertain by more than a tenth; use a smaller learning rate or a smaller beta0"
    )

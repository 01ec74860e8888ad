"""Infinite depth with more and more nodes of the layer time, until two solutions agree.

The equations of `infinite_depth` are solved with an increasing number of nodes, until the last two solutions agree in
the test loss at all steps and in all other observables. Errors fall exponentially with the number of nodes. So the
difference is the error of the coarser solution; the finer one, which is returned, is more accurate than stated. If the
largest number of nodes is not enough, the difference is still stated as the accuracy, up to a tenth of the test loss.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.core.curves import Curves
from learndyn.core.progressing import Report, of_states
from learndyn.core.record import Record
from learndyn.errors import NotConverged
from learndyn.families.deep_linear.equations import feedforward, infinite_depth, layer_time_sweeps
from learndyn.families.deep_linear.limit_numbers import LimitNumbers
from learndyn.families.deep_linear.observables import INFINITE_TABLE, LAYERED
from learndyn.families.deep_linear.row_observables import RowObservables
from learndyn.families.deep_linear.row_recursion import advance_rows
from learndyn.memory import require_memory
from learndyn.numerics.lobatto import Lobatto, lobatto
from learndyn.problem.problem import Problem
from learndyn.problem.skips import ScaledSkip
from learndyn.problem.weight_response import impulse_response, rates

LAYER_TIMES = np.linspace(0.0, 1.0, 9)
"""τ = ℓ/L of the recorded layers."""
NODE_COUNTS = (6, 8, 10, 12, 16, 24, 32, 48, 64)
"""Numbers of nodes that are tried, in this order."""
LOSS_AGREES, OTHERS_AGREE = 1e-7, 1e-5
"""Two solutions agree if the relative difference of their test losses is at most `LOSS_AGREES` at every step, and that
of every other observable at most `OTHERS_AGREE` of its largest value."""
NEGLIGIBLE = 1e-13
"""Differences of the test loss below this fraction of its largest value are rounding."""
ROUNDING = 1e-12
"""The smallest error that is stated for an observable, as a fraction of its largest value."""
UNKNOWN = 0.1
"""A test loss with a larger relative uncertainty is not known."""
RUNAWAY = 10.0
"""A loss that the largest number of nodes cannot resolve counts as diverged if it has risen to this many times its
initial value by then. This is a judgement, not a proof: a loss may rise that far and fall again, but all such curves
that we saw were resolved."""
OVERSHOOT = 20.0
"""At an η λ 𝒦 above this, with 𝒦 the initial kernel, no number of nodes may resolve even the first step."""


class NodeSolution(NamedTuple):
    """A solution with a given number of nodes.

    - `nodes`: the number of nodes
    - `arrays`: the observables at the recorded steps
    - `loss`: the test loss at all steps that were reached
    - `edge`: the first step at the edge of stability, or None
    - `ending`: how the recursion ended (`FINISHED`, `UNSETTLED` or `EXPLODED` of `layer_time_sweeps`)
    """

    nodes: int
    arrays: dict[str, np.ndarray]
    loss: np.ndarray
    edge: int | None
    ending: int

    @property
    def reached(self) -> int:
        """The number of steps that were reached."""
        return len(self.loss)


def refine_nodes(
    problem: Problem, numbers: LimitNumbers, states: np.ndarray, report: Report
) -> tuple[dict[str, np.ndarray], int, dict[str, Any]]:
    """Observables at the saved steps, the number of steps before training diverged, and the evidence."""
    # Fewer nodes are not enough for this β_0. The largest number is left to confirm the one before it.
    nodes = _at_least(4 + 2 * _beta0(problem) ** 2, NODE_COUNTS[:-1])
    fine, left = _solve_with_nodes(problem, numbers, nodes, states, lambda x: report(x / 2)), 0.5
    while True:
        # Fields that change so fast along τ that sweeps fail need many more nodes.
        least = 2 * nodes if fine.ending != layer_time_sweeps.FINISHED else nodes + 1
        nodes, coarse = _at_least(least, NODE_COUNTS), fine
        # The number of refinements is not known beforehand: each gets half of the remaining progress.
        fine = _solve_with_nodes(
            problem, numbers, nodes, states, lambda x, a=left: report(1 - a + a * x / 2)
        )
        left /= 2
        if nodes == NODE_COUNTS[-1] or _agree(coarse, fine):
            break
    report(1.0)
    reached = _known(coarse, fine, int(states[-1]) + 1, _first_steps_overshoot(problem, numbers))
    first, second = (_cut(solution.arrays, states, reached) for solution in (fine, coarse))
    accuracy = {
        name: _largest(values - second[name]) + ROUNDING * _largest(values)
        for name, values in first.items()
    }
    nodes_taken = [coarse.nodes, fine.nodes]
    evidence = {"edge_of_stability": fine.edge, "accuracy": accuracy, "nodes": nodes_taken}
    return first, reached, evidence


def _at_least(least: float, counts: tuple[int, ...]) -> int:
    """The smallest of the `counts` that is at least `least`, or the largest of all."""
    return next((number for number in counts if number >= least), counts[-1])


def _beta0(problem: Problem) -> float:
    """β_0 of the problem's skip connections."""
    skip = problem.network.skip
    assert isinstance(skip, ScaledSkip)
    return skip.beta0


def _solve_with_nodes(
    problem: Problem, numbers: LimitNumbers, nodes: int, states: np.ndarray, report: Report
) -> NodeSolution:
    """The solution with this number of nodes."""
    steps, rule = int(states[-1]), lobatto(nodes)
    layered = numbers._replace(rho=np.ones(nodes + 1))
    needed = 1.3 * feedforward.memory(layered, steps) + infinite_depth.memory(layered, steps)
    purpose = f"a row recursion of {steps} steps with {nodes} nodes of the layer time"
    require_memory(needed, purpose, "use fewer steps")
    kappa, d = impulse_response(problem.training, problem.training.steps)
    const = feedforward.recursion_constants(
        layered, kappa[: steps + 1, : steps + 1], d[: steps + 1]
    )
    rows = feedforward.empty_rows(layered, steps)
    node_functions = infinite_depth.empty_nodes(rows)
    sweep_arrays = layer_time_sweeps.empty_sweep_arrays(rows, numbers.outputs)
    downwards, upwards = layer_time_sweeps.integrations(_beta0(problem) ** 2, rule)
    finished, ending = 0, layer_time_sweeps.FINISHED

    def compute_rows(first: int, last: int) -> int:
        nonlocal finished, ending
        finished, ending = layer_time_sweeps.advance_nodes(
            first, last, rows, node_functions, const, downwards, upwards, sweep_arrays
        )
        return finished

    reached = advance_rows(
        compute_rows, rows, const, 0, steps + 1, 0.0, of_states(report, steps, 3)
    )
    if reached < finished:
        # The loss had diverged before a row failed.
        ending = layer_time_sweeps.FINISHED
    states_reached = states[states < reached]
    observables = RowObservables(
        rows, const, layered, states_reached if len(states_reached) else np.zeros(1, dtype=int)
    )
    arrays = observables.selected()
    arrays["kernel"] = _tangent_kernel(
        observables.equal_steps(), const.d[observables.states], rule, _beta0(problem) ** 2
    )
    at_layer_times = rule.at(LAYER_TIMES)
    for name in LAYERED:
        arrays[name] = np.tensordot(at_layer_times, arrays[name], axes=1)
    loss = feedforward.errors(rows, const, 0, reached) + numbers.outputs * numbers.noise**2
    return NodeSolution(nodes, arrays, loss, observables.edge(), ending)


def _tangent_kernel(
    C_g: Float[np.ndarray, "nodes steps outputs outputs"],
    d: Float[np.ndarray, " steps"],
    rule: Lobatto,
    square: float,
) -> Float[np.ndarray, "steps outputs outputs"]:
    """The tangent kernel C_g(0) + β_0² ∫ |h(τ)|² C_g(τ) dτ + |h(1)|², with |h(τ)|² = d² exp(β_0² d² τ)."""
    size = d**2 * np.exp(square * np.multiply.outer(rule.nodes, d**2))
    learnt = square * np.einsum("m,mt,mtcd->tcd", rule.integrals[-1], size, C_g)
    return C_g[0] + learnt + size[-1][:, None, None] * np.eye(C_g.shape[-1])


def _cut(arrays: dict[str, np.ndarray], states: np.ndarray, reached: int) -> dict[str, np.ndarray]:
    """The arrays at the saved steps before `reached`."""
    count = int(np.count_nonzero(states < reached))
    return Curves(INFINITE_TABLE, Record("step", states), arrays, count).arrays


def _largest(values: np.ndarray) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def _relative_differences(coarse: NodeSolution, fine: NodeSolution) -> np.ndarray:
    """Relative differences of the test loss, at the steps that both solutions reached."""
    both = min(coarse.reached, fine.reached)
    scale = np.abs(fine.loss[:both])
    difference = np.abs(fine.loss[:both] - coarse.loss[:both])
    return np.maximum(difference - NEGLIGIBLE * np.max(scale, initial=0.0), 0.0) / scale


def _agree(coarse: NodeSolution, fine: NodeSolution) -> bool:
    """Whether two solutions agree, so that no more nodes are needed."""
    # Two solutions may fail at the same row because both have too few nodes: a failure never confirms another.
    if coarse.reached != fine.reached or fine.ending != layer_time_sweeps.FINISHED:
        return False
    differences = _relative_differences(coarse, fine)
    return bool(np.all(differences <= LOSS_AGREES)) and all(
        _largest(values - coarse.arrays[name]) <= OTHERS_AGREE * _largest(values)
        for name, values in fine.arrays.items()
    )


def _runs_away(loss: np.ndarray) -> bool:
    """Whether a loss that is not known beyond these steps counts as diverged."""
    return bool(np.any(loss > RUNAWAY * loss[:1]))


def _first_steps_overshoot(problem: Problem, numbers: LimitNumbers) -> bool:
    """Whether a lazy network, with the kernel 𝒦 = (2 + β_0²) exp(β_0²), would diverge at once: η λ 𝒦 far above 2."""
    square = _beta0(problem) ** 2
    rate = float(np.max(rates(problem.training, problem.training.steps)))
    return rate * np.max(numbers.lam) * (2 + square) * np.exp(square) > OVERSHOOT


def _known(coarse: NodeSolution, fine: NodeSolution, count: int, overshoots: bool) -> int:
    """The number of steps at which the test loss is known: all `count` of them, or fewer if training diverges.

    Raises `NotConverged` if it is fewer and training does not diverge.
    """
    differences = _relative_differences(coarse, fine)
    unknown = differences > UNKNOWN
    known = int(np.argmax(unknown)) if unknown.any() else len(differences)
    if known == count or _runs_away(fine.loss[:known]) or (known and overshoots):
        return known
    raise NotConverged(
        f"{fine.nodes} nodes of the layer time do not resolve infinite depth from step {known} on, where the test loss "
        "is uncertain by more than a tenth; use a smaller learning rate or a smaller beta0"
    )

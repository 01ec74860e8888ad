"""The solution of `infinite_depth`: row by row in training time, and for each row by sweeps along the layer time.

Given all earlier rows, row t of y = (K, Γ) or y = (M, Σ) obeys a linear differential equation in τ from one end of
[0, 1] to the other; only the diagonal of Γ or Σ is quadratic in the rest of the row. With y at the nodes, β_0² f(y)
its derivative and Q the integration matrix,

    y = y_start + β_0² Q f(y) = (1 − β_0² Q)⁻¹ (y_start + β_0² Q (f(y) − y)),

is swept from node to node, away from the start, with the newest f, until it changes by rounding only. The second form
converges faster, because f begins with y itself. Sweeps that converge slowly, or not at all, are accelerated. Cost: 11
products of a row with a triangle for each node, sweep and half of a row, with about 15 sweeps.
"""

from typing import NamedTuple

import numpy as np

from learndyn.families.deep_linear.equations import scratch
from learndyn.families.deep_linear.equations.feedforward import (
    K,
    M,
    RecursionConstants,
    RecursionRows,
    input_backward,
    input_forward,
    readout_row,
)
from learndyn.families.deep_linear.equations.infinite_depth import NodeFunctions, above, below
from learndyn.numerics.anderson import accelerate, empty_history
from learndyn.numerics.lobatto import Lobatto
from learndyn.numerics.lower import in_place, inlined, inner, nonliteral

SETTLED, STALLED = 1e-13, 1e-9
"""Sweeps end when the relative change of every row is below `SETTLED`, or when it is below `STALLED` and no longer
halves from sweep to sweep: the rest is rounding. Changes are relative to the largest entry of the row."""
MOST_SWEEPS = 120
"""A row that has not settled after this many sweeps is given up."""
SLOW = 0.3
"""Sweeps that shrink the change by a factor above this one are accelerated."""
OVERFLOW = 1e60
"""Entries above this have run away."""
DOWNWARDS, UPWARDS = nonliteral(0), nonliteral(1)
"""The direction of a sweep along the layer time."""
FIRST_NODE = nonliteral(0)
FINISHED, UNSETTLED, EXPLODED = range(3)
"""How a recursion ended: with all rows, at a row that did not settle, or at a row whose sweeps ran away."""


class LayerTimeIntegration(NamedTuple):
    """From one end of [0, 1]: y = growth · y_start + transfer (f(y) − y) at the nodes."""

    growth: np.ndarray
    transfer: np.ndarray


class SweepArrays(NamedTuple):
    """Memory for the sweeps of one row.

    - `rows[c, half]`: K and Γ (half 0) or M and Σ (half 1) of output c at all nodes, followed by their f(y) − y
    - `before`, `after`: f(y) − y at all nodes as one vector, before and after a sweep
    - `history`: past sweeps, for Anderson's acceleration
    - `scales`: the sizes of both parts of y, by which accelerated sweeps are scaled
    """

    rows: np.ndarray
    before: np.ndarray
    after: np.ndarray
    history: np.ndarray
    scales: np.ndarray


def empty_sweep_arrays(rows: RecursionRows, outputs: int) -> SweepArrays:
    """Zeros for the sweeps over the nodes of `rows`."""
    n, nodes = rows.C_Delta.shape[0], len(rows.kernels) - 1
    size = 2 * nodes * n
    return SweepArrays(
        np.zeros((outputs, 2, 4, nodes, n)),
        np.zeros(size),
        np.zeros(size),
        empty_history(size),
        np.ones(2),
    )


def integrations(square: float, rule: Lobatto) -> tuple[LayerTimeIntegration, LayerTimeIntegration]:
    """Integration from τ = 1 downwards and from τ = 0 upwards, with β_0² = `square`."""
    upwards = rule.integrals
    both = []
    for Q in (upwards[-1] - upwards, upwards):
        inverse = np.linalg.inv(np.eye(len(Q)) - square * Q)
        both.append(LayerTimeIntegration(inverse.sum(axis=1), square * inverse @ Q))
    return both[0], both[1]


@inner
def _integrate(
    i: int,
    node: int,
    start: np.ndarray,
    integration: LayerTimeIntegration,
    rates: np.ndarray,
    y: np.ndarray,
    value: np.ndarray,
):
    """y at a node from its start and from f(y) − y at all nodes; its largest change and its largest entry."""
    for j in range(i + 1):
        value[j] = integration.growth[node] * start[j]
    for other in range(len(rates)):
        weight = integration.transfer[node, other]
        for j in range(i + 1):
            value[j] += weight * rates[other, j]
    change, size = 0.0, 0.0
    for j in range(i + 1):
        change, size = max(change, abs(value[j] - y[j])), max(size, abs(value[j]))
        y[j] = value[j]
    return change, size


@inner
def _sweep(
    i: int,
    upwards: int,
    rows: RecursionRows,
    nodes: NodeFunctions,
    const: RecursionConstants,
    integration: LayerTimeIntegration,
    lane: np.ndarray,
    work: np.ndarray,
):
    """One sweep over the nodes; the largest relative change, and the largest entries of both parts of y."""
    n, changed, largest_device, largest_noise = lane.shape[1], 0.0, 0.0, 0.0
    start, value = 0 if upwards else n - 1, work[scratch.NODE_VALUE]
    for number in range(1, n):
        node = number if upwards else n - 1 - number
        change, size = _integrate(
            i, node, lane[0, start], integration, lane[2], lane[0, node], value
        )
        changed = max(changed, change / max(size, 1e-300))
        largest_device = max(largest_device, size)
        change, size = _integrate(
            i, node, lane[1, start], integration, lane[3], lane[1, node], value
        )
        changed = max(changed, change / max(size, 1e-300))
        largest_noise = max(largest_noise, size)
        if largest_device + largest_noise > OVERFLOW:
            break
        if upwards:
            below(i, node, rows, nodes, const, lane, work)
        else:
            above(i, node, rows, nodes, const, lane, work)
    return changed, largest_device, largest_noise


@inner
def _pack(i: int, lane: np.ndarray, scales: np.ndarray, flat: np.ndarray):
    """Write f(y) − y of all nodes into one vector, scaled to order one; returns its length."""
    place = 0
    for part in range(2):
        for node in range(lane.shape[1]):
            for j in range(i + 1):
                flat[place] = lane[2 + part, node, j] / scales[part]
                place += 1
    return place


@inner
def _unpack(i: int, flat: np.ndarray, scales: np.ndarray, lane: np.ndarray):
    """The inverse of `_pack`."""
    place = 0
    for part in range(2):
        for node in range(lane.shape[1]):
            for j in range(i + 1):
                lane[2 + part, node, j] = flat[place] * scales[part]
                place += 1


@inner
def _first_guess(i: int, outputs: int, lane: np.ndarray):
    """Start from f(y) − y of the row one step earlier; its entries near the diagonal move along with the diagonal."""
    for part in range(2, 4):
        for node in range(lane.shape[1]):
            for j in range(i, max(i - 2 * outputs, outputs - 1), -1):
                lane[part, node, j] = lane[part, node, j - outputs]


@inner
def _settle(
    i: int,
    upwards: int,
    rows: RecursionRows,
    nodes: NodeFunctions,
    const: RecursionConstants,
    integration: LayerTimeIntegration,
    room: SweepArrays,
    work: np.ndarray,
):
    """Sweep until row i has settled; returns how that ended."""
    lane = room.rows[i % const.outputs, 1 if upwards else 0]
    before, accelerated, scales, size = np.inf, 0, room.scales, 0
    for _ in range(MOST_SWEEPS):
        if accelerated:
            size = _pack(i, lane, scales, room.before)
        changed, largest_device, largest_noise = _sweep(
            i, upwards, rows, nodes, const, integration, lane, work
        )
        if largest_device + largest_noise > OVERFLOW:
            return EXPLODED
        if changed <= SETTLED or (changed < STALLED and changed > 0.5 * before):
            return FINISHED
        if accelerated:
            _pack(i, lane, scales, room.after)
            accelerate(accelerated - 1, room.before, room.after, size, room.history)
            _unpack(i, room.after, scales, lane)
            accelerated += 1
        elif changed > SLOW * before:
            accelerated = 1
            scales[0], scales[1] = max(largest_device, 1e-300), max(largest_noise, 1e-300)
        before = changed
    return UNSETTLED


@inlined
def _backward_half(
    i: int,
    rows: RecursionRows,
    nodes: NodeFunctions,
    const: RecursionConstants,
    integration: LayerTimeIntegration,
    room: SweepArrays,
    work: np.ndarray,
):
    """Row i of all backward functions, from the readout at τ = 1 to the input; returns how the sweeps ended."""
    lane, last = room.rows[i % const.outputs, 0], len(nodes.A) - 1
    readout_row(i, const.outputs, const.b, const.kappa, lane[0, last], lane[1, last])
    _first_guess(i, const.outputs, lane)
    above(i, last, rows, nodes, const, lane, work)
    ending = _settle(i, DOWNWARDS, rows, nodes, const, integration, room, work)
    for node in range(last + 1):
        for j in range(i + 1):
            rows.kernels[node + 1, K, i, j] = lane[0, node, j]
            nodes.Gamma[node, i, j] = lane[1, node, j]
    input_backward(i, rows, const, work[scratch.BACK_KERNEL], work[scratch.BACK_NOISE], work)
    return ending


@inlined
def _forward_half(
    i: int,
    rows: RecursionRows,
    nodes: NodeFunctions,
    const: RecursionConstants,
    integration: LayerTimeIntegration,
    room: SweepArrays,
    work: np.ndarray,
):
    """Row i of all forward functions, from the data at τ = 0 to the last layer; returns how the sweeps ended."""
    lane = room.rows[i % const.outputs, 1]
    input_forward(i, rows, const, lane[1, 0], work)
    for j in range(i + 1):
        lane[0, 0, j] = rows.kernels[1, M, i, j]
    _first_guess(i, const.outputs, lane)
    below(i, FIRST_NODE, rows, nodes, const, lane, work)
    ending = _settle(i, UPWARDS, rows, nodes, const, integration, room, work)
    for node in range(len(nodes.A)):
        for j in range(i + 1):
            nodes.Sigma[node, i, j] = lane[1, node, j]
    return ending


def advance_nodes(
    first: int,
    last: int,
    rows: RecursionRows,
    nodes: NodeFunctions,
    const: RecursionConstants,
    downwards: LayerTimeIntegration,
    upwards: LayerTimeIntegration,
    room: SweepArrays,
) -> tuple[int, int]:
    """Compute the rows of steps `first` … `last` − 1 in place.

    Returns the number of finished steps, and how the recursion ended: `FINISHED`, `UNSETTLED` or `EXPLODED`.
    """
    work = scratch.empty(rows.C_Delta.shape[0])
    return _advance_nodes(first, last, rows, nodes, const, downwards, upwards, room, work)


@in_place
def _advance_nodes(
    first: int,
    last: int,
    rows: RecursionRows,
    nodes: NodeFunctions,
    const: RecursionConstants,
    downwards: LayerTimeIntegration,
    upwards: LayerTimeIntegration,
    room: SweepArrays,
    work: np.ndarray,
):
    """`advance_nodes`, with an array for temporary rows."""
    for i in range(first * const.outputs, last * const.outputs):
        ending = _backward_half(i, rows, nodes, const, downwards, room, work)
        if ending == FINISHED:
            ending = _forward_half(i, rows, nodes, const, upwards, room, work)
        if ending != FINISHED:
            return i // const.outputs, ending
    return last, FINISHED

"""Row by row in training time and, for each row, along the layer time: sweeps over the nodes of `infinite_depth`.

Given all earlier rows, row t of y = (K, Γ) or y = (M, Σ) obeys a linear differential equation in τ from one end of
[0, 1] to the other; only the diagonal of Γ or Σ is quadratic in the rest of the row. With y at the nodes, β_0² f(y)
its derivative and Q the integration matrix,

    y = y_start + β_0² Q f(y) = (1 − β_0² Q)⁻¹ (y_start + β_0² Q (f(y) − y)),

is swept from node to node, away from the start, with the newest f, until it has settled to rounding. The second form
converges faster, because f begins with y itself. Sweeps that converge slowly, or not at all, are accelerated. Cost: 11
products of a row with a triangle for each node, sweep and half of a row, with about 15 sweeps.
"""

from typing import NamedTuple

import numpy as np

from learndyn.families.deep_linear.equations import scratch
from learndyn.families.deep_linear.equations.feedforward import (
    K,
    M,
    Rows,
    input_backward,
    input_forward,
    readout_row,
)
from learndyn.families.deep_linear.equations.infinite_depth import above, below
from learndyn.numerics.anderson import accelerate, empty_history
from learndyn.numerics.lobatto import Lobatto
from learndyn.numerics.lower import compiled

SETTLED, STALLED = 1e-13, 1e-9
"""Sweeps end when no row changes by more than the first part of its largest entry, or by less than the second and no
less than half of what it changed before: then what is left is rounding."""
MOST_SWEEPS = 120
SLOW = 0.3
"""Sweeps that reduce the change to no less than this part of it are accelerated."""
OVERFLOW = 1e60
FINISHED, UNSETTLED, EXPLODED = range(3)
"""How a recursion ended: all rows, a row that did not settle, or one whose sweeps ran away."""


class Integration(NamedTuple):
    """From one end of [0, 1]: y = growth · y_start + transfer (f(y) − y) at the nodes."""

    growth: np.ndarray
    transfer: np.ndarray


class Sweeps(NamedTuple):
    """Room for the sweeps of one row: `rows[c, half]` holds K, Γ or M, Σ of output c, and then their f(y) − y."""

    rows: np.ndarray
    before: np.ndarray
    after: np.ndarray
    history: np.ndarray


def empty_sweeps(rows: Rows, outputs: int) -> Sweeps:
    """Room for the sweeps over the nodes of `rows`."""
    n, nodes = rows.C_Delta.shape[0], len(rows.kernels) - 1
    size = 2 * nodes * n
    return Sweeps(
        np.zeros((outputs, 2, 4, nodes, n)), np.zeros(size), np.zeros(size), empty_history(size)
    )


def integrations(square: float, rule: Lobatto) -> tuple[Integration, Integration]:
    """Integration from τ = 1 downwards and from τ = 0 upwards, with β_0² = `square`."""
    upwards = rule.integrals
    found = []
    for Q in (upwards[-1] - upwards, upwards):
        inverse = np.linalg.inv(np.eye(len(Q)) - square * Q)
        found.append(Integration(inverse.sum(axis=1), square * inverse @ Q))
    return found[0], found[1]


@compiled
def _integrate(i, node, start, integration, rates, y, value):
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


@compiled
def _sweep(i, upwards, rows, nodes, w, integration, lane, work):
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
            below(i, node, rows, nodes, w, lane, work)
        else:
            above(i, node, rows, nodes, w, lane, work)
    return changed, largest_device, largest_noise


@compiled
def _pack(i, lane, scales, flat):
    """The f(y) − y of all nodes as one vector of numbers of order one; its length."""
    place = 0
    for part in range(2):
        for node in range(lane.shape[1]):
            for j in range(i + 1):
                flat[place] = lane[2 + part, node, j] / scales[part]
                place += 1
    return place


@compiled
def _unpack(i, flat, scales, lane):
    place = 0
    for part in range(2):
        for node in range(lane.shape[1]):
            for j in range(i + 1):
                lane[2 + part, node, j] = flat[place] * scales[part]
                place += 1


@compiled
def _first_guess(i, outputs, lane):
    """f(y) − y of the row a step earlier serves as first guess, moved along with the diagonal near it."""
    for part in range(2, 4):
        for node in range(lane.shape[1]):
            for j in range(i, max(i - 2 * outputs, outputs - 1), -1):
                lane[part, node, j] = lane[part, node, j - outputs]


@compiled
def _settle(i, upwards, rows, nodes, w, integration, room, work):
    """Sweep until row i has settled."""
    lane = room.rows[i % w.outputs, 1 if upwards else 0]
    before, accelerated, scales, size = np.inf, 0, np.ones(2), 0
    for _ in range(MOST_SWEEPS):
        if accelerated:
            size = _pack(i, lane, scales, room.before)
        changed, largest_device, largest_noise = _sweep(
            i, upwards, rows, nodes, w, integration, lane, work
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


@compiled
def _backward_half(i, rows, nodes, w, integration, room, work):
    """From the readout at τ = 1 to the input."""
    lane, last = room.rows[i % w.outputs, 0], len(nodes.A) - 1
    readout_row(i, w, lane[0, last], lane[1, last])
    _first_guess(i, w.outputs, lane)
    above(i, last, rows, nodes, w, lane, work)
    ending = _settle(i, False, rows, nodes, w, integration, room, work)
    for node in range(last + 1):
        for j in range(i + 1):
            rows.kernels[node + 1, K, i, j] = lane[0, node, j]
            nodes.Gamma[node, i, j] = lane[1, node, j]
    input_backward(i, rows, w, work[scratch.BACK_KERNEL], work[scratch.BACK_NOISE], work)
    return ending


@compiled
def _forward_half(i, rows, nodes, w, integration, room, work):
    """From the data at τ = 0 to the last layer."""
    lane = room.rows[i % w.outputs, 1]
    input_forward(i, rows, w, lane[1, 0], work)
    for j in range(i + 1):
        lane[0, 0, j] = rows.kernels[1, M, i, j]
    _first_guess(i, w.outputs, lane)
    below(i, 0, rows, nodes, w, lane, work)
    ending = _settle(i, True, rows, nodes, w, integration, room, work)
    for node in range(len(nodes.A)):
        for j in range(i + 1):
            nodes.Sigma[node, i, j] = lane[1, node, j]
    return ending


@compiled
def advance_nodes(first, last, rows, nodes, w, downwards, upwards, room):
    """Rows of steps `first` … `last` − 1, in place; the number of steps finished, and how it ended."""
    work = np.zeros((scratch.ROWS, rows.C_Delta.shape[0]))
    for i in range(first * w.outputs, last * w.outputs):
        ending = _backward_half(i, rows, nodes, w, downwards, room, work)
        if ending == FINISHED:
            ending = _forward_half(i, rows, nodes, w, upwards, room, work)
        if ending != FINISHED:
            return i // w.outputs, ending
    return last, FINISHED

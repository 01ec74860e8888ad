"""The observables of a training in panels, at any times: between nodes by the polynomial of the panel."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.core.progressing import Report
from learndyn.errors import NotConverged
from learndyn.families.deep_linear.limit_numbers import DATASET, LimitNumbers
from learndyn.families.deep_linear.observables import alignment, part_left, tangent_kernel
from learndyn.families.deep_linear.panel_training import (
    Course,
    PanelTraining,
    trained,
    with_fewer_nodes,
)
from learndyn.problem.training import GradientDescent

FIRST_TOLERANCE, ATTEMPTS = 10.0, 4
"""The tolerance of a panel in units of that of the result, at first, and how often it may be made smaller."""
AT_ENDS, BETWEEN = 8.0, 2.0
"""The stated accuracy is this much smaller than the difference from a solution with a node less in each panel: the
orders are 7 and 5 at the ends of panels, 5 and 4 between nodes. In all settings tried, true errors were two to fifty
times smaller still at the ends; between nodes an eighth of the difference was too little once."""


def read(state: PanelTraining, times: Float[np.ndarray, " k"]) -> dict[str, np.ndarray]:
    """Losses, their decomposition and all correlations at `times`."""
    numbers, Nc = state.numbers, state.numbers.outputs
    E = interpolation(state, times)
    rows = slice(0, state.limit.rows)
    of_input = {
        name: getattr(state.limit.input, name)[rows, rows]
        for name in ("C_v", "C_b", "C_Delta", "C_h0")
    }

    def trace(values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " k"]:
        return E @ values.reshape(-1, Nc).sum(axis=1)

    def two_times(C: Float[np.ndarray, "rows rows"]) -> Float[np.ndarray, "k c k c"]:
        n = len(state.times)
        return np.einsum("kt,tcsd,ls->kcld", E, C.reshape(n, Nc, n, Nc), E, optimize=True)

    errors = np.diagonal(of_input["C_v"])
    along, power = state.limit.input.along[:, rows], numbers.omega * numbers.lam
    bias = power @ ((along @ numbers.gram) * along).sum(axis=2)
    zero = np.arange(state.limit.rows) % Nc
    overlap = (along * numbers.gram[:, zero]).sum(axis=2)
    target = np.einsum("kcc->k", numbers.gram)
    arrays = {
        "test_loss": trace(errors) + Nc * numbers.noise**2,
        "bias": trace(bias),
        "width_variance": trace(np.diagonal(of_input["C_b"]) - bias),
        "data_variance": trace(errors - np.diagonal(of_input["C_b"])),
        "alignment": alignment(trace(power @ overlap), trace(errors), float(power @ target)),
        "kernel": _kernel(state, E),
        "C_v": two_times(of_input["C_v"]),
        "C_h0": two_times(of_input["C_h0"]),
    }
    if numbers.data == DATASET:
        arrays["train_loss"] = trace(np.diagonal(of_input["C_Delta"]))
        arrays["C_Delta"] = two_times(of_input["C_Delta"])
    if numbers.shows_modes:
        losses = state.limit.input.mode_losses(state.limit.rows)
        arrays["mode_loss"] = np.stack([*map(trace, losses)], axis=1)
        arrays["transfer"] = part_left(np.stack([*map(trace, overlap)], axis=1), target)
    layers = state.limit.layers
    arrays["C_h"] = np.stack([two_times(layer.C_h[rows, rows]) for layer in layers])
    arrays["C_g"] = np.stack([two_times(layer.C_g[rows, rows]) for layer in layers])
    return arrays


def _kernel(
    state: PanelTraining, E: Float[np.ndarray, "k nodes"]
) -> Float[np.ndarray, "k outputs outputs"]:
    """The tangent kernel."""
    n, Nc = len(state.times), state.numbers.outputs
    same, rows = np.arange(n), slice(0, n * Nc)
    C_g = np.stack(
        [layer.C_g[rows, rows].reshape(n, Nc, n, Nc)[same, :, same] for layer in state.limit.layers]
    )
    return np.einsum("kt,tcd->kcd", E, tangent_kernel(C_g, state.d, state.numbers))


def interpolation(
    state: PanelTraining, times: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "k nodes"]:
    """The matrix from values at the nodes to values at `times`."""
    E = np.zeros((len(times), len(state.times)))
    ends = np.array([panel.end for panel in state.panels])
    for row, time in enumerate(times):
        if time <= 0:
            E[row, 0] = 1.0
            continue
        panel = state.panels[min(int(np.searchsorted(ends, time)), len(ends) - 1)]
        part = (time - panel.start) / (panel.end - panel.start)
        # The node before the first of a panel is the end of the panel before it.
        E[row, panel.first - 1 : panel.last + 1] = panel.rule.interpolate(np.array([part]))[0]
    return E


class PanelSolution(NamedTuple):
    """The observables at the times before training diverges, their accuracies, and the number of nodes."""

    arrays: dict[str, np.ndarray]
    accuracy: dict[str, float]
    nodes: int


def solve_in_panels(
    numbers: LimitNumbers,
    training: GradientDescent,
    times: Float[np.ndarray, " k"],
    tolerance: float,
    report: Report,
) -> PanelSolution:
    """The observables at the `times`, with losses to a relative `tolerance`.

    The accuracy is measured against a solution with a node less in each panel.
    """
    course, local = Course(training, times), FIRST_TOLERANCE * tolerance
    reached, caution = [], AT_ENDS if course.records_are_ends else BETWEEN
    for attempt in range(ATTEMPTS):
        advance = _progress(report, course.end, attempt)
        state = trained(numbers, float(training.weight_decay), course, local, advance)
        present = times[times <= state.end]
        arrays, coarse = read(state, present), read(with_fewer_nodes(state, course), present)
        errors = {name: np.abs(x - coarse[name]) / caution for name, x in arrays.items()}
        losses = [name for name in ("test_loss", "train_loss") if name in arrays]
        relative = max(
            float(np.max(errors[name] / _scale(arrays[name]), initial=0.0)) for name in losses
        )
        if relative <= tolerance:
            accuracy = {name: float(np.max(x, initial=0.0)) for name, x in errors.items()}
            return PanelSolution(arrays, accuracy, len(state.times))
        reached.append((relative, len(state.times)))
        local *= 0.5 * (tolerance / relative) ** 1.2
    best, nodes = min(reached)
    raise NotConverged(
        f"panels reach a relative accuracy of {best:.1g} with {nodes} nodes, and not {tolerance:g}; use a larger "
        "tolerance, or Rows"
    )


def _scale(loss: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """A loss that vanishes is known relative to its start only."""
    return np.abs(loss) + 1e-3 * abs(loss[0])


def _progress(report: Report, end: float, attempt: int) -> Report:
    """The fraction done, on a logarithmic scale of time, because panels grow with time."""

    def done(time: float) -> None:
        part = np.log1p(time / end * 1e4) / np.log1p(1e4)
        report((attempt + float(part)) / ATTEMPTS)

    return done

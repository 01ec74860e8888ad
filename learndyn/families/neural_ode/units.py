"""Which control acts where and when in a neural ODE: its units.

A *unit* is a control θ_u with an amplitude a_u. A neuron i of a system has one unit in each window of time; two
stacked systems have units of their own. FlowUnits are numbered system by system, in it window by window, in it neuron by
neuron. The drift of a system with h neurons at step n is Σ_i (a_u/h) r_f(i)(state, θ_u) with u = `index[i, n]`.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from learndyn.families.neural_ode.fields import RandomField

if TYPE_CHECKING:
    from learndyn.families.neural_ode.network import NeuralODE


class FlowUnits(NamedTuple):
    """The units of one flow: `index` (neurons × steps) and the label of each neuron's field in `fields_of`."""

    index: np.ndarray
    labels: tuple[int, ...]

    @property
    def neurons(self) -> int:
        """h."""
        return len(self.labels)

    @property
    def steps(self) -> int:
        """N: Euler steps of the flow."""
        return self.index.shape[1]

    @property
    def windows(self) -> int:
        """W: windows of time, all equally long."""
        return int(self.index[0, -1] - self.index[0, 0]) // self.neurons + 1

    @property
    def span(self) -> slice:
        """The units of the flow, window by window and in it neuron by neuron, among those of all systems."""
        first = int(self.index[0, 0])
        return slice(first, first + self.windows * self.neurons)


class SystemUnits(NamedTuple):
    """One of the stacked systems: the units of its student and of its teacher."""

    student: FlowUnits
    teacher: FlowUnits


class InitialOverlaps(NamedTuple):
    """Amplitudes a_u and a*_v, and overlaps Q = θ_u·θ_u'/d_θ, M = θ_u·θ*_v/d_θ, T = θ*_v·θ*_v'/d_θ, at the start."""

    a: Any
    Q: Any
    M: Any
    T: Any
    teacher_a: Any


class FlowShape(NamedTuple):
    """All of a neural ODE that is counted: what two problems must share to be compiled once."""

    systems: int
    neurons: int
    teacher_neurons: int
    own_fields: bool
    windows: int
    teacher_windows: int
    steps: int
    teacher_steps: int
    delay: int | None

    @property
    def labels(self) -> int:
        """Fields of one system."""
        return max(self.neurons, self.teacher_neurons) if self.own_fields else 1


def systems(shape: FlowShape) -> list[SystemUnits]:
    """The system, or the driver and the driven one."""
    return [
        SystemUnits(
            _units(shape, s, shape.neurons, shape.windows, shape.steps),
            _units(shape, s, shape.teacher_neurons, shape.teacher_windows, shape.teacher_steps),
        )
        for s in range(shape.systems)
    ]


def _units(shape: FlowShape, system: int, neurons: int, windows: int, steps: int) -> FlowUnits:
    window = np.arange(steps) * windows // steps
    index = (system * windows + window) * neurons + np.arange(neurons)[:, None]
    labels = tuple(system * shape.labels + i * shape.own_fields for i in range(neurons))
    return FlowUnits(index, labels)


def fields_of(network: "NeuralODE", shape: FlowShape) -> list[RandomField]:
    """The covariance of the field of every label."""
    return [
        field
        for field in (network.field, network.driven)
        if field is not None
        for _ in range(shape.labels)
    ]


def matching_units(shape: FlowShape) -> np.ndarray:
    """1 where a student's and a teacher's unit are of one neuron and system and meet in time, else 0."""
    W, W_t = shape.windows, shape.teacher_windows
    w, w_t = np.arange(W)[:, None], np.arange(W_t)
    meet = (w * W_t < (w_t + 1) * W) & (w_t * W < (w + 1) * W_t)
    same = np.eye(shape.neurons, shape.teacher_neurons)
    return np.kron(np.eye(shape.systems), np.kron(meet, same))

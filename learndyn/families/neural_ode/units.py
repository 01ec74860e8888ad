"""Which control acts where and when in a neural ODE: its units.

A *unit* is a control θ_u with an amplitude a_u. A neuron i of a system has one unit in each window of time; two
stacked systems have units of their own. Units are numbered by system, then by window, then by neuron. The drift of
a system with h neurons at step n is Σ_i (a_u/h) r_f(i)(state, θ_u) with u = `numbers[i, n]`.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from learndyn.families.neural_ode.fields import RandomField

if TYPE_CHECKING:
    from learndyn.families.neural_ode.network import NeuralODE


class FlowUnits(NamedTuple):
    """The units of one flow.

    - `numbers`: the unit u of neuron i at step n
    - `labels`: the number of each neuron's field in the list `fields_of`
    """

    numbers: Int[np.ndarray, "h N"]
    labels: tuple[int, ...]

    @property
    def neurons(self) -> int:
        """h: neurons of the flow."""
        return len(self.labels)

    @property
    def steps(self) -> int:
        """N: Euler steps of the flow."""
        return self.numbers.shape[1]

    @property
    def windows(self) -> int:
        """W: windows of time, all equally long."""
        return int(self.numbers[0, -1] - self.numbers[0, 0]) // self.neurons + 1

    @property
    def span(self) -> slice:
        """Where the units of this flow, by window and then by neuron, stand among those of all systems."""
        first = int(self.numbers[0, 0])
        return slice(first, first + self.windows * self.neurons)


class SystemUnits(NamedTuple):
    """The units of the student and of the teacher in one of the stacked systems."""

    student: FlowUnits
    teacher: FlowUnits


class InitialOverlaps(NamedTuple):
    """Amplitudes and overlaps of all units before training: arrays of NumPy, or of JAX if they are traced.

    - `a`: amplitudes a_u of the student's units
    - `Q`: overlaps θ_u·θ_u'/d_θ
    - `M`: overlaps θ_u·θ*_v/d_θ
    - `T`: overlaps θ*_v·θ*_v'/d_θ
    - `teacher_a`: amplitudes a*_v of the teacher's units
    """

    a: Float[Any, " units"]
    Q: Float[Any, "units units"]
    M: Float[Any, "units teacher_units"]
    T: Float[Any, "teacher_units teacher_units"]
    teacher_a: Float[Any, " teacher_units"]


class FlowShape(NamedTuple):
    """The counts of a neural ODE: problems that share them can share compiled code.

    - `systems`: 1, or 2 if a second system is driven
    - `neurons`, `teacher_neurons`: h_s and h_t
    - `own_fields`: whether every neuron has a field of its own
    - `windows`, `teacher_windows`: W_s and W_t, windows of time
    - `steps`, `teacher_steps`: N_s and N_t, Euler steps
    - `delay`: Δ in Euler steps, or None
    """

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
        """The number of fields of one system."""
        return max(self.neurons, self.teacher_neurons) if self.own_fields else 1


def systems(shape: FlowShape) -> list[SystemUnits]:
    """The units of the only system, or of the driver and of the system that it drives."""
    return [
        SystemUnits(
            _units(shape, s, shape.neurons, shape.windows, shape.steps),
            _units(shape, s, shape.teacher_neurons, shape.teacher_windows, shape.teacher_steps),
        )
        for s in range(shape.systems)
    ]


def _units(shape: FlowShape, system: int, neurons: int, windows: int, steps: int) -> FlowUnits:
    """The units of a flow in one system."""
    window = np.arange(steps) * windows // steps
    index = (system * windows + window) * neurons + np.arange(neurons)[:, None]
    labels = tuple(system * shape.labels + i * shape.own_fields for i in range(neurons))
    return FlowUnits(index, labels)


def fields_of(network: "NeuralODE", shape: FlowShape) -> list[RandomField]:
    """The covariance of every field, by label."""
    return [
        field
        for field in (network.field, network.driven)
        if field is not None
        for _ in range(shape.labels)
    ]


def matching_units(shape: FlowShape) -> Float[np.ndarray, "units teacher_units"]:
    """1 if a student's and a teacher's unit share neuron and system, and their windows overlap in time; else 0."""
    W, W_t = shape.windows, shape.teacher_windows
    w, w_t = np.arange(W)[:, None], np.arange(W_t)
    meet = (w * W_t < (w_t + 1) * W) & (w_t * W < (w + 1) * W_t)
    same = np.eye(shape.neurons, shape.teacher_neurons)
    return np.kron(np.eye(shape.systems), np.kron(meet, same))

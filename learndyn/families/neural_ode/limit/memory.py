"""The scalars, uses and controls of every training step of a neural ODE, as numbers of the `Engine`."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from learndyn.families.neural_ode.limit.derivatives import Derivatives
from learndyn.families.neural_ode.limit.flow_numbers import flow_of
from learndyn.families.neural_ode.limit.linear_process import Engine, Use
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.families.neural_ode.units import FlowUnits, fields_of, systems
from learndyn.memory import require_memory
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset


class ScalarPath(NamedTuple):
    """The scalars of one trajectory in one system, and the uses that produced each after the first (one per neuron)."""

    states: list[int]
    uses: list[list[int]]


ScalarTrajectory = list[ScalarPath]
"""The paths of one trajectory, one for each system."""


class NumberedControls(NamedTuple):
    """The units of a flow: the engine's number of each control, and the amplitudes."""

    numbers: list[int]
    a: Float[np.ndarray, " units"]


class Memory:
    """The engine of one problem, with the trajectories and controls added to it so far.

    `last` is the number of training steps for which there is memory.
    """

    def __init__(self, problem: Problem, last: int):
        network, data = problem.network, problem.data
        self.network, self.data, self.training = network, data, problem.training
        self.pair = FlowPair.of(problem)
        shape, start = self.pair.shape, self.pair.start()
        self.h = network.step
        self.examples, self.batch = counts(data)
        self._mu = jax.jit(network.confinement.__call__)
        self._mu_slope = jax.jit(network.confinement.derivative)
        self.systems = systems(shape)
        self.flow = flow_of(self.pair)
        """The numbers of the flow, for its observations and the test loss."""
        self.observed, self.visible = np.asarray(self.flow.observed), float(self.flow.visible)
        self.shares = np.asarray(self.flow.shares)
        U, V = len(start.a), len(start.teacher_a)
        scalars, uses = size_of(problem, last)
        require_memory(
            16.0 * scalars**2 + 16.0 * ((last + 1) * U + V) ** 2,
            f"{last} correlated training steps",
            "use fewer training steps, steps of the flow, or trajectories",
        )
        derivatives: dict[int, Derivatives] = {}
        fields = [derivatives.setdefault(id(f), Derivatives(f)) for f in fields_of(network, shape)]
        self.engine = Engine(fields, network.control_ratio, scalars, uses, (last + 1) * U + V)
        teacher_numbers = self._controls(start.T, [])
        self.teachers = NumberedControls(teacher_numbers, np.asarray(start.teacher_a))
        numbers = self._controls(
            start.Q, [dict(zip(teacher_numbers, row, strict=True)) for row in start.M]
        )
        self.students = [NumberedControls(numbers, np.array(start.a))]
        """The student's units before each training step so far."""
        self.taught: list[ScalarTrajectory] = []
        """The teacher's trajectories: the dataset, or the latest of a stream."""

    def _controls(
        self, overlaps: Float[np.ndarray, "units units"], others: list[dict[int, float]]
    ) -> list[int]:
        """Add controls with these overlaps among each other, and with `others` that are there already."""
        numbers: list[int] = []
        for i, row in enumerate(np.asarray(overlaps)):
            with_earlier = dict(zip(numbers, row[:i].tolist(), strict=True))
            with_earlier |= others[i] if others else {}
            numbers.append(self.engine.control(float(row[i]), with_earlier))
        return numbers

    def teach(self, step: int) -> list[ScalarTrajectory]:
        """The teacher's trajectories of a training step."""
        data = self.data
        if isinstance(data, Dataset):
            if not self.taught:
                self.taught = [self.teacher(self.starts()) for _ in range(self.examples)]
            first = step * self.batch % self.examples
            return self.taught[first : first + self.batch]
        if data.task.chained and self.taught:
            starts = [[path.states[-1] for path in paths] for paths in self.taught]
        else:
            starts = [self.starts() for _ in range(self.batch)]
        self.taught = [self.teacher(states) for states in starts]
        return self.taught

    def starts(self) -> list[int]:
        """Add the start of a fresh trajectory in each system."""
        return [self.engine.start() for _ in self.systems]

    def teacher(self, starts: list[int]) -> ScalarTrajectory:
        """Add a teacher's trajectory from these starts, one in each system."""
        units = [system.teacher for system in self.systems]
        return self._flow(starts, units, self.teachers, self.pair.teacher.noise)

    def student(self, x: ScalarTrajectory) -> ScalarTrajectory:
        """Add a student's trajectory from where a teacher started; y_0 = x_0 is a scalar with responses of its own."""
        starts = [self.engine.linear({path.states[0]: 1.0}) for path in x]
        units = [system.student for system in self.systems]
        return self._flow(starts, units, self.students[-1], self.network.noise)

    def _flow(
        self,
        starts: list[int],
        units: list[FlowUnits],
        controls: NumberedControls,
        temperature: float,
    ) -> ScalarTrajectory:
        """Add a trajectory in all systems."""
        trajectory: ScalarTrajectory = []
        for start, flow_units in zip(starts, units, strict=True):
            path = ScalarPath([start], [])
            for n in range(flow_units.steps):
                s = path.states[-1]
                states: tuple[int, ...] = (s,)
                if trajectory:
                    states = (s, trajectory[-1].states[n])
                elif self.network.delay is not None:
                    states = (s, path.states[self._earlier(n)])
                uses = [
                    Use(
                        self.h * controls.a[u] / flow_units.neurons,
                        states,
                        controls.numbers[u],
                        label,
                    )
                    for u, label in zip(flow_units.numbers[:, n], flow_units.labels, strict=True)
                ]
                keep = 1 - self.h * self._confinement(s)
                o, numbers = self.engine.forward({s: keep}, uses, 2 * self.h * temperature)
                path.states.append(o)
                path.uses.append(numbers)
            trajectory.append(path)
        return trajectory

    def _earlier(self, n: int) -> int:
        """The step max(n − Δ, 0) of the delayed state."""
        return max(n - self.network.delay_steps, 0)

    def adjoint(self, y: ScalarTrajectory, x: ScalarTrajectory, step: int = 0) -> list[list[int]]:
        """Add p_0 … p_N of a student's trajectory in each system."""
        N = self.network.steps
        adjoints: list[list[int]] = []
        for s in reversed(range(len(self.systems))):
            p: dict[int, int] = {}
            for n in range(N, -1, -1):
                p[n] = self._adjoint_at(s, n, y, x, step, p, drives=bool(adjoints))
            adjoints.insert(0, [p[n] for n in range(N + 1)])
        return adjoints

    def _adjoint_at(
        self,
        system: int,
        n: int,
        y: ScalarTrajectory,
        x: ScalarTrajectory,
        step: int,
        p: dict[int, int],
        drives: bool,
    ) -> int:
        """Add p_n of a system, from its later ones p and, if it `drives` another system, those of that system."""
        engine, h, network = self.engine, self.h, self.network
        path, s = y[system], y[system].states[n]
        linear, noise = self._jump(system, n, y[system], x[system], step, p)
        slots: list[tuple[int, int]] = []
        if n < network.steps:
            later = p[n + 1]
            linear[later] = 1 - h * self._confinement(s)
            if network.adjoint == "true":
                slope = float(self._mu_slope(self._norm(s)))
                linear[s] = linear.get(s, 0.0) - 2 * h * slope * engine.scalars.C[later, s]
            engine.uses.pi[path.uses[n]] = later
            slots += [(use, 0) for use in path.uses[n]]
            noise[NEXT] = noise.get(NEXT, 0.0) + 2 * h * network.adjoint_noise
        if drives and n < network.steps:
            slots += [(use, 1) for use in y[system + 1].uses[n]]
        if network.delay is not None:
            later_uses = [k for k in range(n, network.steps) if self._earlier(k) == n]
            slots += [(use, 1) for k in later_uses for use in path.uses[k]]
        return engine.adjoint(linear, slots, noise.pop(NEXT, 0.0), noise)

    def _jump(
        self, system: int, n: int, y: ScalarPath, x: ScalarPath, step: int, p: dict[int, int]
    ) -> tuple[dict[int, float], dict[int, float]]:
        """What an observation of y_n adds to p_n: weights of scalars, and the covariance of the noise of masks."""
        weights = self.shares[system] * self.observed[step % len(self.observed)]
        if not weights[n]:
            return {}, {}
        paired = self.flow.paired
        jump = self.visible * weights[n]
        linear = {y.states[n]: jump, x.states[paired[n]]: -jump}
        noise: dict[int, float] = {}
        if self.visible < 1:
            for k in [n, *p] if self.flow.one_mask else [n]:
                error = self._error(y, x, n, k)
                covariance = self.visible * (1 - self.visible) * weights[n] * weights[k] * error
                noise[NEXT if k == n else p[k]] = covariance
        return linear, noise

    def _error(self, y: ScalarPath, x: ScalarPath, n: int, k: int) -> float:
        """⟨(y_n − x_n')(y_k − x_k')⟩."""
        C, paired = self.engine.scalars.C, self.flow.paired
        i, j = (y.states[n], x.states[paired[n]]), (y.states[k], x.states[paired[k]])
        return C[i[0], j[0]] - C[i[0], j[1]] - C[i[1], j[0]] + C[i[1], j[1]]

    def update(self, students: list[ScalarTrajectory], eta: float, eta_a: float = 0.0) -> None:
        """Move the units by the mean gradient of the trajectories, the controls also by weight decay."""
        now = self.students[-1]
        rate = eta / len(students)
        uses: list[list[int]] = [[] for _ in now.numbers]
        pull = np.zeros(len(now.a))
        for trajectory in students:
            for path, system in zip(trajectory, self.systems, strict=True):
                share = self.h / (system.student.neurons * len(students))
                for units, step_uses in zip(system.student.numbers.T, path.uses, strict=True):
                    for unit, use in zip(units, step_uses, strict=True):
                        uses[unit].append(use)
                        if self.network.train_amplitudes:
                            pull[unit] += share * self.engine.amplitude_gradient(use)
        keep = 1 - eta * self.training.weight_decay
        numbers = [
            self.engine.update({number: keep}, dict.fromkeys(uses_of_unit, rate))
            for number, uses_of_unit in zip(now.numbers, uses, strict=True)
        ]
        self.students.append(NumberedControls(numbers, now.a - eta_a * pull))

    def loss(
        self, y: ScalarTrajectory, x: ScalarTrajectory, weights: Float[np.ndarray, " N_s+1"]
    ) -> float:
        """½ Σ w_n ⟨(y_n − x_n')²⟩, for weights w of the observations."""
        total = 0.0
        for share, y_path, x_path in zip(self.shares, y, x, strict=True):
            observed = np.flatnonzero(weights).tolist()
            total += share * sum(weights[n] * self._error(y_path, x_path, n, n) for n in observed)
        return total / 2

    def _norm(self, s: int) -> float:
        """|x|²/d of a state."""
        return self.engine.scalars.C[s, s]

    def _confinement(self, s: int) -> float:
        """μ̂(|x|²/d) of a state."""
        return float(self._mu(self._norm(s)))


NEXT = -1
"""Stands for the scalar that is being added."""


def counts(data: Any) -> tuple[int, int]:
    """The number of trajectories of a dataset (0 for a stream), and of those used in a training step."""
    if isinstance(data, Dataset):
        examples = int(data.examples or 0)
        return examples, data.batch or examples
    return 0, data.batch


def size_of(problem: Problem, last: int) -> tuple[int, int]:
    """The largest numbers of scalars and uses, for `last` training steps and the losses after them."""
    shape = FlowPair.of(problem).shape
    N, N_t = shape.steps, shape.teacher_steps
    examples, B = counts(problem.data)
    taught = examples or (last + 1) * B
    scalars = taught * (N_t + 1) + (last + 1) * B * (2 * N + 2) + N + N_t + 2
    uses = (taught + 1) * N_t * shape.teacher_neurons
    uses += ((last + 1) * B + 1) * N * shape.neurons
    return shape.systems * scalars, shape.systems * uses

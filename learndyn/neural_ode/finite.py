"""Finite neural ODEs, trained for real; the model is in `NeuralODE`'s docstring, and the size is the dimension d.

Starts have |z|² = d, and the controls of all units the overlaps of the start, exactly at every size; d_θ is the whole
number nearest to σd. Fields, controls, starts, the three noises, test trajectories, the directions of responses and
masks have random generators of their own, those of tests and responses a new one for every step; so recording does
not change a seed's curve.
"""

import os
from typing import NamedTuple

import numpy as np

from learndyn.data import Dataset
from learndyn.errors import ProblemError
from learndyn.memory import require_memory
from learndyn.neural_ode.fields import PolynomialField
from learndyn.neural_ode.flows import (
    Controls,
    Drifts,
    Flow,
    Piece,
    draw_controls,
    drifts_of,
    gradients,
    lessons,
    pieces,
    sources,
    sphere,
)
from learndyn.neural_ode.observables import (
    KNOWN,
    coordinates,
    inference_steps,
    observables,
    within_training,
)
from learndyn.neural_ode.probes import Lesson, Observer, correlations, responses
from learndyn.neural_ode.tensor_field import TensorField, entries
from learndyn.neural_ode.units import Start, fields_of, start_of, systems_of
from learndyn.numerics.times import resolve_steps
from learndyn.part import Part, boolean, field
from learndyn.theory import Curves
from learndyn.training import as_schedule, rates

DIVERGED = 1e10
"""A curve ends where |y|²/d exceeds this."""
TEST_TRAJECTORIES = 4
"""A test loss is the mean over at least this many trajectories."""
GENERATORS = (
    *("field", "controls", "starts", "teacher", "student", "adjoint", "test", "probes"),
    "masks",
)


class AdjointDescent(Part):
    """Descent on the control of a finite system, by its adjoint.

    Before each of the training steps `inference_steps`, correlations within a trajectory are recorded, as means over
    the trajectories of the step; with `responses` also R_yy, R_py and, of fresh trajectories, R_px, along
    one random direction for every trajectory and source.
    """

    inference_steps: tuple[int, ...] = field(inference_steps, default=())
    responses: bool = field(boolean, default=False)

    def validate(self):
        if self.responses and not self.inference_steps:
            allowed = "needs inference_steps: the training steps at which to measure them"
            raise ProblemError("AdjointDescent.responses", True, allowed)


def bounded(*states) -> bool:
    """Whether |x|²/d of all states is finite and at most `DIVERGED`."""
    return all(np.max(np.mean(x**2, axis=-1)) <= DIVERGED for x in states)


def coefficients_of(network) -> list[np.ndarray]:
    """The coefficients of the field of every label."""
    found = []
    for one in fields_of(network):
        if not isinstance(one, PolynomialField):
            name = "driven" if one is network.driven else "field"
            allowed = "finite systems are drawn from coefficients: give them as a PolynomialField"
            raise ProblemError(f"network.{name}", one, allowed)
        found.append(one.coefficients)
    return found


def memory(problem, d: int, d_theta: int, count: int, method: AdjointDescent) -> float:
    """Bytes for one system recorded at `count` states."""
    network, data = problem.network, problem.data
    times = network.steps + network.teacher_steps + 2
    batch = max(data.batch or data.examples, TEST_TRAJECTORIES)
    together = data.examples or 0 if isinstance(data, Dataset) else batch
    rows = max(batch, together, 2 * times if method.responses else 0)
    fields, systems = coefficients_of(network), len(systems_of(network))
    # Drifts of the teacher, of the student before and after a step; the neurons that are summed, and one product.
    neurons = 0 if network.one_unit else max(network.neurons, network.teacher_neurons)
    drifts = network.count_of_teacher_windows + 2 * network.windows + neurons + 1
    total = 0.0
    for system in range(systems):
        given = (rows, network.steps * batch, drifts, not network.one_unit)
        some = fields[system * len(fields) // systems]
        tensors, shared = entries(some, d, d_theta, *given)
        total += tensors * len(fields) / systems + shared
    units = len(start_of(network).a)
    total += count * units * (2 * count * units + d_theta)
    # Sources, states and adjoints of a batch, of its test trajectories, and copies of them in one axis; masks.
    total += (6 if data.observations is None else 8) * times * systems * batch * d
    if isinstance(data, Dataset):
        total += 2 * times * systems * together * d
    if method.responses:
        total += 2 * times * 6 * times * d
    return 8.0 * (total + len(method.inference_steps) * 6 * times**2)


def finite(problem, size: int, method: AdjointDescent, save_at):
    """A function that trains one system: `run(seed, report) -> Curves`."""
    network, training = problem.network, problem.training
    within_training(method, problem)
    setting = Setting.of(problem, size)
    d, d_theta, start = size, setting.d_theta, setting.start
    units = len(start.a) + len(start.teacher_a)
    if d_theta < units:
        allowed = (
            f"must be larger: there would be {d_theta} controls, and at least {units} are needed"
        )
        allowed = f"{allowed}, as many as student and teacher have units"
        raise ProblemError("size", size, allowed)
    steps = resolve_steps(save_at, training.steps)
    needed = memory(problem, d, d_theta, len(steps), method) * (os.cpu_count() or 1)
    purpose = f"training neural ODEs with states of dimension d = {d} and {d_theta} controls"
    require_memory(needed, purpose, "use a smaller d, or a field of lower order")
    last = max(int(steps[-1]), *method.inference_steps, 0)
    eta = rates_of(training, last)

    def run(seed: int, report) -> Curves:
        with np.errstate(over="ignore", invalid="ignore"):
            run = Run(problem, setting, seed, method)
            run.train(steps, eta, report)
        reached = len(run.recorded)
        return Curves(
            observables(run.arrays()),
            steps[:reached],
            axis="step",
            diverged_at=float(steps[reached]) if reached < len(steps) else None,
            coordinates=coordinates(network, steps[:reached], method.inference_steps),
            evidence={"size_symbol": "d"},
        )

    return run


def rates_of(training, steps: int) -> np.ndarray:
    """The rates η of the controls and η_a of the amplitudes (steps × 2)."""
    eta = np.asarray(rates(training, steps), dtype=float)
    if training.readout_learning_rate is None:
        return np.stack([eta, eta], axis=1)
    of_amplitudes = as_schedule(training.readout_learning_rate)(np.arange(steps, dtype=float))
    return np.stack([eta, np.asarray(of_amplitudes, dtype=float)], axis=1)


class Setting(NamedTuple):
    """What the systems of all seeds share."""

    d: int
    d_theta: int
    flow: Flow
    observer: Observer
    coefficients: list[np.ndarray]
    student: list[list[Piece]]
    teacher: list[list[Piece]]
    start: Start

    @classmethod
    def of(cls, problem, d: int) -> "Setting":
        """The setting of a problem at a size."""
        network = problem.network
        d_theta = round(network.control_ratio * d)
        shared = (Flow.of(network), Observer(problem), coefficients_of(network))
        both = zip(*systems_of(network), strict=True)
        student, teacher = ([pieces(one) for one in some] for some in both)
        return cls(d, d_theta, *shared, student, teacher, start_of(network))


class Run:
    """One system in training, and what it recorded."""

    def __init__(self, problem, setting: Setting, seed: int, method):
        self.problem, self.setting, self.method = problem, setting, method
        self.d, self.flow, self.observer = setting.d, setting.flow, setting.observer
        children = np.random.SeedSequence(seed).spawn(len(GENERATORS))
        self.sequences: dict[str, np.random.SeedSequence] = dict(
            zip(GENERATORS, children, strict=True)
        )
        self.rngs = {
            name: np.random.Generator(np.random.SFC64(one)) for name, one in self.sequences.items()
        }
        d_theta, start = setting.d_theta, setting.start
        self.fields = [
            TensorField.draw(one, self.d, d_theta, self.rngs["field"])
            for one in setting.coefficients
        ]
        self.star, theta = draw_controls(start, d_theta, self.rngs["controls"])
        self.controls = Controls(theta, np.array(start.a, dtype=float))
        star = Controls(self.star, np.array(start.teacher_a, dtype=float))
        self.teacher = drifts_of(self.fields, setting.teacher, star)
        # A fresh batch is its own test: it was never trained on.
        self.trained = isinstance(problem.data, Dataset) or problem.data.chained
        self.visible = self.trained or problem.data.observations is not None
        self.recorded: list[Controls] = []
        self.train_losses: list[float] = []
        self.test_losses: list[float] = []
        responses = {"R_yy", "R_py", "R_px"} if method.responses else set()
        if self.trained:
            # A source in a reused trajectory acts in all steps that use it; the probes act in one.
            responses.discard("R_px")
        labels = coordinates(problem.network, (), method.inference_steps)
        self.inference = {
            name: np.full([len(labels[axis]) for axis in dims], np.nan)
            for name, (dims, _) in (KNOWN.items() if method.inference_steps else ())
            if "inference_step" in dims and (name.startswith("C") or name in responses)
        }

    def _at_step(self, name: str, step: int) -> np.random.Generator:
        """A generator for one step, whatever was drawn at others."""
        one = self.sequences[name]
        child = np.random.SeedSequence(one.entropy, spawn_key=(*one.spawn_key, step))
        return np.random.Generator(np.random.SFC64(child))

    def _student_sources(self, start, rng) -> np.ndarray:
        network = self.problem.network
        return sources(start, network.noise, self.flow.h, network.steps, rng)

    def train(self, steps, eta, report) -> None:
        """Train to the end, or until something diverges, recording the states `steps`."""
        network, flow, rngs = self.problem.network, self.flow, self.rngs
        last, wanted = len(eta), set(steps.tolist())
        taught_at = lessons(self.problem, flow, self.teacher, self.d, rngs)
        for step, taught in zip(range(last + 1), taught_at, strict=False):
            student = drifts_of(self.fields, self.setting.student, self.controls)
            y_sources = self._student_sources(taught.x[0], rngs["student"])
            y = flow.forward(student, y_sources)
            seen = self.observer.at(step, y.x.shape[1:], rngs["masks"])
            if not bounded(taught.x, y.x):
                return
            if step in wanted and not self._record(step, student, taught.x, y.x, seen):
                return
            inferred = step in self.method.inference_steps
            if step < last or inferred:
                given = (network.adjoint_noise, flow.h, network.steps, rngs["adjoint"])
                noise = sources(np.zeros_like(y.x[0]), *given)[::-1]
                p = flow.backward(student, y, noise + seen.jumps(taught.x, y.x))
                if not np.all(np.isfinite(p)):
                    return
            if inferred:
                lesson = Lesson(self.teacher, student, taught, y_sources, y, noise, seen)
                self._infer(step, lesson, p)
            if step < last:
                self._descend(eta[step], y.x, p)
                if not all(np.all(np.isfinite(one)) for one in self.controls):
                    return
            report((step + 1) / (last + 1))

    def _descend(self, eta, y, p) -> None:
        """One step of training, with the rates η and η_a."""
        trained = self.problem.network.train_amplitudes
        given = (self.flow, self.fields, self.setting.student, self.controls)
        gradient = gradients(*given, y, p, trained)
        theta, a = self.controls
        keep = 1 - eta[0] * self.problem.training.weight_decay
        self.controls = Controls(
            keep * theta - eta[0] * gradient.theta,
            a - eta[1] / self.d * gradient.a if trained else a,
        )

    def _record(self, step: int, student: Drifts, x, y, seen) -> bool:
        """Record controls and losses; False if a test trajectory diverges."""
        network, data, flow = self.problem.network, self.problem.data, self.flow
        if self.visible:
            self.train_losses.append(seen.loss(x, y))
        if self.trained:
            rng = self._at_step("test", step)
            count = max(data.batch or data.examples, TEST_TRAJECTORIES)
            start = sphere(rng, len(self.teacher), count, self.d)
            made = sources(start, network.teacher_noise, flow.h, network.teacher_steps, rng)
            x = flow.forward(self.teacher, made).x
            y = flow.forward(student, self._student_sources(start, rng)).x
            if not bounded(x, y):
                return False
        self.test_losses.append(self.observer.everything.loss(x, y))
        self.recorded.append(self.controls)
        return True

    def _infer(self, step: int, lesson: Lesson, p) -> None:
        """Record correlations, and responses if asked, before a step."""
        found = correlations(lesson.taught.x, lesson.y.x, p)
        if self.method.responses:
            found |= responses(self.flow, lesson, self._at_step("probes", step))
        for name in self.inference:
            one = found[name]
            self.inference[name][self.method.inference_steps.index(step)] = one

    def arrays(self) -> dict:
        """The observables of `learndyn.neural_ode.observables`, at the states that were reached."""
        network, d_theta = self.problem.network, self.star.shape[1]
        count, (U, V) = len(self.recorded), (len(self.controls.a), len(self.star))
        flat = np.reshape([one.theta for one in self.recorded], (count * U, d_theta))
        C = (flat @ flat.T / d_theta).reshape(count, U, count, U)
        Q = C[np.arange(count), :, np.arange(count)]
        m = (flat @ self.star.T / d_theta).reshape(count, U, V)
        found = {"Q": Q, "m": m, "C_theta": C}
        if network.one_unit:
            found = {"Q": Q[:, 0, 0], "m": m[:, 0, 0], "C_theta": C[:, 0, :, 0]}
        else:
            found["a"] = np.reshape([one.a for one in self.recorded], (count, U))
        found["test_loss"] = self.test_losses[:count]
        if self.visible:
            found["train_loss"] = self.train_losses[:count]
        return found | self.inference

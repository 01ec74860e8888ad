"""One finite neural ODE in training, step by step, and what is recorded of it.

Starts have |z|² = d, and the controls of all units the overlaps of the start, exactly at every size. Fields, controls,
starts, the three noises, test trajectories, the directions of responses and masks have random generators of their own,
those of tests and responses a new one for every step; so recording does not change a seed's curve.
"""

import contextlib
from typing import NamedTuple

import numpy as np

from learndyn.core.divergence import diverged
from learndyn.core.progressing import Diverged, Products, StepByStep
from learndyn.core.record import Record
from learndyn.errors import ProblemError
from learndyn.families.neural_ode.fields import PolynomialField
from learndyn.families.neural_ode.finite.flows import (
    EulerFlow,
    FiniteControls,
    FlowPiece,
    draw_controls,
    drifts_of,
    gradients,
    lessons,
    pieces,
    sources,
    sphere,
)
from learndyn.families.neural_ode.finite.measurements import (
    Observer,
    StepTrajectories,
    correlations,
    responses,
)
from learndyn.families.neural_ode.finite.tensor_field import TensorField
from learndyn.families.neural_ode.limit.flow_numbers import RULE
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.families.neural_ode.observables import ALONG, labels, none_reached
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.families.neural_ode.units import FlowShape, InitialOverlaps, fields_of, systems
from learndyn.problem.schedules import as_schedule
from learndyn.problem.supplies import Dataset
from learndyn.problem.weight_response import rates

TEST_TRAJECTORIES = 4
"""A test loss is the mean over at least this many trajectories."""
GENERATORS = (
    *("field", "controls", "starts", "teacher", "student", "adjoint", "test", "probes"),
    "masks",
)


def bounded(*states) -> bool:
    """Whether |x|²/d of all states is finite and at most `DIVERGED`."""
    return not any(np.any(diverged(np.mean(x**2, axis=-1))) for x in states)


def coefficients_of(network: NeuralODE, shape: FlowShape) -> list[np.ndarray]:
    """The coefficients of the field of every label."""
    found = []
    for one in fields_of(network, shape):
        if not isinstance(one, PolynomialField):
            name = "driven" if one is network.driven else "field"
            allowed = "finite systems are drawn from coefficients: give them as a PolynomialField"
            raise ProblemError(f"network.{name}", one, allowed)
        found.append(one.coefficients)
    return found


class FiniteSetup(NamedTuple):
    """What the systems of all seeds share."""

    d: int
    d_theta: int
    flow: EulerFlow
    observer: Observer
    coefficients: list[np.ndarray]
    student: list[list[FlowPiece]]
    teacher: list[list[FlowPiece]]
    start: InitialOverlaps

    @classmethod
    def of(cls, problem, d: int) -> "FiniteSetup":
        """The setting of a problem at a size."""
        network, pair = problem.network, FlowPair.of(problem)
        d_theta = round(network.control_ratio * d)
        shared = (EulerFlow.of(network), Observer(problem), coefficients_of(network, pair.shape))
        both = zip(*systems(pair.shape), strict=True)
        student, teacher = ([pieces(one) for one in some] for some in both)
        return cls(d, d_theta, *shared, student, teacher, pair.start())


class FiniteNeuralODE(StepByStep):
    """One system in training, whose states on a `record` are expected to be kept.

    What a `method` measures along the flow may come after the last of them: training then goes on.
    """

    changeable = RULE

    def __init__(self, problem, setting: FiniteSetup, seed: int, method, record: Record):
        super().__init__(len(record))
        self.last = int(record.last)
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
        self.controls = FiniteControls(theta, np.array(start.a, dtype=float))
        star = FiniteControls(self.star, np.array(start.teacher_a, dtype=float))
        self.teacher = drifts_of(self.fields, setting.teacher, star)
        # A fresh batch is its own test: it was never trained on.
        self.trained = isinstance(problem.data, Dataset) or problem.task.chained
        self.visible = self.trained or problem.task.observations is not None
        responses = {"R_yy", "R_py", "R_px"} if method.responses else set()
        if self.trained:
            # A source in a reused trajectory acts in all steps that use it; the probes act in one.
            responses.discard("R_px")
        lengths = labels(FlowPair.of(problem), method.inference_steps)
        self.inference = {
            quantity.name: np.full([len(lengths[axis]) for axis in quantity.axes], np.nan)
            for quantity in (ALONG if method.inference_steps else ())
            if quantity.name.startswith("C") or quantity.name in responses
        }
        self.lessons = lessons(problem, self.flow, self.teacher, self.d, self.rngs)
        self.eta = rates_of(problem.training, problem.training.steps)

    def begin(self):
        self._look(0)

    def _at_step(self, name: str, step: int) -> np.random.Generator:
        """A generator for one step, whatever was drawn at others."""
        one = self.sequences[name]
        child = np.random.SeedSequence(one.entropy, spawn_key=(*one.spawn_key, step))
        return np.random.Generator(np.random.SFC64(child))

    def _student_sources(self, start, rng) -> np.ndarray:
        network = self.problem.network
        return sources(start, network.noise, self.flow.h, network.steps, rng)

    def _look(self, step: int) -> None:
        """The trajectories of a step; raises `Diverged`."""
        self.taught = next(self.lessons)
        self.student = drifts_of(self.fields, self.setting.student, self.controls)
        self.y_sources = self._student_sources(self.taught.x[0], self.rngs["student"])
        self.y = self.flow.forward(self.student, self.y_sources)
        self.seen = self.observer.at(step, self.y.x.shape[1:], self.rngs["masks"])
        if not bounded(self.taught.x, self.y.x):
            raise Diverged
        self.p = None
        if step in self.method.inference_steps:
            # A state whose adjoint diverges is there: only the step after it is not.
            with contextlib.suppress(Diverged):
                p = self._adjoint()
                given = (self.taught, self.y_sources, self.y, self.noise, self.seen)
                self._infer(step, StepTrajectories(self.teacher, self.student, *given), p)

    def _adjoint(self) -> np.ndarray:
        """The adjoint of the present step, made once; raises `Diverged`."""
        if self.p is None:
            network, flow, y = self.problem.network, self.flow, self.y
            given = (network.adjoint_noise, flow.h, network.steps, self.rngs["adjoint"])
            self.noise = sources(np.zeros_like(y.x[0]), *given)[::-1]
            jumps = self.seen.jumps(self.taught.x, y.x)
            self.p = flow.backward(self.student, y, self.noise + jumps)
        if not np.all(np.isfinite(self.p)):
            raise Diverged
        return self.p

    def step(self):
        self._descend(self.eta[self.now], self.y.x, self._adjoint())
        if not all(np.all(np.isfinite(one)) for one in self.controls):
            raise Diverged
        self._look(self.now + 1)

    def advance(self, states, report):
        reached = super().advance(states, report)
        later = max(self.method.inference_steps, default=0)
        if reached == len(states) and self.now == self.last < later:
            with contextlib.suppress(Diverged), np.errstate(over="ignore", invalid="ignore"):
                self.move(later, lambda state: report(self.last))
        return reached

    def _descend(self, eta, y, p) -> None:
        """One step of training, with the rates η and η_a."""
        trained = self.problem.network.train_amplitudes
        given = (self.flow, self.fields, self.setting.student, self.controls)
        gradient = gradients(*given, y, p, trained)
        theta, a = self.controls
        keep = 1 - eta[0] * self.problem.training.weight_decay
        self.controls = FiniteControls(
            keep * theta - eta[0] * gradient.theta,
            a - eta[1] / self.d * gradient.a if trained else a,
        )

    def measure(self):
        """Overlaps and losses; raises `Diverged` if a test trajectory does."""
        theta, d_theta = self.controls.theta, self.star.shape[1]
        found = {
            "Q": theta @ theta.T / d_theta,
            "m": theta @ self.star.T / d_theta,
            "C_theta": Products(theta),
            "a": self.controls.a,
            "test_loss": self._test_loss(),
        }
        if self.visible:
            found["train_loss"] = self.seen.loss(self.taught.x, self.y.x)
        return found

    def _test_loss(self) -> float:
        data, flow, pair = self.problem.data, self.flow, FlowPair.of(self.problem)
        x, y = self.taught.x, self.y.x
        if self.trained:
            rng = self._at_step("test", self.now)
            count = max(data.batch or data.examples, TEST_TRAJECTORIES)
            start = sphere(rng, len(self.teacher), count, self.d)
            made = sources(start, pair.teacher.noise, flow.h, pair.teacher_steps, rng)
            x = flow.forward(self.teacher, made).x
            y = flow.forward(self.student, self._student_sources(start, rng)).x
            if not bounded(x, y):
                raise Diverged
        return self.observer.everything.loss(x, y)

    def _infer(self, step: int, lesson: StepTrajectories, p) -> None:
        """Record correlations, and responses if asked, before a step."""
        found = correlations(lesson.taught.x, lesson.y.x, p)
        if self.method.responses:
            found |= responses(self.flow, lesson, self._at_step("probes", step))
        for name in self.inference:
            one = found[name]
            self.inference[name][self.method.inference_steps.index(step)] = one

    def finish(self, arrays):
        if not arrays:
            arrays = none_reached(len(self.controls.a), len(self.star))
            if not self.visible:
                del arrays["train_loss"]
        return arrays | self.inference

    def weights(self):
        """The controls θ (units × d_θ), amplitudes a, and the teacher's controls."""
        return {
            "theta": self.controls.theta.copy(),
            "a": self.controls.a.copy(),
            "theta_star": self.star.copy(),
        }

    def sample(self, count):
        """Trajectories of the teacher that the present step uses: x (inference times × trajectories × d).

        In a stack they are those of the first system.
        """
        return {"x": self.taught.x[:, 0, :count].copy()}

    def change(self, problem):
        self.problem = problem
        self.eta = rates_of(problem.training, problem.training.steps)


def rates_of(training, steps: int) -> np.ndarray:
    """The rates η of the controls and η_a of the amplitudes (steps × 2)."""
    eta = np.asarray(rates(training, steps), dtype=float)
    if training.readout_learning_rate is None:
        return np.stack([eta, eta], axis=1)
    of_amplitudes = as_schedule(training.readout_learning_rate)(np.arange(steps, dtype=float))
    return np.stack([eta, np.asarray(of_amplitudes, dtype=float)], axis=1)

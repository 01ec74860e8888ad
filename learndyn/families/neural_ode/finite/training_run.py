"""One finite neural ODE in training, step by step, and its observables.

Starts have |z|² = d, and the controls of all units have the initial overlaps, both exactly at every size. Fields,
controls, starts, the three noises, test trajectories, the directions of responses and masks have random generators of
their own, and those of tests and responses are new at every step; so recording does not change a seed's curve.
"""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.core.divergence import diverged
from learndyn.core.progressing import Diverged, Products, Report, StepByStep
from learndyn.core.record import Record
from learndyn.errors import ProblemError
from learndyn.families.neural_ode.fields import PolynomialField
from learndyn.families.neural_ode.finite.flows import (
    EulerFlow,
    FiniteControls,
    FlowPiece,
    States,
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
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import as_schedule
from learndyn.problem.supplies import Dataset
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import rates

if TYPE_CHECKING:
    from learndyn.families.neural_ode.finite.descent import AdjointDescent

TEST_TRAJECTORIES = 4
"""A test loss is the mean over at least this many trajectories."""
GENERATORS = (
    *("field", "controls", "starts", "teacher", "student", "adjoint", "test", "probes"),
    "masks",
)


def bounded(*states: States) -> bool:
    """Whether |x|²/d is finite and at most `DIVERGED` for all states."""
    return not any(np.any(diverged(np.mean(x**2, axis=-1))) for x in states)


def coefficients_of(network: NeuralODE, shape: FlowShape) -> list[np.ndarray]:
    """The coefficients of every field, by label."""
    coefficients = []
    for field in fields_of(network, shape):
        if not isinstance(field, PolynomialField):
            name = "driven" if field is network.driven else "field"
            allowed = "finite systems are drawn from coefficients: give them as a PolynomialField"
            raise ProblemError(f"network.{name}", field, allowed)
        coefficients.append(field.coefficients)
    return coefficients


class FiniteSetup(NamedTuple):
    """What the systems of all seeds share.

    - `d`, `d_theta`: dimensions of states and controls
    - `flow`: how states and adjoints move
    - `observer`: the losses
    - `coefficients`: those of every field
    - `student`, `teacher`: the pieces of both flows, for each system
    - `start`: amplitudes and overlaps before training
    """

    d: int
    d_theta: int
    flow: EulerFlow
    observer: Observer
    coefficients: list[np.ndarray]
    student: list[list[FlowPiece]]
    teacher: list[list[FlowPiece]]
    start: InitialOverlaps

    @classmethod
    def of(cls, problem: Problem, d: int) -> "FiniteSetup":
        """The setup of a problem with states of dimension d."""
        network, pair = problem.network, FlowPair.of(problem)
        units = systems(pair.shape)
        return cls(
            d=d,
            d_theta=round(network.control_ratio * d),
            flow=EulerFlow.of(network),
            observer=Observer(problem),
            coefficients=coefficients_of(network, pair.shape),
            student=[pieces(system.student) for system in units],
            teacher=[pieces(system.teacher) for system in units],
            start=pair.start(),
        )


class FiniteNeuralODE(StepByStep):
    """One finite neural ODE in training.

    If the `method` measures along the flow at steps after the end of the `record`, training goes on up to these.
    """

    changeable = RULE

    def __init__(
        self,
        problem: Problem,
        setup: FiniteSetup,
        seed: int,
        method: "AdjointDescent",
        record: Record,
    ):
        super().__init__(len(record))
        self.last = int(record.last)
        self.problem, self.setup, self.method = problem, setup, method
        self.d, self.flow, self.observer = setup.d, setup.flow, setup.observer
        children = np.random.SeedSequence(seed).spawn(len(GENERATORS))
        self.sequences: dict[str, np.random.SeedSequence] = dict(
            zip(GENERATORS, children, strict=True)
        )
        self.rngs = {
            name: np.random.Generator(np.random.SFC64(sequence))
            for name, sequence in self.sequences.items()
        }
        d_theta, start = setup.d_theta, setup.start
        self.fields = [
            TensorField.draw(coefficients, self.d, d_theta, self.rngs["field"])
            for coefficients in setup.coefficients
        ]
        self.star, theta = draw_controls(start, d_theta, self.rngs["controls"])
        self.controls = FiniteControls(theta, np.array(start.a, dtype=float))
        star = FiniteControls(self.star, np.array(start.teacher_a, dtype=float))
        self.teacher = drifts_of(self.fields, setup.teacher, star)
        # A batch of fresh trajectories is also its own test, because nothing was trained on it.
        self.trained = isinstance(problem.data, Dataset) or problem.task.chained
        self.visible = self.trained or problem.task.observations is not None
        responses = {"R_yy", "R_py", "R_px"} if method.responses else set()
        if self.trained:
            # A source in a reused trajectory acts in all steps that use it, but probes act in one step only.
            responses.discard("R_px")
        lengths = labels(FlowPair.of(problem), method.inference_steps)
        self.inference = {
            quantity.name: np.full([len(lengths[axis]) for axis in quantity.axes], np.nan)
            for quantity in (ALONG if method.inference_steps else ())
            if quantity.name.startswith("C") or quantity.name in responses
        }
        self.lessons = lessons(problem, self.flow, self.teacher, self.d, self.rngs)
        self.eta = rates_of(problem.training, problem.training.steps)

    def begin(self) -> None:
        self._look(0)

    def _at_step(self, name: str, step: int) -> np.random.Generator:
        """A generator for one step, independent of the draws at other steps."""
        parent = self.sequences[name]
        child = np.random.SeedSequence(parent.entropy, spawn_key=(*parent.spawn_key, step))
        return np.random.Generator(np.random.SFC64(child))

    def _student_sources(
        self, start: Float[np.ndarray, "systems trajectories d"], rng: np.random.Generator
    ) -> States:
        """The sources of the student's trajectories from these starts."""
        network = self.problem.network
        return sources(start, network.noise, self.flow.h, network.steps, rng)

    def _look(self, step: int) -> None:
        """Run the trajectories of a step; raises `Diverged`."""
        self.taught = next(self.lessons)
        self.student = drifts_of(self.fields, self.setup.student, self.controls)
        self.y_sources = self._student_sources(self.taught.x[0], self.rngs["student"])
        self.y = self.flow.forward(self.student, self.y_sources)
        self.loss = self.observer.at(step, self.y.x.shape[1:], self.rngs["masks"])
        if not bounded(self.taught.x, self.y.x):
            raise Diverged
        self.p = None
        if step in self.method.inference_steps:
            # If the adjoint diverges, this state still exists: only the next step does not.
            with contextlib.suppress(Diverged):
                p = self._adjoint()
                trajectories = StepTrajectories(
                    teacher=self.teacher,
                    student=self.student,
                    taught=self.taught,
                    sources=self.y_sources,
                    y=self.y,
                    noise=self.noise,
                    loss=self.loss,
                )
                self._infer(step, trajectories, p)

    def _adjoint(self) -> States:
        """The adjoint of the present step, computed once; raises `Diverged`."""
        if self.p is None:
            network, flow, y = self.problem.network, self.flow, self.y
            end = np.zeros_like(y.x[0])
            rng = self.rngs["adjoint"]
            self.noise = sources(end, network.adjoint_noise, flow.h, network.steps, rng)[::-1]
            jumps = self.loss.jumps(self.taught.x, y.x)
            self.p = flow.backward(self.student, y, self.noise + jumps)
        if not np.all(np.isfinite(self.p)):
            raise Diverged
        return self.p

    def step(self) -> None:
        self._descend(self.eta[self.now], self.y.x, self._adjoint())
        if not all(np.all(np.isfinite(numbers)) for numbers in self.controls):
            raise Diverged
        self._look(self.now + 1)

    def advance(self, states: Sequence[float] | np.ndarray, report: Report) -> int:
        reached = super().advance(states, report)
        later = max(self.method.inference_steps, default=0)
        if reached == len(states) and self.now == self.last < later:
            with contextlib.suppress(Diverged), np.errstate(over="ignore", invalid="ignore"):
                self.move(later, lambda state: report(self.last))
        return reached

    def _descend(self, eta: Float[np.ndarray, " 2"], y: States, p: States) -> None:
        """Make one step of training, with the rates η and η_a."""
        trained = self.problem.network.train_amplitudes
        gradient = gradients(
            self.flow, self.fields, self.setup.student, self.controls, y, p, trained
        )
        theta, a = self.controls
        keep = 1 - eta[0] * self.problem.training.weight_decay
        self.controls = FiniteControls(
            keep * theta - eta[0] * gradient.theta,
            a - eta[1] / self.d * gradient.a if trained else a,
        )

    def measure(self) -> dict[str, Any]:
        """Overlaps and losses; raises `Diverged` if a test trajectory does."""
        theta, d_theta = self.controls.theta, self.star.shape[1]
        observables = {
            "Q": theta @ theta.T / d_theta,
            "m": theta @ self.star.T / d_theta,
            "C_theta": Products(theta),
            "a": self.controls.a,
            "test_loss": self._test_loss(),
        }
        if self.visible:
            observables["train_loss"] = self.loss.loss(self.taught.x, self.y.x)
        return observables

    def _test_loss(self) -> float:
        """The loss of fresh trajectories; raises `Diverged`."""
        data, flow, pair = self.problem.data, self.flow, FlowPair.of(self.problem)
        x, y = self.taught.x, self.y.x
        if self.trained:
            rng = self._at_step("test", self.now)
            count = max(data.batch or data.examples, TEST_TRAJECTORIES)
            start = sphere(rng, len(self.teacher), count, self.d)
            x_sources = sources(start, pair.teacher.noise, flow.h, pair.teacher_steps, rng)
            x = flow.forward(self.teacher, x_sources).x
            y = flow.forward(self.student, self._student_sources(start, rng)).x
            if not bounded(x, y):
                raise Diverged
        return self.observer.everything.loss(x, y)

    def _infer(self, step: int, trajectories: StepTrajectories, p: States) -> None:
        """Record the correlations before a step, and the responses if the method asks for them."""
        arrays = correlations(trajectories.taught.x, trajectories.y.x, p)
        if self.method.responses:
            arrays |= responses(self.flow, trajectories, self._at_step("probes", step))
        row = self.method.inference_steps.index(step)
        for name in self.inference:
            self.inference[name][row] = arrays[name]

    def finish(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not arrays:
            arrays = none_reached(len(self.controls.a), len(self.star))
            if not self.visible:
                del arrays["train_loss"]
        return arrays | self.inference

    def weights(self) -> dict[str, np.ndarray]:
        """The controls θ (units × d_θ), amplitudes a, and the teacher's controls."""
        return {
            "theta": self.controls.theta.copy(),
            "a": self.controls.a.copy(),
            "theta_star": self.star.copy(),
        }

    def sample(self, count: int) -> dict[str, np.ndarray]:
        """The first `count` of the teacher's trajectories that the present step uses: x (times × trajectories × d).

        With stacked systems, they are those of the first.
        """
        return {"x": self.taught.x[:, 0, :count].copy()}

    def change(self, problem: Problem) -> None:
        self.problem = problem
        self.eta = rates_of(problem.training, problem.training.steps)


def rates_of(training: GradientDescent, steps: int) -> Float[np.ndarray, "steps 2"]:
    """The rates η of the controls and η_a of the amplitudes, at every step."""
    eta = np.asarray(rates(training, steps), dtype=float)
    if training.readout_learning_rate is None:
        return np.stack([eta, eta], axis=1)
    eta_a = as_schedule(training.readout_learning_rate)(np.arange(steps, dtype=float))
    return np.stack([eta, np.asarray(eta_a, dtype=float)], axis=1)

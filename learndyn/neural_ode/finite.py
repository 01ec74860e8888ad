"""Finite neural ODEs, trained for real; the model is in `NeuralODE`'s docstring, and the size is the dimension d.

Starts have |z|² = d, and the controls |θ*|² = d_θ, the initial norm and the initial overlap, exactly at every size;
d_θ is the whole number nearest to σd. Field, controls, starts, the three noises, test trajectories and the directions
of responses have random generators of their own, the last two a new one for every step; so recording does not change a
seed's curve.
"""

import os

import numpy as np

from learndyn.data import Dataset
from learndyn.errors import ProblemError
from learndyn.memory import require_memory
from learndyn.neural_ode.fields import PolynomialField
from learndyn.neural_ode.flows import (
    Flow,
    Path,
    Taught,
    confinement,
    draw_controls,
    lessons,
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
from learndyn.neural_ode.probes import correlations, responses
from learndyn.neural_ode.tensor_field import FrozenField, TensorField, entries
from learndyn.numerics.times import resolve_steps
from learndyn.part import Part, boolean, field
from learndyn.theory import Curves
from learndyn.training import rates

DIVERGED = 1e10
"""A curve ends where |y|²/d exceeds this."""
TEST_TRAJECTORIES = 4
"""A test loss is the mean over at least this many trajectories."""
GENERATORS = ("field", "controls", "starts", "teacher", "student", "adjoint", "test", "probes")


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


def loss(x, y) -> float:
    """|y − x|²/(2d) at the ends, mean over trajectories."""
    return float(np.mean((y[-1] - x[-1]) ** 2)) / 2


def memory(problem, d: int, d_theta: int, count: int, method: AdjointDescent) -> float:
    """Bytes for one system recorded at `count` states."""
    network, data = problem.network, problem.data
    times = network.steps + network.teacher_steps + 2
    batch = max(data.batch or data.examples, TEST_TRAJECTORIES)
    together = data.examples or 0 if isinstance(data, Dataset) else batch
    rows = max(batch, together, 2 * times if method.responses else 0)
    total = entries(network.field.coefficients, d, d_theta, rows, network.steps * batch)
    total += count * (count + d_theta)
    # Sources, states and adjoints of a batch, of its test trajectories, and copies of them in one axis.
    total += 6 * times * batch * d
    if isinstance(data, Dataset):
        total += 2 * times * together * d
    if method.responses:
        total += 2 * times * 6 * times * d
    return 8.0 * (total + len(method.inference_steps) * 6 * times**2)


def finite(problem, size: int, method: AdjointDescent, save_at):
    """A function that trains one system: `run(seed, report) -> Curves`."""
    network, training = problem.network, problem.training
    if not isinstance(network.field, PolynomialField):
        allowed = "finite systems are drawn from coefficients: give them as a PolynomialField"
        raise ProblemError("network.field", network.field, allowed)
    within_training(method, training)
    d, d_theta = size, round(network.control_ratio * size)
    if d_theta < 2:
        allowed = f"must be larger: there would be {d_theta} controls, and at least 2 are needed"
        raise ProblemError("size", size, allowed)
    steps = resolve_steps(save_at, training.steps)
    needed = memory(problem, d, d_theta, len(steps), method) * (os.cpu_count() or 1)
    purpose = f"training neural ODEs with states of dimension d = {d} and {d_theta} controls"
    require_memory(needed, purpose, "use a smaller d, or a field of lower order")
    last = max(int(steps[-1]), *method.inference_steps, 0)
    eta = np.asarray(rates(training, last), dtype=float)
    flow = Flow(network.step, confinement(network.confinement), network.adjoint == "true")

    def run(seed: int, report) -> Curves:
        with np.errstate(over="ignore", invalid="ignore"):
            run = Run(problem, flow, d, d_theta, seed, method)
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


class Run:
    """One system in training, and what it recorded."""

    def __init__(self, problem, flow: Flow, d: int, d_theta: int, seed: int, method):
        self.problem, self.flow, self.d, self.method = problem, flow, d, method
        children = np.random.SeedSequence(seed).spawn(len(GENERATORS))
        self.sequences: dict[str, np.random.SeedSequence] = dict(
            zip(GENERATORS, children, strict=True)
        )
        self.rngs = {
            name: np.random.Generator(np.random.SFC64(one)) for name, one in self.sequences.items()
        }
        network = problem.network
        coefficients = network.field.coefficients
        self.field = TensorField.draw(coefficients, d, d_theta, self.rngs["field"])
        self.star, self.theta = draw_controls(network, d_theta, self.rngs["controls"])
        self.teacher = self.field.at(self.star)
        # A fresh batch is its own test: it was never trained on.
        self.trained = isinstance(problem.data, Dataset) or problem.data.chained
        self.recorded: list[np.ndarray] = []
        self.losses: list[float] = []
        self.test_losses: list[float] = []
        responses = {"R_yy", "R_py", "R_px"} if method.responses else set()
        if self.trained:
            # A source in a reused trajectory acts in all steps that use it; the probes act in one.
            responses.discard("R_px")
        labels = coordinates(network, (), method.inference_steps)
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
        network, training, flow = self.problem.network, self.problem.training, self.flow
        last, wanted = len(eta), set(steps.tolist())
        taught_at = lessons(self.problem, flow, self.teacher, self.d, self.rngs)
        for step, taught in zip(range(last + 1), taught_at, strict=False):
            student = self.field.at(self.theta)
            y_sources = self._student_sources(taught.x[0], self.rngs["student"])
            y = flow.forward(student, y_sources)
            if not bounded(taught.x, y.x):
                return
            if step in wanted and not self._record(step, student, loss(taught.x, y.x)):
                return
            inferred = step in self.method.inference_steps
            if step < last or inferred:
                end = y.x[-1] - taught.x[-1]
                given = (network.adjoint_noise, flow.h, network.steps, self.rngs["adjoint"])
                p_sources = sources(end, *given)[::-1]
                p = flow.backward(student, y, p_sources)
                if not np.all(np.isfinite(p)):
                    return
            if inferred:
                self._infer(step, student, taught, y_sources, y, p_sources, p)
            if step < last:
                rows = (one.reshape(-1, self.d) for one in (y.x[:-1], p[1:]))
                S = self.field.moments(*rows)
                gradient = self.field.control_gradient(self.theta, S) * flow.h / y.x.shape[1]
                keep = 1 - eta[step] * training.weight_decay
                self.theta = keep * self.theta - eta[step] * gradient
                if not np.all(np.isfinite(self.theta)):
                    return
            report((step + 1) / (last + 1))

    def _record(self, step: int, student: FrozenField, now: float) -> bool:
        """Record the control and the losses; False if a test trajectory diverges."""
        if self.trained:
            network, data, flow = self.problem.network, self.problem.data, self.flow
            rng = self._at_step("test", step)
            start = sphere(rng, max(data.batch or data.examples, TEST_TRAJECTORIES), self.d)
            made = sources(start, network.teacher_noise, flow.h, network.teacher_steps, rng)
            x = flow.forward(self.teacher, made).x
            y = flow.forward(student, self._student_sources(start, rng)).x
            if not bounded(x, y):
                return False
            self.test_losses.append(loss(x, y))
        self.losses.append(now)
        self.recorded.append(self.theta)
        return True

    def _infer(self, step, student, taught: Taught, y_sources, y: Path, p_sources, p) -> None:
        """Record correlations, and responses if asked, before a step."""
        found = correlations(taught.x, y.x, p)
        if self.method.responses:
            given = (self.teacher, student, taught, y_sources, y, p_sources)
            found |= responses(self.flow, *given, self._at_step("probes", step))
        for name in self.inference:
            one = found[name]
            self.inference[name][self.method.inference_steps.index(step)] = one

    def arrays(self) -> dict:
        """The observables of `learndyn.neural_ode.observables`, at the states that were reached."""
        theta = np.reshape(self.recorded, (len(self.recorded), len(self.star)))
        C = theta @ theta.T / len(self.star)
        found = {"Q": np.diagonal(C).copy(), "m": theta @ self.star / len(self.star), "C_theta": C}
        if self.trained:
            found |= {"train_loss": self.losses, "test_loss": self.test_losses}
        else:
            found |= {"test_loss": self.losses}
        return found | self.inference

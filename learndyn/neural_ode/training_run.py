"""One finite neural ODE in training, step by step, and what is recorded of it.

Starts have |z|² = d, and the controls of all units the overlaps of the start, exactly at every size. Fields, controls,
starts, the three noises, test trajectories, the directions of responses and masks have random generators of their own,
those of tests and responses a new one for every step; so recording does not change a seed's curve.
"""

from typing import NamedTuple

import numpy as np

from learndyn.data import Dataset
from learndyn.divergence import diverged
from learndyn.errors import ProblemError
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
from learndyn.neural_ode.observables import KNOWN, coordinates
from learndyn.neural_ode.probes import Lesson, Observer, correlations, responses
from learndyn.neural_ode.tensor_field import TensorField
from learndyn.neural_ode.units import Start, fields_of, start_of, systems_of
from learndyn.numerics.gram import gram

TEST_TRAJECTORIES = 4
"""A test loss is the mean over at least this many trajectories."""
GENERATORS = (
    *("field", "controls", "starts", "teacher", "student", "adjoint", "test", "probes"),
    "masks",
)


def bounded(*states) -> bool:
    """Whether |x|²/d of all states is finite and at most `DIVERGED`."""
    return not any(np.any(diverged(np.mean(x**2, axis=-1))) for x in states)


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
        C = gram(flat.reshape(count, U, d_theta), mean=True)
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

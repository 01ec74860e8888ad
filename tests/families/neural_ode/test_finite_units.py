"""Finite neural ODEs with several units, delays, stacks and observations: training by the definitions."""

import itertools
import math
from functools import partial

import numpy as np
import pytest

from learndyn.core.record import Record
from learndyn.core.simulate import simulate
from learndyn.families.neural_ode.finite.descent import AdjointDescent
from learndyn.families.neural_ode.finite.flows import sphere
from learndyn.families.neural_ode.finite.training_run import FiniteNeuralODE, FiniteSetup
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.problem.schedules import PerStep
from learndyn.problem.supplies import Dataset, Stream
from learndyn.problem.tasks import Observations, TeacherFlow
from tests import problems
from tests.optional import not_none
from tests.problems import ALL_TERMS, MU, TWO_STATES

EPS = np.finfo(float).eps
NOISY = {"noise": 0.05, "teacher_noise": 0.03, "adjoint_noise": 0.02}
D, H, N = 5, 0.15, 4
SEEN = Observations([[0.3, 0.6], [0.15, 0.45, 0.6], [0.3]], visible=0.6, weight=1.3)
ONE_MASK = Observations([0.3, 0.6], visible=0.6, weight=0.7, mask="trajectory")
TWO_NEURONS = {"amplitudes": [1.2, -0.7], "teacher_amplitudes": [0.9, 0.5, 1.1]}
FAMILY = {
    "windows": ({"windows": 2, "teacher_windows": 4}, Stream(TeacherFlow(), batch=2)),
    "neurons": (TWO_NEURONS | {"train_amplitudes": True}, Stream(TeacherFlow(), batch=2)),
    "neurons of one field": (
        {"amplitudes": [1.2, -0.7], "own_fields": False, "train_amplitudes": True, "windows": 2},
        Dataset(TeacherFlow(), examples=4, batch=2),
    ),
    "observations": ({}, Stream(TeacherFlow(observations=SEEN), batch=2)),
    "one mask": (
        {"teacher_time": 0.3},
        Stream(TeacherFlow(observations=ONE_MASK, chained=True), batch=2),
    ),
    "delay": ({"delay": 0.3, "field": TWO_STATES}, Stream(TeacherFlow(observations=SEEN), batch=2)),
    "long delay": ({"delay": 0.9, "field": TWO_STATES}, Dataset(TeacherFlow(), examples=2)),
    "stack": ({"driven": TWO_STATES, "driver_loss": 0.4}, Stream(TeacherFlow(), batch=2)),
    "stack seen through the second": (
        {"driven": TWO_STATES},
        Stream(TeacherFlow(chained=True), batch=1),
    ),
    "all of them": (
        TWO_NEURONS
        | {"driven": TWO_STATES, "driver_loss": 0.4, "windows": 2, "train_amplitudes": True}
        | {"teacher_windows": 1},
        Stream(TeacherFlow(observations=SEEN, chained=True), batch=2),
    ),
    "delay and neurons": (
        TWO_NEURONS | {"delay": 0.15, "field": TWO_STATES, "train_amplitudes": True},
        Dataset(TeacherFlow(observations=ONE_MASK), examples=2),
    ),
}
problem = partial(
    problems.neural_ode, field=ALL_TERMS, confinement=MU, time=N * H, steps=N, epochs=3
)


def curves(made, seed):
    found = simulate(made, D, first_seed=seed).data
    return {str(name): one.values[0] for name, one in found.data_vars.items()}


def started(made, seed):
    """A system that has drawn its fields, its controls and nothing else."""
    return FiniteNeuralODE(
        made, FiniteSetup.of(made, D), seed, AdjointDescent(), Record.of(made.training)
    )


def mu(q):
    return 0.3 + 0.5 * q + 0.2 * q**2


class Plain:
    """Training by the definitions; gradients are derivatives by an imaginary step, in which only rounding errs.

    Random numbers are those of a run's generators. An adjoint without the slope of the confinement is the gradient at
    fixed μ̂, and noise in the adjoint is that of a loss with Σ_n ζ_n·y_n added.
    """

    def __init__(self, made, seed):
        self.made, self.network, self.data = made, made.network, made.data
        self.task, self.pair = made.task, FlowPair.of(made)
        self.run = started(made, seed)
        self.systems = 1 if self.network.driven is None else 2
        self.star = self.run.star

    def teacher(self, start, rng):
        a = self.task.amplitudes
        windows = self.task.windows or self.network.windows
        a = np.tile(np.ones(1) if a is None else a, windows * self.systems)
        made = self.sources(start, self.task.noise, self.pair.teacher_steps, rng)
        return self.path(made, self.star, a, windows)

    def student_sources(self, start, rng):
        return self.sources(start, self.network.noise, N, rng)

    def sources(self, start, temperature, steps, rng):
        made = np.concatenate([start[None], np.zeros((steps, *start.shape))])
        if temperature:
            made[1:] = math.sqrt(2 * H * temperature) * rng.standard_normal(made[1:].shape)
        return made

    def path(self, made, theta, a, windows):
        """Euler steps, trajectories together, for real or complex numbers."""
        network, steps, S = self.network, len(made) - 1, self.systems
        dtype = np.result_type(made, theta, a)
        h = len(a) // (S * windows)
        fields = len(self.run.fields) // S
        x = [made[0].astype(dtype)]
        frozen = {}
        for n in range(steps):
            w, now = n // (steps // windows), []
            for s in range(S):
                y = x[n][s]
                states = [y]
                if network.delay is not None:
                    states.append(x[max(n - round(network.delay / H), 0)][s])
                elif s == 1:
                    states.append(x[n][0])
                drift = 0.0
                for i in range(h):
                    u = (s * windows + w) * h + i
                    if u not in frozen:
                        label = s * fields + (i if network.own_fields else 0)
                        frozen[u] = self.run.fields[label].at(theta[u])
                    drift = drift + a[u] / h * frozen[u].drift(*states)
                free = y if network.adjoint == "true" else y.real
                confined = mu(np.sum(free * free, axis=-1, keepdims=True) / D)
                now.append(y - H * confined * y + H * drift + made[n + 1][s])
            x.append(np.stack(now))
        return np.stack(x)

    def observed(self, step):
        """The student's and the teacher's steps that training step `step` sees, or all that any step sees."""
        some, ratio = self.task.observations, self.pair.teacher_steps / N
        if some is None:
            return [(N, self.pair.teacher_steps)]
        lists = some.times if step is None else [some.times[step % len(some.times)]]
        at = sorted({round(t / H) for times in lists for t in times})
        return [(n, round(n * ratio)) for n in at]

    def masks(self, step, shape):
        some, seen = self.task.observations, self.observed(step)
        if some is None or some.visible == 1:
            return np.ones((len(seen), 1, 1, 1))
        drawn = 1 if some.mask == "trajectory" else len(seen)
        masks = (self.run.rngs["masks"].random((drawn, *shape)) < some.visible).astype(float)
        return masks if drawn > 1 else np.repeat(masks, len(seen), axis=0)

    def loss(self, x, y, step, masks):
        """The extensive loss, mean over trajectories."""
        weight = 1.0 if self.task.observations is None else self.task.observations.weight
        of_systems = [1.0] if self.systems == 1 else [self.network.driver_loss, 1.0]
        total = 0.0
        for (n, n_t), mask in zip(self.observed(step), masks, strict=True):
            squares = mask * (y[n] - x[n_t]) ** 2
            total += sum(v * np.sum(one) for v, one in zip(of_systems, squares, strict=True))
        return weight / 2 * total / y.shape[2]

    def lessons(self):
        rngs, data = self.run.rngs, self.data

        def fresh(count):
            return sphere(rngs["starts"], self.systems, count, D)

        if isinstance(data, Dataset):
            P, B = not_none(data.examples), data.batch
            stored = self.teacher(fresh(P), rngs["teacher"])
            for a in itertools.count():
                which = [(a * (B or 0) + b) % P for b in range(B or P)]
                yield stored[:, :, which]
        x = None
        while True:
            start = x[-1] if self.task.chained and x is not None else fresh(data.batch)
            x = self.teacher(start, rngs["teacher"])
            yield x

    def steps(self, eta, eta_a, decay):
        """Controls and losses before every step and after the last."""
        run, W = self.run, self.network.windows
        theta, a = run.controls
        for step, x in zip(range(len(eta) + 1), self.lessons(), strict=False):
            made = self.student_sources(x[0], run.rngs["student"])
            masks = self.masks(step, made.shape[1:])
            noise = np.zeros_like(made)
            if self.network.adjoint_noise and step < len(eta):
                size = math.sqrt(2 * H * self.network.adjoint_noise)
                noise[:-1] = size * run.rngs["adjoint"].standard_normal(made[1:].shape)[::-1]

            def loss(theta, a, made=made, x=x, masks=masks, noise=noise, step=step):
                y = self.path(made, theta, a, W)
                return self.loss(x, y, step, masks) + np.sum(noise * y) / y.shape[2]

            found = {"theta": theta, "a": a}
            found["train"] = (loss(theta, a, noise=0 * noise)) / D
            tests = x, self.path(made, theta, a, W)
            if isinstance(self.data, Dataset) or self.task.chained:
                rng = run._at_step("test", step)
                start = sphere(rng, self.systems, max(x.shape[2], 4), D)
                tested = self.teacher(start, rng)
                tests = tested, self.path(self.student_sources(start, rng), theta, a, W)
            found["test"] = self.loss(*tests, None, np.ones(len(self.observed(None)))) / D
            yield found
            if step == len(eta):
                return
            of_theta, of_a = np.zeros_like(theta), np.zeros_like(a)
            for index in np.ndindex(theta.shape):
                moved = theta + 0j
                moved[index] += 1e-30j
                of_theta[index] = loss(moved, a).imag / 1e-30
            if self.network.train_amplitudes:
                for u in range(len(a)):
                    of_a[u] = loss(theta, a + 1e-30j * np.eye(len(a))[u]).imag / 1e-30
            theta = theta - eta[step] * (decay * theta + of_theta)
            a = a - eta_a[step] / D * of_a


@pytest.mark.parametrize("adjoint", ["true", "truncated"])
@pytest.mark.parametrize("name", FAMILY)
def test_training_is_what_the_definitions_say(name, adjoint):
    options, data = FAMILY[name]
    units = 15 if "driven" in options and "amplitudes" in options else 6
    eta, eta_a = np.array([0.5, 0.2, 0.4]), np.array([0.3, 0.6, 0.1])
    training = {"rate": PerStep(eta), "weight_decay": 0.1}
    if options.get("train_amplitudes"):
        training["amplitude_rate"] = PerStep(eta_a)
    options = NOISY | {"initial_overlap": 0.3, "adjoint": adjoint} | options
    made = problem(data=data, control_ratio=units / D, **training, **options)
    got = curves(made, seed=2)
    plain = Plain(made, 2)
    expected = list(plain.steps(eta, eta_a, 0.1))
    # Rounding of some thousand operations with numbers of order one.
    close = {"rtol": 0, "atol": 1e4 * EPS}
    theta = np.stack([one["theta"] for one in expected])
    C = np.einsum("aui,bvi->aubv", theta, theta) / theta.shape[-1]
    m = theta @ plain.star.T / theta.shape[-1]
    np.testing.assert_allclose(got["a"], [one["a"] for one in expected], **close)
    np.testing.assert_allclose(got["Q"], [C[k, :, k] for k in range(len(C))], **close)
    np.testing.assert_allclose(got["C_theta"], C, **close)
    np.testing.assert_allclose(got["m"], m, **close)
    np.testing.assert_allclose(got["test_loss"], [one["test"] for one in expected], **close)
    reused = isinstance(data, Dataset) or data.task.chained
    assert ("train_loss" in got) == (reused or made.task.observations is not None)
    if "train_loss" in got:
        np.testing.assert_allclose(got["train_loss"], [one["train"] for one in expected], **close)
    assert np.min(np.max(np.abs(np.diff(theta, axis=0)), axis=-1)) > 1e-4

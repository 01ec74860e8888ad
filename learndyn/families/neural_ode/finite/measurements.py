"""Measurements along the trajectories of a finite neural ODE: losses, correlations, and responses by probes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from learndyn.families.neural_ode.finite.flows import (
    Drifts,
    EulerFlow,
    FiniteTrajectories,
    States,
    TeacherTrajectories,
)
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.problem.problem import Problem

PROBE = 1e-5
"""The size of the sources by which responses are measured, in central differences."""


class ObservedLoss(NamedTuple):
    """A loss and the observations that it sees.

    The loss of a trajectory is Σ_n (w/2) Σ_i ε_in (y_n − x_n')_i², and the adjoint p_n jumps by wε_n(y_n − x_n').

    - `student`, `teacher`: the observed steps n of the student and n' of the teacher
    - `weight`: w of each system
    - `mask`: ε; None if all components are seen
    """

    student: Int[np.ndarray, " observations"]
    teacher: Int[np.ndarray, " observations"]
    weight: Float[np.ndarray, " systems"]
    mask: Bool[np.ndarray, "masks systems trajectories d"] | None = None

    def _differences(
        self, x: States, y: States
    ) -> Float[np.ndarray, "observations systems trajectories d"]:
        """ε_n(y_n − x_n')."""
        differences = y[self.student] - x[self.teacher]
        return differences if self.mask is None else self.mask * differences

    def loss(self, x: States, y: States) -> float:
        """The loss per component, as a mean over trajectories."""
        differences = self._differences(x, y)
        squares = np.mean((differences**2).reshape(*differences.shape[:2], -1), axis=-1)
        return float(np.sum(self.weight * squares)) / 2

    def jumps(self, x: States, y: States) -> States:
        """What the loss adds to p_0 … p_N."""
        jumps = np.zeros_like(y)
        jumps[self.student] = self.weight[:, None, None] * self._differences(x, y)
        return jumps

    def of_trajectory(self, b: int) -> "ObservedLoss":
        """The loss of one trajectory, for any number of copies of it."""
        return self if self.mask is None else self._replace(mask=self.mask[:, :, b : b + 1])


class Observer:
    """The losses of a problem: one for every training step, and `everything` for all observation times, unmasked."""

    def __init__(self, problem: Problem):
        network, self.observations = problem.network, problem.task.observations
        sets, paired = FlowPair.of(problem).observed()
        weight = 1.0 if self.observations is None else self.observations.weight
        of_systems = np.array([1.0] if network.driven is None else [network.driver_loss, 1.0])

        def loss_at(observed: np.ndarray) -> ObservedLoss:
            steps = np.flatnonzero(observed)
            return ObservedLoss(steps, paired[steps], weight * of_systems)

        self.sets = [loss_at(observed) for observed in sets]
        self.everything = loss_at(np.any(sets, axis=0))

    def at(self, step: int, shape: tuple[int, ...], rng: np.random.Generator) -> ObservedLoss:
        """The loss of a training step, with masks for states of a shape (systems × trajectories × d)."""
        loss, observations = self.sets[step % len(self.sets)], self.observations
        if observations is None or observations.visible == 1:
            return loss
        masks = len(loss.student) if observations.mask == "observation" else 1
        return loss._replace(mask=rng.random((masks, *shape)) < observations.visible)


def correlations(x: States, y: States, p: States) -> dict[str, np.ndarray]:
    """Overlaps per component of states and adjoints at two times of a trajectory, as means over trajectories."""
    x, y, p = (u.reshape(len(u), -1) for u in (x, y, p))
    pairs = {"C_yy": (y, y), "C_yx": (y, x), "C_xx": (x, x)}
    pairs |= {"C_pp": (p, p), "C_py": (p, y), "C_px": (p, x)}
    return {name: a @ b.T / a.shape[1] for name, (a, b) in pairs.items()}


def traces(
    sources: Float[np.ndarray, "times d"],
    respond: Callable[[States], Sequence[States]],
    rng: np.random.Generator,
) -> list[Float[np.ndarray, "n times"]]:
    """Tr[∂u_n/∂s_k]/d of the u (times × 1 × rows × d) that `respond` computes from sources (times × 1 × rows × d).

    `sources` are those of one trajectory. Each is moved along one random vector of signs.
    """
    count, d = sources.shape
    v = rng.choice([-PROBE, PROBE], (count, d))
    moved = np.repeat(sources[:, None], 2 * count, axis=1)
    now = np.arange(count)
    moved[now, now] += v
    moved[now, count + now] -= v
    answers = (u[:, 0] for u in respond(moved[:, None]))
    return [
        np.einsum("nkd,kd->nk", u[:, :count] - u[:, count:], v) / (2 * d * PROBE**2)
        for u in answers
    ]


class StepTrajectories(NamedTuple):
    """The trajectories of one training step.

    - `teacher`, `student`: the drifts
    - `taught`: the teacher's sources and states
    - `sources`, `y`: the student's sources and states
    - `noise`: the noise of the adjoint
    - `loss`: the loss of the step
    """

    teacher: Drifts
    student: Drifts
    taught: TeacherTrajectories
    sources: States
    y: FiniteTrajectories
    noise: States
    loss: ObservedLoss


def responses(
    flow: EulerFlow, trajectories: StepTrajectories, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """R_yy, R_py and R_px of a training step of one system, as means over its trajectories."""
    teacher, student, taught, sources, y, noise, loss = trajectories

    def adjoint(b: int, x: States, path: FiniteTrajectories) -> States:
        jumps = loss.of_trajectory(b).jumps(x, path.x)
        return flow.backward(student, path, noise[:, :, b : b + 1] + jumps)

    def of_student(b: int) -> Callable[[States], Sequence[States]]:
        def respond(moved: States) -> tuple[States, States]:
            path = flow.forward(student, moved)
            return path.x, adjoint(b, taught.x[:, :, b : b + 1], path)

        return respond

    def of_teacher(b: int) -> Callable[[States], Sequence[States]]:
        def respond(moved: States) -> tuple[States]:
            path = FiniteTrajectories(
                *(np.repeat(part[:, :, b : b + 1], moved.shape[2], axis=2) for part in y)
            )
            return (adjoint(b, flow.forward(teacher, moved).x, path),)

        return respond

    count = y.x.shape[2]
    by_trajectory = []
    for b in range(count):
        R_yy, R_py = traces(sources[:, 0, b], of_student(b), rng)
        (R_px,) = traces(taught.sources[:, 0, b], of_teacher(b), rng)
        by_trajectory.append((R_yy, R_py, R_px))
    R_yy, R_py, R_px = (sum(parts) / count for parts in zip(*by_trajectory, strict=True))
    return {"R_yy": R_yy, "R_py": R_py, "R_px": R_px}

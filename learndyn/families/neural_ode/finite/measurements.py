"""What is measured along the trajectories of a finite neural ODE: losses, correlations, and responses by probes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from learndyn.families.neural_ode.finite.flows import FiniteTrajectories, TeacherTrajectories
from learndyn.families.neural_ode.pair import FlowPair

PROBE = 1e-5
"""The size of the sources by which responses are measured, in central differences."""


class ObservedLoss(NamedTuple):
    """What a loss sees: steps n of the student and n' of the teacher, the weight w of each system, and the mask ε.

    The loss of a trajectory is Σ_n (w/2) Σ_i ε_in (y_n − x_n')_i², and the adjoint p_n jumps by wε_n(y_n − x_n').
    """

    student: np.ndarray
    teacher: np.ndarray
    weight: np.ndarray
    mask: Any = None

    def _differences(self, x, y) -> np.ndarray:
        found = y[self.student] - x[self.teacher]
        return found if self.mask is None else self.mask * found

    def loss(self, x, y) -> float:
        """The loss per component, mean over trajectories."""
        found = self._differences(x, y)
        squares = np.mean((found**2).reshape(*found.shape[:2], -1), axis=-1)
        return float(np.sum(self.weight * squares)) / 2

    def jumps(self, x, y) -> np.ndarray:
        """What the loss adds to p_0 … p_N."""
        found = np.zeros_like(y)
        found[self.student] = self.weight[:, None, None] * self._differences(x, y)
        return found

    def of_trajectory(self, b: int) -> "ObservedLoss":
        """The same for one trajectory, of which there may be copies."""
        return self if self.mask is None else self._replace(mask=self.mask[:, :, b : b + 1])


class Observer:
    """The losses of a problem: one for each training step, and one without masks that sees all observation times."""

    def __init__(self, problem):
        network, self.observations = problem.network, problem.task.observations
        sets, paired = FlowPair.of(problem).observed()
        weight = 1.0 if self.observations is None else self.observations.weight
        of_systems = np.array([1.0] if network.driven is None else [network.driver_loss, 1.0])

        def seen(steps) -> ObservedLoss:
            at = np.flatnonzero(steps)
            return ObservedLoss(at, paired[at], weight * of_systems)

        self.sets = [seen(one) for one in sets]
        self.everything = seen(np.any(sets, axis=0))

    def at(self, step: int, shape: tuple[int, ...], rng) -> ObservedLoss:
        """The loss of a training step with states of a shape (systems × trajectories × d)."""
        seen, some = self.sets[step % len(self.sets)], self.observations
        if some is None or some.visible == 1:
            return seen
        masks = len(seen.student) if some.mask == "observation" else 1
        return seen._replace(mask=rng.random((masks, *shape)) < some.visible)


def correlations(x, y, p) -> dict[str, np.ndarray]:
    """Overlaps per component of the states at two times of a trajectory, means over trajectories."""
    x, y, p = (one.reshape(len(one), -1) for one in (x, y, p))
    pairs = {"C_yy": (y, y), "C_yx": (y, x), "C_xx": (x, x)}
    pairs |= {"C_pp": (p, p), "C_py": (p, y), "C_px": (p, x)}
    return {name: a @ b.T / a.shape[1] for name, (a, b) in pairs.items()}


def traces(sources, respond: Callable, rng) -> list[np.ndarray]:
    """Tr[∂u_n/∂s_k]/d for the u (times × 1 × rows × d) that `respond` makes of the sources (times × 1 × rows × d).

    `sources` are those of one trajectory (times × d). Each is moved along one random vector of signs.
    """
    count, d = sources.shape
    v = rng.choice([-PROBE, PROBE], (count, d))
    moved = np.repeat(sources[:, None], 2 * count, axis=1)
    now = np.arange(count)
    moved[now, now] += v
    moved[now, count + now] -= v
    found = (u[:, 0] for u in respond(moved[:, None]))
    return [
        np.einsum("nkd,kd->nk", u[:, :count] - u[:, count:], v) / (2 * d * PROBE**2) for u in found
    ]


class StepTrajectories(NamedTuple):
    """A training step: drifts of teacher and student, trajectories, noise of the adjoint, and what the loss sees."""

    teacher: list
    student: list
    taught: TeacherTrajectories
    sources: np.ndarray
    y: FiniteTrajectories
    noise: np.ndarray
    seen: ObservedLoss


def responses(flow, lesson: StepTrajectories, rng) -> dict:
    """R_yy, R_py and R_px of a step of one system, means over its trajectories."""
    teacher, student, taught, sources, y, noise, seen = lesson

    def adjoint(b: int, x, path: FiniteTrajectories):
        made = noise[:, :, b : b + 1] + seen.of_trajectory(b).jumps(x, path.x)
        return flow.backward(student, path, made)

    def of_student(b: int):
        def respond(moved):
            path = flow.forward(student, moved)
            return path.x, adjoint(b, taught.x[:, :, b : b + 1], path)

        return respond

    def of_teacher(b: int):
        def respond(moved):
            path = FiniteTrajectories(
                *(np.repeat(one[:, :, b : b + 1], moved.shape[2], axis=2) for one in y)
            )
            return (adjoint(b, flow.forward(teacher, moved).x, path),)

        return respond

    found = []
    for b in range(y.x.shape[2]):
        found.append(traces(sources[:, 0, b], of_student(b), rng))
        found[-1] += traces(taught.sources[:, 0, b], of_teacher(b), rng)
    means = (sum(some) / len(found) for some in zip(*found, strict=True))
    return dict(zip(("R_yy", "R_py", "R_px"), means, strict=True))

"""What is measured along the trajectories of a finite neural ODE: correlations, and responses by probes."""

from collections.abc import Callable

import numpy as np

from learndyn.neural_ode.flows import Path, Taught

PROBE = 1e-5
"""The size of the sources by which responses are measured, in central differences."""


def correlations(x, y, p) -> dict[str, np.ndarray]:
    """Overlaps per component of the states at two times of a trajectory, means over trajectories."""
    x, y, p = (one.reshape(len(one), -1) for one in (x, y, p))
    pairs = {"C_yy": (y, y), "C_yx": (y, x), "C_xx": (x, x)}
    pairs |= {"C_pp": (p, p), "C_py": (p, y), "C_px": (p, x)}
    return {name: a @ b.T / a.shape[1] for name, (a, b) in pairs.items()}


def traces(sources, respond: Callable, rng) -> list[np.ndarray]:
    """Tr[∂u_n/∂s_k]/d for the u (times × rows × d) that `respond` makes of the sources (times × rows × d).

    `sources` are those of one trajectory (times × d). Each is moved along one random vector of signs.
    """
    count, d = sources.shape
    v = rng.choice([-PROBE, PROBE], (count, d))
    moved = np.repeat(sources[:, None], 2 * count, axis=1)
    now = np.arange(count)
    moved[now, now] += v
    moved[now, count + now] -= v
    found = respond(moved)
    return [
        np.einsum("nkd,kd->nk", u[:, :count] - u[:, count:], v) / (2 * d * PROBE**2) for u in found
    ]


def responses(flow, teacher, student, taught: Taught, y_sources, y: Path, p_sources, rng) -> dict:
    """R_yy, R_py and R_px of a step, means over its trajectories."""

    def ended(rows: int, b: int, end) -> np.ndarray:
        made = np.repeat(p_sources[:, b : b + 1], rows, axis=1)
        made[-1] = end
        return made

    def of_student(b: int):
        def respond(moved):
            path = flow.forward(student, moved)
            end = path.x[-1] - taught.x[-1, b]
            return path.x, flow.backward(student, path, ended(moved.shape[1], b, end))

        return respond

    def of_teacher(b: int):
        def respond(moved):
            rows = moved.shape[1]
            path = Path(*(np.repeat(one[:, b : b + 1], rows, axis=1) for one in y))
            end = y.x[-1, b] - flow.forward(teacher, moved).x[-1]
            return (flow.backward(student, path, ended(rows, b, end)),)

        return respond

    found = []
    for b in range(y.x.shape[1]):
        found.append(traces(y_sources[:, b], of_student(b), rng))
        found[-1] += traces(taught.sources[:, b], of_teacher(b), rng)
    means = (sum(some) / len(found) for some in zip(*found, strict=True))
    return dict(zip(("R_yy", "R_py", "R_px"), means, strict=True))

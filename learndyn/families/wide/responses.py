"""Responses of sampled layers, read off the weights that were revealed.

In the directions of a matrix W^ℓ the fields are r^ℓ_αc(s) = m(s) Σ_j a_j δ_j and u^{ℓ+1}_α(s) = m(s) Σ_i b_i ε_i, with
the coordinates a of g^{ℓ+1}_αc(s) and b of φ(h^ℓ_α(s)), the innovations δ and ε, and the factor m(s) to which the
initial weights have decayed. Gaussian integration by parts gives

    ⟨φ(h^ℓ_μ(t)) δ_j⟩ = Σ_{s<t} Σ_αc A^ℓ_{μ,αc}(t, s) m(s) a_j(αc, s),
    ⟨g^{ℓ+1}_μc(t) ε_i⟩ = Σ_{s≤t} Σ_α B^{ℓ+1}_{μc,α}(t, s) m(s) b_i(α, s),

which are solved by least squares. Only trained points act on later times; a test point answers to its own u at the same
time. Along directions in which the fields hardly move, entries of A and B are noise, which their standard errors show;
their sums with fields, such as A G and B Φ, are not.
"""

from typing import NamedTuple

import numpy as np

from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.numerics.products import sums
from learndyn.programs.gaussian import Gaussian
from learndyn.programs.matrices import Matrix

TRUNCATED = 1e-6
"""Directions of the fields below this part of the largest are left out of the least squares."""


class LinkState(NamedTuple):
    """A weight matrix in one state of training.

    - `features`, `gradients`: m times the coordinates of φ of all points, and of g of the trained points.
    - `phi_delta`, `g_epsilon`: ⟨φ δ⟩ of all points, and ⟨g ε⟩ of all points and outputs; empty if the state is not
      kept.
    """

    features: np.ndarray
    gradients: np.ndarray
    phi_delta: np.ndarray
    g_epsilon: np.ndarray


def link_state(W: Matrix, phi: np.ndarray, g: np.ndarray, trained: int, kept: bool) -> LinkState:
    """Look at a matrix after the passes of a state, with φ below it (points) and g above it (points × outputs)."""
    gaussian: Gaussian = W.gaussian
    flat = g.reshape(-1, g.shape[-1])
    own = flat[: trained * g.shape[1]]
    m = W.state.c
    features = m * gaussian.coordinates(phi, images=False)
    gradients = m * gaussian.coordinates(own, transposed=True, images=False)
    if not kept:
        return LinkState(features, gradients, np.zeros((0, 0)), np.zeros((0, 0)))
    phi_delta = gaussian.cols.scale * sums(phi, gaussian.V.innovations)
    g_epsilon = gaussian.rows.scale * sums(flat, gaussian.U.innovations)
    return LinkState(features, gradients, phi_delta, g_epsilon)


def responses(
    setting: WideSetting, links: list[list[LinkState]], states: np.ndarray
) -> dict[str, np.ndarray]:
    """A and B of all layers at the kept states, from all states of every link."""
    L, p, C, n = setting.depth, setting.points, setting.outputs, len(states)
    A, B = np.zeros((L, n, p, n, p, C)), np.zeros((L, n, p, C, n, p))
    for ell, link in enumerate(links):
        for row, t in enumerate(states):
            earlier = states < t
            A[ell, row, :, earlier, : setting.trained] = _features(setting, link, t)[
                states[earlier]
            ]
            now = _gradients(setting, link, t)
            P = setting.trained
            B[ell + 1, row, :, :, earlier, :P] = now[0][states[earlier]]
            B[ell + 1, row, :, :, row] = now[1]
    return {"A": A, "B": B}


def _features(setting: WideSetting, link: list[LinkState], t: int) -> np.ndarray:
    """A(t, s) for s < t (s, points, P, C)."""
    P, C, p = setting.trained, setting.outputs, setting.points
    if not t:
        return np.zeros((0, p, P, C))
    columns = link[t - 1].gradients.shape[1]
    F = _stacked([state.gradients for state in link[:t]], columns)
    solved = _solved(F, link[t].phi_delta[:, :columns])
    return solved.reshape(p, t, P, C).transpose(1, 0, 2, 3)


def _gradients(
    setting: WideSetting, link: list[LinkState], t: int
) -> tuple[np.ndarray, np.ndarray]:
    """B(t, s) for s < t (s, points, C, P), and B(t, t) (points, C, points)."""
    P, C, p = setting.trained, setting.outputs, setting.points
    columns = link[t].g_epsilon.shape[1]
    before = [state.features[:P] for state in link[:t]]
    F = _stacked([*before, link[t].features], columns)
    solved = _solved(F, link[t].g_epsilon)
    earlier = solved[:, : t * P].reshape(p, C, t, P).transpose(2, 0, 1, 3)
    return earlier, solved[:, t * P :].reshape(p, C, p)


def _stacked(blocks: list[np.ndarray], columns: int) -> np.ndarray:
    """Blocks of rows, one below the other, with zeros in columns that came later."""
    F = np.zeros((sum(map(len, blocks)), columns))
    start = 0
    for block in blocks:
        width = min(block.shape[1], columns)
        F[start : start + len(block), :width] = block[:, :width]
        start += len(block)
    return F


def _solved(F: np.ndarray, values: np.ndarray) -> np.ndarray:
    """X with X F = values, by least squares."""
    return np.linalg.lstsq(F.T, values.T, rcond=TRUNCATED)[0].T

"""Wide linear networks over long runs: the infinite network itself, in the basis of the directions it has visited.

As for deep linear networks on random data (`learndyn/numerics/growing.py`), a Gaussian matrix applied to a direction
never seen before gives one never seen before, so that layer ℓ is a space that grows. The points enter as fixed
vectors: with inner products divided by the width, u_μ·u_α = K_μα for the initial h^1, and e_c for the initial
readouts w_c. Then

    g^L = w,  g^ℓ = 𝒲^ℓ⊤ g^{ℓ+1},  h^{ℓ+1}_μ = 𝒲^ℓ h^ℓ_μ,  f_μc = w_c·h^L_μ/γ_0,

with the forces γ_0 Σ_αc K_μα E_αc g^1_c on h^1_μ, γ_0 Σ_c g^{ℓ+1}_c (Σ_α E_αc h^ℓ_α)^⊤ on 𝒲^ℓ and γ_0 Σ_α E_αc h^L_α
on w_c. Exact up to `tolerance`, below which the new part of a direction is dropped. O(L T n²) time and O(L n²) memory
for spaces of n dimensions, n ≤ (P + C) T and far less where training is smooth. There are no responses; Langevin
noise, and biases above the first layer, are left to the row recursion.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.core.progressing import Report
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.memory import require_memory
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.gram import gram, stacked
from learndyn.numerics.growing import Operator, Space, padded
from learndyn.problem.weight_response import PerStepRule, Step


class InnovationSolution(NamedTuple):
    """Outputs f at all states (n, points, C); Φ (L, m, p, m, p) and G (L, m, C, m, C) at the m recorded ones.

    `reached` is the number of states before training diverged, `basis` the dimension of the largest space.
    """

    f: np.ndarray
    Phi: np.ndarray
    G: np.ndarray
    reached: int
    basis: int


class GrowingWide:
    """The infinitely wide linear network in growing coordinates; vectors are rows."""

    def __init__(self, setting: WideSetting, tolerance: float):
        self.setting = setting
        self.K = setting.K + setting.bias
        self.spaces = [Space() for _ in range(setting.depth)]
        pairs = zip(self.spaces[:-1], self.spaces[1:], strict=True)
        self.W = [Operator(a, b, np.ones(1), 0, tolerance) for a, b in pairs]
        F, C = covariance_root(self.K, rank=True), setting.outputs
        first, last = self.spaces[0], self.spaces[-1]
        first.reserve(F.shape[1] + C)
        for _ in range(F.shape[1]):
            first.add(0)
        last.reserve(C)
        start = last.dimension
        for _ in range(C):
            last.add(0)
        self.h1 = np.zeros((setting.points, first.capacity))
        self.h1[:, : F.shape[1]] = F
        self.w = np.zeros((C, last.capacity))
        self.w[np.arange(C), start + np.arange(C)] = 1.0
        self.buffers = [np.zeros_like(self.h1), np.zeros_like(self.w)]

    def reserve(self) -> None:
        """Make room for one more state: a space gains at most one direction for each point and each output."""
        p, C = self.setting.points, self.setting.outputs
        for space in self.spaces:
            space.reserve(p + C)
        if self.W:
            largest = max(op.target.capacity * op.source.capacity for op in self.W)
            require_memory(24.0 * largest, "the innovation basis", "use fewer steps or points")
        for operator in self.W:
            operator.reserve(p + C)
        first, last = self.spaces[0].capacity, self.spaces[-1].capacity
        self.h1, self.buffers[0] = (padded(x, (p, first)) for x in (self.h1, self.buffers[0]))
        self.w, self.buffers[1] = (padded(x, (C, last)) for x in (self.w, self.buffers[1]))

    def fields(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """h^ℓ (points × n) and g^ℓ (C × n) of all layers."""
        g = [self.w]
        for operator in reversed(self.W):
            g.insert(0, _each(operator.adjoint, g[0]))
        h = [self.h1]
        for operator in self.W:
            h.append(_each(operator.forward, h[-1]))
        capacities = [space.capacity for space in self.spaces]
        h = [padded(x, (len(x), n)) for x, n in zip(h, capacities, strict=True)]
        g = [padded(x, (len(x), n)) for x, n in zip(g, capacities, strict=True)]
        return h, g

    def step(
        self,
        h: list[np.ndarray],
        g: list[np.ndarray],
        E: Float[np.ndarray, "points C"],
        step: Step,
    ) -> None:
        """One step of training with the forces E (points × C)."""
        rate = step.inner * self.setting.gamma
        for operator, below, above in zip(self.W, h[:-1], g[1:], strict=True):
            operator.step(step, rate * above, E.T @ below)
        first, last = rate * (self.K @ E @ g[0]), rate * (E.T @ h[-1])
        self.h1, self.buffers[0] = step.moved(self.h1, self.buffers[0], first)
        self.w, self.buffers[1] = step.moved(self.w, self.buffers[1], last)


def _each(apply: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> np.ndarray:
    """A function of a vector applied to every row."""
    return np.stack([apply(row) for row in rows])


def solve_innovation(
    setting: WideSetting,
    rule: PerStepRule,
    saved: np.ndarray,
    tolerance: float,
    report: Report,
) -> InnovationSolution:
    """Outputs at all states, and kernels at the recorded ones, `saved`; `report` takes the fraction done."""
    n, p, C, L = setting.states, setting.points, setting.outputs, setting.depth
    network = GrowingWide(setting, tolerance)
    f = np.zeros((n, p, C))
    vectors: list[tuple[list, list]] = []
    recorded = set(np.asarray(saved).tolist())
    reached = n
    for t in range(n):
        network.reserve()
        h, g = network.fields()
        f[t] = h[-1] @ network.w.T / setting.gamma
        if setting.diverged(f[t]):
            reached = t
            break
        if t in recorded:
            vectors.append((h, g))
        if t + 1 < n:
            network.step(h, g, setting.loss.force(f[t]), rule.at(t))
        report((t + 1) / n)
    Phi, G = (
        np.array([gram(stacked([state[i][l] for state in vectors], rows)) for l in range(L)])
        for i, rows in ((0, p), (1, C))
    )
    largest = max(space.dimension for space in network.spaces)
    return InnovationSolution(f, Phi, G, reached, largest)

"""Implicit multistep integration with steps of any length, as weights: w(t_i) = d_i w(0) + Σ_{j≤i} κ_ij F(t_j).

The rule is the backward differentiation formula through the last nodes, of `ORDER` where there are as many; the first
step is the trapezoid. It is stable for steps of any length on flows with real rates. With a decay λ, dw/dt = F − λw.
"""

import numpy as np
from jaxtyping import Float

ORDER = 3


class Multistep:
    """The weights κ and d of all nodes so far, for room for so many."""

    def __init__(self, room: int, decay: float, order: int = ORDER):
        self.decay, self.order = decay, order
        self.times = np.zeros(1)
        self.kappa, self.d = np.zeros((room, room)), np.ones(room)

    def add(self, time: float) -> None:
        """Append a node."""
        n = len(self.times)
        self.times = np.append(self.times, time)
        h = time - self.times[n - 1]
        if n == 1:
            # (1 + hλ/2) w(h) = (1 − hλ/2) w(0) + h (F(0) + F(h))/2
            keep = 1 + h * self.decay / 2
            self.kappa[1, :2] = h / 2 / keep
            self.d[1] = (2 - keep) / keep
            return
        last = slice(max(n - self.order, 0), n)
        weights = derivative(self.times[last] - time, h)
        own = weights[-1] + self.decay
        self.kappa[n, :n] = -weights[:-1] @ self.kappa[last, :n] / own
        self.kappa[n, n] = 1 / own
        self.d[n] = -weights[:-1] @ self.d[last] / own

    def withdraw(self) -> None:
        """Take the last node away."""
        self.times = self.times[:-1]


def derivative(before: Float[np.ndarray, " k"], scale: float) -> Float[np.ndarray, " k+1"]:
    """Weights of the values at times `before` 0, and at 0, in the derivative at 0 of the polynomial through them."""
    x = np.append(before, 0.0) / scale
    powers = x ** np.arange(len(x))[:, None]
    return np.linalg.solve(powers, np.arange(len(x)) == 1) / scale


def lagrange(
    known: Float[np.ndarray, " k"], at: Float[np.ndarray, " m"]
) -> Float[np.ndarray, "m k"]:
    """Weights of values at `known` points in those at other points of the polynomial through them."""
    weights = np.ones((len(at), len(known)))
    for i in range(len(known)):
        for j in range(len(known)):
            if i != j:
                weights[:, i] *= (at - known[j]) / (known[i] - known[j])
    return weights

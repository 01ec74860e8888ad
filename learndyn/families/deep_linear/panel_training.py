"""`PanelTraining`: the limit of a deep linear network, panel by panel in training time."""

import numpy as np
from jaxtyping import Float

from learndyn.core.panels import FINEST, PanelledLimit
from learndyn.families.deep_linear.equations.panels import FeedforwardPanels, ResidualPanels
from learndyn.families.deep_linear.limit_numbers import DATASET, LimitNumbers
from learndyn.families.deep_linear.observables import tangent_kernel
from learndyn.numerics.panels import PanelRule
from learndyn.numerics.stability import edge_of_stability


class PanelTraining(PanelledLimit):
    """The limit as far as its panels reach."""

    def __init__(self, numbers: LimitNumbers, decay: float, momentum: float = 0.0):
        super().__init__(decay, momentum)
        self.numbers = numbers
        kind = FeedforwardPanels if numbers.branch is None else ResidualPanels
        self.limit = kind(numbers)
        beginning = np.eye(numbers.outputs)
        self.limit.solve_panel(
            np.zeros((1, 1)), np.ones(1), [(-beginning, beginning)] * len(self.limit.carried())
        )
        self.begin()

    @property
    def speed(self) -> float:
        numbers = self.numbers
        # About the largest eigenvalue of the covariance of the examples.
        largest = np.max(numbers.lam) + numbers.inverse_data * (numbers.omega @ numbers.lam)
        return (numbers.depth + 1.0) * float(largest)

    def loss(self) -> float:
        matrix = self.limit.input.C_Delta if self.numbers.data == DATASET else self.limit.input.C_v
        last = slice(self.limit.rows - self.numbers.outputs, self.limit.rows)
        return float(np.trace(matrix[last, last]))

    def summary(self) -> Float[np.ndarray, " numbers"]:
        """Losses, and the sizes of the fields g."""
        last = slice(self.limit.rows - self.numbers.outputs, self.limit.rows)
        matrices = [self.limit.input.C_v, *(layer.C_g for layer in self.limit.layers)]
        if self.numbers.data == DATASET:
            matrices.append(self.limit.input.C_Delta)
        return np.array([np.trace(matrix[last, last]) for matrix in matrices])

    def scales(self, summary: Float[np.ndarray, " numbers"]) -> Float[np.ndarray, " numbers"]:
        """Losses and fields that vanish count relative to their start."""
        scales = np.abs(summary) + self.numbers.outputs * self.numbers.noise**2
        scales += 1e-6 * np.abs(self.start)
        scales[0] += 1e-3 * (self.start[0])
        scales[-1] += 1e-3 * (self.start[-1])
        return scales

    def gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """|h⁰|² at all nodes, and h⁰·h⁰ at successive ones."""
        Nc, C = self.numbers.outputs, self.limit.input.C_h0[: self.limit.rows, : self.limit.rows]
        same, next_to = (np.diagonal(C, offset).reshape(-1, Nc).sum(axis=1) for offset in (0, -Nc))
        return same, next_to

    def edge_of_stability(self) -> int | None:
        return edge_of_stability(*self.gradients())

    def sharpness(self) -> float:
        """The larger of two estimates: λ_max K of what is not learnt, and (L + 1)(γ_0 |θ|)^{2L/(L+1)} of what is.

        K is the tangent kernel of a random input, and the second the kernel along a function θ that balanced layers
        have learnt; with a spectrum or skip connections the first only.
        """
        numbers, Nc = self.numbers, self.numbers.outputs
        last = slice(self.limit.rows - Nc, self.limit.rows)
        C_g = np.stack([layer.C_g[last, last] for layer in self.limit.layers])[:, None]
        kernel = tangent_kernel(C_g, self.d[-1:], numbers)[0]
        spread = np.sqrt(numbers.inverse_data * (numbers.omega @ numbers.lam))
        bulk = (np.sqrt(np.max(numbers.lam)) + spread) ** 2 * np.linalg.eigvalsh(kernel)[-1]
        if numbers.distinct > 1 or numbers.branch is not None:
            return float(bulk)
        gram, along = numbers.gram[0], self.limit.input.along[0, last]
        function = gram - gram @ along.T - along @ gram + self.limit.input.C_v[last, last]
        theta = np.sqrt(max(float(np.linalg.eigvalsh(function)[-1]), 0.0))
        learnt = (numbers.depth + 1) * (numbers.gamma * theta) ** (
            2 * numbers.depth / (numbers.depth + 1)
        )
        return float(max(bulk, learnt))

    def solve_nodes(
        self, kappa: Float[np.ndarray, "s e"], end: float, rule: PanelRule, precision: float
    ) -> int:
        # Errors of forces count κ times as much, and those of small changes of the weights 1/γ_0² times.
        amplified = (1 + self.speed * np.max(np.abs(kappa))) / min(1.0, self.numbers.gamma) ** 2
        precision = max(precision / amplified, FINEST)
        return self.limit.solve_panel(
            kappa, self.d[-len(kappa) :], self._guess(end, rule), precision
        )

    def constants(self) -> tuple[object, ...]:
        return (self.numbers,)

    def forget(self, nodes: int) -> None:
        self.limit.rows = nodes * self.numbers.outputs

    def _guess(self, end: float, rule: PanelRule) -> list[tuple[np.ndarray, np.ndarray]]:
        """Responses are shifted along the diagonal by a panel; correlations are extrapolated from ends of panels."""
        numbers, Nc, s = self.numbers, self.numbers.outputs, len(rule.nodes)
        b, size = self.limit.rows, s * Nc
        E = np.kron(self.extrapolation(end, rule), np.eye(Nc))
        chosen = self.last_ends()
        ends = (np.array(chosen)[:, None] * Nc + np.arange(Nc)).ravel()
        guesses = []
        for number, (R, C) in enumerate(self.limit.carried()):
            R, C = R[:b, :b], C[:b, :b]
            left = E @ C[ends]
            right = E @ C[np.ix_(ends, ends)] @ E.T
            if len(self.panels) < 2:
                # Before anything is learnt, R_hr⁰ = −Σ ω_k λ_k S, and 1/(ν γ_0) times that above layer 1.
                factor = numbers.omega @ numbers.lam
                if number:
                    factor *= numbers.inverse_width / numbers.gamma
                rows = np.hstack([np.zeros((size, b)), -factor * np.eye(size)])
                if numbers.centered:
                    rows[:, :Nc] += factor * np.kron(np.ones((s, 1)), np.eye(Nc))
            else:
                rows = _shifted(R, size)
            guesses.append((rows, np.hstack([left, right])))
        return guesses


def _shifted(R: Float[np.ndarray, "b b"], size: int) -> Float[np.ndarray, "size b+size"]:
    """Rows that continue a response: those of the last panel, moved along the diagonal."""
    last = R[len(R) - size :]
    return np.hstack([last[:, :size], last])

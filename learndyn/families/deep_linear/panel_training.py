"""`PanelTraining`: the limit of a deep linear network, panel by panel in training time."""

import numpy as np
from jaxtyping import Float

from learndyn.core.panels import ALTERNATING, FINEST, PanelledLimit
from learndyn.families.deep_linear.equations.panels import FeedforwardPanels, ResidualPanels
from learndyn.families.deep_linear.limit_numbers import DATASET, LimitNumbers
from learndyn.families.deep_linear.observables import tangent_kernel
from learndyn.numerics.panels import PanelRule
from learndyn.numerics.stability import edge_of_stability

PARTS_OF_THE_LOSS = ("test_loss", "bias", "width_variance", "data_variance", "mode_loss")


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
        """Losses, the sizes of the fields g, and the response to the last force of a single step."""
        last = slice(self.limit.rows - self.numbers.outputs, self.limit.rows)
        matrices = [self.limit.input.C_v, *(layer.C_g for layer in self.limit.layers)]
        if self.numbers.data == DATASET:
            matrices.append(self.limit.input.C_Delta)
        sizes = [np.trace(matrix[last, last]) for matrix in matrices]
        return np.array([*sizes, self._responses()[-1]])

    def _responses(self) -> Float[np.ndarray, " later"]:
        """R_hr⁰ of all later nodes to the last force that acts in one step only."""
        Nc, n = self.numbers.outputs, len(self.times)
        forced = next((x for x in reversed(self.impulses) if x < n), n - 1)
        rows, column = slice((forced + 1) * Nc, n * Nc), slice(forced * Nc, (forced + 1) * Nc)
        response = self.limit.input.RH[rows, column].reshape(-1, Nc, Nc)
        return np.append(0.0, np.einsum("tcc->t", response))

    def scales(self, summary: Float[np.ndarray, " numbers"]) -> Float[np.ndarray, " numbers"]:
        """Losses and fields that vanish count relative to their start, a response to its largest since the force."""
        scales = np.abs(summary) + self.numbers.outputs * self.numbers.noise**2
        scales += 1e-6 * np.abs(self.start)
        scales[0] += 1e-3 * self.start[0]
        scales[-2] += 1e-3 * self.start[-2]
        scales[-1] = max(np.max(np.abs(self._responses())), 1e-300)
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

    def oscillation(self) -> float:
        last = len(self.times) - 1
        parts, scales = self.alternating(last, last), self.scales(self.summaries[-1])
        return max(parts["test_loss"] / scales[0], parts.get("train_loss", 0.0) / scales[-2])

    def alternating(self, node: int, first: int) -> dict[str, float]:
        """The parts of correlations and transfer functions, and what they make of the losses and the tangent kernel."""
        numbers, of_input, layers = self.numbers, self.limit.input, self.limit.layers
        Nc, steps = numbers.outputs, len(ALTERNATING)
        rows = slice((node + 1 - steps) * Nc, (node + 1) * Nc)

        def part(C: Float[np.ndarray, "rows rows"], first: int = node) -> float:
            values = C[rows, first * Nc : (node + 1) * Nc].reshape(steps, -1)
            return float(np.max(np.abs(ALTERNATING @ values)))

        correlations = {"C_v": [of_input.C_v], "C_h0": [of_input.C_h0]}
        if numbers.data == DATASET:
            correlations["C_Delta"] = [of_input.C_Delta]
        correlations["C_h"] = [layer.C_h for layer in layers]
        correlations["C_g"] = [layer.C_g for layer in layers]
        parts = {name: max(part(C, first) for C in these) for name, these in correlations.items()}
        parts |= dict.fromkeys(PARTS_OF_THE_LOSS, Nc * part(of_input.C_v))
        if numbers.data == DATASET:
            parts["train_loss"] = Nc * part(of_input.C_Delta)
        parts["kernel"] = sum(part(C) for C in correlations["C_g"])
        along = of_input.along[:, rows].reshape(-1, steps, Nc, Nc)
        overlap = np.abs(np.einsum("t,ktcd,kdc->k", ALTERNATING, along, numbers.gram))
        target = np.einsum("kcc->k", numbers.gram)
        parts["transfer"] = float(np.max(overlap[target > 0] / target[target > 0], initial=0.0))
        power = float(numbers.omega @ numbers.lam)
        parts["alignment"] = parts["transfer"] ** 2 + parts["test_loss"] / power
        return parts

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

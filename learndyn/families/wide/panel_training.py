"""`LinearPanelTraining`: the limit of a wide linear network, panel by panel in training time."""

import numpy as np
from jaxtyping import Float

from learndyn.core.panels import PanelledLimit
from learndyn.families.wide.equations.linear_panels import LinearPanelRows, Rows
from learndyn.families.wide.kernel_observables import of_linear_units
from learndyn.families.wide.observables import losses
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.memory import require_memory
from learndyn.numerics.panels import PanelRule
from learndyn.numerics.stability import edge_of_stability


class LinearPanelTraining(PanelledLimit):
    """The limit as far as its panels reach."""

    def __init__(self, setting: WideSetting, decay: float, momentum: float = 0.0):
        super().__init__(decay, momentum)
        self.setting, self.rows = setting, LinearPanelRows(setting)
        P, C = setting.trained, setting.outputs
        self.K = setting.K[:P, :P] + setting.bias
        guess: Rows = [np.zeros((P, C)), self.K] * (setting.depth - 1)
        force = setting.loss.force(np.zeros((P, C)))
        self.rows.solve_panel(np.zeros((1, 1)), np.ones(1), [*guess, force[None]])
        self.begin()

    @property
    def speed(self) -> float:
        largest = float(np.linalg.eigvalsh(self.K)[-1])
        return max((self.setting.depth + 1) * largest * self.setting.loss.scale, 1e-300)

    def loss(self) -> float:
        return float(self.setting.loss.value(self.rows.f[-1]))

    def summary(self) -> Float[np.ndarray, " numbers"]:
        """The loss, the sizes of the fields g, and the outputs."""
        C = self.setting.outputs
        last = slice((self.rows.nodes - 1) * C, self.rows.nodes * C)
        sizes = [np.trace(layer.G[last, last]) for layer in self.rows.layers]
        return np.array([self.loss(), *sizes, *self.rows.f[-1].ravel()])

    def scales(self, summary: Float[np.ndarray, " numbers"]) -> Float[np.ndarray, " numbers"]:
        """What vanishes counts relative to its start, and outputs count relative to the largest target."""
        scales = np.abs(summary) + 1e-3 * np.abs(self.start)
        outputs = 1 + self.setting.depth
        scales[outputs:] = np.max(np.abs(np.append(self.setting.loss.targets, summary[outputs:])))
        return np.maximum(scales, 1e-300)

    def edge_of_stability(self) -> int | None:
        E = self.rows.E
        pushed = self.K @ E
        return edge_of_stability(
            np.sum(E * pushed, axis=(1, 2)), np.sum(E[1:] * pushed[:-1], axis=(1, 2))
        )

    def sharpness(self) -> float:
        return self.rows.sharpness()

    def forget(self, nodes: int) -> None:
        self.rows.nodes = nodes
        self.rows.E, self.rows.f = self.rows.E[:nodes], self.rows.f[:nodes]

    def solve_nodes(
        self, kappa: Float[np.ndarray, "s e"], end: float, rule: PanelRule, precision: float
    ) -> int:
        """Newton's steps are so few that all go to the finest precision."""
        return self.rows.solve_panel(kappa, self.d, self._guess(kappa, end, rule))

    def constants(self) -> tuple[object, ...]:
        return (self.setting,)

    def _guess(self, kappa: Float[np.ndarray, "s e"], end: float, rule: PanelRule) -> Rows:
        """E and H extrapolated from ends of panels; A as in the last row, and ℓγ_0 κ K E within the panel.

        Weights that decay forget the past: then A is that of the last panel, moved along the diagonal.
        """
        setting, ends, s = self.setting, np.array(self.last_ends()), len(rule.nodes)
        P, C, n = setting.trained, setting.outputs, self.rows.nodes
        weights = np.atleast_2d(self.extrapolation(end, rule))
        E = np.tensordot(weights, self.rows.E[ends], 1)
        rows, W = (ends[:, None] * P + np.arange(P)).ravel(), np.kron(weights, np.eye(P))
        leading = kappa[:, None, n:, None] * np.einsum("pq,jqc->pjc", self.K, E)
        guess: Rows = []
        for ell, layer in enumerate(self.rows.layers[:-1], 1):
            if self.decay and n > s:
                last = layer.A[(n - s) * P : n * P, : n * C]
                A = np.hstack([last[:, : s * C], last])
            else:
                last = layer.A[(n - 1) * P : n * P, : n * C]
                own = (ell * setting.gamma * leading).reshape(s * P, s * C)
                A = np.hstack([np.tile(last, (s, 1)), own])
            H = layer.H[rows, : n * P]
            guess += [A, np.hstack([W @ H, W @ H[:, rows] @ W.T])]
        return [*guess, E]


def read(
    limit: LinearPanelTraining, times: Float[np.ndarray, " k"], test_targets: np.ndarray | None
) -> dict[str, np.ndarray]:
    """All observables at `times`, of all points."""
    E = limit.interpolation(times)
    chosen = np.flatnonzero(np.any(np.abs(E) > 1e-12, axis=0))
    E, setting = E[:, chosen], limit.setting
    f, H, G = _of_all_points(limit, chosen)
    f = np.tensordot(E, f, 1)
    H, G = (np.einsum("kt,ltasb,ms->lkamb", E, x, E, optimize=True) for x in (H, G))
    return losses(setting.loss, f, test_targets) | of_linear_units(setting, H, G)


def _of_all_points(
    limit: LinearPanelTraining, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f (m, p, C), H (L, m, p, m, p) and G (L, m, C, m, C) of all points at m chosen nodes.

    Points have no effect on those that are trained, so that their rows follow from a pass forward.
    """
    setting, rows, n, m = limit.setting, limit.rows, limit.rows.nodes, len(chosen)
    p, P, C = setting.points, setting.trained, setting.outputs
    bytes_needed = 8.0 * m * p * (3 * n * P + (setting.depth + 2) * m * p)
    require_memory(bytes_needed, f"kernels at {m} nodes", "record fewer times, or use fewer points")
    kappa, d = limit.kappa[chosen, :n, None, None], limit.d
    to_all = (d[chosen, None] * d)[:, None, :, None]
    among = np.outer(d[chosen], d[chosen])[:, None, :, None]
    A = np.zeros((m, p, n, C))
    H = np.broadcast_to(setting.K[None, :, None, :P], (m, p, n, P))
    now = np.broadcast_to(setting.K[None, :, None], (m, p, m, p))
    features, gradients, f = [], [], np.zeros((m, p, C))
    for layer in rows.layers:
        biased, over = H + setting.bias, slice(n * C)
        drive = np.einsum("tmsa,sac->tmsc", biased, rows.E, optimize=True)
        C_rows = to_all * A + setting.gamma * kappa.transpose(0, 2, 1, 3) * drive
        C_rows = C_rows.reshape(m * p, n * C)
        Hbar = (to_all * biased).reshape(m * p, n * P)
        V = Hbar @ layer.B[over, : n * P].T
        Y = V + C_rows @ layer.G[over, over]
        H = Hbar + C_rows @ layer.X[over, : n * P] + Y @ layer.C[: n * P, over].T
        H = H.reshape(m, p, n, P)
        now = among * (now + setting.bias) + (C_rows @ V.T + Y @ C_rows.T).reshape(m, p, m, p)
        A = (C_rows @ layer.M[over, over]).reshape(m, p, n, C)
        features.append(now)
        G = layer.G[over, over].reshape(n, C, n, C)
        gradients.append(G[chosen][:, :, chosen])
        f = Y.reshape(m, p, n, C)[np.arange(m), :, chosen] / setting.gamma
    return f, np.stack(features), np.stack(gradients)

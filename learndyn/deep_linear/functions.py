"""Observables from a finished row recursion: back from increments to the fields themselves."""

import numpy as np

from learndyn.deep_linear.ensembles import same_data, same_weights
from learndyn.deep_linear.observables import alignment, edge_of_stability
from learndyn.deep_linear.rows import CG, CH, GU, HR, K, M, Rows, Weights
from learndyn.deep_linear.setting import DATASET, POPULATION, STREAM, Setting


class Functions:
    """The functions of a row recursion at the recorded steps.

    Arrays over two steps have the axes (step, output, step2, output2).
    """

    def __init__(self, rows: Rows, weights: Weights, setting: Setting, saved):
        self.rows, self.w, self.setting = rows, weights, setting
        self.saved = np.asarray(saved)
        Nc = setting.outputs
        self.n = (int(self.saved[-1]) + 1) * Nc
        self.index = (self.saved[:, None] * Nc + np.arange(Nc)).ravel()
        self.zero = np.arange(self.n) % Nc
        self.step = np.arange(self.n) // Nc
        self.modes = len(setting.lam)

    def symmetric(self, C) -> np.ndarray:
        """A symmetric matrix from its lower triangle, up to the last recorded step."""
        lower = np.tril(C[: self.n, : self.n])
        return lower + np.tril(lower, -1).T

    def square(self, matrix) -> np.ndarray:
        """The recorded rows and columns of a matrix over composite indices."""
        S, Nc = len(self.saved), self.setting.outputs
        return matrix[np.ix_(self.index, self.index)].reshape(S, Nc, S, Nc)

    def diagonal(self, left, matrix, right) -> np.ndarray:
        """Σ_c (left matrix rightᵀ) at equal steps and outputs; the factors have the recorded rows only."""
        return self.trace(np.einsum("ij,ij->i", left @ matrix, right))

    def trace(self, values) -> np.ndarray:
        """Σ_c of values at the recorded composite indices."""
        return values.reshape(len(self.saved), -1).sum(axis=1)

    def mixed(self, C, a, b) -> np.ndarray:
        """mix(C) of `rows`, for all composite indices."""
        C = self.symmetric(C)
        a, b = np.where(self.step > 0, a[self.step], 0.0), b[self.step]
        rows = a[:, None] * C + b[:, None] * C[self.zero]
        return a * rows + b * rows[:, self.zero]

    def modes_total(self, which: int, powers, lower: bool) -> np.ndarray:
        """Σ_k powers_k × (function `which` of mode k)."""
        total = np.einsum(
            "k,kij->ij", powers, self.rows.pairs[: self.modes, which, : self.n, : self.n]
        )
        return np.tril(total) if lower else self.symmetric(total)

    def layer(self, ell: int, which: int) -> np.ndarray:
        """A function of hidden layer ℓ = 1 … L."""
        return self.rows.pairs[self.modes + ell - 1, which, : self.n, : self.n]

    def C_u(self, C_v) -> np.ndarray:
        """Covariance of the noise u⁰ that the data cause, for λ = 1."""
        s, n = self.setting, self.n
        if s.data == DATASET:
            return s.inverse_data * self.symmetric(self.rows.C_Delta)
        if s.data == POPULATION:
            return np.zeros((n, n))
        same = self.step[:, None] == self.step
        labels = s.noise**2 * (self.zero[:, None] == self.zero)
        return np.where(same, s.inverse_data * (C_v + labels), 0.0)

    def losses(self) -> dict:
        """Losses, their decomposition and the alignment."""
        s, w, n = self.setting, self.w, self.n
        Nc, index = s.outputs, self.index
        C_v = self.modes_total(CG, s.omega, lower=False)
        found = {"test_loss": self.trace(np.diag(C_v)[index]) + Nc * s.noise**2}
        if s.data == DATASET:
            found["train_loss"] = self.trace(np.diag(self.rows.C_Delta)[index])
        elif s.data == STREAM:
            found["train_loss"] = found["test_loss"]
        C_u = self.C_u(C_v)
        width = w.rho[0] * w.inverse_width * self.mixed(self.layer(1, CG), w.a, w.b_input)
        bias, width_variance, data_variance, overlap = np.zeros((4, len(self.saved)))
        target = np.eye(Nc)[self.zero]
        for mode, (lam, omega, gram) in enumerate(zip(s.lam, s.omega, s.gram, strict=True)):
            H_r, G_u = self.rows.pairs[mode, HR, :n, :n], self.rows.pairs[mode, GU, :n, :n]
            K_rows = lam * np.tril(self.rows.kernels[0, K, :n, :n])[index]
            # ∂v/∂r = 1 + K H_r
            H = K_rows @ np.tril(H_r)
            H[np.arange(len(index)), index] += 1.0
            along = H @ target
            overlap += (
                omega * lam * self.trace(np.einsum("id,id->i", along, gram[self.zero[index]]))
            )
            bias += omega * lam * self.diagonal(along, gram, along)
            width_variance += omega * lam * self.diagonal(H, width, H)
            if s.data != POPULATION:
                G = np.tril(G_u)[index]
                data_variance += omega * self.diagonal(G, C_u, G)
        total = float(np.einsum("k,k,kcc->", s.omega, s.lam, s.gram))
        found |= {"bias": bias, "width_variance": width_variance, "data_variance": data_variance}
        found["alignment"] = alignment(overlap, self.trace(np.diag(C_v)[index]), total)
        return found

    def edge(self) -> int | None:
        """The step from which training is at the edge of stability, or None."""
        Nc = self.setting.outputs
        C = np.einsum(
            "k,kij->ij",
            self.setting.omega * self.setting.lam,
            self.rows.pairs[: self.modes, CH, : self.n, : self.n],
        )
        power, successive = np.diagonal(C), np.diagonal(C, -Nc)
        return edge_of_stability(
            power.reshape(-1, Nc).sum(axis=1), successive.reshape(-1, Nc).sum(axis=1)
        )

    def correlations(self) -> dict:
        """All correlation functions."""
        s, L = self.setting, self.setting.depth
        ones = np.ones(self.step[-1] + 1)
        found = {"C_v": self.square(self.modes_total(CG, s.omega, lower=False))}
        if s.data == DATASET:
            found["C_Delta"] = self.square(self.symmetric(self.rows.C_Delta))
        found["C_h0"] = self.square(self.modes_total(CH, s.omega * s.lam, lower=False))
        layers = range(1, L + 1)
        found["C_h"] = np.stack([self.square(self.symmetric(self.layer(l, CH))) for l in layers])
        found["C_g"] = np.stack(
            [self.square(self.mixed(self.layer(l, CG), s.gamma * ones, ones)) for l in layers]
        )
        return found

    def responses(self) -> dict:
        """All response functions, ∂/∂ of the noise as it enters its own layer."""
        s, n, L = self.setting, self.n, self.setting.depth
        Nc = s.outputs
        found = {"R_vu": self.square(self.modes_total(GU, s.omega, lower=True))}
        if s.data == DATASET:
            found["R_Delta"] = self.square(np.tril(self.rows.kernels[0, M, :n, :n]))
        X = -self.modes_total(HR, s.omega * s.lam, lower=True)
        R = X.copy()
        if s.centered:
            R[:, :Nc] -= X @ np.eye(Nc)[self.zero]
        found["R_hr0"] = self.square(R)
        R_hr, R_gu = [], []
        for ell in range(1, L + 1):
            # g̃ = Γ⁻¹ g, so ∂h/∂r = (∂h/∂r̃) Γ⁻¹.
            R = np.tril(self.layer(ell, HR)) / s.gamma
            R[:, :Nc] *= s.gamma
            R[:, :Nc] -= R[:, Nc:] @ np.eye(Nc)[self.zero[Nc:]]
            R_hr.append(self.square(R))
            R_gu.append(self.square(s.gamma * np.tril(self.layer(ell, GU))))
        return found | {"R_hr": np.stack(R_hr), "R_gu": np.stack(R_gu)}

    def overlaps(self) -> dict:
        """Error overlaps of networks that share the data only, or the initial weights only, summed over outputs."""
        s, n = self.setting, self.n
        bias = np.zeros((n, n))
        target = np.eye(s.outputs)[self.zero]
        for mode, (lam, omega, gram) in enumerate(zip(s.lam, s.omega, s.gram, strict=True)):
            pair, K_matrix = self.rows.pairs[mode], self.rows.kernels[0, K, :n, :n]
            along = target + lam * np.tril(K_matrix) @ (np.tril(pair[HR, :n, :n]) @ target)
            bias += omega * lam * along @ gram @ along.T
        found = {
            "overlap_same_data": same_data(self.rows, self.w, bias),
            "overlap_same_weights": same_weights(self.rows, self.w, n),
        }
        return {name: self.trace(np.diag(C)[self.index]) for name, C in found.items()}

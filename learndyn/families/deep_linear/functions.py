"""Observables from a finished row recursion: back from increments to the fields themselves, at the recorded steps."""

import numpy as np

from learndyn.families.deep_linear.ensembles import same_data, same_weights
from learndyn.families.deep_linear.equations.feedforward import CG, CH, GU, HR, K, M, Rows, Weights
from learndyn.families.deep_linear.observables import (
    CORRELATIONS,
    DECOMPOSITION,
    RESPONSES,
    alignment,
    edge_of_stability,
)
from learndyn.families.deep_linear.setting import DATASET, POPULATION, STREAM, Setting


class Functions:
    """The functions of a row recursion at the recorded steps.

    Arrays over two steps have the axes (step, output, step2, output2). A correlation is read from its lower triangle,
    a response, K and M are zero above theirs.
    """

    def __init__(self, rows: Rows, weights: Weights, setting: Setting, saved):
        self.rows, self.w, self.setting = rows, weights, setting
        self.saved = np.asarray(saved)
        Nc = setting.outputs
        self.n = (int(self.saved[-1]) + 1) * Nc
        self.index = (self.saved[:, None] * Nc + np.arange(Nc)).ravel()
        self.step, self.zero = np.divmod(np.arange(self.n), Nc)
        self.target = np.eye(Nc)[self.zero]
        self.modes = len(setting.lam)

    def square(self, matrix) -> np.ndarray:
        """A matrix over the recorded composite indices, with an axis for each step and output."""
        S, Nc = len(self.saved), self.setting.outputs
        return matrix.reshape(S, Nc, S, Nc)

    def trace(self, values) -> np.ndarray:
        """Σ_c of values at the recorded composite indices."""
        return values.reshape(len(self.saved), -1).sum(axis=1)

    def of_modes(self, which: int) -> np.ndarray:
        """A function of every input mode."""
        return self.rows.pairs[: self.modes, which, : self.n, : self.n]

    def layer(self, ell: int, which: int) -> np.ndarray:
        """A function of hidden layer ℓ = 1 … L."""
        return self.rows.pairs[self.modes + ell - 1, which, : self.n, : self.n]

    def mixed(self, C, a, b) -> np.ndarray:
        """mix(C) of `rows` at the recorded composite indices."""
        t, zero = self.step[self.index], self.zero[self.index]
        a, b = np.where(t > 0, a[t], 0.0), b[t]
        start = np.arange(self.setting.outputs)
        cross = a[:, None] * _symmetric(C, self.index, start)[:, zero] * b
        both = a[:, None] * _symmetric(C, self.index, self.index) * a
        corner = _symmetric(C, start, start)[np.ix_(zero, zero)]
        return both + cross + cross.T + b[:, None] * corner * b

    def times_mixing(self, X, a, b) -> np.ndarray:
        """X E, with E the matrix of mix: mix(C) = E C Eᵀ."""
        Nc = self.setting.outputs
        found = X * a[self.step]
        found[:, :Nc] = (X * b[self.step]) @ self.target
        return found

    def C_v_diagonal(self) -> np.ndarray:
        """C_v at equal composite indices, the recorded ones."""
        each = np.diagonal(self.of_modes(CG), axis1=1, axis2=2)[:, self.index]
        return self.setting.omega @ each

    def read(self, wanted=None, ensembles: bool = False) -> dict:
        """`some` of the observables, and the overlaps of ensembles if they are asked for."""
        found = self.some(wanted)
        return found | self.overlaps() if ensembles else found

    def some(self, wanted=None) -> dict:
        """Losses, and those of the other observables that are wanted; all of them for None."""
        groups = (
            (DECOMPOSITION, self.decomposition),
            (CORRELATIONS, self.correlations),
            (RESPONSES, self.responses),
        )
        found = self.losses()
        for table, function in groups:
            if wanted is None or any(quantity.name in wanted for quantity in table):
                found |= function()
        return found

    def losses(self) -> dict:
        """Test and training loss."""
        s = self.setting
        found = {"test_loss": self.trace(self.C_v_diagonal()) + s.outputs * s.noise**2}
        if s.data == DATASET:
            found["train_loss"] = self.trace(np.diagonal(self.rows.C_Delta)[self.index])
        elif s.data == STREAM:
            found["train_loss"] = found["test_loss"]
        return found

    def decomposition(self) -> dict:
        """Bias and variances of the test loss, and the alignment."""
        s, w, n, index = self.setting, self.w, self.n, self.index
        bias, width_variance, data_variance, overlap = np.zeros((4, len(self.saved)))
        noise_of_width = w.rho[0] * w.inverse_width
        K_rows = self.rows.kernels[0, K, index, :n]
        for mode, (lam, omega, gram) in enumerate(zip(s.lam, s.omega, s.gram, strict=True)):
            # ∂v/∂r = 1 + K H_r
            H = lam * (K_rows @ self.of_modes(HR)[mode])
            H[np.arange(len(index)), index] += 1.0
            along = H @ self.target
            overlap += omega * lam * self.trace((along * gram[self.zero[index]]).sum(axis=1))
            bias += omega * lam * self.trace(((along @ gram) * along).sum(axis=1))
            mixed = self.times_mixing(H, w.a, w.b_input)
            variance = noise_of_width * _quadratic(mixed, self.layer(1, CG))
            width_variance += omega * lam * self.trace(variance)
            if s.data != POPULATION:
                G = self.rows.pairs[mode, GU, index, :n]
                data_variance += omega * self.trace(self.variance_from_data(G))
        total = float(np.einsum("k,k,kcc->", s.omega, s.lam, s.gram))
        found = {"bias": bias, "width_variance": width_variance, "data_variance": data_variance}
        found["alignment"] = alignment(overlap, self.trace(self.C_v_diagonal()), total)
        return found

    def variance_from_data(self, G) -> np.ndarray:
        """The diagonal of G C_u Gᵀ, with C_u the covariance of the noise u⁰ that the data cause, for λ = 1."""
        s, n = self.setting, self.n
        if s.data == DATASET:
            return s.inverse_data * _quadratic(G, self.rows.C_Delta[:n, :n])
        # Fresh examples: C_u is (C_v + σ²)/α_B at equal steps.
        steps, Nc = n // s.outputs, s.outputs
        blocks = self.of_modes(CG).reshape(self.modes, steps, Nc, steps, Nc)
        lower = np.einsum("k,ktctd->tcd", s.omega, blocks)
        C_v = np.tril(lower) + np.tril(lower, -1).swapaxes(1, 2)
        G = G.reshape(-1, steps, Nc)
        correlated = np.einsum("itc,tcd,itd->i", G, C_v + s.noise**2 * np.eye(Nc), G)
        return s.inverse_data * correlated

    def edge(self) -> int | None:
        """The step from which training is at the edge of stability, or None."""
        Nc, powers = self.setting.outputs, self.setting.omega * self.setting.lam
        power, successive = (
            powers @ np.diagonal(self.of_modes(CH), offset, axis1=1, axis2=2) for offset in (0, -Nc)
        )
        return edge_of_stability(
            power.reshape(-1, Nc).sum(axis=1), successive.reshape(-1, Nc).sum(axis=1)
        )

    def correlations(self) -> dict:
        """All correlation functions."""
        s, index = self.setting, self.index
        ones = np.ones(self.step[-1] + 1)

        def modes(which, powers):
            each = _symmetric(self.of_modes(which), index, index)
            return self.square(np.einsum("k,kij->ij", powers, each))

        found = {"C_v": modes(CG, s.omega), "C_h0": modes(CH, s.omega * s.lam)}
        if s.data == DATASET:
            found["C_Delta"] = self.square(_symmetric(self.rows.C_Delta, index, index))
        layers = range(1, s.depth + 1)
        C_h = [_symmetric(self.layer(ell, CH), index, index) for ell in layers]
        C_g = [self.mixed(self.layer(ell, CG), s.gamma * ones, ones) for ell in layers]
        found["C_h"] = np.stack([self.square(C) for C in C_h])
        found["C_g"] = np.stack([self.square(C) for C in C_g])
        return found

    def responses(self) -> dict:
        """All response functions, ∂/∂ of the noise as it enters its own layer."""
        s, n, index = self.setting, self.n, self.index
        Nc, pairs = s.outputs, self.rows.pairs

        def modes(which, powers):
            return np.einsum("k,kij->ij", powers, pairs[: self.modes, which, index, :n])

        found = {"R_vu": self.square(modes(GU, s.omega)[:, index])}
        if s.data == DATASET:
            found["R_Delta"] = self.square(self.rows.kernels[0, M][np.ix_(index, index)])
        X = -modes(HR, s.omega * s.lam)
        R = X.copy()
        if s.centered:
            R[:, :Nc] -= X @ self.target
        found["R_hr0"] = self.square(R[:, index])
        R_hr, R_gu = [], []
        for ell in range(1, s.depth + 1):
            # g̃ = Γ⁻¹ g, so ∂h/∂r = (∂h/∂r̃) Γ⁻¹.
            R = self.layer(ell, HR)[index] / s.gamma
            R[:, :Nc] *= s.gamma
            R[:, :Nc] -= R[:, Nc:] @ self.target[Nc:]
            R_hr.append(self.square(R[:, index]))
            R_gu.append(self.square(s.gamma * self.layer(ell, GU)[np.ix_(index, index)]))
        return found | {"R_hr": np.stack(R_hr), "R_gu": np.stack(R_gu)}

    def overlaps(self) -> dict:
        """Error overlaps of networks that share the data only, or the initial weights only, summed over outputs."""
        s, n = self.setting, self.n
        bias, K_matrix = np.zeros((n, n)), self.rows.kernels[0, K, :n, :n]
        for mode, (lam, omega, gram) in enumerate(zip(s.lam, s.omega, s.gram, strict=True)):
            along = self.target + lam * K_matrix @ (self.of_modes(HR)[mode] @ self.target)
            bias += omega * lam * along @ gram @ along.T
        found = {
            "overlap_same_data": same_data(self.rows, self.w, bias),
            "overlap_same_weights": same_weights(self.rows, self.w, n),
        }
        return {name: self.trace(np.diag(C)[self.index]) for name, C in found.items()}


def _symmetric(C, rows, columns) -> np.ndarray:
    """The entries (rows × columns) of symmetric matrices whose lower triangles are in C."""
    return C[..., np.maximum.outer(rows, columns), np.minimum.outer(rows, columns)]


def _quadratic(X, C) -> np.ndarray:
    """The diagonal of X C Xᵀ for a symmetric C with nothing above its diagonal."""
    return 2 * ((X @ C.T) * X).sum(axis=1) - (X**2) @ np.diagonal(C)

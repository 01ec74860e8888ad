"""The observables of a row recursion at the recorded steps, converted from increments g̃ back to the fields g."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Int

from learndyn.families.deep_linear.equations.ensemble_overlaps import same_data, same_weights
from learndyn.families.deep_linear.equations.feedforward import (
    CG,
    CH,
    GU,
    HR,
    K,
    M,
    RecursionConstants,
    RecursionRows,
)
from learndyn.families.deep_linear.limit_numbers import DATASET, POPULATION, STREAM, LimitNumbers
from learndyn.families.deep_linear.observables import (
    CORRELATIONS,
    DECOMPOSITION,
    MODES,
    RESPONSES,
    alignment,
    part_left,
    tangent_kernel,
)
from learndyn.numerics.stability import edge_of_stability


class RowObservables:
    """The observables of a row recursion at the recorded `states`.

    Arrays over two steps have the axes (step, output, step2, output2). Correlations are read from their lower triangle;
    responses, K and M are zero above the diagonal. Composite indices i = (t, c) join step and output.
    """

    def __init__(
        self,
        rows: RecursionRows,
        const: RecursionConstants,
        numbers: LimitNumbers,
        states: np.ndarray,
    ):
        self.rows, self.const, self.numbers = rows, const, numbers
        self.states = np.asarray(states)
        Nc = numbers.outputs
        self.n = (int(self.states[-1]) + 1) * Nc
        self.index = (self.states[:, None] * Nc + np.arange(Nc)).ravel()
        self.step, self.zero = np.divmod(np.arange(self.n), Nc)
        self.target = np.eye(Nc)[self.zero]
        self.modes = len(numbers.lam)

    def square(
        self, matrix: Float[np.ndarray, "i i"]
    ) -> Float[np.ndarray, "step output step2 output2"]:
        """A matrix over the recorded composite indices, with an axis for each step and output."""
        S, Nc = len(self.states), self.numbers.outputs
        return matrix.reshape(S, Nc, S, Nc)

    def trace(self, values: Float[np.ndarray, " i"]) -> Float[np.ndarray, " step"]:
        """Σ_c of values at the recorded composite indices."""
        return values.reshape(len(self.states), -1).sum(axis=1)

    def of_modes(self, which: int) -> np.ndarray:
        """The function `which` (`CG`, `CH`, …) of every input mode."""
        return self.rows.pairs[: self.modes, which, : self.n, : self.n]

    def layer(self, ell: int, which: int) -> np.ndarray:
        """The function `which` (`CG`, `CH`, …) of hidden layer ℓ = 1 … L."""
        return self.rows.pairs[self.modes + ell - 1, which, : self.n, : self.n]

    def mixed(
        self,
        C: Float[np.ndarray, "n n"],
        a: Float[np.ndarray, " T"],
        b: Float[np.ndarray, " T"],
    ) -> Float[np.ndarray, "i i"]:
        """mix(C) of `feedforward` at the recorded composite indices."""
        t, zero = self.step[self.index], self.zero[self.index]
        a, b = np.where(t > 0, a[t], 0.0), b[t]
        start = np.arange(self.numbers.outputs)
        cross = a[:, None] * _symmetric(C, self.index, start)[:, zero] * b
        both = a[:, None] * _symmetric(C, self.index, self.index) * a
        corner = _symmetric(C, start, start)[np.ix_(zero, zero)]
        return both + cross + cross.T + b[:, None] * corner * b

    def times_mixing(
        self,
        X: Float[np.ndarray, "i n"],
        a: Float[np.ndarray, " T"],
        b: Float[np.ndarray, " T"],
    ) -> Float[np.ndarray, "i n"]:
        """X E, with E the matrix of mix: mix(C) = E C Eᵀ."""
        Nc = self.numbers.outputs
        product = X * a[self.step]
        product[:, :Nc] = (X * b[self.step]) @ self.target
        return product

    def C_v_diagonal(self) -> np.ndarray:
        """C_v(i, i) at the recorded composite indices."""
        each = np.diagonal(self.of_modes(CG), axis1=1, axis2=2)[:, self.index]
        return self.numbers.omega @ each

    def read(
        self, wanted: Iterable[str] | None = None, ensembles: bool = False
    ) -> dict[str, np.ndarray]:
        """The `selected` observables, with the overlaps of ensembles if they are asked for."""
        arrays = self.selected(wanted)
        return arrays | self.overlaps() if ensembles else arrays

    def selected(self, wanted: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """The losses, and the groups of observables that contain a wanted name (all groups for None)."""
        names = None if wanted is None else set(wanted)
        groups = (
            (DECOMPOSITION + MODES, self.decomposition),
            (CORRELATIONS, self.correlations),
            (RESPONSES, self.responses),
        )
        arrays = self.losses()
        for table, read_group in groups:
            if names is None or any(quantity.name in names for quantity in table):
                arrays |= read_group()
        return arrays

    def losses(self) -> dict[str, np.ndarray]:
        """Test and training loss."""
        numbers = self.numbers
        arrays = {"test_loss": self.trace(self.C_v_diagonal()) + numbers.outputs * numbers.noise**2}
        if numbers.data == DATASET:
            arrays["train_loss"] = self.trace(np.diagonal(self.rows.C_Delta)[self.index])
        elif numbers.data == STREAM:
            arrays["train_loss"] = arrays["test_loss"]
        return arrays

    def decomposition(self) -> dict[str, np.ndarray]:
        """Bias and variances of the test loss, the alignment, the tangent kernel, and the loss by modes."""
        numbers, const, n, index = self.numbers, self.const, self.n, self.index
        bias, width_variance, data_variance = np.zeros((3, len(self.states)))
        overlap = np.zeros((self.modes, len(self.states)))
        noise_of_width = const.rho[0] * const.inverse_width
        K_rows = self.rows.kernels[0, K, index, :n]
        for mode, (lam, omega, gram) in enumerate(
            zip(numbers.lam, numbers.omega, numbers.gram, strict=True)
        ):
            # ∂v/∂r = 1 + K H_r
            H = lam * (K_rows @ self.of_modes(HR)[mode])
            H[np.arange(len(index)), index] += 1.0
            along = H @ self.target
            overlap[mode] = self.trace((along * gram[self.zero[index]]).sum(axis=1))
            bias += omega * lam * self.trace(((along @ gram) * along).sum(axis=1))
            mixed = self.times_mixing(H, const.a, const.b_input)
            variance = noise_of_width * _quadratic(mixed, self.layer(1, CG))
            width_variance += omega * lam * self.trace(variance)
            if numbers.data != POPULATION:
                G = self.rows.pairs[mode, GU, index, :n]
                data_variance += omega * self.trace(self.variance_from_data(G))
        power, target = numbers.omega * numbers.lam, np.einsum("kcc->k", numbers.gram)
        arrays = {"bias": bias, "width_variance": width_variance, "data_variance": data_variance}
        arrays["alignment"] = alignment(
            power @ overlap, self.trace(self.C_v_diagonal()), float(power @ target)
        )
        arrays["kernel"] = self.kernel()
        if numbers.shows_modes:
            errors = np.diagonal(self.of_modes(CG), axis1=1, axis2=2)[:, index]
            arrays["mode_loss"] = numbers.omega * np.stack([*map(self.trace, errors)], axis=1)
            arrays["transfer"] = part_left(overlap.T, target)
        return arrays

    def kernel(self) -> Float[np.ndarray, "step output output2"]:
        """The tangent kernel of a finite depth."""
        return tangent_kernel(self.equal_steps(), self.const.d[self.states], self.numbers)

    def equal_steps(self) -> Float[np.ndarray, "layer step output output2"]:
        """C_g of all layers at equal steps."""
        ones, same = np.ones(self.step[-1] + 1), np.arange(len(self.states))
        layers = range(1, self.numbers.depth + 1)
        return np.stack(
            [
                self.square(self.mixed(self.layer(ell, CG), self.numbers.gamma * ones, ones))[
                    same, :, same
                ]
                for ell in layers
            ]
        )

    def variance_from_data(self, G: Float[np.ndarray, "i n"]) -> Float[np.ndarray, " i"]:
        """The diagonal of G C_u Gᵀ, with C_u the covariance of the noise u⁰ that the data cause, for λ = 1."""
        numbers, n = self.numbers, self.n
        if numbers.data == DATASET:
            return numbers.inverse_data * _quadratic(G, self.rows.C_Delta[:n, :n])
        # Fresh examples: C_u is (C_v + σ²)/α_B at equal steps.
        steps, Nc = n // numbers.outputs, numbers.outputs
        blocks = self.of_modes(CG).reshape(self.modes, steps, Nc, steps, Nc)
        lower = np.einsum("k,ktctd->tcd", numbers.omega, blocks)
        C_v = np.tril(lower) + np.tril(lower, -1).swapaxes(1, 2)
        G = G.reshape(-1, steps, Nc)
        correlated = np.einsum("itc,tcd,itd->i", G, C_v + numbers.noise**2 * np.eye(Nc), G)
        return numbers.inverse_data * correlated

    def edge(self) -> int | None:
        """The first step at the edge of stability, or None."""
        Nc, powers = self.numbers.outputs, self.numbers.omega * self.numbers.lam
        power, successive = (
            powers @ np.diagonal(self.of_modes(CH), offset, axis1=1, axis2=2) for offset in (0, -Nc)
        )
        return edge_of_stability(
            power.reshape(-1, Nc).sum(axis=1), successive.reshape(-1, Nc).sum(axis=1)
        )

    def correlations(self) -> dict[str, np.ndarray]:
        """All correlation functions."""
        numbers, index = self.numbers, self.index
        ones = np.ones(self.step[-1] + 1)

        def modes(which: int, powers: Float[np.ndarray, " modes"]) -> np.ndarray:
            each = _symmetric(self.of_modes(which), index, index)
            return self.square(np.einsum("k,kij->ij", powers, each))

        arrays = {"C_v": modes(CG, numbers.omega), "C_h0": modes(CH, numbers.omega * numbers.lam)}
        if numbers.data == DATASET:
            arrays["C_Delta"] = self.square(_symmetric(self.rows.C_Delta, index, index))
        layers = range(1, numbers.depth + 1)
        C_h = [_symmetric(self.layer(ell, CH), index, index) for ell in layers]
        C_g = [self.mixed(self.layer(ell, CG), numbers.gamma * ones, ones) for ell in layers]
        arrays["C_h"] = np.stack([self.square(C) for C in C_h])
        arrays["C_g"] = np.stack([self.square(C) for C in C_g])
        return arrays

    def responses(self) -> dict[str, np.ndarray]:
        """All response functions: derivatives with respect to the noise as it enters its own layer."""
        numbers, n, index = self.numbers, self.n, self.index
        Nc, pairs = numbers.outputs, self.rows.pairs

        def modes(which: int, powers: Float[np.ndarray, " modes"]) -> np.ndarray:
            return np.einsum("k,kij->ij", powers, pairs[: self.modes, which, index, :n])

        arrays = {"R_vu": self.square(modes(GU, numbers.omega)[:, index])}
        if numbers.data == DATASET:
            arrays["R_Delta"] = self.square(self.rows.kernels[0, M][np.ix_(index, index)])
        X = -modes(HR, numbers.omega * numbers.lam)
        R = X.copy()
        if numbers.centered:
            R[:, :Nc] -= X @ self.target
        arrays["R_hr0"] = self.square(R[:, index])
        R_hr, R_gu = [], []
        for ell in range(1, numbers.depth + 1):
            # g̃ = Γ⁻¹ g, so ∂h/∂r = (∂h/∂r̃) Γ⁻¹.
            R = self.layer(ell, HR)[index] / numbers.gamma
            R[:, :Nc] *= numbers.gamma
            R[:, :Nc] -= R[:, Nc:] @ self.target[Nc:]
            R_hr.append(self.square(R[:, index]))
            R_gu.append(self.square(numbers.gamma * self.layer(ell, GU)[np.ix_(index, index)]))
        return arrays | {"R_hr": np.stack(R_hr), "R_gu": np.stack(R_gu)}

    def overlaps(self) -> dict[str, np.ndarray]:
        """Error overlaps of networks that share the data only, or the initial weights only, summed over outputs."""
        numbers, n = self.numbers, self.n
        bias, K_matrix = np.zeros((n, n)), self.rows.kernels[0, K, :n, :n]
        for mode, (lam, omega, gram) in enumerate(
            zip(numbers.lam, numbers.omega, numbers.gram, strict=True)
        ):
            along = self.target + lam * K_matrix @ (self.of_modes(HR)[mode] @ self.target)
            bias += omega * lam * along @ gram @ along.T
        overlaps = {
            "overlap_same_data": same_data(self.rows, self.const, bias),
            "overlap_same_weights": same_weights(self.rows, self.const, n),
        }
        return {name: self.trace(np.diag(C)[self.index]) for name, C in overlaps.items()}


def _symmetric(
    C: Float[np.ndarray, "*modes n n"], rows: Int[np.ndarray, " i"], columns: Int[np.ndarray, " j"]
) -> Float[np.ndarray, "*modes i j"]:
    """The entries (rows × columns) of symmetric matrices whose lower triangles are in C."""
    return C[..., np.maximum.outer(rows, columns), np.minimum.outer(rows, columns)]


def _quadratic(X: Float[np.ndarray, "i n"], C: Float[np.ndarray, "n n"]) -> Float[np.ndarray, " i"]:
    """The diagonal of X C Xᵀ for a symmetric C of which only the lower triangle is stored."""
    return 2 * ((X @ C.T) * X).sum(axis=1) - (X**2) @ np.diagonal(C)

"""The input layer and the data on the nodes of panels: an equation for each panel, solved exactly however long it is.

With A = ρ_0 (d R_gu¹ d/γ_0 + κ∘C_g¹) all responses of the input are functions of this one matrix. For Q = A R_Δ,

    H_k = (1 + λ_k Q)⁻¹,    Z_k = 1 − H_k = λ_k H_k Q,    R ≡ R_Δ = 1 − (1/α) Σ_k ω_k Z_k,    Q = A R,

and R = 1 for the population. In the eigenvectors of the panel's own block of A, with eigenvalues a, the block of Q has
the eigenvalues q(a) of `effective`, and the rows before it, X = Q[I, :b], solve

    x_a (1 + (a/α) Σ_k ω_k λ_k H_k/(1 + λ_k q(a))) = (A[I, :b] R)_a,    H_k[I, :b] = −λ_k H_k[I, I] X H_k,

with the H_k of all panels before. Correlations follow from W = S Cov(r⁰) Sᵀ = S C_g¹ Sᵀ ρ_0/(ν_L γ_0²):

    V_k = H_k (⟨w*w*⟩_k + W) H_kᵀ,    C_b = Σ ω_k λ_k V_k,    C_v = C_b + (1/α) Σ_k ω_k Z_k (C_v + σ²) Z_kᵀ,
    C_Δ = R (C_v + σ²) Rᵀ,    C_h⁰ = (1/α) Σ ω_k λ_k H_k C_Δ H_kᵀ + R (Σ ω_k λ_k² V_k) Rᵀ,
    R_hr⁰ = −R (Σ ω_k λ_k H_k) S.

The equation for C_v is solved like that for X. In the Schur vectors of the diagonal blocks of A all functions of A are
lower triangular, so that each row is one substitution. Cost of a pass: seven products of s rows with each H_k.
"""

import numpy as np
from jaxtyping import Complex, Float
from scipy.linalg import schur

from learndyn.families.deep_linear.equations.panel_matrices import (
    Block,
    Growing,
    Square,
    Squares,
    put_symmetric,
)
from learndyn.families.deep_linear.limit_numbers import DATASET, LimitNumbers
from learndyn.numerics.lower import in_place

SMALL, FACTOR, CORRECTIONS = 0.1, 8.0, 12
"""`effective` follows its root from a this small, relative to the spectrum, in steps by this factor, each with at most
so many Newton corrections."""


class ModeResponses(Growing):
    """H_k of all modes."""

    H: Squares


class Input(Growing):
    """Rows of R_hr⁰ and C_h⁰ from rows of A, of S and of W.

    - `spread`: Σ ω_k λ_k² V_k
    - `mean_H`: Σ ω_k λ_k H_k
    """

    A: Square
    R: Square
    RH: Square
    C_b: Square
    C_v: Square
    C_Delta: Square
    C_h0: Square
    R_hr0: Square
    S: Square
    W: Square
    spread: Square
    mean_H: Square

    def __init__(self, numbers: LimitNumbers):
        super().__init__()
        self.numbers = numbers
        self.power = numbers.omega * numbers.lam
        self.modes = ModeResponses(len(numbers.lam))
        self.along = np.zeros((len(numbers.lam), 0, numbers.outputs))
        self.same = np.zeros((0, numbers.outputs))
        self.triangular = Triangular(len(numbers.lam))

    def open(self, b: int, e: int) -> None:
        """Make room for the rows of a panel."""
        super().open(b, e)
        self.modes.open(b, e)
        if len(self.same) < self.room:
            along, Nc = self.along, self.numbers.outputs
            self.same = np.tile(np.eye(Nc), (self.room // Nc + 1, 1))[: self.room]
            self.along = np.zeros((len(along), self.room, Nc))
            self.along[:, :b] = along[:, :b]

    def solve(self, block: Block) -> None:
        """Fill the rows; those of A, S and W are known."""
        new, upto, Nc = block.new, block.upto, self.numbers.outputs
        own = OwnBlock(self.A[new, new], self.numbers)
        self._respond(block, own)
        H = self.modes.H[:, upto, upto]
        rows = H[:, new]
        self.along[:, new] = rows.reshape(*rows.shape[:2], -1, Nc).sum(axis=2)
        self._correlate_weights(block, H)
        if self.numbers.data == DATASET:
            self._correlate_errors(block, own, H)
        else:
            put_symmetric(self.C_v, block, self.C_b[new, upto])
            put_symmetric(self.C_h0, block, self.spread[new, upto])
        self.mean_H[new, upto] = _weighted(self.power, rows)
        self.RH[new, upto] = self.R[new, upto] @ self.mean_H[upto, upto]
        self.R_hr0[new, upto] = -self.RH[new, upto] @ self.S[upto, upto]

    def _respond(self, block: Block, own: "OwnBlock") -> None:
        """Rows of all H_k and of R."""
        numbers, new, old = self.numbers, block.new, block.old
        H, own_H = self.modes.H, own.function(own.h)
        H[:, new, new] = own_H
        self.R[new, new] = own.function(own.r)
        if not block.b:
            return
        right = own.inverse @ (self.A[new, old] @ self.R[old, old])
        if numbers.data == DATASET:
            factors = numbers.inverse_data * own.a[:, None] * self.power * own.h.T
            right = self.triangular.solve(block.b, right, np.ones(len(own.a)), factors)
        X = np.real(own.vectors @ right)
        H[:, new, old] = (-numbers.lam[:, None, None] * (own_H @ X)) @ H[:, old, old]
        if numbers.data == DATASET:
            self.R[new, old] = _weighted(numbers.inverse_data * numbers.omega, H[:, new, old])

    def _correlate_weights(self, block: Block, H: Squares) -> None:
        """Rows of Σ ω_k λ_k V_k and Σ ω_k λ_k² V_k."""
        numbers, new, upto = self.numbers, block.new, block.upto
        V = (self.along[:, new] @ numbers.gram) @ self.along[:, upto].swapaxes(1, 2)
        if numbers.inverse_width:
            V += _quadratic(H, block, self.W[upto, upto])
        put_symmetric(self.C_b, block, _weighted(self.power, V))
        put_symmetric(self.spread, block, _weighted(self.power * numbers.lam, V))

    def _correlate_errors(self, block: Block, own: "OwnBlock", H: Squares) -> None:
        """Rows of C_v, C_Δ and C_h⁰ on a dataset."""
        numbers, new, old, upto, b = self.numbers, block.new, block.old, block.upto, block.b
        share = numbers.inverse_data * numbers.omega
        same = self.same[upto]
        to_noise = numbers.noise * (same - self.along[:, upto])
        right = self.C_b[new, upto] + _weighted(share, to_noise[:, new] @ to_noise.swapaxes(1, 2))
        left = -H[:, new, old]
        fed = left @ self.C_v[old, old]
        z = 1 - own.h
        C_o = np.zeros((block.e - b, b))
        if b:
            through = fed - fed @ H[:, old, old].swapaxes(1, 2)
            first = own.inverse @ (right[:, :b] + _weighted(share, through))
            factors = share * z.T
            rows = self.triangular.solve(b, first, 1 - factors.sum(axis=1), factors, True)
            C_o = np.real(own.vectors @ rows)
        back = left.swapaxes(1, 2)
        crossed = _weighted(share, (own.function(z) @ C_o) @ back)
        twice = _weighted(share, fed @ back)
        second = own.inverse @ (right[:, b:] + crossed + crossed.T + twice) @ own.inverse.T
        C_d = own.vectors @ (second / (1 - (share * z.T) @ z)) @ own.vectors.T
        put_symmetric(self.C_v, block, np.concatenate([C_o, np.real(C_d)], axis=1))
        R = self.R[upto, upto]
        R_noise = numbers.noise * (R @ same)
        C_Delta = (R[new] @ self.C_v[upto, upto]) @ R.T + R_noise[new] @ R_noise.T
        put_symmetric(self.C_Delta, block, C_Delta)
        by_errors = _weighted(self.power, _quadratic(H, block, self.C_Delta[upto, upto]))
        by_weights = (R[new] @ self.spread[upto, upto]) @ R.T
        put_symmetric(self.C_h0, block, numbers.inverse_data * by_errors + by_weights)

    def mode_losses(self, n: int) -> Float[np.ndarray, "modes n"]:
        """ω_k λ_k ⟨v_k²⟩ at the first n rows: ω_k λ_k V_k + (ω_k/α) Z_k (C_v + σ²) Z_kᵀ at equal times."""
        numbers, upto = self.numbers, slice(0, n)
        same = np.eye(numbers.outputs)[np.arange(n) % numbers.outputs]
        losses = []
        for H, along, lam, omega, gram in zip(
            self.modes.H[:, upto, upto],
            self.along[:, upto],
            numbers.lam,
            numbers.omega,
            numbers.gram,
            strict=True,
        ):
            loss = lam * ((along @ gram) * along).sum(axis=1)
            if numbers.inverse_width:
                loss += lam * ((H @ self.W[upto, upto]) * H).sum(axis=1)
            if numbers.data == DATASET:
                Z, noise = np.eye(n) - H, numbers.noise * (same - along)
                spread = ((Z @ self.C_v[upto, upto]) * Z).sum(axis=1) + (noise**2).sum(axis=1)
                loss += numbers.inverse_data * spread
            losses.append(omega * loss)
        return np.stack(losses)

    def close(self, block: Block) -> None:
        """The rows are final; what the next panels need of them is prepared."""
        if self.numbers.data == DATASET:
            self.triangular.append(block, self.A[block.new, block.new], self.modes.H)


def _weighted(
    weights: Float[np.ndarray, " modes"], rows: Float[np.ndarray, "modes s e"]
) -> Float[np.ndarray, "s e"]:
    """Σ_k weight_k rows_k."""
    if len(weights) == 1:
        return weights[0] * rows[0]
    return (weights @ rows.reshape(len(rows), -1)).reshape(rows.shape[1:])


def _quadratic(H: Squares, block: Block, C: Square) -> Float[np.ndarray, "modes s e"]:
    """Rows of all H_k C H_kᵀ."""
    rows = H[:, block.new]
    product = (rows.reshape(-1, block.e) @ C).reshape(rows.shape)
    return product @ H.swapaxes(1, 2)


class OwnBlock:
    """Functions of the block of A that a panel has with itself, in its eigenvectors.

    - `a`, `r`: the eigenvalues of the block, and of R;  `h`: those of H_k, modes × eigenvalues
    """

    def __init__(self, A: Float[np.ndarray, "s s"], numbers: LimitNumbers):
        self.a, self.vectors = np.linalg.eig(A)
        self.inverse = np.linalg.inv(self.vectors)
        q = effective(self.a, numbers)
        self.r = np.where(self.a == 0, 1.0, q / np.where(self.a == 0, 1.0, self.a))
        self.h = 1 / (1 + numbers.lam[:, None] * q)

    def function(self, values: Complex[np.ndarray, "*modes s"]) -> Float[np.ndarray, "*modes s s"]:
        """The function of A that has these eigenvalues."""
        return np.real((self.vectors * values[..., None, :]) @ self.inverse)


def effective(a: Complex[np.ndarray, " s"], numbers: LimitNumbers) -> Complex[np.ndarray, " s"]:
    """The root q of q = a φ(q) that is a at small a, with φ(q) = 1 − (1/α) Σ_k ω_k λ_k q/(1 + λ_k q).

    It is followed along the ray from 0 to a. As a function of 1/a the root is, up to factors, the Stieltjes transform
    of the empirical covariance, so that only negative a are singular.
    """
    a = a.astype(complex)
    if numbers.data != DATASET:
        return a
    lam, share = numbers.lam, numbers.inverse_data * numbers.omega * numbers.lam
    if len(lam) == 1:
        return _root_of_one_mode(a, float(lam[0]), float(share[0]))
    largest = np.max(np.abs(a)) * (np.max(lam) + share.sum())
    steps = max(0, int(np.ceil(np.log(max(largest, 1e-300) / SMALL) / np.log(FACTOR))))
    q, slope = a * FACTOR**-steps, np.zeros_like(a)
    for step in range(steps, -1, -1):
        now = a * FACTOR**-step
        for _ in range(CORRECTIONS):
            answers = 1 / (1 + np.multiply.outer(q, lam))
            phi, slope = 1 - q * (answers @ share), -(answers**2 @ share)
            change = (q - now * phi) / (1 - now * slope)
            q = q - change
            if np.all(np.abs(change) <= 1e-12 * np.abs(q)):
                break
        if step:
            q = q * FACTOR ** (1 / (1 - now * slope))
    return q


def _root_of_one_mode(
    a: Complex[np.ndarray, " s"], lam: float, share: float
) -> Complex[np.ndarray, " s"]:
    """The root of λq² + Bq − a with B = 1 + a (share − λ): the cuts of D = √(B² + 4λa) are on negative a."""
    B = 1 + a * (share - lam)
    low, high = ((np.sqrt(share) + sign * np.sqrt(lam)) ** 2 for sign in (-1, 1))
    D = np.sqrt(1 + low * a) * np.sqrt(1 + high * a)
    # Of two equal expressions the one without cancellation.
    q = (D - B) / (2 * lam)
    positive = B.real > 0
    q[positive] = 2 * a[positive] / (B + D)[positive]
    return q


class Triangular:
    """Solves equations with combinations of the H_k, which are functions of the block triangular A.

    In the Schur vectors of the diagonal blocks of A, all functions of A are lower triangular.
    """

    def __init__(self, modes: int):
        self.vectors = np.zeros((0, 0), complex)
        self.lower = np.zeros((modes, 0, 0), complex)

    def append(self, block: Block, own: Square, H: Squares) -> None:
        """Add the rows of a panel; `own` is its diagonal block of A."""
        b, e = block.b, block.e
        if e > len(self.vectors):
            room = max(64, e, 2 * len(self.vectors))
            vectors, lower = self.vectors, self.lower
            self.vectors = np.zeros((room, room), complex)
            self.lower = np.zeros((len(lower), room, room), complex)
            self.vectors[:b, :b], self.lower[:, :b, :b] = vectors[:b, :b], lower[:, :b, :b]
        Q = schur(own, output="complex")[1][:, ::-1]
        self.vectors[:b, b:e], self.vectors[b:e, :b], self.vectors[b:e, b:e] = 0.0, 0.0, Q
        self.lower[:, b:e, :e] = Q.conj().T @ H[:, block.new, block.upto] @ self.vectors[:e, :e]

    def solve(
        self,
        b: int,
        right: Complex[np.ndarray, "s b"],
        constant: Complex[np.ndarray, " s"],
        factors: Complex[np.ndarray, "s modes"],
        transposed: bool = False,
    ) -> Complex[np.ndarray, "s b"]:
        """Rows y with y (constant + Σ_k factor_k H_k) = right, or with H_kᵀ, for the first b rows of H_k."""
        Q = self.vectors[:b, :b]
        # H = Q L Q⁺ and Hᵀ = Q* Lᵀ Qᵀ
        basis, back = (Q.conj(), Q.T) if transposed else (Q, Q.conj().T)
        rows = np.ascontiguousarray(right @ basis)
        work = np.empty_like(rows)
        _substitute(
            self.lower, constant.astype(complex), factors.astype(complex), transposed, rows, work
        )
        return rows @ back


@in_place
def _substitute(
    lower: np.ndarray,
    constant: np.ndarray,
    factors: np.ndarray,
    transposed: bool,
    rows: np.ndarray,
    work: np.ndarray,
) -> None:
    """Solve y (constant + Σ_k factor_k L_k) = right for lower triangular L_k, or with L_kᵀ, in place of the right side.

    Each row of the combination is formed when it is needed, so that the L_k are read once.
    """
    count, b = rows.shape
    for number in range(b):
        t = number if transposed else b - 1 - number
        for i in range(count):
            for j in range(t + 1):
                work[i, j] = 0.0
            work[i, t] = constant[i]
        for k in range(lower.shape[0]):
            for i in range(count):
                factor = factors[i, k]
                for j in range(t + 1):
                    work[i, j] += factor * lower[k, t, j]
        for i in range(count):
            if transposed:
                value = rows[i, t]
                for j in range(t):
                    value -= rows[i, j] * work[i, j]
                rows[i, t] = value / work[i, t]
            else:
                rows[i, t] /= work[i, t]
                value = rows[i, t]
                for j in range(t):
                    rows[i, j] -= value * work[i, j]

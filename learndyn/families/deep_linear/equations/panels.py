"""The limit of a deep linear network on the nodes of panels: rows of all nodes of a panel at a time.

The equations are those of `feedforward`, in plain fields (no increments), with an impulse response κ that has entries
within a panel. So every block of rows is an implicit equation. For a panel with rows I, and everything before it known,

    layer ℓ:   h = u + M g,  g = r + K h,    H_u = (1 − MK)⁻¹,  H_r = H_u M,  G_u = K H_u,  G_r = 1 + K H_r,
               C_h = H_u S_u H_uᵀ + H_r S_r H_rᵀ,    C_g = G_u S_u G_uᵀ + G_r S_r G_rᵀ,
               M = d R_hr^{ℓ−1} d + γ_0 κ∘C_h^{ℓ−1},    K = ρ_ℓ (d R_gu^{ℓ+1} d + γ_0 κ∘C_g^{ℓ+1}),
               S_u = d C_h^{ℓ−1} d,  S_r = ρ_ℓ d C_g^{ℓ+1} d;   layer L: K = γ_0 κ, S_r = d dᵀ;
               layer 1: d R_hr⁰ d → d R_hr⁰/(ν_L γ_0);
    input:     R_hr⁰ and C_h⁰ from A = ρ_0 (d R_gu¹ d/γ_0 + κ∘C_g¹) and W = S C_g¹ Sᵀ ρ_0/(ν_L γ_0²), with
               S = d − 1 e_0ᵀ if centred, else d: see `panel_input`.

What the layers hand to each other, x = (R_hr^{ℓ−1}, C_h^{ℓ−1})[I] for ℓ = 1 … L,
is found by accelerated iteration x ← g(x): a backward pass through the layers, the input, and a forward pass. Each
layer's own loop and the loop of the residuals, whose gains grow with the length of the panel, are solved exactly within
the pass; what is left converges in about ten passes however long the panel is. With a strictly lower κ one pass is the
row recursion.

Cost: about 24 L products of s rows with a matrix for each pass, and seven for every mode of the input. Bordelon &
Pehlevan 2025, as in `feedforward`.
"""

import abc

import numpy as np
from jaxtyping import Float

from learndyn.families.deep_linear.equations.panel_input import Input
from learndyn.families.deep_linear.equations.panel_matrices import (
    Block,
    Growing,
    Square,
    put_symmetric,
)
from learndyn.families.deep_linear.limit_numbers import LimitNumbers
from learndyn.numerics.fixed_point import fixed_point

PATIENCE = 4
"""Passes that may go by without halving the change of all rows, once it is at rounding level."""
Rows = list[tuple[np.ndarray, np.ndarray]]
"""Rows of responses and of correlations, of one thing after the other."""


class Pair(Growing):
    """The two fields of a layer: h = u + M g, g = r + K h."""

    M: Square
    K: Square
    S_u: Square
    S_r: Square
    H_u: Square
    H_r: Square
    G_u: Square
    G_r: Square
    C_h: Square
    C_g: Square

    def respond(self, block: Block) -> None:
        """Rows of H_u and H_r, from rows of M and K."""
        b, new, upto, old = block.b, block.new, block.upto, block.old
        MK = self.M[new, upto] @ self.K[upto, upto]
        own = np.linalg.inv(np.eye(block.e - b) - MK[:, b:])
        self.H_u[new, old] = own @ (MK[:, :b] @ self.H_u[old, old])
        self.H_u[new, new] = own
        self.H_r[new, upto] = self.H_u[new, upto] @ self.M[upto, upto]

    def backward(self, block: Block) -> None:
        """Rows of G_u, G_r and C_g."""
        new, upto = block.new, block.upto
        self.respond(block)
        self.G_u[new, upto] = self.K[new, upto] @ self.H_u[upto, upto]
        self.G_r[new, upto] = self.K[new, upto] @ self.H_r[upto, upto]
        self.G_r[new, new] += np.eye(block.e - block.b)
        put_symmetric(self.C_g, block, self._correlated(block, self.G_u, self.G_r))

    def forward(self, block: Block) -> None:
        """Rows of C_h."""
        self.respond(block)
        put_symmetric(self.C_h, block, self._correlated(block, self.H_u, self.H_r))

    def _correlated(self, block: Block, to_u: Square, to_r: Square) -> Float[np.ndarray, "s e"]:
        new, upto = block.new, block.upto
        by_u = (to_u[new, upto] @ self.S_u[upto, upto]) @ to_u[upto, upto].T
        return by_u + (to_r[new, upto] @ self.S_r[upto, upto]) @ to_r[upto, upto].T


class PanelLimit(abc.ABC):
    """All matrices of a network up to the last panel.

    `d` is that of all nodes, times outputs. `decays` (d dᵀ) and `rates` (γ_0 κ) are rows of the panel that is solved.
    """

    def __init__(self, numbers: LimitNumbers):
        self.numbers = numbers
        self.layers = [Pair() for _ in range(numbers.depth)]
        self.input = Input(numbers)
        self.d = np.ones(0)
        self.decays = self.rates = np.zeros((0, 0))
        self.rows = 0

    @abc.abstractmethod
    def carried(self) -> list[tuple[Square, Square]]:
        """The responses and correlations whose rows a pass starts from and hands back: x. The input's come first."""

    @abc.abstractmethod
    def run_pass(self, block: Block, rows: Rows) -> Rows:
        """One pass: backward through the layers, the input, forward; the new rows of what is carried."""

    def others(self) -> list[Growing]:
        """Further matrices that grow with the panels."""
        return []

    def solve_panel(
        self,
        kappa: Float[np.ndarray, "s e"],
        d: Float[np.ndarray, " s"],
        guess: Rows,
        precision: float = 1e-13,
    ) -> int:
        """Fill the rows of a panel with given κ and d; the number of passes, or 0 if they do not converge."""
        block, explicit = self._open(kappa, d), not kappa[:, -len(kappa) :].any()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            try:
                passes = (
                    self._pass_once(block, guess)
                    if explicit and len(kappa) == 1
                    else self._iterate(block, guess, precision)
                )
            except np.linalg.LinAlgError:
                # Entries that have overflowed.
                return 0
            if passes:
                self.layers[-1].forward(block)
                self.input.close(block)
                self.rows = block.e
            return passes

    def _pass_once(self, block: Block, guess: Rows) -> int:
        """The pass of a single node whose force acts later only; 1, or 0 if it has overflowed."""
        image = self.run_pass(block, guess)
        return int(all(np.isfinite(part).all() for pair in image for part in pair))

    def _iterate(self, block: Block, guess: Rows, precision: float) -> int:
        """Passes until nothing changes; their number, or 0."""
        # Relative to the largest entry so far: a correlation that has died out is known absolutely only.
        sizes = [
            float(np.max(np.abs(matrix[block.old, block.old]), initial=1e-300))
            for pair in self.carried()
            for matrix in pair
        ]

        def image_of(flat: list[np.ndarray]) -> list[np.ndarray]:
            rows = list(zip(flat[::2], flat[1::2], strict=True))
            return [part for pair in self.run_pass(block, rows) for part in pair]

        start = [x for pair in guess for x in pair]
        return fixed_point(image_of, start, sizes, precision, patience=PATIENCE)

    def _open(self, kappa: Float[np.ndarray, "s e"], d: Float[np.ndarray, " s"]) -> Block:
        """Make room for a panel, and fill what depends on the training rule only."""
        Nc = self.numbers.outputs
        b, e = self.rows, self.rows + len(d) * Nc
        for matrices in (*self.layers, self.input, *self.others()):
            matrices.open(b, e)
        block = Block.of(b, e)
        self.d = np.concatenate([self.d[:b], np.repeat(d, Nc)])
        self.decays = np.outer(self.d[b:], self.d)
        self.rates = self.numbers.gamma * np.kron(kappa, np.ones((Nc, Nc)))
        S = np.zeros((e - b, e))
        S[:, b:] = np.diag(self.d[b:])
        if self.numbers.centered:
            S[:, :Nc] -= np.eye(Nc)[np.arange(b, e) % Nc]
        self.input.S[block.new, block.upto] = S
        last = self.layers[-1]
        same = np.arange(b, e)[:, None] % Nc == np.arange(e) % Nc
        last.K[block.new, block.upto] = self.rates * same
        put_symmetric(last.S_r, block, self.decays * same)
        return block

    def learnt(
        self, response: Float[np.ndarray, "s e"], C: Float[np.ndarray, "s e"]
    ) -> Float[np.ndarray, "s e"]:
        """Rows of d R d + γ_0 κ∘C."""
        return self.decays * response + self.rates * C

    def decayed(self, C: Float[np.ndarray, "s e"]) -> Float[np.ndarray, "s e"]:
        """Rows of d C d."""
        return self.decays * C

    def solve_input(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """Rows of R_hr⁰ and C_h⁰, from those of layer 1."""
        numbers, first, new, upto = self.numbers, self.layers[0], block.new, block.upto
        A = self.learnt(first.G_u[new, upto], first.C_g[new, upto])
        self.input.A[new, upto] = numbers.rho[0] / numbers.gamma * A
        put_symmetric(self.input.W, block, self._weights(block))
        self.input.solve(block)
        return self.input.R_hr0[new, upto].copy(), self.input.C_h0[new, upto].copy()

    def _weights(self, block: Block) -> Float[np.ndarray, "s e"]:
        """Rows of W = S C_g¹ Sᵀ ρ_0/(ν_L γ_0²)."""
        numbers, zero = self.numbers, np.arange(block.e) % self.numbers.outputs
        C = self.layers[0].C_g[block.upto, block.upto]
        rows = self.d[block.b :, None] * C[block.new]
        if numbers.centered:
            rows = rows - C[zero[block.new]]
            rows = rows * self.d - rows[:, zero]
        else:
            rows = rows * self.d
        factor = numbers.rho[0] * numbers.inverse_width / numbers.gamma**2
        return factor * rows

    def from_input(self, block: Block, R_hr: np.ndarray, C_h: np.ndarray) -> None:
        """Rows of M and S_u of layer 1."""
        numbers, first = self.numbers, self.layers[0]
        response = (numbers.inverse_width / numbers.gamma) * R_hr
        first.M[block.new, block.upto] = self.d[block.b :, None] * response + self.rates * C_h
        put_symmetric(first.S_u, block, self.decayed(C_h))


class FeedforwardPanels(PanelLimit):
    """A network without skip connections."""

    def carried(self) -> list[tuple[Square, Square]]:
        return [
            (self.input.R_hr0, self.input.C_h0),
            *((layer.H_r, layer.C_h) for layer in self.layers[:-1]),
        ]

    def run_pass(self, block: Block, rows: Rows) -> Rows:
        numbers, new, upto = self.numbers, block.new, block.upto
        for ell in reversed(range(numbers.depth)):
            layer = self.layers[ell]
            self._from_below(ell, block, *rows[ell])
            layer.backward(block)
            if ell:
                lower, rho, C_g = self.layers[ell - 1], numbers.rho[ell], layer.C_g[new, upto]
                lower.K[new, upto] = rho * self.learnt(layer.G_u[new, upto], C_g)
                put_symmetric(lower.S_r, block, rho * self.decayed(C_g))
        image = [self.solve_input(block)]
        for ell, layer in enumerate(self.layers[:-1]):
            self._from_below(ell, block, *image[-1])
            layer.forward(block)
            image.append((layer.H_r[new, upto].copy(), layer.C_h[new, upto].copy()))
        self._from_below(numbers.depth - 1, block, *image[-1])
        return image

    def _from_below(self, ell: int, block: Block, R_hr: np.ndarray, C_h: np.ndarray) -> None:
        """Rows of M and S_u of a layer."""
        if ell == 0:
            self.from_input(block, R_hr, C_h)
            return
        self.layers[ell].M[block.new, block.upto] = self.learnt(R_hr, C_h)
        put_symmetric(self.layers[ell].S_u, block, self.decayed(C_h))


class ResidualPanels(PanelLimit):
    """A network with skip connections, by the blocks of `residual`: `up` and `down` join a layer to the next.

    up:   M = A = β² (d R_hr d + γ_0 κ∘C_h),  S_u = β² d C_h d of the layer below;  K, S_r of the layer above.
    down: M, S_u of the layer below;  K = B = β² (d R_gu d + γ_0 κ∘C_g),  S_r = β² d C_g d of the layer above.
    Below: K = G_u(up) + B, S_r = C_g(up) + S_r(down). Above: M = H_r(down) + A, S_u = C_h(down) + S_u(up).
    """

    def __init__(self, numbers: LimitNumbers):
        super().__init__(numbers)
        self.up = [Pair() for _ in self.layers[1:]]
        self.down = [Pair() for _ in self.layers[1:]]
        assert numbers.branch is not None
        self.square = numbers.branch**2

    def others(self) -> list[Growing]:
        return [*self.up, *self.down]

    def carried(self) -> list[tuple[Square, Square]]:
        inner = zip(self.layers[:-1], self.down, strict=True)
        fields = ((pair.H_r, pair.C_h) for both in inner for pair in both)
        return [(self.input.R_hr0, self.input.C_h0), *fields]

    def run_pass(self, block: Block, rows: Rows) -> Rows:
        new, upto = block.new, block.upto
        self.from_input(block, *rows[0])
        for ell in range(len(self.up)):
            self._above(ell, block, *rows[1 + 2 * ell], *rows[2 + 2 * ell])
        for ell in reversed(range(len(self.layers))):
            layer = self.layers[ell]
            layer.backward(block)
            if ell:
                self._below(ell - 1, block)
        image = [self.solve_input(block)]
        self.from_input(block, *image[0])
        for ell, (up, down) in enumerate(zip(self.up, self.down, strict=True)):
            layer = self.layers[ell]
            layer.forward(block)
            down.M[new, upto] = layer.M[new, upto]
            put_symmetric(down.S_u, block, layer.S_u[new, upto])
            down.forward(block)
            pairs = [
                (pair.H_r[new, upto].copy(), pair.C_h[new, upto].copy()) for pair in (layer, down)
            ]
            self._above(ell, block, *pairs[0], *pairs[1])
            up.forward(block)
            image += pairs
        return image

    def _above(
        self,
        ell: int,
        block: Block,
        R_hr: np.ndarray,
        C_h: np.ndarray,
        down_H_r: np.ndarray,
        down_C_h: np.ndarray,
    ) -> None:
        """Rows of M and S_u of block ℓ going up, and of the layer above it."""
        new, upto = block.new, block.upto
        up, layer = self.up[ell], self.layers[ell + 1]
        up.M[new, upto] = self.square * self.learnt(R_hr, C_h)
        put_symmetric(up.S_u, block, self.square * self.decayed(C_h))
        layer.M[new, upto] = down_H_r + up.M[new, upto]
        put_symmetric(layer.S_u, block, down_C_h + up.S_u[new, upto])

    def _below(self, ell: int, block: Block) -> None:
        """Rows of K and S_r of block ℓ, and of the layer below it, from the layer above."""
        new, upto = block.new, block.upto
        up, down, above, layer = (
            self.up[ell],
            self.down[ell],
            self.layers[ell + 1],
            self.layers[ell],
        )
        up.K[new, upto] = above.K[new, upto]
        put_symmetric(up.S_r, block, above.S_r[new, upto])
        up.backward(block)
        C_g = above.C_g[new, upto]
        down.K[new, upto] = self.square * self.learnt(above.G_u[new, upto], C_g)
        put_symmetric(down.S_r, block, self.square * self.decayed(C_g))
        layer.K[new, upto] = up.G_u[new, upto] + down.K[new, upto]
        put_symmetric(layer.S_r, block, up.C_g[new, upto] + down.S_r[new, upto])

"""The deep linear network at finite size, with every scaling factor."""

import math
from typing import Any, NamedTuple

import numpy as np

from learndyn.errors import ProblemError
from learndyn.problem.checks import (
    LARGEST,
    array,
    boolean,
    choice,
    is_list,
    number,
    room,
    squared,
    whole,
)
from learndyn.problem.network import Network
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.problem.skips import ScaledSkip, depth, skip
from learndyn.problem.supplies import Supply
from learndyn.problem.tasks import LinearMap


def _width(value: Any, name: str) -> float | np.ndarray:
    """A positive number (inf is allowed), or one for each layer."""
    return (array(1, above=0) if is_list(value) else number(above=0, finite=False))(value, name)


class DeepLinear(Network):
    """A linear network with `depth` (L) hidden layers of N_1 … N_L units, drawn from N(0, 1) and then trained.

    On D isotropic inputs x ~ N(0, 1_D), with all entries of W^0 (N_1×D), W^ℓ (N_ℓ+1×N_ℓ) and of the readouts w_c
    initially N(0, 1),

        f_c(x) = w_c·(W^{L−1}/√N_{L−1}) … (W^1/√N_1) W^0 x / (N_L γ_0),  y_c = w*_c·x/√D + σ ε_c,  c = 1 … `outputs`,

    with w* ~ N(0, 1_D).

    - `depth`: L, the number of hidden layers; inf only with a `ScaledSkip`
    - `width`: ν_ℓ = N_ℓ/D, one number or one for each layer; inf is allowed. A count of units N_ℓ if the data have a
      spectrum.
    - `richness`: γ_0; with `parameterization="ntk"`, γ_0 = richness/√ν_L. Default: 1.
    - `outputs`: the number of outputs c. Default: 1.
    - `centered`: whether the initial function is subtracted, f → f − f at the start. Default: False.
    - `parameterization`: "mup" or "ntk". Default: "mup".
    - `skip`: None, the scale β of the residual branches, or a `ScaledSkip`. Default: None.

    Gradient descent goes down ½ Σ_c ⟨(y_c − f_c)²⟩ with the raw rate N_L γ_0² η for all layers. With
    the error vector v_c = w*_c − (√D/(N_L γ_0)) W^{0⊤} g^1_c (+ its initial value if centred), a step is

        h^0 = (√D/P) X^⊤Δ,  h^1 = W^0 h^0/√D,  h^{ℓ+1} = W^ℓ h^ℓ/√N_ℓ,  g^L_c = w_c,  g^ℓ = W^{ℓ⊤} g^{ℓ+1}/√N_ℓ,
        W^0 += (ηγ_0/√D) Σ_c g^1_c h^{0⊤}_c,  W^ℓ += (ηγ_0/√N_ℓ) Σ_c g^{ℓ+1}_c h^{ℓ⊤}_c,  w_c += ηγ_0 h^L_c,

    where Δ_c = X v_c/√D + σε_c are the errors on the P = αD examples of a `Dataset` or the B = α_B D fresh ones of a
    `Stream`, and h^0 = v on the `Population`. Training has `steps`; or a `time`, gradient flow: dW/dt = η(t)(F − λW),
    with the same forces F.

    With a `skip` of β, or of β_0/√L (`ScaledSkip`; then `depth` may be inf), the L − 1 inner layers are residual
    blocks of equal width:

        h^{ℓ+1} = h^ℓ + β W^ℓ h^ℓ/√N,  g^ℓ = g^{ℓ+1} + β W^{ℓ⊤} g^{ℓ+1}/√N,  W^ℓ += (ηγ_0 β/√N) Σ_c g^{ℓ+1}_c h^{ℓ⊤}_c.

    If the data have a spectrum Λ, then x ~ N(0, Λ) and no D appears: y = w*·x, v = w* − W^{0⊤}g^1/(N_L γ_0),
    Δ = Xv + σε, h^0 = X^⊤Δ/P (or Λv), h^1 = W^0 h^0, W^0 += ηγ_0 Σ_c g^1_c h^{0⊤}_c; `width` is then a count of units.
    """

    depth: float = field(depth)
    width: float | np.ndarray = field(_width)
    richness: float = field(squared(above=0), default=1.0)
    outputs: int = field(whole(1), default=1)
    centered: bool = field(boolean, default=False)
    parameterization: str = field(choice("mup", "ntk"), default="mup")
    skip: float | ScaledSkip | None = field(skip, default=None)

    def validate(self) -> None:
        if math.isinf(self.depth) and not isinstance(self.skip, ScaledSkip):
            raise ProblemError(
                "DeepLinear.depth",
                self.depth,
                "may be inf only with a ScaledSkip, such as skip=ScaledSkip(beta0=1.0)",
            )
        if np.ndim(self.width) and np.size(self.width) != self.depth:
            allowed = f"must be one number, or one for each of the {self.depth} hidden layers"
            raise ProblemError("DeepLinear.width", np.asarray(self.width).tolist(), allowed)
        if self.parameterization == "ntk" and np.any(np.isinf(self.width)):
            allowed = "must be finite with parameterization 'ntk', where γ_0 = richness/√width"
            raise ProblemError("DeepLinear.width", np.asarray(self.width).tolist(), allowed)
        if self.skip is not None and len(np.unique(self.width)) > 1:
            allowed = "must be the same for all layers of a residual network"
            raise ProblemError("DeepLinear.width", np.asarray(self.width).tolist(), allowed)

    @property
    def branch(self) -> float | None:
        """β: the scale of the residual branches; None without skip connections."""
        if isinstance(self.skip, ScaledSkip):
            return self.skip.beta0 / math.sqrt(self.depth)
        return self.skip

    @property
    def widths(self) -> np.ndarray:
        """ν_1 … ν_L, or N_1 … N_L if the data have a spectrum."""
        layers = 1 if math.isinf(self.depth) else int(self.depth)
        return np.broadcast_to(np.asarray(self.width, dtype=float).ravel()[:layers], (layers,))

    @property
    def gamma(self) -> float:
        """γ_0: the richness in the mean-field parameterisation."""
        if self.parameterization == "ntk":
            return self.richness / math.sqrt(self.widths[-1])
        return self.richness

    def check(self, data: Supply) -> None:
        if not isinstance(data.task, LinearMap) or data.task.spectrum is None:
            return
        for width in np.ravel(self.width):
            if not math.isinf(width) and (width < 1 or width != round(width)):
                allowed = "must be whole numbers of units (or inf) where the task has a spectrum"
                raise ProblemError("network.width", self.width, allowed)
        outputs = data.task.spectrum.outputs
        if outputs != self.outputs:
            allowed = (
                f"must be {outputs}, the number of outputs that the spectrum has coefficients for"
            )
            raise ProblemError("network.outputs", self.outputs, allowed)


def label_noise(problem: Problem) -> float:
    """σ: that of the supply, and what the spectrum leaves unexplained."""
    spectrum = problem.task.spectrum
    return math.hypot(float(problem.data.noise), 0.0 if spectrum is None else spectrum.unexplained)


class Sizes(NamedTuple):
    """Dimensions of a finite network: inputs D, hidden units N_1 … N_L, examples (P, B, or 0 on the population)."""

    D: int
    N: tuple[int, ...]
    examples: int


def sizes(problem: Problem, size: int) -> Sizes:
    """The dimensions at `size` inputs; refuses infinite networks, and sizes at which something rounds to zero."""
    network, data, spectrum = problem.network, problem.data, problem.task.spectrum
    if math.isinf(network.depth):
        allowed = "only finite networks can be trained; take a large depth instead of inf"
        raise ProblemError("network.depth", network.depth, allowed)
    if np.any(np.isinf(network.width)):
        allowed = "only finite networks can be trained; take a large width instead of inf"
        raise ProblemError("network.width", network.width, allowed)
    room("network.depth", network.depth, int(network.depth))
    if spectrum is not None:
        modes = len(spectrum.arrays()[0])
        if size != modes:
            allowed = f"must be {modes}, the number of eigenvalues, where the task has a spectrum"
            raise ProblemError("size", size, allowed)
        amount = getattr(data, "batch", None) or getattr(data, "examples", None) or 0
        return Sizes(size, tuple(int(n) for n in network.widths), amount)
    ratio = getattr(data, "batch_ratio", None) or getattr(data, "ratio", None) or 0.0
    if size * max(ratio, *np.ravel(network.width)) > LARGEST:
        allowed = (
            f"is too large: a layer, a batch or the dataset would have more than {LARGEST} rows"
        )
        raise ProblemError("size", size, allowed)
    N, examples = tuple(round(nu * size) for nu in network.widths), round(ratio * size)
    if min(N) < 1 or (ratio and examples < 1):
        allowed = "is too small: a layer, a batch or the dataset would be empty after rounding"
        raise ProblemError("size", size, allowed)
    return Sizes(size, N, examples)

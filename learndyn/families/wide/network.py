"""The wide network and its finite definition."""

import math
from typing import Any

import numpy as np

from learndyn.errors import ProblemError
from learndyn.problem.activations import Activation, Linear, as_activation
from learndyn.problem.checks import array, boolean, choice, number, optional, squared, whole
from learndyn.problem.kinds import part
from learndyn.problem.network import Network
from learndyn.problem.part import Part, field
from learndyn.problem.points import Points
from learndyn.problem.skips import ScaledSkip, depth, skip
from learndyn.problem.supplies import Supply

NORM = 1e-5
"""Added to the variance in a layer norm."""
FEEDBACK = ("feedback_alignment", "direct_feedback_alignment")
"""The learning rules whose gradients go back through fixed weights."""


class Convolution(Part):
    """Weights shared by all positions of the inputs, which lie on a circle.

    The D inputs of a point are its positions one after the other, with D/S numbers (channels) each. The layers have N
    channels; with offsets q = 0 … k − 1 and positions a modulo S,

        h^1_a = Σ_q W^0_q x_{a+q}/√(kD/S),  h^{ℓ+1}_a = Σ_q W^ℓ_q φ(h^ℓ_{a+q})/√(kN).

    - `positions` (S): number of positions.
    - `kernel` (k): number of neighbouring positions that a unit sees, at most S.
    - `readout`: "gap" averages over positions, f_c = Σ_a w_c·φ(h^L_a)/(S γ_0 N), "flat" has weights for each of them,
      f_c = Σ_a w_ca·φ(h^L_a)/(√S γ_0 N). "gap" unless given.
    """

    positions: int = field(whole(1))
    kernel: int = field(whole(1))
    readout: str = field(choice("gap", "flat"), default="gap")

    def validate(self) -> None:
        if self.kernel > self.positions:
            allowed = f"must be at most {self.positions}, the number of positions"
            raise ProblemError("Convolution.kernel", self.kernel, allowed)


class Wide(Network):
    """A network of L hidden layers of width N → ∞ on your own points, in the parameterisation that learns features.

    Inputs x_μ of dimension D, C outputs, all weights N(0, 1) at the start:

        h^1 = W^0 x/√D,  h^{ℓ+1} = W^ℓ φ(h^ℓ)/√N,  f_c = w_c·φ(h^L)/(γ_0 N).

    With the loss 𝓛 of all trained points (`training.loss`, `training.criterion`), a step of training is

        θ ← θ − η γ_0² N ∇_θ 𝓛    for every weight,

    so that the raw rate is η γ_0² N; momentum, decay and noise act as described in `GradientDescent`. Training has
    `steps`, exact for any rate, or a `time`, gradient flow: t = Σ η.

    - `depth` (L): number of hidden layers; inf only with a `ScaledSkip`.
    - `activation` (φ): a name such as "tanh", a formula, an `Activation`, or any smooth JAX function.
    - `richness` (γ_0): how much features move; γ_0 → 0 is the static neural tangent kernel. 1 unless given.
    - `bias`: whether every hidden layer has biases b ~ N(0, 1), which are trained too:
      h^1 = W^0 x/√D + b^0, h^{ℓ+1} = W^ℓ φ(h^ℓ)/√N + b^ℓ. False unless given.
    - `centered`: whether finite networks have their initial function subtracted, so that f = 0 at the start, as in the
      limit. With weight decay a network forgets its initial function, but not what was subtracted: leave it uncentred.
      False unless given.
    - `convolution`: a `Convolution`, or None for fully connected layers. None unless given.
    - `learning_rule`: how the gradients are computed that move the weights. With g^ℓ = φ'(h^ℓ) z^ℓ in place of
      γ_0 N ∂f/∂h^ℓ, the readout always by its own gradient, and fixed weights drawn at the start:

        - "backprop" (unless given): the gradient, z^L = w, z^ℓ = W^{ℓ⊤}g^{ℓ+1}/√N;
        - "feedback_alignment": z^L = w̃, z^ℓ = B^{ℓ⊤}g^{ℓ+1}/√N with B^ℓ = ρ W^ℓ(0) + √(1−ρ²) W'^ℓ and
          w̃ = ρ w(0) + √(1−ρ²) w';
        - "direct_feedback_alignment": z^ℓ = w̃^ℓ, independent in every layer, the last one as above;
        - "gated_linear": φ(h_μ) is m_μ h_μ with gates m_μ = 1 where V^ℓx_μ > 0 and 0 elsewhere, V^ℓ ~ N(0, 1) fixed;
          the gradient is that of backprop. The activation is "linear".

    - `feedback_overlap` (ρ): the overlap of fixed backward weights with the initial forward ones. 0 unless given.
    - `skip`: residual branches, h^{ℓ+1} = h^ℓ + β (W^ℓ φ(h^ℓ)/√N + b^ℓ), with β the number given or, of a `ScaledSkip`,
      β_0/√L. None unless given.
    - `widths` (ν_1 … ν_L): relative widths of the layers, N_ℓ = ν_ℓ N. With γ = γ_0 √N the factors are then
      h^{ℓ+1} = W^ℓ φ(h^ℓ)/√N_ℓ and f_c = w_c·φ(h^L)/(γ √N_L), and the raw rate is η γ² for every weight: lazy networks
      do not depend on the widths, and the features of layer ℓ move as with the richness γ_0/√ν_ℓ. All 1 unless given.
    - `scales` (σ_0 … σ_L): initial standard deviations of the weights W^0 … W^{L−1} and of the readout w. All 1 unless
      given.
    - `normalization`: "layer" sends (h − ⟨h⟩)/√(⟨(h − ⟨h⟩)²⟩ + 1e-5) through φ instead of h, with ⟨·⟩ the mean over the
      layer's units. "none" unless given.
    """

    depth: float = field(depth)
    activation: Activation = field(part(Activation, convert=as_activation))
    richness: float = field(squared(above=0), default=1.0)
    bias: bool = field(boolean, default=False)
    centered: bool = field(boolean, default=False)
    convolution: Convolution | None = field(optional(part(Convolution)), default=None)
    learning_rule: str = field(choice("backprop", *FEEDBACK, "gated_linear"), default="backprop")
    feedback_overlap: float = field(number(minimum=-1, maximum=1), default=0.0)
    skip: float | ScaledSkip | None = field(skip, default=None)
    normalization: str = field(choice("none", "layer"), default="none")
    widths: Any = field(optional(array(1, above=0)), default=None)
    scales: Any = field(optional(array(1, above=0)), default=None)

    def validate(self) -> None:
        if math.isinf(self.depth) and not isinstance(self.skip, ScaledSkip):
            allowed = "may be inf only with a ScaledSkip, such as skip=ScaledSkip(beta0=1.0)"
            raise ProblemError("Wide.depth", self.depth, allowed)
        self._check_layers()
        rule = self.learning_rule
        if self.feedback_overlap and rule not in FEEDBACK:
            allowed = (
                f"must be 0 with the learning rule {rule!r}, which has no fixed backward weights"
            )
            raise ProblemError("Wide.feedback_overlap", self.feedback_overlap, allowed)
        if rule == "gated_linear" and not isinstance(self.activation, Linear):
            allowed = (
                "must be 'linear' with the learning rule 'gated_linear', which has gates instead"
            )
            raise ProblemError("Wide.activation", self.activation, allowed)
        if rule in ("direct_feedback_alignment", "gated_linear"):
            for name, default in (("convolution", None), ("skip", None), ("normalization", "none")):
                if (value := getattr(self, name)) != default:
                    allowed = f"must be {default!r} with the learning rule {rule!r}"
                    raise ProblemError(f"Wide.{name}", value, allowed)

    def _check_layers(self) -> None:
        """Refuse widths and scales that do not fit the layers."""
        L = self.depth
        for name, count, words in (
            ("widths", L, f"must have one entry for each of the {L} layers"),
            ("scales", L + 1, f"must have {L + 1} entries, for {L} layers and the readout"),
        ):
            values = getattr(self, name)
            if values is None:
                continue
            if len(values) != count:
                raise ProblemError(f"Wide.{name}", values.tolist(), words)
            if self.learning_rule != "backprop":
                allowed = f"must be left out with the learning rule {self.learning_rule!r}"
                raise ProblemError(f"Wide.{name}", values.tolist(), allowed)
        if self.widths is not None and self.skip is not None and len(set(self.widths)) > 1:
            allowed = "must be equal with a skip, because layers are added to each other"
            raise ProblemError("Wide.widths", self.widths.tolist(), allowed)
        if self.scales is not None and self.bias:
            raise ProblemError("Wide.bias", True, "must be False with scales")

    @property
    def relative_widths(self) -> np.ndarray:
        """ν_1 … ν_L."""
        return np.ones(int(self.depth)) if self.widths is None else self.widths

    @property
    def initial_scales(self) -> np.ndarray:
        """σ_0 … σ_L."""
        return np.ones(int(self.depth) + 1) if self.scales is None else self.scales

    @property
    def plain(self) -> bool:
        """Whether layers are fully connected, equal, without skips and norms, and trained by backprop."""
        return (
            self.widths is None
            and self.scales is None
            and self.convolution is None
            and self.learning_rule == "backprop"
            and self.skip is None
            and self.normalization == "none"
        )

    @property
    def branch(self) -> float | None:
        """β: the scale of the residual branches; None without skip connections."""
        if isinstance(self.skip, ScaledSkip):
            return self.skip.beta0 / math.sqrt(self.depth)
        return self.skip

    def check(self, data: Supply) -> None:
        if self.convolution is None or not isinstance(data, Points):
            return
        if data.gram is not None:
            allowed = "must be inputs with a convolution, which needs their positions"
            raise ProblemError("data.gram", data.gram, allowed)
        columns, S = data.inputs.shape[1], self.convolution.positions
        if columns % S:
            allowed = (
                f"must divide the {columns} columns of the inputs, which are positions × channels"
            )
            raise ProblemError("network.convolution.positions", S, allowed)

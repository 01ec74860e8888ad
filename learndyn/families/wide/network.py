"""The wide network and its finite definition."""

from learndyn.problem.activations import Activation, as_activation
from learndyn.problem.checks import boolean, squared, whole
from learndyn.problem.kinds import part
from learndyn.problem.network import Network
from learndyn.problem.part import field


class Wide(Network):
    """A network of L hidden layers of width N → ∞ on your own points, in the parameterisation that learns features.

    Inputs x_μ of dimension D, C outputs, all weights N(0, 1) at the start:

        h^1 = W^0 x/√D,  h^{ℓ+1} = W^ℓ φ(h^ℓ)/√N,  f_c = w_c·φ(h^L)/(γ_0 N).

    With the loss 𝓛 of all trained points (`training.loss`, `training.criterion`), a step of training is

        θ ← θ − η γ_0² N ∇_θ 𝓛    for every weight,

    so that the raw rate is η γ_0² N; momentum, decay and noise act as described in `GradientDescent`. Training has
    `steps`, exact for any rate, or a `time`, gradient flow: t = Σ η.

    - `depth` (L): number of hidden layers.
    - `activation` (φ): a name such as "tanh", a formula, an `Activation`, or any smooth JAX function.
    - `richness` (γ_0): how much features move; γ_0 → 0 is the static neural tangent kernel. 1 unless given.
    - `bias`: whether every hidden layer has biases b ~ N(0, 1), which are trained too:
      h^1 = W^0 x/√D + b^0, h^{ℓ+1} = W^ℓ φ(h^ℓ)/√N + b^ℓ. False unless given.
    - `centered`: whether finite networks have their initial function subtracted, so that f = 0 at the start, as in the
      limit. With weight decay a network forgets its initial function, but not what was subtracted: leave it uncentred.
      False unless given.
    """

    depth: int = field(whole(1))
    activation: Activation = field(part(Activation, convert=as_activation))
    richness: float = field(squared(above=0), default=1.0)
    bias: bool = field(boolean, default=False)
    centered: bool = field(boolean, default=False)

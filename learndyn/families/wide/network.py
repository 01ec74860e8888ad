"""The wide network and its finite definition."""

from learndyn.problem.activations import Activation, as_activation
from learndyn.problem.checks import boolean, number, whole
from learndyn.problem.kinds import part
from learndyn.problem.network import Network
from learndyn.problem.part import field


class Wide(Network):
    """A network of `depth` (L) hidden layers of width N → ∞ on your own points, in the parameterisation that learns
    features.

    Inputs x_μ of dimension D, C outputs, all weights N(0, 1) at the start:

        h^1 = W^0 x/√D,  h^{ℓ+1} = W^ℓ φ(h^ℓ)/√N,  f_c = w_c·φ(h^L)/(γ_0 N).

    `richness` (γ_0) says how much features move: γ_0 → 0 is the static neural tangent kernel. With the loss 𝓛 of
    all trained points (`training.loss`, `training.criterion`), a step of training is

        θ ← θ − η γ_0² N ∇_θ 𝓛    for every weight,

    so that the raw rate is η γ_0² N; momentum, decay and noise as `GradientDescent` says. With `bias`, every hidden
    layer has biases b ~ N(0, 1), trained too: h^1 = W^0 x/√D + b^0, h^{ℓ+1} = W^ℓ φ(h^ℓ)/√N + b^ℓ. With `centered`,
    finite networks have their initial function subtracted, which the limit does by itself: f = 0 at the start. (Weight
    decay makes a network forget what was subtracted: leave such networks uncentred.)

    Training has `steps`, exact for any rate, or a `time`, gradient flow: t = Σ η.
    """

    depth: int = field(whole(1))
    activation: Activation = field(part(Activation, convert=as_activation))
    richness: float = field(number(above=0), default=1.0)
    bias: bool = field(boolean, default=False)
    centered: bool = field(boolean, default=False)

"""The two-layer network and its initial state."""

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from learndyn.errors import ProblemError
from learndyn.numerics.covariance import covariance_root
from learndyn.problem.activations import Activation, as_activation
from learndyn.problem.checks import (
    array,
    boolean,
    negative_eigenvalue,
    optional,
    room,
    semidefinite,
    squared,
    whole,
)
from learndyn.problem.kinds import part
from learndyn.problem.network import Network
from learndyn.problem.part import field, traced
from learndyn.problem.supplies import Supply
from learndyn.problem.tasks import Teacher, settle_readout


class TwoLayer(Network):
    """A network of K hidden units on N inputs, ŷ = Σ_i v_i g(λ_i), λ_i = w_i·x/√N, with x ~ N(0, 1_N).

    The sum is not divided by K, and the entries of w_i are of order one. Gaussian inputs make the network's law depend
    on its weights only through the overlaps with which it starts,

        Q_ik = w_i·w_k/N  (K×K),    R_in = w_i·w*_n/N  (K×M: row student, column teacher),

    and the readout v. Finite networks of any size are drawn with exactly these overlaps.

    On a `Stream` one step of the finite network, with B fresh examples, Δ = y − ŷ and rates η, η_v, decay κ, is

        w_i ← (1 − ηκ/N) w_i + η/(B√N) v_i Σ_s Δ_s g'(λ_is) x_s,
        v_i ← (1 − η_vκ/N) v_i + η_v/(BN) Σ_s Δ_s g(λ_is)          (only with `train_readout`),

    and time is t = steps/N whatever B. On a `Population` the sums over examples are expectations.

    On a `Dataset` of P examples (`ratio` γ = P/N) step number k uses B of them: all, or with a `batch_ratio` B/N as
    many as it says, drawn without replacement and anew at every step. With momentum β,

        F_i ← βF_i + τ_k √N/B v_i Σ_s Δ_s g'(λ_is) x_s,    w_i ← (1 − τ_kκ) w_i + F_i,
        f_i ← βf_i + τ_v,k/B Σ_s Δ_s g(λ_is),              v_i ← (1 − τ_v,kκ) v_i + f_i   (only with `train_readout`);

    τ_k = η(k) and τ_v,k = η_v(k) if training has `steps`; if it has a `time`, τ_k = η(t_k)(t_{k+1} − t_k) on a grid of
    times, and τ_v,k likewise, which follows gradient flow. The weights go down N times the gradient of the mean of
    ½Δ² over the batch, and the readout down the gradient itself, as on the `Population`.

    - `activation` (g): a name such as "erf", a formula, an `Activation`, or any smooth JAX function.
    - `Q` (w_i·w_k/N): overlaps of the student's units at the start, K×K and positive semidefinite.
    - `R` (w_i·w*_n/N): overlaps of student and teacher units at the start, K×M.
    - `readout` (v): one number per hidden unit. Ones unless given.
    - `train_readout`: whether the readout is trained, with the rate η_v (`readout_learning_rate` of training, or η).
      False unless given.
    """

    constructors = ("random",)

    activation: Activation = field(part(Activation, convert=as_activation))
    Q: np.ndarray = field(array(2))
    R: np.ndarray = field(array(2))
    readout: Any = field(optional(array(1)), default=None)
    train_readout: bool = field(boolean, default=False)

    def validate(self):
        if self.Q.shape[0] != self.Q.shape[1]:
            raise ProblemError("TwoLayer.Q", self.Q, f"must be square; it has shape {self.Q.shape}")
        semidefinite("TwoLayer.Q", self.Q)
        if self.R.shape[0] != self.hidden:
            allowed = (
                f"must have one row per student unit ({self.hidden}); its shape is {self.R.shape}"
            )
            raise ProblemError("TwoLayer.R", self.R, allowed)
        settle_readout(self, self.hidden)

    @property
    def hidden(self) -> int:
        """The number of hidden units (K)."""
        return self.Q.shape[0]

    def check(self, data: Supply) -> None:
        teacher = data.task
        if not isinstance(teacher, Teacher):
            return
        M = teacher.hidden
        if self.R.shape[1] != M:
            allowed = f"must have one column per teacher unit ({M}); its shape is {self.R.shape}"
            raise ProblemError("network.R", self.R, allowed)
        if any(map(traced, (self.Q, self.R, teacher.T))):
            return
        C = covariance(self.Q, self.R, teacher.T)
        lowest = negative_eigenvalue(C)
        if lowest is not None:
            allowed = (
                "no weights have these overlaps: the matrix [[Q, R], [Rᵀ, T]] must be positive semidefinite, "
                f"and its smallest eigenvalue is {lowest:.3g}; make R smaller or Q larger"
            )
            raise ProblemError("network.R", self.R.tolist(), allowed)

    @classmethod
    def from_weights(
        cls,
        activation: Any,
        weights: ArrayLike,
        teacher_weights: ArrayLike,
        readout: ArrayLike | None = None,
        train_readout: bool = False,
    ) -> "TwoLayer":
        """The network that starts from these weights (K×N), for a teacher with `teacher_weights` (M×N)."""
        W = array(2)(weights, "TwoLayer.weights")
        W_star = array(2)(teacher_weights, "TwoLayer.teacher_weights")
        if W.shape[1] != W_star.shape[1]:
            allowed = f"must have as many columns as teacher_weights ({W_star.shape[1]})"
            raise ProblemError("TwoLayer.weights", W, f"{allowed}; its shape is {W.shape}")
        N = W.shape[1]
        return cls(activation, W @ W.T / N, W @ W_star.T / N, readout, train_readout)

    @classmethod
    def random(
        cls,
        hidden: int,
        teacher: Teacher,
        scale: float,
        size: int,
        seed: int = 0,
        activation: Any = None,
        readout: ArrayLike | None = None,
        readout_scale: float | None = None,
        train_readout: bool = False,
    ) -> "TwoLayer":
        """The overlaps of weights drawn from N(0, scale²) in `size` dimensions (N), independent of the teacher.

        - `hidden` (K): number of hidden units.
        - `teacher`: the teacher, with M units.
        - `scale`: standard deviation of a weight.
        - `size` (N): number of inputs, at least K + M.
        - `seed`: seed of the draw. 0 unless given.
        - `activation` (g): that of the teacher unless given.
        - `readout` (v): ones unless given.
        - `readout_scale`: draws the readout from N(0, readout_scale²) instead.
        - `train_readout`: whether the readout is trained. False unless given.
        """
        K = whole(1)(hidden, "TwoLayer.hidden")
        teacher = part(Teacher)(teacher, "TwoLayer.teacher")
        N = whole(K + teacher.hidden)(size, "TwoLayer.size")
        scale = squared(minimum=0)(scale, "TwoLayer.scale")
        if readout is not None and readout_scale is not None:
            allowed = "give one of readout and readout_scale"
            raise ProblemError("TwoLayer.readout_scale", readout_scale, allowed)
        rng = np.random.default_rng(whole(0)(seed, "TwoLayer.seed"))
        room("TwoLayer.size", N, K, N)
        W = scale * rng.standard_normal((K, N))
        if readout_scale is not None:
            readout_scale = squared(minimum=0)(readout_scale, "TwoLayer.readout_scale")
            readout = readout_scale * rng.standard_normal(K)
        # By rotation invariance the teacher may lie along the first M axes.
        Q = W @ W.T / N
        R = W[:, : teacher.hidden] @ covariance_root(teacher.T).T / np.sqrt(N)
        activation = teacher.activation if activation is None else activation
        return cls(activation, Q, R, readout, train_readout)


def covariance(
    Q: Float[np.ndarray, "K K"], R: Float[np.ndarray, "K M"], T: Float[np.ndarray, "M M"]
) -> Float[np.ndarray, "n n"]:
    """C = [[Q, R], [Rᵀ, T]], the covariance of the student fields λ and the teacher fields ρ."""
    return np.block([[Q, R], [R.T, T]])

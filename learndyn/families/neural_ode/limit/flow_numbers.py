"""The numbers of student and teacher as JAX arrays, and the overlaps that training changes."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from learndyn.families.neural_ode.fields import RandomField
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.families.neural_ode.units import FlowShape, InitialOverlaps
from learndyn.problem.activations import Activation

RULE = (
    "training.learning_rate",
    "training.readout_learning_rate",
    "training.weight_decay",
    "training.steps",
)
"""Fields of the problem that may change in the middle of training."""


class FlowNumbers(eqx.Module):
    """The numbers of a student and its teacher. They are arrays, so that a new number does not recompile.

    - `fields`: the covariance G of each system's field
    - `confinement`: μ̂
    - `h`: the Euler step
    - `sigma`: σ = d_θ/d, controls per dimension
    - `noise`, `teacher_noise`, `adjoint_noise`: the temperatures τ_s, τ_t and τ_p
    - `observed`: the weights w of the observations, for every set of observation times
    - `visible`: ρ, the fraction of components that a mask lets through
    - `shares`: the weight of each system's loss
    - `teacher_a`, `T`: amplitudes a*_v and overlaps θ*_v·θ*_v'/d_θ of the teacher's units
    - `shape`: the counts
    - `paired`: the teacher's step n' that is compared with the student's step n
    - `monitored`: whether the teacher has `observations`; otherwise the loss sees the end only
    - `one_mask`: whether all observations of a trajectory share a mask
    - `true_gradient`: whether the adjoint contains the derivative of the confinement
    - `train_amplitudes`: whether amplitudes are trained
    """

    fields: tuple[RandomField, ...]
    confinement: Activation
    h: Float[Array, ""]
    sigma: Float[Array, ""]
    noise: Float[Array, ""]
    teacher_noise: Float[Array, ""]
    adjoint_noise: Float[Array, ""]
    observed: Float[Array, "sets times"]
    visible: Float[Array, ""]
    shares: Float[Array, " systems"]
    teacher_a: Float[Array, " units"]
    T: Float[Array, "units units"]
    shape: FlowShape = eqx.field(static=True)
    paired: tuple[int, ...] = eqx.field(static=True)
    monitored: bool = eqx.field(static=True)
    one_mask: bool = eqx.field(static=True)
    true_gradient: bool = eqx.field(static=True)
    train_amplitudes: bool = eqx.field(static=True)

    @property
    def steps(self) -> int:
        """N_s: Euler steps of the student."""
        return self.shape.steps

    @property
    def teacher_steps(self) -> int:
        """N_t: Euler steps of the teacher."""
        return self.shape.teacher_steps


class Overlaps(NamedTuple):
    """The state of training: the amplitudes a_u, and the overlaps Q = θ_u·θ_u'/d_θ and M = θ_u·θ*_v/d_θ."""

    a: Float[Array, " units"]
    Q: Float[Array, "units units"]
    M: Float[Array, "units teacher_units"]


def flow_of(pair: FlowPair) -> FlowNumbers:
    """The numbers of a student and its teacher."""

    def leaf(x: ArrayLike | list[float]) -> Float[Array, "..."]:
        return jnp.asarray(x, dtype=float)

    network, teacher, start = pair.student, pair.teacher, pair.start()
    observations, observed = teacher.observations, pair.observed()
    fields = (network.field,) if network.driven is None else (network.field, network.driven)
    return FlowNumbers(
        fields=jax.tree.map(leaf, fields),
        confinement=jax.tree.map(leaf, network.confinement),
        h=leaf(network.time / network.steps),
        sigma=leaf(network.control_ratio),
        noise=leaf(network.noise),
        teacher_noise=leaf(teacher.noise),
        adjoint_noise=leaf(network.adjoint_noise),
        observed=leaf(observed.weights) * (1.0 if observations is None else observations.weight),
        visible=leaf(1.0 if observations is None else observations.visible),
        shares=leaf([1.0])
        if len(fields) == 1
        else jnp.stack([leaf(network.driver_loss), leaf(1.0)]),
        teacher_a=leaf(start.teacher_a),
        T=leaf(start.T),
        shape=pair.shape,
        paired=tuple(observed.teacher_steps.tolist()),
        monitored=observations is not None,
        one_mask=observations is not None and observations.mask == "trajectory",
        true_gradient=network.adjoint == "true",
        train_amplitudes=network.train_amplitudes,
    )


def overlaps_of(start: InitialOverlaps) -> Overlaps:
    """The state in which training starts, as JAX arrays."""
    return Overlaps(*(jnp.asarray(x, float) for x in (start.a, start.Q, start.M)))

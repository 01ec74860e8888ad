"""What a training step in the limit is made from: the numbers of the flow, and the state of training."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
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
"""What may change in the middle of training."""


class FlowNumbers(eqx.Module):
    """What teacher and student have in common, and how they differ; numbers are arrays, so none is compiled in.

    `fields` has one covariance for each system. `observed` are the weights w of the observations (sets × N_s + 1),
    `visible` is ρ, `paired` the teacher's step for each of the student's, `shares` the weight of each system's loss.
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
        """N_s."""
        return self.shape.steps

    @property
    def teacher_steps(self) -> int:
        """N_t."""
        return self.shape.teacher_steps


class Overlaps(NamedTuple):
    """The state of training: amplitudes a (units), overlaps Q (units × units) and M (units × teacher's units)."""

    a: Array
    Q: Array
    M: Array


def flow_of(pair: FlowPair) -> FlowNumbers:
    """The numbers of a student and its teacher."""

    def leaf(x):
        return jnp.asarray(x, dtype=float)

    network, teacher, start = pair.student, pair.teacher, pair.start()
    seen, (observed, paired) = teacher.observations, pair.observed()
    fields = (network.field,) if network.driven is None else (network.field, network.driven)
    return FlowNumbers(
        fields=jax.tree.map(leaf, fields),
        confinement=jax.tree.map(leaf, network.confinement),
        h=leaf(network.time / network.steps),
        sigma=leaf(network.control_ratio),
        noise=leaf(network.noise),
        teacher_noise=leaf(teacher.noise),
        adjoint_noise=leaf(network.adjoint_noise),
        observed=leaf(observed) if seen is None else leaf(observed) * seen.weight,
        visible=leaf(1.0 if seen is None else seen.visible),
        shares=leaf([1.0])
        if len(fields) == 1
        else jnp.stack([leaf(network.driver_loss), leaf(1.0)]),
        teacher_a=leaf(start.teacher_a),
        T=leaf(start.T),
        shape=pair.shape,
        paired=tuple(paired.tolist()),
        monitored=seen is not None,
        one_mask=seen is not None and seen.mask == "trajectory",
        true_gradient=network.adjoint == "true",
        train_amplitudes=network.train_amplitudes,
    )


def overlaps_of(start: InitialOverlaps) -> Overlaps:
    """The state in which training starts."""
    return Overlaps(*(jnp.asarray(x, float) for x in (start.a, start.Q, start.M)))

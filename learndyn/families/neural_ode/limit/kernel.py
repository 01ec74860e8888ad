"""Sums over the units of two flows, between two times: Σ_ij α_i(n) β_j(n') δ_{f_i f_j} F(C(n, n'), θ_u·θ_v/d_θ).

i and j are the neurons of the two flows, u = `index[i, n]` and v = `index[j, n']` the units that they have at these
times, α_i(n) = a_u/h and β_j(n') = a_v/h' their amplitudes over the number of neurons, and f their fields. F is the
covariance G of the field, or a derivative of it.

No sum over units is a loop in Python, so that the compiled code is as long for many units as for one.

- Power series: for G = Σ c_kij s^k q^i m^j, with the overlap m of the controls, the sum over units comes first,

      Σ_ij αβδ G = Σ_ki b_ki s^k q^i,    b_ki(n, n') = Σ_j c_kij Σ_uv α_u(n) δ_uv (θ_u·θ_v/d_θ)^j β_v(n'),

  and a row of a sweep then costs as much as for one unit. b depends on the windows of n and n' only. Sums over times
  come first where the result is one for each pair of units: with S_ki = Σ_nn' R s^k q^i over the times of two windows,

      Σ_nn' R αβδ ∂_mG = α_u β_v δ_uv Σ_j j (θ_u·θ_v/d_θ)^(j−1) Σ_ki c_kij S_ki.

- Stacked pairs, for any other G: G is evaluated on an array of (pairs of neurons of one field) × times.
"""

import abc
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from learndyn.families.neural_ode.fields import PolynomialField, RandomField
from learndyn.families.neural_ode.units import FlowUnits

AtTimes = Float[Array, "N N_right"]
"""A function of the times of both flows."""
OfPairs = Float[Array, "*batch W h W_right h_right"]
"""A function of pairs of units: windows and neurons of the left flow, then those of the right one."""


@dataclass(frozen=True, eq=False)
class Kernel(abc.ABC):
    """The sums over the units of two flows, `left` (N steps) and `right` (N_right steps).

    In every method q is C(n, n'), the correlation of the states of both flows, and s that of the second states of the
    field, None if it has one state.
    """

    left: FlowUnits
    right: FlowUnits

    @abc.abstractmethod
    def row(
        self,
        n: int | Array,
        q: Float[Array, " N_right"],
        s: Float[Array, " N_right"] | None = None,
    ) -> Float[Array, " N_right"]:
        """Σ αβδ G for the time n of the left flow, with q = C(n, ·), and all times of the right flow."""

    @abc.abstractmethod
    def of_state(self, q: AtTimes, s: AtTimes | None = None) -> AtTimes:
        """Σ αβδ ∂_qG for all pairs of times."""

    @abc.abstractmethod
    def of_second_state(self, q: AtTimes, s: AtTimes) -> AtTimes:
        """Σ αβδ ∂_sG for all pairs of times."""

    @abc.abstractmethod
    def of_controls(
        self, R: Float[Array, "*batch N N_right"], q: AtTimes, s: AtTimes | None = None
    ) -> Float[Array, "*batch units right_units"]:
        """α_u β_v δ_uv Σ_nn' R(n, n') ∂_mG over the times n of unit u and n' of unit v, for all units of the flows."""

    @abc.abstractmethod
    def of_amplitudes(
        self, R: AtTimes, q: AtTimes, s: AtTimes | None = None
    ) -> Float[Array, " units"]:
        """(1/h) Σ_v β_v δ_uv Σ_nn' R(n, n') G, for all units u of the left flow: α_u = a_u/h without its a_u."""

    def _sum_over_windows(
        self, x: Float[Array, "*batch N N_right"]
    ) -> Float[Array, "*batch W W_right"]:
        """The sum over the times of every pair of windows, which are equally long."""
        W, W_right = self.left.windows, self.right.windows
        *batch, N, N_right = x.shape
        pieces = x.reshape(*batch, W, N // W, W_right, N_right // W_right)
        return jnp.sum(pieces, axis=(-3, -1))

    def _by_units(self, x: OfPairs) -> Float[Array, "*batch units right_units"]:
        """Windows and neurons of a flow, joined to its units."""
        *batch, W, h, W_right, h_right = x.shape
        return x.reshape(*batch, W * h, W_right * h_right)


@dataclass(frozen=True, eq=False)
class PowerSeriesKernel(Kernel):
    """The sums for a field with coefficients c_kij.

    - `coefficients`: c_kij, of s^k q^i m^j.
    - `weights`: α_u β_v δ_uv.
    - `shares`: (1/h) β_v δ_uv.
    - `powers`: (θ_u·θ_v/d_θ)^j for every j.
    - `by_states`: b_ki at all pairs of times; an axis of a flow with one window has length 1.
    """

    coefficients: Float[Array, "k i j"]
    weights: OfPairs
    shares: OfPairs
    powers: tuple[OfPairs, ...]
    by_states: Float[Array, "k i _ _"]

    def row(
        self,
        n: int | Array,
        q: Float[Array, " N_right"],
        s: Float[Array, " N_right"] | None = None,
    ) -> Float[Array, " N_right"]:
        here = self.by_states[:, :, n if self.left.windows > 1 else 0]
        return _power_series(here, q, s)

    def of_state(self, q: AtTimes, s: AtTimes | None = None) -> AtTimes:
        orders = np.arange(1, self.by_states.shape[1])[:, None, None]
        return _power_series(self.by_states[:, 1:] * orders, q, s)

    def of_second_state(self, q: AtTimes, s: AtTimes) -> AtTimes:
        orders = np.arange(1, len(self.by_states))[:, None, None, None]
        return _power_series(self.by_states[1:] * orders, q, s)

    def of_controls(
        self, R: Float[Array, "*batch N N_right"], q: AtTimes, s: AtTimes | None = None
    ) -> Float[Array, "*batch units right_units"]:
        by_power = self._by_power(R, q, s)
        total = jnp.zeros(())
        for j in range(1, len(self.powers)):
            total = total + j * self.powers[j - 1] * by_power[j]
        return self._by_units(self.weights * total)

    def of_amplitudes(
        self, R: AtTimes, q: AtTimes, s: AtTimes | None = None
    ) -> Float[Array, " units"]:
        by_power = self._by_power(R, q, s)
        total = sum(power * x for power, x in zip(self.powers, by_power, strict=True))
        return jnp.sum(self._by_units(self.shares * total), axis=-1)

    def _by_power(
        self, R: Float[Array, "*batch N N_right"], q: AtTimes, s: AtTimes | None
    ) -> list[Float[Array, "*batch W 1 W_right 1"]]:
        """Σ_ki c_kij Σ_nn' R q^i s^k over the times of two windows, for every j."""
        by_power: list = [0.0] * len(self.powers)
        for k, matrix in enumerate(self.coefficients):
            R_k = R if s is None else R * s**k
            for i, row in enumerate(matrix):
                moment = self._sum_over_windows(R_k * q**i)[..., :, None, :, None]
                for j, c in enumerate(row):
                    by_power[j] = by_power[j] + c * moment
        return by_power


def _power_series(
    b: Float[Array, "k i *times"], q: Float[Array, "*times"], s: Float[Array, "*times"] | None
) -> Float[Array, "*times"]:
    """Σ_ki b_ki s^k q^i."""
    total = jnp.zeros_like(q)
    for k in reversed(range(b.shape[0])):
        inner = jnp.zeros_like(q)
        for i in reversed(range(b.shape[1])):
            inner = inner * q + b[k, i]
        total = inner if s is None else total * s + inner
    return total


@dataclass(frozen=True, eq=False)
class StackedPairsKernel(Kernel):
    """The sums for any field, over all pairs of neurons with the same field, stacked along the first axis.

    - `field`: G.
    - `neurons`: the neuron of the left flow and that of the right one, of every pair.
    - `overlaps`: θ_u·θ_v/d_θ of every pair of neurons, in every pair of windows.
    - `weights`: α_u β_v.
    - `shares`: (1/h) β_v.
    """

    field: RandomField
    neurons: tuple[np.ndarray, np.ndarray]
    overlaps: Float[Array, "pairs W W_right"]
    weights: Float[Array, "pairs W W_right"]
    shares: Float[Array, "pairs W W_right"]

    def row(
        self,
        n: int | Array,
        q: Float[Array, " N_right"],
        s: Float[Array, " N_right"] | None = None,
    ) -> Float[Array, " N_right"]:
        window = n // (self.left.steps // self.left.windows) if self.left.windows > 1 else 0
        overlaps, weights = (
            _at_times(x[:, window], -1, self.right) for x in (self.overlaps, self.weights)
        )
        return jnp.sum(weights * self.field(q, overlaps, s), axis=0)

    def of_state(self, q: AtTimes, s: AtTimes | None = None) -> AtTimes:
        return self._sum_over_pairs(self.field.of_state(q, self._overlaps_at_times(), s))

    def of_second_state(self, q: AtTimes, s: AtTimes) -> AtTimes:
        return self._sum_over_pairs(self.field.of_second_state(q, self._overlaps_at_times(), s))

    def of_controls(
        self, R: Float[Array, "*batch N N_right"], q: AtTimes, s: AtTimes | None = None
    ) -> Float[Array, "*batch units right_units"]:
        overlaps = jnp.broadcast_to(self._overlaps_at_times(), (len(self.overlaps), *q.shape))
        slopes = self.field.of_control(jnp.broadcast_to(q, overlaps.shape), overlaps, s)
        moments = self._sum_over_windows(R[..., None, :, :] * slopes)
        return self._by_units(self._of_pairs(self.weights * moments))

    def of_amplitudes(
        self, R: AtTimes, q: AtTimes, s: AtTimes | None = None
    ) -> Float[Array, " units"]:
        moments = self._sum_over_windows(R * self.field(q, self._overlaps_at_times(), s))
        return jnp.sum(self._by_units(self._of_pairs(self.shares * moments)), axis=-1)

    def _overlaps_at_times(self) -> Float[Array, "pairs _ _"]:
        """The overlaps at all pairs of times; an axis of a flow with one window has length 1."""
        return _at_times(_at_times(self.overlaps, -2, self.left), -1, self.right)

    def _sum_over_pairs(self, x: Float[Array, "pairs N N_right"]) -> AtTimes:
        weights = _at_times(_at_times(self.weights, -2, self.left), -1, self.right)
        return jnp.sum(weights * x, axis=0)

    def _of_pairs(self, x: Float[Array, "*batch pairs W W_right"]) -> OfPairs:
        """The values of the stacked pairs, and zero for neurons of different fields."""
        count = x.shape[-3]
        place = np.full((self.left.neurons, self.right.neurons), count)
        place[self.neurons] = np.arange(count)
        padded = jnp.concatenate([x, jnp.zeros_like(x[..., :1, :, :])], axis=-3)
        blocks = jnp.take(padded, place, axis=-3)
        *batch, _, _, _, _ = range(blocks.ndim)
        first = len(batch)
        return blocks.transpose(*batch, first + 2, first, first + 3, first + 1)


def _at_times(x: Float[Array, "..."], axis: int, units: FlowUnits) -> Float[Array, "..."]:
    """From windows to the times in them, along an axis; one window stays as it is."""
    return x if units.windows == 1 else jnp.repeat(x, units.steps // units.windows, axis)


def _same_field(left: FlowUnits, right: FlowUnits) -> Bool[np.ndarray, "h h_right"]:
    """δ: whether two neurons have the same field."""
    return np.equal.outer(np.array(left.labels), np.array(right.labels))


def kernel_of(
    field: RandomField,
    left: FlowUnits,
    right: FlowUnits,
    a_left: Float[Array, " all_units"],
    a_right: Float[Array, " all_right_units"],
    overlaps: Float[Array, "all_units all_right_units"],
) -> Kernel:
    """The kernel of two flows in a field; amplitudes and overlaps are those of the units of all systems."""
    shape = (left.windows, left.neurons, right.windows, right.neurons)
    alpha = a_left[left.span].reshape(*shape[:2], 1, 1) / left.neurons
    beta = a_right[right.span].reshape(1, 1, *shape[2:]) / right.neurons
    m = overlaps[left.span, right.span].reshape(shape)
    same = _same_field(left, right)
    shares = beta / left.neurons
    if not isinstance(field, PolynomialField):
        i, j = np.nonzero(same)
        return StackedPairsKernel(
            left,
            right,
            field=field,
            neurons=(i, j),
            overlaps=m[:, i, :, j],
            weights=(alpha * beta)[:, i, :, j],
            shares=jnp.broadcast_to(shares, (shape[0], 1, *shape[2:]))[:, 0 * i, :, j],
        )
    c = jnp.asarray(field.coefficients)
    c = c if c.ndim == 3 else c[None]
    mask = same[:, None, :].astype(float)
    weights = alpha * beta * mask
    powers = [jnp.ones_like(m)]
    for _ in range(c.shape[2] - 1):
        powers.append(powers[-1] * m)
    moments = jnp.stack([jnp.sum(weights * power, axis=(1, 3)) for power in powers])
    by_states = jnp.sum(c[..., None, None] * moments, axis=2)
    return PowerSeriesKernel(
        left,
        right,
        coefficients=c,
        weights=weights,
        shares=shares * mask,
        powers=tuple(powers),
        by_states=_at_times(_at_times(by_states, -2, left), -1, right),
    )

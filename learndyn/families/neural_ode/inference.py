"""The flow alone: correlations, responses, the growth of perturbations and adjoints, and whether it is chaotic.

A small random perturbation δx of the state has the correlation D(n, n') = ⟨δx_n δx_n'⟩/⟨δx_0²⟩ with

    D(n+1, n'+1) − a_n D(n, n'+1) − a_n' D(n+1, n') + a_n a_n' D(n, n') = h² ∂_1G(C(n, n'), Q) D(n, n').

The adjoint p runs back from the end of the flow. From a random end vector p_N it has the same equation, run backwards:

    C_pp(n, n') − a_n C_pp(n+1, n') − a_n' C_pp(n, n'+1) + a_n a_n' C_pp(n+1, n'+1)
                                                                = h² ∂_1G(C(n, n'), Q) C_pp(n+1, n'+1).

From p_N = x_N, the gradient of |x_N|²/2, the adjoint is correlated with the flow, as in training (`adjoint.backward`).

In the stationary state of continuous time, C(τ) obeys C'' = μ²C − G(C, Q) with μ = μ̂(C(0)) and a decay that fixes C(0),
and perturbations grow as e^{λτ}, where −(μ + λ)² is the lowest level of −∂² − ∂_1G(C(τ), Q).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from numpy.typing import ArrayLike
from scipy.interpolate import make_interp_spline
from scipy.linalg import eigh_tridiagonal

from learndyn.errors import NotConverged, ProblemError
from learndyn.families.neural_ode.limit.adjoint import CovarianceSlopes, backward
from learndyn.families.neural_ode.limit.derivatives import Derivatives
from learndyn.families.neural_ode.limit.flow_numbers import FlowNumbers, flow_of
from learndyn.families.neural_ode.limit.kernel import kernel_of
from learndyn.families.neural_ode.limit.trajectories import Trajectory, trajectory
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.families.neural_ode.units import FlowUnits
from learndyn.numerics.precision import float64
from learndyn.numerics.richardson import richardson
from learndyn.numerics.root import root_between
from learndyn.problem.checks import choice, number, whole
from learndyn.problem.tasks import TeacherFlow

Times = Float[Array, "N+1 N+1"]
"""A function of two times of the flow."""
Correlation = Callable[[np.ndarray], np.ndarray]
"""τ ↦ C(τ)."""
LARGEST = 1e6
"""A flow that exceeds this norm |x|²/d is taken to be unconfined."""
SCAN = 4000
"""Number of points at which the norm of the stationary state is searched."""
DECAYED = 1e-10
"""The correlation counts as decayed when this fraction of it is left."""
PANELS = 1000
"""Number of panels in which the decay of the correlation is integrated."""
LEVELS = 4000
"""Number of points of the coarser of two grids on which the Lyapunov exponent is computed."""


def inference(
    network: NeuralODE,
    *,
    control_norm: float = 1.0,
    time: float | None = None,
    steps: int | None = None,
    noise: float | None = None,
    adjoint_end: str = "random",
) -> xr.Dataset:
    """The correlation C, the response R, the perturbation D and the adjoint C_pp of a flow, without training.

    - `network`: the flow, with one control in a field of one state
    - `control_norm` (Q): |θ|²/d_θ. Default: 1, the teacher's
    - `time` (T), `steps` (N), `noise` (temperature τ): those of the network by default; without `steps`, the Euler step
      is that of the network
    - `adjoint_end`: the end vector p_N of the adjoint, "random" (default) or "state"

    The result also has `growth`, the rate ½ d(log D)/dt at which perturbations grow, midway between the times of the
    axis, and `adjoint_growth`, the rate −½ d(log C_pp)/dt at which the adjoint grows backwards, without noise of its
    own.

    A "random" end vector is independent of the flow and has variance 1. Such an adjoint is blind to the derivative of
    the confinement, so that the true and the truncated one grow alike, at the rate of perturbations; C_pp at the start
    is D at the end. "state" is p_N = x_N, the gradient of |x_N|²/2. Then `network.adjoint` matters: in a chaotic flow
    the true adjoint grows at the rate λ of perturbations, the truncated one at 2λ, because it keeps a part along x that
    the derivative of the confinement would cancel (a change of x along itself, at fixed confinement, changes C(t, t')
    by the equation of D: x·δx grows as e^{2λt}). This takes several times as long as the rest.
    """
    _one_control(network)
    Q = number(minimum=0)(control_norm, "control_norm")
    T = number(above=0)(network.time if time is None else time, "time")
    if steps is None:
        steps = max(1, round(T / float(network.step)))
    N = whole(1)(steps, "steps")
    temperature = number(minimum=0)(network.noise if noise is None else noise, "noise")
    end = choice("random", "state")(adjoint_end, "adjoint_end")
    with float64():
        functions = _alone(_of_control(network, T, N), Q, temperature, end == "state")
        C, R, D, C_pp = (np.asarray(x) for x in functions)
    times = T / N * np.arange(N + 1)
    two = ("time", "time2")
    with np.errstate(divide="ignore", invalid="ignore"):
        growth, decay = (np.diff(np.log(np.diagonal(x))) / (2 * T / N) for x in (D, C_pp))
    return xr.Dataset(
        {
            "C": (two, C, {"long_name": "correlation C(t, t') = x(t)·x(t')/d"}),
            "R": (two, R, {"long_name": "response R(t, t') of x(t) to its equation at t'"}),
            "D": (two, D, {"long_name": "correlation of a perturbation of the start"}),
            "C_pp": (two, C_pp, {"long_name": "correlation of the adjoint"}),
            "growth": (("middle",), growth, {"long_name": "growth rate of perturbations"}),
            "adjoint_growth": (
                ("middle",),
                -decay,
                {"long_name": "growth rate of the adjoint, backwards"},
            ),
        },
        {"time": times, "time2": times, "middle": (times[1:] + times[:-1]) / 2},
    )


def _one_control(network: NeuralODE) -> None:
    """Refuse a network whose flow is not that of one control in a field of one state."""
    extensions = {
        "amplitudes": network.amplitudes is not None,
        "train_amplitudes": network.train_amplitudes,
        "windows": network.windows > 1,
        "delay": network.delay is not None,
        "driven": network.driven is not None,
    }
    for name, used in extensions.items():
        if used:
            allowed = "must be left out: the flow alone is known for one control in a field of one state only"
            raise ProblemError(f"network.{name}", getattr(network, name), allowed)


def _of_control(network: NeuralODE, T: float, N: int) -> FlowNumbers:
    """The numbers of the flow for a time T in N steps, with a noiseless adjoint and a teacher that stays at 0."""
    flow = flow_of(FlowPair(network, TeacherFlow()))
    shape = flow.shape._replace(steps=N, teacher_steps=1)
    h, none = jnp.asarray(T / N), jnp.zeros(())
    return replace(
        flow, h=h, adjoint_noise=none, shape=shape, paired=(), observed=jnp.zeros((1, 0))
    )


@eqx.filter_jit
def _alone(
    flow: FlowNumbers, Q: float, noise: float, from_state: bool
) -> tuple[Times, Times, Times, Times]:
    """C, R, D and C_pp."""
    N = flow.steps
    unit = FlowUnits(np.zeros((1, N), dtype=int), (0,))
    a, norm = jnp.ones(1), jnp.asarray(Q, float)
    kernel = kernel_of(flow.fields[0], unit, unit, a, a, norm[None, None])
    x = trajectory(flow, kernel, jnp.asarray(noise, float), N)
    kick = flow.h**2 * flow.fields[0].of_state(x.C[:N, :N], norm)
    both = jnp.stack([x.a, x.a[::-1]]), jnp.stack([kick, kick[::-1, ::-1]])
    D, C_pp = jax.vmap(_spread)(*both)
    return x.C, x.R, D, _from_state(flow, x, kick) if from_state else C_pp[::-1, ::-1]


def _spread(a: Float[Array, " N"], kick: Float[Array, "N N"]) -> Times:
    """D(n, n') of a random vector u_{n+1} = a_n u_n + random kicks of covariance `kick` · D, with D(0, 0) = 1."""

    def row(D_n: Float[Array, " N+1"], inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        """Row n + 1 from row n."""
        a_n, kick_n = inputs

        def column(left: Float[Array, ""], inputs: tuple[Array, ...]) -> tuple[Array, Array]:
            """An entry of row n + 1 from the one to its left."""
            here, above, a_k = inputs
            right = a_n * above[1] + a_k * left - a_n * a_k * above[0] + here * above[0]
            return right, right

        first = a_n * D_n[0]
        pairs = jnp.stack([D_n[:-1], D_n[1:]], axis=1)
        _, rest = jax.lax.scan(column, first, (kick_n, pairs, a))
        new = jnp.concatenate([first[None], rest])
        return new, new

    start = jnp.concatenate([jnp.ones(1), jnp.cumprod(a)])
    _, rows = jax.lax.scan(row, start, (a, kick))
    return jnp.concatenate([start[None], rows])


def _from_state(flow: FlowNumbers, x: Trajectory, kick: Float[Array, "N N"]) -> Times:
    """C_pp of the adjoint that starts from p_N = x_N, which is that of a student whose target is 0."""
    N = flow.steps
    target = Trajectory(jnp.zeros((2, 2)), jnp.zeros((2, 2)), jnp.zeros(1))
    slopes = CovarianceSlopes(own=kick, other=jnp.zeros((N, 1)))
    end = jnp.zeros(N + 1).at[N].set(1.0)
    return backward(flow, x, target, jnp.zeros((N + 1, 2)), slopes, end, None).C_pp


class StationaryFlow(NamedTuple):
    """The stationary state of a flow.

    - `phase`: "zero", "fixed point" or "chaotic"
    - `norm`: |x|²/d
    - `confinement`: μ = μ̂(|x|²/d)
    - `lyapunov`: the largest Lyapunov exponent λ, per unit of time
    - `correlation`: C(τ) at time differences τ
    """

    phase: str
    norm: float
    confinement: float
    lyapunov: float
    correlation: xr.DataArray


def stationary_flow(network: NeuralODE, *, control_norm: float = 1.0) -> StationaryFlow:
    """The stationary state in continuous time and without noise, of a flow whose control has norm `control_norm`."""
    _one_control(network)
    Q = number(minimum=0)(control_norm, "control_norm")
    with float64():
        return _Stationary(network, Q).state()


class _Stationary:
    """The equations of the stationary state, for a control with norm Q."""

    def __init__(self, network: NeuralODE, Q: float):
        self.network, self.Q = network, Q
        self._derivatives = Derivatives(network.field)
        self._has_floor = network.field.without_state
        self._mu = jax.jit(network.confinement.__call__)
        self.nodes, self.weights = np.polynomial.legendre.leggauss(40)

    def G(self, c: ArrayLike) -> np.ndarray:
        """G(c, Q)."""
        return self._derivative(0, c)

    def slope(self, c: ArrayLike) -> np.ndarray:
        """∂_1G(c, Q)."""
        return self._derivative(1, c)

    def _derivative(self, order: int, c: ArrayLike) -> np.ndarray:
        """∂_1^order G(c, Q), entry by entry."""
        flat = np.ravel(np.asarray(c, dtype=float))
        return self._derivatives(order, 0, 0, flat, np.full(len(flat), self.Q)).reshape(np.shape(c))

    def mu(self, q: ArrayLike) -> np.ndarray:
        """μ̂(q)."""
        return np.asarray(self._mu(jnp.asarray(q, float)))

    def work(self, low: ArrayLike, high: ArrayLike, mu: float) -> np.ndarray:
        """∫ (μ²c − G(c)) dc from low to high, entry by entry."""
        half = (np.asarray(high) - np.asarray(low))[..., None] / 2
        c = np.asarray(low)[..., None] + half * (self.nodes + 1)
        return np.sum(half * self.weights * (mu**2 * c - self.G(c)), axis=-1)

    def state(self) -> StationaryFlow:
        """The stationary state: the fixed point if it is stable, else the chaotic one."""
        fixed = self._fixed_point()
        mu = float(self.mu(fixed))
        rate = float(np.sqrt(self.slope(fixed))) - mu
        if rate <= 0:
            flat = self._labelled(np.array([0.0, 1.0]), np.array([fixed, fixed]))
            return StationaryFlow("fixed point" if fixed > 0 else "zero", fixed, mu, rate, flat)
        q, low = self._chaotic(fixed)
        mu = float(self.mu(q))
        tau, C = self._decay(q, low, mu)
        return StationaryFlow(
            "chaotic", q, mu, self._lyapunov(C, tau[-1], mu), self._labelled(tau, C(tau))
        )

    def _labelled(
        self, tau: Float[np.ndarray, " points"], C: Float[np.ndarray, " points"]
    ) -> xr.DataArray:
        """C(τ) as a labelled array."""
        return xr.DataArray(
            C, {"tau": tau}, ("tau",), attrs={"long_name": "stationary correlation C(τ)"}
        )

    def _fixed_point(self) -> float:
        """The q with μ̂(q)²q = G(q) that a flow from q = 1 moves towards; 0 if there is none below."""

        def excess(q: ArrayLike) -> np.ndarray:
            return self.mu(q) ** 2 * np.asarray(q) - self.G(q)

        grid = np.geomspace(1e-8, LARGEST, SCAN)
        held = excess(grid) > 1e-14 * self.G(grid)
        edges = np.flatnonzero(~held[:-1] & held[1:])
        start = np.searchsorted(grid, 1.0)
        nearest = edges[edges < start][-1:] if held[start] else edges[edges >= start][:1]
        if nearest.size:
            i = nearest[0]
            return root_between(excess, grid[i], grid[i + 1])
        if held[start]:
            return 0.0
        raise NotConverged(
            f"the flow is not confined: μ̂(q)²q stays below G(q) from q = 1 to {LARGEST:g}; there is no stationary state"
        )

    def _floor(self, q: float) -> float:
        """The correlation at infinite τ: the smallest root of μ²c = G(c)."""
        if not self._has_floor:
            return 0.0
        mu = float(self.mu(q))
        grid = np.linspace(0.0, q, SCAN)
        positive = np.flatnonzero(mu**2 * grid - self.G(grid) > 0)
        if positive.size == 0:
            return q
        i = positive[0]
        return root_between(lambda c: mu**2 * c - self.G(c), grid[i - 1], grid[i])

    def _chaotic(self, fixed: float) -> tuple[float, float]:
        """C(0) and C(∞) of the decaying correlation: ∫ (μ²c − G) dc = 0 between them."""

        def total(q: float) -> np.ndarray:
            return self.work(self._floor(q), q, float(self.mu(q)))

        high = fixed
        for q in np.linspace(fixed, 0.0, 400, endpoint=False)[1:]:
            if total(q) < 0:
                root = root_between(total, q, high)
                return root, self._floor(root)
            high = q
        raise NotConverged(
            "no stationary state with a decaying correlation was found below the fixed point"
        )

    def _decay(
        self, q: float, low: float, mu: float
    ) -> tuple[Float[np.ndarray, " points"], Correlation]:
        """Times τ up to the decay, and C(τ), from C' = −√W with W = 2∫ (μ²c − G) dc from C(∞) to C.

        With u = √(q − C) = √(q − C(∞)) (1 − e^{−s}), dτ/ds = 2u u'(s)/√W is a smooth function of s and is integrated.
        """
        end = np.log(2 / DECAYED)
        edges = np.linspace(0.0, end, PANELS + 1)
        nodes, weights = np.polynomial.legendre.leggauss(6)
        width = end / PANELS
        s = edges[:-1, None] + width * (nodes + 1) / 2
        size = np.sqrt(q - low)
        u = -size * np.expm1(-s)
        C = q - u**2
        # Integrate from the nearer end, so that no digits are lost.
        near = (q + low) / 2 < C
        W = np.where(near, -2 * self.work(C, q, mu), 2 * self.work(low, C, mu))
        pieces = width / 2 * np.sum(weights * 2 * u * size * np.exp(-s) / np.sqrt(W), axis=1)
        tau = np.concatenate([[0.0], np.cumsum(pieces)])
        inverse = make_interp_spline(tau, edges, k=5)

        def correlation(t: np.ndarray) -> np.ndarray:
            return q - (size * np.expm1(-inverse(t))) ** 2

        return np.linspace(0.0, tau[-1], 401), correlation

    def _lyapunov(self, C: Correlation, end: float, mu: float) -> float:
        """λ from the lowest level, extrapolated from two grids of the half line, whose error is of order step²."""
        levels = [self._level(C, end, n) for n in (LEVELS, 2 * LEVELS)]
        return float(np.sqrt(richardson(levels, orders=(2,)).values)) - mu

    def _level(self, C: Correlation, end: float, n: int) -> float:
        """The largest eigenvalue of ∂² + ∂_1G(C(τ)) for even functions on (−end, end)."""
        step = end / n
        tau = step * (np.arange(n) + 0.5)
        diagonal = self.slope(np.maximum(C(tau), 0.0)) - 2 / step**2
        diagonal[0] += 1 / step**2
        off = np.full(n - 1, 1 / step**2)
        return float(eigh_tridiagonal(diagonal, off, select="i", select_range=(n - 1, n - 1))[0][0])

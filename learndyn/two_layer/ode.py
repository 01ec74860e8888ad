"""Integrating the order-parameter equations: adaptive steps, error control, divergence, accuracy."""

from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array
from scipy.special import stdtrit

from learndyn.divergence import DIVERGED
from learndyn.errors import NotConverged
from learndyn.memory import require_memory
from learndyn.numerics.gaussian import Rule, closed_form, gaussian_rule
from learndyn.numerics.rules import GRID_DIMENSIONS, PAIR_POINTS
from learndyn.numerics.statistics import mean_and_error
from learndyn.numerics.times import resolve_times
from learndyn.part import Part, field, number, whole
from learndyn.theory import Curves
from learndyn.two_layer.observables import observables, specialisation
from learndyn.two_layer.stream import Equations, OrderParameters, equations

CHUNKS = 8
"""An expensive integration is cut into this many calls, so that progress shows and Ctrl-C works."""


LOOSER = 100.0
"""A second integration with tolerances larger by this factor shows the accuracy of the first."""
COARSER = 4
"""Grids of the second integration have fewer points, by this factor."""
LEFT = 1 / (COARSER ** (1 / GRID_DIMENSIONS) - 1)
"""The error of the finer grids in units of the difference, at most: with a kink it falls as the spacing or faster."""
CONFIDENCE = 0.95
"""Errors of quasi-random averages are below the stated accuracy with this probability."""


class OrderParameterODE(Part):
    """Integrate the order-parameter equations by an adaptive Runge–Kutta method of order 8.

    `rtol`, `atol` bound the local error. Activations without closed-form integrals use `replicates` quadrature rules of
    `points` points each. Up to three fields, K + M ≤ 3, and in gradient flow these are grids, compared with grids of a
    quarter of the points; else they are independent quasi-random points, whose spread is the error estimate.
    """

    rtol: float = field(number(above=0), default=1e-9)
    atol: float = field(number(above=0), default=1e-12)
    max_steps: int = field(whole(1), default=1_000_000)
    points: int = field(whole(16), default=2**12)
    replicates: int = field(whole(2), default=4)


class Segment(NamedTuple):
    """What one call of the integrator returns."""

    states: OrderParameters
    losses: Array
    reached: Array
    steps: Array


def integrate(made: Equations, y, rule, t0, times, jumps, tolerance, max_steps, differentiable):
    """The states and losses at `times`, from the state `y` at `t0`. Times not reached are infinite."""
    # One flat vector: on a small state most of the time of a step goes into the number of operations.
    start, unflatten = ravel_pytree(y)
    bound = DIVERGED * (1 + jnp.max(jnp.abs(start)) + jnp.max(jnp.abs(made.T)))

    def velocity(t, state, args):
        return ravel_pytree(made.velocity(t, unflatten(state), rule))[0]

    def diverged(t, state, args, **_):
        return jnp.max(jnp.abs(state)) > bound

    controller = diffrax.PIDController(rtol=tolerance[0], atol=tolerance[1])
    if len(jumps):
        controller = diffrax.ClipStepSizeController(controller, jump_ts=jumps)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(velocity),
        diffrax.Dopri8(),
        t0=t0,
        t1=times[-1],
        # A guess, which the controller mends; asking for a better one would compile the right-hand side twice more.
        dt0=1e-4 * (times[-1] - t0),
        y0=start,
        saveat=diffrax.SaveAt(subs=[diffrax.SubSaveAt(ts=times), diffrax.SubSaveAt(t1=True)]),
        stepsize_controller=controller,
        max_steps=max_steps,
        adjoint=diffrax.RecursiveCheckpointAdjoint() if differentiable else diffrax.ForwardMode(),
        event=None if differentiable else diffrax.Event(diverged),
        throw=False,
    )
    states = jax.vmap(unflatten)(solution.ys[0])  # pyright: ignore[reportOptionalSubscript]
    losses = jax.vmap(lambda state: made.test_loss(state, rule))(states)
    reached = solution.ts[1][-1]  # pyright: ignore[reportOptionalSubscript]
    return Segment(states, losses, reached, solution.stats["num_steps"])


@eqx.filter_jit
def _integrate(made, y, rules, t0, times, jumps, tolerance, max_steps):
    """`integrate` for every quadrature rule (leading axis of `y` and of `rules`), or once without one."""

    def one(y, rule):
        return integrate(made, y, rule, t0, times, jumps, tolerance, max_steps, False)

    if rules is None:
        return jax.tree.map(lambda x: x[None], one(jax.tree.map(lambda x: x[0], y), None))
    return jax.vmap(one)(y, rules)


class Quadrature(NamedTuple):
    """The rules of the averages, one per replicate, and coarser ones to set next to them; None for closed forms.

    `sampled` says whether the points are quasi-random: then replicates are independent.
    """

    rules: Rule | None
    coarser: Rule | None
    sampled: bool


def quadrature(made: Equations, K: int, method: OrderParameterODE, seed: int) -> Quadrature:
    """How the averages over the fields of K students and the teachers are taken."""
    if closed_form(made.student, made.teacher):
        return Quadrature(None, None, False)
    n, replicates = K + made.T.shape[0], method.replicates
    rules = gaussian_rule(n, method.points, replicates, seed)
    pair_points = round(PAIR_POINTS / np.sqrt(COARSER))
    if n <= GRID_DIMENSIONS:
        coarser = gaussian_rule(
            n, method.points // COARSER, replicates, seed, pair_points=pair_points
        )
        return Quadrature(rules, coarser, False)
    pairs = gaussian_rule(2, 4, replicates, seed, pair_points=pair_points).pairs
    # Gradient flow needs averages over two fields only.
    return Quadrature(rules, rules._replace(pairs=pairs), not made.flow)


def trace(problem, method: OrderParameterODE, save_at=None) -> dict[str, Array]:
    """The observables as a pure JAX function of the numbers in the problem, for `jax.grad`, `jit` and `vmap`."""
    times = resolve_times(save_at, problem.training.time)
    made, y = equations(problem)
    rules = quadrature(made, y.v.shape[0], method, seed=0).rules
    rule = None if rules is None else rules.replicate(0)
    jumps = jnp.asarray(problem.training.breakpoints(times[-1]))
    tolerance = jnp.asarray([method.rtol, method.atol])
    segment = integrate(
        made, y, rule, 0.0, jnp.asarray(times), jumps, tolerance, method.max_steps, True
    )
    Q, R, v = segment.states
    special = specialisation(Q, R, made.T, jnp)
    return {"test_loss": segment.losses, "Q": Q, "R": R, "v": v, "specialisation": special}


def solve(problem, method: OrderParameterODE, save_at, seed: int, report) -> Curves:
    """Integrate twice, the second time with looser tolerances and on coarser grids: the difference is the accuracy."""
    times = resolve_times(save_at, problem.training.time)
    K, M = problem.network.R.shape
    _require_memory(K, M, method, problem)
    made, y = equations(problem)
    rules, coarser, sampled = quadrature(made, K, method, seed)
    jumps = jnp.asarray(problem.training.breakpoints(times[-1]))
    tolerance = jnp.asarray([method.rtol, method.atol])
    arguments = (times, jumps, method.max_steps)
    values, steps = _sweep(made, y, rules, *arguments, tolerance, lambda x: report(0.6 * x))
    loose, _ = _sweep(
        made, y, coarser, *arguments, LOOSER * tolerance, lambda x: report(0.6 + 0.4 * x)
    )
    averages = "closed form" if rules is None else "quadrature"
    return _curves(problem, method, times, values, loose, steps, averages, sampled)


def solve_many(
    problems: list, method: OrderParameterODE, save_at, seed: int, wanted=None
) -> list[Curves] | None:
    """`solve` for problems that differ in numbers only, side by side; None where averages need quadrature.

    Every problem keeps its own steps, so that the numbers are those of `solve` up to rounding.
    """
    first = problems[0]
    if not closed_form(first.network.activation, first.data.teacher.activation):
        return None
    times = resolve_times(save_at, first.training.time)
    breakpoints = [problem.training.breakpoints(times[-1]) for problem in problems]
    if len({len(some) for some in breakpoints}) > 1:
        return None
    jumps, tolerance = jnp.asarray(breakpoints), jnp.asarray([method.rtol, method.atol])
    stacked = jax.tree.map(_stacked, *problems)
    found = [
        _integrate_many(stacked, jnp.asarray(times), jumps, scale * tolerance, method.max_steps)
        for scale in (1.0, LOOSER)
    ]
    if any(int(np.max(segment.steps)) >= method.max_steps for segment in found):
        return None
    fine, loose = ([np.asarray(x) for x in (one.losses, *one.states)] for one in found)
    steps = np.asarray(found[0].steps)
    curves = []
    for i, problem in enumerate(problems):
        values, other = (_until_divergence([x[i][None] for x in one]) for one in (fine, loose))
        curves.append(_curves(problem, method, times, values, other, int(steps[i])))
    return curves


def _stacked(*leaves):
    """The numbers at one place of several problems; of what is no number, all have the same."""
    if isinstance(leaves[0], float | np.ndarray):
        return jnp.asarray(np.stack(leaves))
    return leaves[0]


@eqx.filter_jit
def _integrate_many(problems, times, jumps, tolerance, max_steps):
    """`integrate` for every problem (leading axis of the numbers in `problems`, and of `jumps`)."""

    def one(problem, jumps):
        made, y = equations(problem)
        return integrate(made, y, None, 0.0, times, jumps, tolerance, max_steps, False)

    return eqx.filter_vmap(one)(problems, jumps)


def _until_divergence(arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Losses, Q, R and v (replicates × times × …) by name, up to the first time at which one is not finite."""
    finite = np.all([np.isfinite(a).all(axis=(0, *range(2, a.ndim))) for a in arrays], axis=0)
    reached = len(finite) if finite.all() else int(np.argmin(finite))
    return dict(zip(("test_loss", "Q", "R", "v"), (a[:, :reached] for a in arrays), strict=True))


def _curves(
    problem, method, times, values, loose, steps: int, averages="closed form", sampled=False
) -> Curves:
    """The curves of a problem, with the accuracy that a looser integration and the spread of samples show."""
    reached = min(len(values["test_loss"][0]), len(loose["test_loss"][0]))
    accuracy = {}
    for name, array in values.items():
        array, other = array[:, :reached], loose[name][:, :reached]
        accuracy[name] = float(np.max(np.abs(array.mean(0) - other.mean(0)), initial=0.0))
        if averages == "quadrature":
            accuracy[name] *= LEFT
        if sampled:
            # Few replicates know their spread poorly, which Student's distribution makes up for.
            factor = stdtrit(len(array) - 1, (1 + CONFIDENCE) / 2)
            accuracy[name] += factor * float(np.max(mean_and_error(array)[1], initial=0.0))
    means = {name: array[:, :reached].mean(0) for name, array in values.items()}
    curves = observables(T=problem.data.teacher.T, **means)
    return Curves(
        curves,
        times[:reached],
        diverged_at=float(times[reached]) if reached < len(times) else None,
        evidence={
            "tolerances": {"rtol": method.rtol, "atol": method.atol},
            "accuracy": accuracy,
            "averages": averages,
            "integration_steps": steps,
        },
    )


def _sweep(made, y, rules, times, jumps, max_steps, tolerance, report):
    """All of `times`, in equal chunks; arrays have a leading axis of replicates and end where training diverged."""
    replicates = 1 if rules is None else jax.tree.leaves(rules)[0].shape[0]
    y = jax.tree.map(lambda x: jnp.broadcast_to(x, (replicates, *x.shape)), y)
    K, M = y.R.shape[1:]
    expensive = rules is not None or (K * (K + M)) ** 2 > 1e5
    chunks = CHUNKS if expensive and len(times) >= 2 * CHUNKS else 1
    length = -(-len(times) // chunks)
    # Equal chunks compile once: the last interval is cut into pieces to fill up the last chunk.
    spare = length * chunks - len(times)
    start = times[-2] if len(times) > 1 else 0.0
    padded = np.concatenate([times[:-1], np.linspace(start, times[-1], spare + 2)[1:]])
    pieces, t0, steps = [], 0.0, 0
    for chunk in range(chunks):
        segment_times = padded[chunk * length : (chunk + 1) * length]
        segment = _integrate(
            made, y, rules, jnp.asarray(t0), jnp.asarray(segment_times), jumps, tolerance, max_steps
        )
        steps += int(np.max(segment.steps))
        pieces.append((segment.losses, *segment.states))
        finite = np.isfinite(segment.losses).all()
        stopped = float(np.min(segment.reached))
        if not finite and int(np.max(segment.steps)) >= max_steps:
            raise NotConverged(
                f"the integrator used up max_steps = {max_steps} at time {stopped:.6g} of {times[-1]:.6g}; "
                "give OrderParameterODE a larger max_steps or larger tolerances"
            )
        if not finite:
            break
        y = jax.tree.map(lambda x: x[:, -1], segment.states)
        t0 = segment_times[-1]
        report((chunk + 1) / chunks)
    arrays = [np.concatenate([np.asarray(piece[i]) for piece in pieces], axis=1) for i in range(4)]
    kept = np.r_[0 : len(times) - 1, len(padded) - 1]
    kept = kept[kept < arrays[0].shape[1]]
    return _until_divergence([a[:, kept] for a in arrays]), steps


def _require_memory(K: int, M: int, method: OrderParameterODE, problem) -> None:
    n = K + M
    needed = 20 * 8 * (K * n * n + n * n)
    if not closed_form(problem.network.activation, problem.data.teacher.activation):
        needed += 8 * 8 * method.points * method.replicates * n
    require_memory(needed, f"a solve with {K} student and {M} teacher units", "use fewer units")

"""Integrating the order-parameter equations: adaptive steps, error control, divergence, accuracy."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float
from scipy.special import stdtrit

from learndyn.core.curves import Curves
from learndyn.core.divergence import DIVERGED
from learndyn.core.method import Method
from learndyn.core.progressing import Progressing, Report
from learndyn.core.record import Record
from learndyn.errors import NotConverged
from learndyn.families.two_layer.observables import TABLE, specialisation
from learndyn.families.two_layer.online.equations import TASK, Equations, equations
from learndyn.families.two_layer.student_teacher import OrderParameters
from learndyn.memory import require_memory
from learndyn.numerics.gaussian import closed_form
from learndyn.numerics.rules import GRID_DIMENSIONS, PAIR_POINTS, GaussianRule, gaussian_rule
from learndyn.numerics.statistics import mean_and_error
from learndyn.problem.checks import number, whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem

CHUNKS = 8
"""An expensive integration is cut into this many calls, so that progress shows and Ctrl-C works."""


LOOSER = 100.0
"""A second integration with tolerances larger by this factor shows the accuracy of the first."""
COARSER = 4
"""Grids of the second integration have fewer points, by this factor."""
LEFT = 1 / (COARSER ** (1 / GRID_DIMENSIONS) - 1)
"""Bound on the error of the finer grids, in units of the difference: at a kink it falls at least as the spacing."""
CONFIDENCE = 0.95
"""Errors of quasi-random averages are below the stated accuracy with this probability."""


class Segment(NamedTuple):
    """What one call of the integrator returns: states and losses, the time it reached, and its number of steps."""

    states: OrderParameters
    losses: Array
    reached: Array
    steps: Array


def integrate(
    system: Equations,
    y: OrderParameters,
    rule: GaussianRule | None,
    t0: Float[Array, ""] | float,
    times: Float[Array, " times"],
    jumps: Float[Array, " jumps"],
    tolerance: Float[Array, " 2"],
    max_steps: int,
    differentiable: bool,
) -> Segment:
    """The states and losses at `times`, from the state `y` at `t0`. Times not reached are infinite."""
    # One flat vector: on a small state most of the time of a step goes into the number of operations.
    start, unflatten = ravel_pytree(y)
    bound = DIVERGED * (1 + jnp.max(jnp.abs(start)) + jnp.max(jnp.abs(system.T)))

    # Compiled by itself only in name: diffrax asks for the right-hand side five times, and JAX then traces it once.
    @jax.jit
    def velocity(t: Any, state: Float[Array, " n"], args: None) -> Float[Array, " n"]:
        return ravel_pytree(system.velocity(t, unflatten(state), rule))[0]

    def diverged(
        t: Float[Array, ""], state: Float[Array, " n"], args: None, **_: Any
    ) -> Bool[Array, ""]:
        return jnp.max(jnp.abs(state)) > bound

    controller = diffrax.PIDController(rtol=tolerance[0], atol=tolerance[1])
    if len(jumps):
        controller = diffrax.ClipStepSizeController(controller, jump_ts=jumps)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(velocity),
        diffrax.Dopri8(),
        t0=t0,
        t1=times[-1],
        # A guess, which the controller corrects; asking for a better one would compile the right-hand side twice more.
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
    losses = jax.vmap(lambda state: system.test_loss(state, rule))(states)
    reached = solution.ts[1][-1]  # pyright: ignore[reportOptionalSubscript]
    return Segment(states, losses, reached, solution.stats["num_steps"])


@eqx.filter_jit
def _integrate(
    system: Equations,
    y: OrderParameters,
    rules: GaussianRule | None,
    t0: Float[Array, ""] | float,
    times: Float[Array, " times"],
    jumps: Float[Array, " jumps"],
    tolerance: Float[Array, " 2"],
    max_steps: int,
) -> Segment:
    """`integrate` for every quadrature rule (leading axis of `y` and of `rules`), or once without one."""

    def replicate(y: OrderParameters, rule: GaussianRule | None) -> Segment:
        return integrate(system, y, rule, t0, times, jumps, tolerance, max_steps, False)

    if rules is None:
        return jax.tree.map(lambda x: x[None], replicate(jax.tree.map(lambda x: x[0], y), None))
    return jax.vmap(replicate)(y, rules)


class Quadrature(NamedTuple):
    """The rules of the averages, one per replicate, and coarser rules to compare with; None for closed forms.

    `sampled` says whether the points are quasi-random, so that replicates are independent.
    """

    rules: GaussianRule | None
    coarser: GaussianRule | None
    sampled: bool


def quadrature(system: Equations, K: int, method: "OrderParameterODE", seed: int) -> Quadrature:
    """The rules for averages over the fields of K student units and all teacher units."""
    if closed_form(system.student, system.teacher):
        return Quadrature(None, None, False)
    n, replicates = K + system.T.shape[0], method.replicates
    rules = gaussian_rule(n, method.points, replicates, seed)
    pair_points = round(PAIR_POINTS / np.sqrt(COARSER))
    if n <= GRID_DIMENSIONS:
        coarser = gaussian_rule(
            n, method.points // COARSER, replicates, seed, pair_points=pair_points
        )
        return Quadrature(rules, coarser, False)
    pairs = gaussian_rule(2, 4, replicates, seed, pair_points=pair_points).pairs
    # Gradient flow needs averages over two fields only.
    return Quadrature(rules, rules._replace(pairs=pairs), not system.flow)


NAMES = ("test_loss", "Q", "R", "v")
"""The observables that an integration records, in the order of its arrays."""


@eqx.filter_jit
def _losses(
    system: Equations, y: OrderParameters, rules: GaussianRule | None
) -> Float[Array, " replicates"]:
    """The test loss of a state for every quadrature rule (leading axis of `y` and `rules`), or without a rule."""
    if rules is None:
        return jax.vmap(lambda y: system.test_loss(y))(y)
    return jax.vmap(system.test_loss)(y, rules)


class OrderParameterIntegration(Progressing):
    """The order parameters during training, for each of several quadrature rules."""

    changeable = (*TASK, "data.batch")

    def __init__(
        self,
        problem: Problem,
        rules: GaussianRule | None,
        method: "OrderParameterODE",
        looser: float = 1.0,
    ):
        self.system, start = equations(problem)
        self.rules, self.max_steps = rules, method.max_steps
        self.tolerance = looser * jnp.asarray([method.rtol, method.atol])
        replicates = 1 if rules is None else jax.tree.leaves(rules)[0].shape[0]
        self.y = jax.tree.map(lambda x: jnp.broadcast_to(x, (replicates, *x.shape)), start)
        self.training = problem.training
        self.now, self.steps = 0.0, 0
        self.pieces: list[tuple[np.ndarray, ...]] = []

    def change(self, problem: Problem):
        self.system, _ = equations(problem)
        self.training = problem.training

    def _present(self) -> tuple:
        """The loss and the order parameters at present (replicates × 1 × …)."""
        loss = _losses(self.system, self.y, self.rules)
        return tuple(np.asarray(x)[:, None] for x in (loss, *self.y))

    def advance(self, states: Sequence[float] | np.ndarray, report: Report) -> int:
        """Go through all states in chunks of equal length."""
        times = np.asarray(states, dtype=float)
        if times[-1] == self.now:
            self.pieces.append(self._present())
            return len(times)
        K, M = self.y.R.shape[1:]
        expensive = self.rules is not None or (K * (K + M)) ** 2 > 1e5
        chunks = CHUNKS if expensive and len(times) >= 2 * CHUNKS else 1
        # Chunks of equal length compile once, and so do numbers of times up to the same power of two: the last interval
        # is divided to fill up the last chunk.
        length = -(-len(times) // chunks) if chunks > 1 else _power_of_two(len(times))
        spare = length * chunks - len(times)
        before = times[-2] if len(times) > 1 else self.now
        padded = np.concatenate([times[:-1], np.linspace(before, times[-1], spare + 2)[1:]])
        jumps = jnp.asarray(self.training.breakpoints(times[-1]))
        integrated = []
        for chunk in range(chunks):
            chunk_times = padded[chunk * length : (chunk + 1) * length]
            integrated.append(self._integrated(chunk_times, jumps, times[-1]))
            if not np.isfinite(integrated[-1][0]).all():
                break
            report(chunk_times[-1])
        arrays = [np.concatenate(parts, axis=1) for parts in zip(*integrated, strict=True)]
        recorded = np.r_[0 : len(times) - 1, len(padded) - 1]
        recorded = recorded[recorded < arrays[0].shape[1]]
        arrays = [a[:, recorded] for a in arrays]
        reached = before_divergence(arrays)
        self.pieces.append(tuple(a[:, :reached] for a in arrays))
        return reached

    def _integrated(self, times: np.ndarray, jumps: Float[Array, " jumps"], end: float) -> tuple:
        """Losses and order parameters at `times` (replicates × times × …), infinite where they diverged."""
        segment = _integrate(
            self.system,
            self.y,
            self.rules,
            jnp.asarray(self.now),
            jnp.asarray(times),
            jumps,
            self.tolerance,
            self.max_steps,
        )
        used = int(np.max(segment.steps))
        self.steps += used
        if used >= self.max_steps and not np.isfinite(segment.losses).all():
            stopped = float(np.min(segment.reached))
            raise NotConverged(
                f"the integrator used up max_steps = {self.max_steps} at time {stopped:.6g} of {end:.6g}; "
                "give OrderParameterODE a larger max_steps or larger tolerances"
            )
        self.y = jax.tree.map(lambda x: x[:, -1], segment.states)
        self.now = float(times[-1])
        return tuple(np.asarray(x) for x in (segment.losses, *segment.states))

    def replicates(self) -> dict[str, np.ndarray]:
        """Losses and order parameters at all recorded states (replicates × states × …)."""
        joined = (np.concatenate(parts, axis=1) for parts in zip(*self.pieces, strict=True))
        return dict(zip(NAMES, joined, strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        return self._observables(self.replicates())

    def observe(self) -> dict[str, np.ndarray]:
        return self._observables(dict(zip(NAMES, self._present(), strict=True)))

    def _observables(self, replicates: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        means = {name: array.mean(0) for name, array in replicates.items()}
        special = specialisation(means["Q"], means["R"], np.asarray(self.system.T))
        return means | {"specialisation": special}


def _power_of_two(count: int) -> int:
    """The smallest power of two, from 16 on, that is not below a count."""
    return max(1 << (count - 1).bit_length(), 16)


def before_divergence(arrays: list[np.ndarray]) -> int:
    """The number of states (the second axis) before the first with a value that is not finite."""
    finite = np.all([np.isfinite(a).all(axis=(0, *range(2, a.ndim))) for a in arrays], axis=0)
    return len(finite) if finite.all() else int(np.argmin(finite))


def _named(arrays: list[np.ndarray], problem: Problem) -> dict[str, np.ndarray]:
    """Losses and order parameters at all states by name, and the specialisation that follows from them."""
    named: dict[str, np.ndarray] = dict(zip(NAMES, arrays, strict=True))
    special = specialisation(named["Q"], named["R"], problem.data.task.T)
    return named | {"specialisation": special}


def _stacked(*leaves: Any) -> Any:
    """One field of several problems, stacked if it is numeric; non-numeric fields are equal across the problems."""
    if isinstance(leaves[0], float | np.ndarray):
        return jnp.asarray(np.stack(leaves))
    return leaves[0]


@eqx.filter_jit
def _integrate_many(
    problems: Problem,
    times: Float[Array, " times"],
    jumps: Float[Array, "problems jumps"],
    tolerance: Float[Array, " 2"],
    max_steps: int,
) -> Segment:
    """`integrate` for every problem (leading axis of the numbers in `problems`, and of `jumps`)."""

    def solve_problem(problem: Problem, jumps: Float[Array, " jumps"]) -> Segment:
        system, y = equations(problem)
        return integrate(system, y, None, 0.0, times, jumps, tolerance, max_steps, False)

    return eqx.filter_vmap(solve_problem)(problems, jumps)


class OrderParameterODE(Method):
    """Integrate the order-parameter equations by an adaptive Runge–Kutta method of order 8.

    Activations without closed-form integrals need quadrature rules. For up to three fields, K + M ≤ 3, and in gradient
    flow, the rules are grids, and grids with a quarter of the points show their error. Otherwise they are independent
    sets of quasi-random points, and their spread is the error estimate.

    - `rtol`: bound on the relative local error. 1e-9 unless given.
    - `atol`: bound on the absolute local error. 1e-12 unless given.
    - `max_steps`: the largest number of integration steps. One million unless given.
    - `points`: points of each quadrature rule. 4096 unless given.
    - `replicates`: number of quadrature rules. 4 unless given.
    """

    libraries = ("diffrax",)

    rtol: float = field(number(above=0), default=1e-9)
    atol: float = field(number(above=0), default=1e-12)
    max_steps: int = field(whole(1), default=1_000_000)
    points: int = field(whole(16), default=2**12)
    replicates: int = field(whole(2), default=4)

    def start(self, problem: Problem, seed: int = 0) -> OrderParameterIntegration:
        system, y = equations(problem)
        rules = quadrature(system, y.v.shape[0], self, seed).rules
        return OrderParameterIntegration(problem, rules, self)

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        """Integrate twice; the change under looser tolerances and coarser grids is the stated accuracy."""
        K, M = problem.network.R.shape
        _require_memory(K, M, self, problem)
        system, _ = equations(problem)
        rules, coarser, sampled = quadrature(system, K, self, seed)
        fine = OrderParameterIntegration(problem, rules, self)
        loose = OrderParameterIntegration(problem, coarser, self, LOOSER)
        end = record.last
        fine_count = fine.advance(record.at, lambda t: report(0.6 * t / end))
        loose_count = loose.advance(record.at, lambda t: report(0.6 + 0.4 * t / end))
        count = min(fine_count, loose_count)
        averages = "closed form" if rules is None else "quadrature"
        spread = fine.replicates() if sampled else {}
        fine_curves = Curves(TABLE, record, fine.arrays(), count)
        loose_curves = Curves(TABLE, record, loose.arrays(), count)
        return self._with_evidence(fine_curves, loose_curves, fine.steps, averages, spread)

    def _with_evidence(
        self,
        curves: Curves,
        loose: Curves,
        steps: int,
        averages: str = "closed form",
        spread: dict[str, np.ndarray] | None = None,
    ) -> Curves:
        """The curves with their accuracy, from a looser integration and from the spread of the samples."""
        accuracy = curves.differences(loose)
        del accuracy["specialisation"]
        for name in accuracy:
            if averages == "quadrature":
                accuracy[name] *= LEFT
            if spread:
                # Few replicates give a poor estimate of the spread; Student's distribution allows for that.
                replicates = spread[name][:, : curves.count]
                factor = stdtrit(len(replicates) - 1, (1 + CONFIDENCE) / 2)
                error = mean_and_error(replicates)[1]
                accuracy[name] += factor * float(np.max(error, initial=0.0))
        return curves.told(
            tolerances={"rtol": self.rtol, "atol": self.atol},
            accuracy=accuracy,
            averages=averages,
            integration_steps=steps,
        )

    def trace(self, problem: Problem, record: Record) -> dict[str, Array]:
        system, y = equations(problem)
        rules = quadrature(system, y.v.shape[0], self, seed=0).rules
        rule = None if rules is None else rules.replicate(0)
        jumps = jnp.asarray(problem.training.breakpoints(record.last))
        tolerance, times = jnp.asarray([self.rtol, self.atol]), jnp.asarray(record.at)
        segment = integrate(system, y, rule, 0.0, times, jumps, tolerance, self.max_steps, True)
        Q, R, v = segment.states
        special = specialisation(Q, R, system.T, jnp)
        return {"test_loss": segment.losses, "Q": Q, "R": R, "v": v, "specialisation": special}

    def pays_together(self, problems: Sequence[Problem], record: Record) -> bool:
        """True unless the averages need quadrature or the numbers of jumps in the rates differ."""
        first = problems[0]
        jumps = {len(problem.training.breakpoints(record.last)) for problem in problems}
        return len(jumps) == 1 and closed_form(first.network.activation, first.data.task.activation)

    def solve_many(
        self,
        problems: Sequence[Problem],
        record: Record,
        seed: int,
        wanted: Sequence[str] | None = None,
    ) -> list[Curves]:
        """Solve side by side. Every problem keeps its own steps, so numbers equal those of `solve` up to rounding."""
        if not self.pays_together(problems, record):
            return super().solve_many(problems, record, seed, wanted)
        jumps = jnp.asarray([problem.training.breakpoints(record.last) for problem in problems])
        tolerance, times = jnp.asarray([self.rtol, self.atol]), jnp.asarray(record.at)
        stacked = jax.tree.map(_stacked, *problems)
        fine, loose = (
            _integrate_many(stacked, times, jumps, scale * tolerance, self.max_steps)
            for scale in (1.0, LOOSER)
        )
        if any(int(np.max(segment.steps)) >= self.max_steps for segment in (fine, loose)):
            raise NotConverged(f"an integrator used up max_steps = {self.max_steps}")
        steps = np.asarray(fine.steps)
        both = [
            [np.asarray(x) for x in (segment.losses, *segment.states)] for segment in (fine, loose)
        ]
        curves = []
        for i, problem in enumerate(problems):
            reached = min(before_divergence([x[i][None] for x in arrays]) for arrays in both)
            fine_curves, loose_curves = (
                Curves(TABLE, record, _named([x[i, :reached] for x in arrays], problem), reached)
                for arrays in both
            )
            curves.append(self._with_evidence(fine_curves, loose_curves, int(steps[i])))
        return curves


def _require_memory(K: int, M: int, method: OrderParameterODE, problem: Problem) -> None:
    n = K + M
    needed = 20 * 8 * (K * n * n + n * n)
    if not closed_form(problem.network.activation, problem.data.task.activation):
        needed += 8 * 8 * method.points * method.replicates * n
    require_memory(needed, f"a solve with {K} student and {M} teacher units", "use fewer units")

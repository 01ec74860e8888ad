"""Neural ODEs on fresh trajectories: the whole of training is a map of a few numbers.

With the K, V, N of one step (`epoch.py`), which depend on the amplitudes a and the overlaps Q and M only, A = 1 − η(K +
λ), T the teacher's overlaps and a batch of B trajectories,

    M ← AM + ηVT,    Q ← AQAᵀ + η(AMVᵀ + VMᵀAᵀ) + η²VTVᵀ + η²N/B,    C_θ(k+1, l) = A_k C_θ(k, l) + ηV_k M_lᵀ,

exact as d → ∞ on the Euler grid of the finite system. Every step costs one forward and one backward sweep.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from learndyn.core.divergence import diverged
from learndyn.core.progressing import Progressing
from learndyn.errors import ProblemError
from learndyn.families.neural_ode.limit.epoch import Epoch, epoch
from learndyn.families.neural_ode.limit.flow_numbers import (
    RULE,
    FlowNumbers,
    Overlaps,
    flow_of,
    overlaps_of,
)
from learndyn.families.neural_ode.limit.trajectories import Trajectory, teacher_of
from learndyn.families.neural_ode.observables import none_reached
from learndyn.families.neural_ode.pair import FlowPair, steps_are_correlated
from learndyn.problem.schedules import as_schedule
from learndyn.problem.weight_response import rates

ROOM, UNUSED = 16, -1
"""Records for which there is room at first, and the number of a record that is not there."""
CHUNK = 32
"""At most so many training steps are compiled into one call: then progress is shown, and divergence noticed."""


def require_independent_steps(problem) -> None:
    """Refuse a problem for which the map does not hold."""
    if steps_are_correlated(problem):
        allowed = (
            "must be TrainingMemory here: training steps are correlated by reused or chained trajectories, or by a "
            "part of the field that does not depend on the state (G(0, m) ≠ 0)"
        )
        raise ProblemError("method", "OverlapMap", allowed)


class MapState(NamedTuple):
    """Where training is, with C_θ(k, l) between now and the recorded steps l (steps × units × units)."""

    now: Overlaps
    C_theta: Array


class UpdateRule(NamedTuple):
    """How a step moves the controls, besides its rate: decay λ and batch B."""

    decay: Array
    batch: Array


def moved(flow: FlowNumbers, step: Epoch, now: Overlaps, eta, rule: UpdateRule, eta_a=0.0):
    """The overlaps after a step, with A and ηV."""
    A = (1 - eta * rule.decay) * jnp.eye(len(now.a)) - eta * step.K
    pull = eta * step.V
    mixed = A @ now.M @ pull.T
    Q = A @ now.Q @ A.T + mixed + mixed.T + pull @ flow.T @ pull.T
    Q = Q + eta**2 * step.N / rule.batch
    a = now.a - eta_a * step.pull if flow.train_amplitudes else now.a
    return Overlaps(a, Q, A @ now.M + pull @ flow.T), A, pull


def steps(
    flow: FlowNumbers,
    x: tuple[Trajectory, ...],
    rule: UpdateRule,
    state: MapState,
    M_saved,
    etas,
    index,
    saved,
):
    """Training steps with the rates `etas` (η and η_a in two columns), the first of which is number `index`.

    `M_saved` holds M at the recorded steps reached so far. Returns the last state, M_saved, and what is recorded before
    each step.
    """

    def one(carry, eta):
        state, M_saved, k = carry
        now = state.now
        here = (saved == k)[:, None, None]
        M_saved = jnp.where(here, now.M, M_saved)
        row = jnp.where(here, now.Q, state.C_theta)
        made = epoch(flow, x, now, k)
        after, A, pull = moved(flow, made, now, eta[0], rule, eta[1])
        next_row = A @ row + pull @ jnp.swapaxes(M_saved, -1, -2)
        next_row = jnp.where((saved <= k)[:, None, None], next_row, 0.0)
        out = {"Q": now.Q, "m": now.M, "a": now.a, "C_theta": row}
        out |= {"test_loss": made.loss, "train_loss": made.visible_loss}
        return (MapState(after, next_row), M_saved, k + 1), out

    (state, M_saved, _), out = jax.lax.scan(one, (state, M_saved, index), etas)
    return state, M_saved, out


_epoch = eqx.filter_jit(epoch)
_teacher = eqx.filter_jit(teacher_of)
_teachers = eqx.filter_jit(eqx.filter_vmap(teacher_of))


@eqx.filter_jit
def _steps(flow, x, rule, state, M_saved, etas, index, saved):
    """`steps` for several problems, along the first axis of all but `index` and `saved`."""

    def one(flow, x, rule, state, M_saved, etas):
        return steps(flow, x, rule, state, M_saved, etas, index, saved)

    return eqx.filter_vmap(one)(flow, x, rule, state, M_saved, etas)


class MapInputs(NamedTuple):
    """A problem on one Euler grid, and the state in which it starts."""

    flow: FlowNumbers
    rule: UpdateRule
    start: MapState
    M_saved: Array


def map_inputs(problem, saved) -> MapInputs:
    """The setting of a problem whose steps `saved` are recorded."""
    data, training = problem.data, problem.training
    pair = FlowPair.of(problem)
    flow = flow_of(pair)
    rule = UpdateRule(jnp.asarray(training.weight_decay, float), jnp.asarray(data.batch, float))
    start = overlaps_of(pair.start())
    zeros = [jnp.zeros((len(saved), *x.shape)) for x in (start.Q, start.M)]
    return MapInputs(flow, rule, MapState(start, zeros[0]), zeros[1])


def both_rates(training, steps: int):
    """η and η_a of the steps, in two columns."""
    first = rates(training, steps)
    if training.readout_learning_rate is None:
        return jnp.stack([first, first], axis=1)
    second = as_schedule(training.readout_learning_rate)(np.arange(steps, dtype=float))
    return jnp.stack([first, second], axis=1)


def curves(problem, saved: np.ndarray, report) -> dict[str, np.ndarray]:
    """Overlaps and losses at the recorded steps, up to the first that is not reached."""
    return curves_of([problem], saved, report)[0]


def curves_of(problems: list, saved: np.ndarray, report) -> list[dict[str, np.ndarray]]:
    """`curves` for problems that differ in numbers only, side by side."""
    last, count = int(saved[-1]), len(problems)
    length = min(CHUNK, last + 1)
    etas = np.zeros((count, -(-(last + 1) // length) * length, 2))
    for row, problem in zip(etas, problems, strict=True):
        row[:last] = np.asarray(both_rates(problem.training, problem.training.steps))[:last]
    made = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *[map_inputs(problem, saved) for problem in problems]
    )
    x = _teachers(made.flow)
    state, M_saved, at = made.start, made.M_saved, jnp.asarray(saved)
    recorded: list[dict[str, list]] = [{} for _ in problems]
    going = np.ones(count, dtype=bool)
    for index in range(0, last + 1, length):
        chunk = jnp.asarray(etas[:, index : index + length])
        state, M_saved, out = _steps(
            made.flow, x, made.rule, state, M_saved, chunk, jnp.asarray(index), at
        )
        values = {name: np.asarray(value) for name, value in out.items()}
        for i in np.flatnonzero(going):
            here = saved[(saved >= index) & (saved < index + length)] - index
            size = np.maximum(
                np.abs(values["test_loss"][i]), np.max(np.abs(values["Q"][i]), axis=(1, 2))
            )
            lost = np.flatnonzero(diverged(size))
            if lost.size:
                here, going[i] = here[here < lost[0]], False
            for name, value in values.items():
                recorded[i].setdefault(name, []).append(value[i, here])
        if not going.any():
            break
        report(min((index + length) / (last + 1), 1.0))
    return [_joined(problem, one) for problem, one in zip(problems, recorded, strict=True)]


def _joined(problem, recorded: dict[str, list]) -> dict[str, np.ndarray]:
    found = {name: np.concatenate(parts) for name, parts in recorded.items()}
    found["C_theta"] = _symmetric(found["C_theta"][:, : len(found["Q"])], np)
    return shown(problem, found)


def _symmetric(lower, xp):
    """C_θ (steps × units × steps × units) from its part with k ≥ l (steps k × steps l × units × units)."""
    full = xp.swapaxes(lower, 1, 2)
    count, units = full.shape[:2]
    full = full.reshape(count * units, count * units)
    # A block on the diagonal is Q, symmetric already.
    return (xp.tril(full) + xp.tril(full, -1).T).reshape(count, units, count, units)


def shown(problem, arrays: dict) -> dict:
    """The arrays without a train loss that is the test loss."""
    seen = problem.task.observations is not None
    return {name: x for name, x in arrays.items() if seen or name != "train_loss"}


def traced_curves(problem, saved: np.ndarray) -> dict[str, Array]:
    """`curves` as a pure JAX function of the numbers of the problem."""
    made = map_inputs(problem, saved)
    last = int(saved[-1])
    etas = both_rates(problem.training, problem.training.steps)[:last]
    etas = jnp.concatenate([etas, jnp.zeros((1, 2))])
    x = teacher_of(made.flow)
    _, _, out = steps(
        made.flow, x, made.rule, made.start, made.M_saved, etas, jnp.asarray(0), jnp.asarray(saved)
    )
    found = {name: value[saved] for name, value in out.items()}
    return shown(problem, found | {"C_theta": _symmetric(found["C_theta"], jnp)})


def inference(flow: FlowNumbers, a, Q, M) -> dict[str, np.ndarray]:
    """Correlations and responses within a training step with amplitudes a and overlaps Q and M."""
    now = Overlaps(jnp.asarray(a, float), jnp.asarray(Q, float), jnp.asarray(M, float))
    made = _epoch(flow, _teacher(flow), now)
    (course,) = made.courses
    arrays = {"C_xx": course.x.C, "R_xx": course.x.R, "C_yy": course.y.C, "R_yy": course.y.R}
    arrays |= {"C_yx": course.C_yx} | course.p._asdict()
    return {name: np.asarray(value) for name, value in arrays.items()}


def loss_of(flow: FlowNumbers, a, Q, M) -> float:
    """The loss on fresh trajectories, all that is ever observed of them."""
    now = Overlaps(jnp.asarray(a, float), jnp.asarray(Q, float), jnp.asarray(M, float))
    return float(_epoch(flow, _teacher(flow), now).loss)


class MapTraining(Progressing):
    """The map on its way through training, a step at a time."""

    now: int = 0
    changeable = (*RULE, "data.batch", "data.task.observations", "data.task.chained")

    def __init__(self, problem):
        self.saved = np.full(ROOM, UNUSED)
        self.change(problem)
        self.state, self.M_saved = self.setting.start, self.setting.M_saved
        self.kept: list[dict[str, np.ndarray]] = []
        self.lost = False

    def _step(self, rates):
        """One step with these rates; the state after it, and what was recorded before."""
        given = (jnp.asarray(rates)[None, None], jnp.asarray(self.now), jnp.asarray(self.saved))
        setting = self.setting
        state, M_saved, out = _steps(
            setting.flow, self.x, setting.rule, self.state, self.M_saved, *given
        )
        return state, M_saved, {name: np.asarray(value)[0, 0] for name, value in out.items()}

    def _diverged(self, out: dict) -> bool:
        return bool(np.any(diverged(out["test_loss"])) or np.any(diverged(out["Q"])))

    def advance(self, states, report):
        for number, state in enumerate(states):
            while self.now < state and not self.lost:
                after, M_saved, out = self._step(self.etas[self.now])
                self.lost = self._diverged(out)
                self.state, self.M_saved = after, M_saved
                self.now += not self.lost
                report(self.now)
            if self.lost or not self._keep():
                return number
        return len(states)

    def _keep(self) -> bool:
        """Record the present state, unless training has diverged."""
        count = len(self.kept)
        if count == len(self.saved):
            self._make_room()
        self.saved[count] = self.now
        state, M_saved, out = self._step(np.zeros(2))
        self.lost = self._diverged(out)
        if self.lost:
            return False
        # A step of rate zero leaves everything as it is, but for the new record.
        self.state, self.M_saved = state, M_saved
        self.kept.append(out)
        return True

    def _make_room(self) -> None:
        """Twice as many records: each number of them is compiled once."""
        count = len(self.saved)
        self.saved = np.concatenate([self.saved, np.full(count, UNUSED)])
        wider = ((0, 0), (0, count), (0, 0), (0, 0))
        self.M_saved = jnp.pad(self.M_saved, wider)
        self.state = self.state._replace(C_theta=jnp.pad(self.state.C_theta, wider))

    def arrays(self):
        count = len(self.kept)
        if not count:
            return shown(self.problem, none_reached(*self.M_saved.shape[2:]))
        names = self.kept[0].keys() - {"C_theta"}
        found = {name: np.stack([one[name] for one in self.kept]) for name in names}
        # Rows of C_θ are as long as there was room when they were recorded.
        rows = np.zeros((count, count, *found["Q"].shape[1:]))
        for row, one in zip(rows, self.kept, strict=True):
            known = min(len(one["C_theta"]), count)
            row[:known] = one["C_theta"][:known]
        return shown(self.problem, found | {"C_theta": _symmetric(rows, np)})

    def observe(self):
        _, _, out = self._step(np.zeros(2))
        found = {name: value[None] for name, value in out.items() if name != "C_theta"}
        return shown(self.problem, found | {"C_theta": found["Q"][:, :, None]})

    def after(self):
        return self.now + 1

    def change(self, problem):
        require_independent_steps(problem)
        setting = map_inputs(problem, self.saved)
        self.problem = problem
        # The compiled steps are for several problems side by side.
        self.setting = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], setting)
        self.x = _teachers(self.setting.flow)
        self.etas = np.asarray(both_rates(problem.training, problem.training.steps))

"""Neural ODEs on fresh trajectories: training is a map of amplitudes and overlaps.

With the K, V, N of one step (`epoch.py`), which depend on the amplitudes a and the overlaps Q and M only, A = 1 − η(K +
λ), T the teacher's overlaps and a batch of B trajectories,

    M ← AM + ηVT,    Q ← AQAᵀ + η(AMVᵀ + VMᵀAᵀ) + η²VTVᵀ + η²N/B,    C_θ(k+1, l) = A_k C_θ(k, l) + ηV_k M_lᵀ,

exact as d → ∞ on the Euler grid of the finite system. Every step costs one forward and one backward sweep.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from learndyn.core.divergence import diverged
from learndyn.core.progressing import Progressing, Report
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
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import as_schedule
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import rates

ROOM, UNUSED = 16, -1
"""The number of records that there is room for at first, and the step of a record that is not used yet."""
CHUNK = 32
"""The largest number of training steps in one compiled call; between calls, progress and divergence are reported."""

Numbers = ArrayLike | Sequence[Sequence[float]]
"""Amplitudes or overlaps, as an array or as nested lists."""
Recorded = dict[str, Float[Array, "steps ..."]]
"""Overlaps and losses before each of several steps."""


def require_independent_steps(problem: Problem) -> None:
    """Refuse a problem whose training steps are correlated: the map does not hold for it."""
    if steps_are_correlated(problem):
        allowed = (
            "must be TrainingMemory here: training steps are correlated by reused or chained trajectories, or by a "
            "part of the field that does not depend on the state (G(0, m) ≠ 0)"
        )
        raise ProblemError("method", "OverlapMap", allowed)


class MapState(NamedTuple):
    """The overlaps at the present step k, and C_θ(k, l) with the recorded steps l."""

    now: Overlaps
    C_theta: Float[Array, "records units units"]


class UpdateRule(NamedTuple):
    """The decay λ and the batch size B of a training step."""

    decay: Float[Array, ""]
    batch: Float[Array, ""]


def moved(
    flow: FlowNumbers,
    step: Epoch,
    now: Overlaps,
    eta: float | Float[Array, ""],
    rule: UpdateRule,
    eta_a: float | Float[Array, ""] = 0.0,
) -> tuple[Overlaps, Float[Array, "units units"], Float[Array, "units teacher_units"]]:
    """The overlaps after a step with the rates η and η_a, with A and ηV."""
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
    M_saved: Float[Array, "records units teacher_units"],
    etas: Float[Array, "steps 2"],
    index: Int[Array, ""],
    saved: Int[Array, " records"],
) -> tuple[MapState, Float[Array, "records units teacher_units"], Recorded]:
    """Several training steps, the first of which is number `index`.

    - `flow`: the numbers of student and teacher
    - `x`: the teacher's trajectories
    - `rule`: λ and B
    - `state`: the state before the first of these steps
    - `M_saved`: M at the recorded steps reached so far
    - `etas`: η and η_a of every step
    - `saved`: the recorded steps

    Returns the last state, M_saved, and the overlaps and losses before each step.
    """

    def step(
        carry: tuple[MapState, Array, Array], eta: Float[Array, " 2"]
    ) -> tuple[tuple[MapState, Array, Array], dict[str, Array]]:
        state, M_saved, k = carry
        now = state.now
        here = (saved == k)[:, None, None]
        M_saved = jnp.where(here, now.M, M_saved)
        row = jnp.where(here, now.Q, state.C_theta)
        now_step = epoch(flow, x, now, k)
        after, A, pull = moved(flow, now_step, now, eta[0], rule, eta[1])
        next_row = A @ row + pull @ jnp.swapaxes(M_saved, -1, -2)
        next_row = jnp.where((saved <= k)[:, None, None], next_row, 0.0)
        out = {"Q": now.Q, "m": now.M, "a": now.a, "C_theta": row}
        out |= {"test_loss": now_step.loss, "train_loss": now_step.visible_loss}
        return (MapState(after, next_row), M_saved, k + 1), out

    (state, M_saved, _), out = jax.lax.scan(step, (state, M_saved, index), etas)
    return state, M_saved, out


_epoch = eqx.filter_jit(epoch)
_teacher = eqx.filter_jit(teacher_of)
_teachers = eqx.filter_jit(eqx.filter_vmap(teacher_of))


@eqx.filter_jit
def _steps(
    flow: FlowNumbers,
    x: tuple[Trajectory, ...],
    rule: UpdateRule,
    state: MapState,
    M_saved: Float[Array, "problems records units teacher_units"],
    etas: Float[Array, "problems steps 2"],
    index: Int[Array, ""],
    saved: Int[Array, " records"],
) -> tuple[MapState, Array, dict[str, Array]]:
    """`steps` for several problems, along the first axis of all arguments but `index` and `saved`."""

    def steps_of_problem(
        flow: FlowNumbers,
        x: tuple[Trajectory, ...],
        rule: UpdateRule,
        state: MapState,
        M_saved: Float[Array, "records units teacher_units"],
        etas: Float[Array, "steps 2"],
    ) -> tuple[MapState, Array, dict[str, Array]]:
        return steps(flow, x, rule, state, M_saved, etas, index, saved)

    return eqx.filter_vmap(steps_of_problem)(flow, x, rule, state, M_saved, etas)


class MapInputs(NamedTuple):
    """The arguments of `steps` for one problem: its numbers, and the state in which training starts."""

    flow: FlowNumbers
    rule: UpdateRule
    start: MapState
    M_saved: Float[Array, "records units teacher_units"]


def map_inputs(problem: Problem, saved: Int[np.ndarray, " records"]) -> MapInputs:
    """The inputs of the map for a problem whose steps `saved` are recorded."""
    data, training = problem.data, problem.training
    pair = FlowPair.of(problem)
    flow = flow_of(pair)
    rule = UpdateRule(jnp.asarray(training.weight_decay, float), jnp.asarray(data.batch, float))
    start = overlaps_of(pair.start())
    C_theta, M_saved = (jnp.zeros((len(saved), *x.shape)) for x in (start.Q, start.M))
    return MapInputs(flow, rule, MapState(start, C_theta), M_saved)


def both_rates(training: GradientDescent, steps: int) -> Float[Array, "steps 2"]:
    """The rates η of the controls and η_a of the amplitudes, at every step."""
    eta = rates(training, steps)
    if training.readout_learning_rate is None:
        return jnp.stack([eta, eta], axis=1)
    eta_a = as_schedule(training.readout_learning_rate)(np.arange(steps, dtype=float))
    return jnp.stack([eta, eta_a], axis=1)


def curves(
    problem: Problem, saved: Int[np.ndarray, " records"], report: Report
) -> dict[str, np.ndarray]:
    """Overlaps and losses at the recorded steps, up to where training diverges."""
    return curves_of([problem], saved, report)[0]


def curves_of(
    problems: list[Problem], saved: Int[np.ndarray, " records"], report: Report
) -> list[dict[str, np.ndarray]]:
    """`curves` of several problems that differ in numbers only, solved together."""
    last, count = int(saved[-1]), len(problems)
    length = min(CHUNK, last + 1)
    etas = np.zeros((count, -(-(last + 1) // length) * length, 2))
    for row, problem in zip(etas, problems, strict=True):
        row[:last] = np.asarray(both_rates(problem.training, problem.training.steps))[:last]
    inputs = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *[map_inputs(problem, saved) for problem in problems]
    )
    x = _teachers(inputs.flow)
    state, M_saved, at = inputs.start, inputs.M_saved, jnp.asarray(saved)
    recorded: list[dict[str, list[np.ndarray]]] = [{} for _ in problems]
    going = np.ones(count, dtype=bool)
    for index in range(0, last + 1, length):
        chunk = jnp.asarray(etas[:, index : index + length])
        state, M_saved, out = _steps(
            inputs.flow, x, inputs.rule, state, M_saved, chunk, jnp.asarray(index), at
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
    return [_joined(problem, parts) for problem, parts in zip(problems, recorded, strict=True)]


def _joined(problem: Problem, recorded: dict[str, list[np.ndarray]]) -> dict[str, np.ndarray]:
    """The observables of a problem, from the records of all compiled calls."""
    arrays = {name: np.concatenate(parts) for name, parts in recorded.items()}
    arrays["C_theta"] = _symmetric(arrays["C_theta"][:, : len(arrays["Q"])], np)
    return shown(problem, arrays)


def _symmetric(
    lower: Float[Any, "steps steps units units"], xp: ModuleType
) -> Float[Any, "steps units steps units"]:
    """C_θ(k, l) from its part with k ≥ l, by the functions of `xp`: NumPy or jax.numpy."""
    full = xp.swapaxes(lower, 1, 2)
    count, units = full.shape[:2]
    full = full.reshape(count * units, count * units)
    # A block on the diagonal is Q, symmetric already.
    return (xp.tril(full) + xp.tril(full, -1).T).reshape(count, units, count, units)


def shown(problem: Problem, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays, without the train loss if it is the same as the test loss."""
    observed = problem.task.observations is not None
    return {name: x for name, x in arrays.items() if observed or name != "train_loss"}


def traced_curves(problem: Problem, saved: Int[np.ndarray, " records"]) -> dict[str, Array]:
    """`curves` as a pure JAX function of the numbers of the problem."""
    inputs = map_inputs(problem, saved)
    last = int(saved[-1])
    etas = both_rates(problem.training, problem.training.steps)[:last]
    etas = jnp.concatenate([etas, jnp.zeros((1, 2))])
    x = teacher_of(inputs.flow)
    _, _, out = steps(
        inputs.flow,
        x,
        inputs.rule,
        inputs.start,
        inputs.M_saved,
        etas,
        jnp.asarray(0),
        jnp.asarray(saved),
    )
    arrays = {name: value[saved] for name, value in out.items()}
    return shown(problem, arrays | {"C_theta": _symmetric(arrays["C_theta"], jnp)})


def inference(flow: FlowNumbers, a: Numbers, Q: Numbers, M: Numbers) -> dict[str, np.ndarray]:
    """Correlations and responses along the flow in a training step, at amplitudes a and overlaps Q and M."""
    now = Overlaps(jnp.asarray(a, float), jnp.asarray(Q, float), jnp.asarray(M, float))
    (course,) = _epoch(flow, _teacher(flow), now).courses
    arrays = {"C_xx": course.x.C, "R_xx": course.x.R, "C_yy": course.y.C, "R_yy": course.y.R}
    arrays |= {"C_yx": course.C_yx} | course.p._asdict()
    return {name: np.asarray(value) for name, value in arrays.items()}


def loss_of(flow: FlowNumbers, a: Numbers, Q: Numbers, M: Numbers) -> float:
    """The loss of all observations on fresh trajectories, at amplitudes a and overlaps Q and M."""
    now = Overlaps(jnp.asarray(a, float), jnp.asarray(Q, float), jnp.asarray(M, float))
    return float(_epoch(flow, _teacher(flow), now).loss)


class MapTraining(Progressing):
    """The map, which advances through training one step at a time."""

    now: int = 0
    changeable = (*RULE, "data.batch", "data.task.observations", "data.task.chained")

    def __init__(self, problem: Problem):
        self.saved = np.full(ROOM, UNUSED)
        self.change(problem)
        self.state, self.M_saved = self.inputs.start, self.inputs.M_saved
        self.records: list[dict[str, np.ndarray]] = []
        self.has_diverged = False

    def _step(
        self, rates: Float[np.ndarray, " 2"]
    ) -> tuple[MapState, Array, dict[str, np.ndarray]]:
        """One step with the rates η and η_a: the state and M_saved after it, and the observables before it."""
        state, M_saved, out = _steps(
            self.inputs.flow,
            self.x,
            self.inputs.rule,
            self.state,
            self.M_saved,
            jnp.asarray(rates)[None, None],
            jnp.asarray(self.now),
            jnp.asarray(self.saved),
        )
        return state, M_saved, {name: np.asarray(value)[0, 0] for name, value in out.items()}

    def _diverged(self, out: dict[str, np.ndarray]) -> bool:
        """Whether observables are too large or not finite."""
        return bool(np.any(diverged(out["test_loss"])) or np.any(diverged(out["Q"])))

    def advance(self, states: Sequence[float] | np.ndarray, report: Report) -> int:
        for number, state in enumerate(states):
            while self.now < state and not self.has_diverged:
                after, M_saved, out = self._step(self.etas[self.now])
                self.has_diverged = self._diverged(out)
                self.state, self.M_saved = after, M_saved
                self.now += not self.has_diverged
                report(self.now)
            if self.has_diverged or not self._record():
                return number
        return len(states)

    def _record(self) -> bool:
        """Record the present state, unless training has diverged; whether it was recorded."""
        count = len(self.records)
        if count == len(self.saved):
            self._make_room()
        self.saved[count] = self.now
        state, M_saved, out = self._step(np.zeros(2))
        self.has_diverged = self._diverged(out)
        if self.has_diverged:
            return False
        # A step with rate zero changes nothing except for the new record.
        self.state, self.M_saved = state, M_saved
        self.records.append(out)
        return True

    def _make_room(self) -> None:
        """Double the room for records, so that few sizes are compiled."""
        count = len(self.saved)
        self.saved = np.concatenate([self.saved, np.full(count, UNUSED)])
        wider = ((0, 0), (0, count), (0, 0), (0, 0))
        self.M_saved = jnp.pad(self.M_saved, wider)
        self.state = self.state._replace(C_theta=jnp.pad(self.state.C_theta, wider))

    def arrays(self) -> dict[str, np.ndarray]:
        count = len(self.records)
        if not count:
            return shown(self.problem, none_reached(*self.M_saved.shape[2:]))
        names = self.records[0].keys() - {"C_theta"}
        arrays = {name: np.stack([record[name] for record in self.records]) for name in names}
        # A row of C_θ is as long as the room for records was at its step.
        rows = np.zeros((count, count, *arrays["Q"].shape[1:]))
        for row, record in zip(rows, self.records, strict=True):
            length = min(len(record["C_theta"]), count)
            row[:length] = record["C_theta"][:length]
        return shown(self.problem, arrays | {"C_theta": _symmetric(rows, np)})

    def observe(self) -> dict[str, np.ndarray]:
        _, _, out = self._step(np.zeros(2))
        arrays = {name: value[None] for name, value in out.items() if name != "C_theta"}
        return shown(self.problem, arrays | {"C_theta": arrays["Q"][:, :, None]})

    def after(self) -> int:
        return self.now + 1

    def change(self, problem: Problem) -> None:
        require_independent_steps(problem)
        self.problem = problem
        # The compiled steps take several problems, along a first axis; here it has length one.
        self.inputs: MapInputs = jax.tree.map(
            lambda leaf: jnp.asarray(leaf)[None], map_inputs(problem, self.saved)
        )
        self.x = _teachers(self.inputs.flow)
        self.etas = np.asarray(both_rates(problem.training, problem.training.steps))

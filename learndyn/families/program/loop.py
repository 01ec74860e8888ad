"""Problems with programs as functions of a net, and what their first state tells.

A whole loop is the user's function with its parameters. A forward pass gets the loop of gradient descent on points,

    f = outputs(x)/γ_0,   L = mean or sum of ℓ(f_μ, y_μ),   θ ← (1 − ηλ) θ + B,   B ← βB − η γ_0² θ̄ ,

or that of gradient flow.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from learndyn.core.curves import Table
from learndyn.core.record import Record
from learndyn.errors import ProblemError, ProgramError
from learndyn.families.program.identity import required, takes
from learndyn.families.program.network import ONLY_READ, OwnData, Program
from learndyn.families.program.observables import POINTS, table_of_records
from learndyn.problem.part import content_hash
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.programs import Dense, Net, run
from learndyn.programs.values import Value
from learndyn.sampling.losses import loss_on_points
from learndyn.sampling.rules import descent_rule, flow_rule, times_of
from learndyn.sampling.trainee import Loop

FLOW_TOLERANCE = 1e-3
"""The error of a step of gradient flow, unless given."""
PROBED_SIZE = 64
"""Size of the network whose first state tells what a program records."""


class Probe(NamedTuple):
    """What the first state of a small network tells of a program.

    - `steps`: the length of its loop.
    - `shapes`: the small axes of what it records.
    - `smallest`: the size of its smallest dimension, relative to the network's.
    - `bytes`: the memory of the matrices and dimensions of a network of `PROBED_SIZE`.
    """

    steps: int
    shapes: dict[str, tuple[int, ...]]
    smallest: float
    bytes: int


def loop_of(
    problem: Problem, record: Record | None = None, tolerance: float = FLOW_TOLERANCE
) -> Loop:
    """The training loop of a problem, with data and rule inside.

    In gradient flow its states are the recorded times, and `tolerance` is the error of its steps.
    """
    network = problem.network
    if network.function is None:
        raise ProblemError("network.function", network.name, ONLY_READ)
    if isinstance(problem.data, OwnData):
        return _own_loop(network)
    record = Record.of(problem.training) if record is None else record
    return functools.partial(
        training_on_points, problem=problem, times=times_of(record), tolerance=tolerance
    )


def probe_of(problem: Problem) -> Probe:
    """What the first state of a problem tells."""
    return _probed(_Case(problem.hash, loop_of(problem)))


def table_of(problem: Problem) -> Table:
    """What a problem's program records."""
    known = POINTS if isinstance(problem.data, Points) else ()
    return table_of_records(probe_of(problem).shapes, known)


def own_steps(network: Program) -> int:
    """The length of a program's own loop."""
    missing = required(network.function) - network.parameters.keys()
    if missing:
        raise _forward(network.name, f"needs {' and '.join(sorted(missing))}")
    return _probed(_Case(content_hash(network), _own_loop(network))).steps


def _own_loop(network: Program) -> Loop:
    return functools.partial(network.function, **network.parameters)


class _Case(NamedTuple):
    """A loop that is told from others by its key."""

    key: str
    loop: Loop

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Case) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class _Enough(BaseException):
    """Ends a program after its first state."""


@functools.lru_cache(maxsize=256)
def _probed(case: _Case) -> Probe:
    nets: list[Net] = []
    steps: list[int] = []

    def watched(net: Net) -> None:
        nets.append(net)
        handed_back = case.loop(net)
        if callable(handed_back) and not net.records:
            raise _forward(_name(case.loop), "hands back a function")

    watched.__name__ = _name(case.loop)

    def enough(state: int, last: int) -> None:
        steps.append(last)
        raise _Enough

    try:
        outcome = run(watched, None, Dense(PROBED_SIZE), enough)
    except _Enough:
        (net,) = nets
        shapes = {name: np.shape(value) for name, value in net.records[0].items()}
        return Probe(steps[0], shapes, net.smallest, net.bytes)
    raise ProgramError(outcome.reason or f"{_name(case.loop)} ended in its first state")


def _forward(name: str, sign: str) -> ProgramError:
    return ProgramError(
        f"{name} {sign}, so it is a forward pass: give data and training too, "
        "Problem(Program(…), Points(…), GradientDescent(…))"
    )


def _name(loop: Any) -> str:
    return getattr(getattr(loop, "func", loop), "__name__", "the program")


def training_on_points(net: Net, problem: Problem, times: np.ndarray, tolerance: float) -> None:
    """The training on given points of a network that is given as its forward pass.

    `times` are those of the states in gradient flow, and `tolerance` is the error of its steps.
    """
    network, points, training = problem.network, problem.data, problem.training
    outputs, richness = _outputs(net, network, points), network.richness
    loss = loss_on_points(training.criterion, training.loss)
    targets, test_targets = _columns(points.targets), _columns(points.test_targets)

    def f(inputs: np.ndarray) -> Value:
        return _outputs_of_points(outputs(inputs), len(inputs), points.outputs) / richness

    def in_state() -> Value:
        prediction = f(points.inputs)
        train_loss = loss(prediction, targets)
        net.record(train_loss=train_loss, prediction=prediction)
        if points.test_inputs is not None:
            with net.unrecorded():
                held_out = f(points.test_inputs)
            net.record(test_prediction=held_out)
            if test_targets is not None:
                net.record(test_loss=loss(held_out, test_targets))
        return train_loss

    def without_records() -> Value:
        with net.unrecorded():
            return loss(f(points.inputs), targets)

    if training.time is None:
        train = descent_rule(net, training, richness)
        for _ in net.steps(training.steps):
            train.step(in_state())
        return
    flow = flow_rule(net, training, richness, without_records, tolerance)
    for state in net.steps(len(times) - 1):
        in_state()
        if not net.last:
            flow.advance(float(times[state + 1]))


def _outputs(net: Net, network: Program, points: Points) -> Callable[[np.ndarray], Any]:
    """The function from points to outputs."""
    sizes = {"inputs": points.inputs.shape[1], "outputs": points.outputs}
    given = {key: value for key, value in sizes.items() if takes(network.function, key)}
    wrong = ProgramError(
        f"{network.name} must hand back a function from points to outputs, because data and training were given. "
        "If it is a whole training loop, leave them out: Problem(Program(…))"
    )

    def no_loop(steps: int) -> Any:
        raise wrong

    # A program that begins its own loop here would never come back.
    net.steps = no_loop
    outputs = network.function(net, **(network.parameters | given))
    del net.steps
    if not callable(outputs):
        raise wrong
    return outputs


def _outputs_of_points(f: Any, count: int, outputs: int) -> Value:
    """The outputs as points × outputs."""
    if not isinstance(f, Value) or f.dim is not None:
        what = f.words() if isinstance(f, Value) else f"a {type(f).__name__}"
        raise ProgramError(
            f"the outputs of the network are {what}: must be scalars, such as mean(w * a)"
        )
    if f.shape not in {(count, outputs), *([(count,)] if outputs == 1 else [])}:
        axes = f"({count},)" if outputs == 1 else f"({count}, {outputs})"
        raise ProgramError(
            f"the outputs of the network have the small axes {f.shape}: must be {axes}, points × outputs"
        )
    return f.reshape(count, outputs)


def _columns(targets: np.ndarray | None) -> np.ndarray | None:
    return None if targets is None else np.asarray(targets).reshape(len(targets), -1)

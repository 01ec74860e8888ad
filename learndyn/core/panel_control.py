"""Panels of the right length: a limit to the end of its training, with a stated accuracy."""

import itertools
import math
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

from learndyn.core.divergence import diverged
from learndyn.core.panels import NODES, Course, PanelledLimit
from learndyn.core.progressing import Report
from learndyn.errors import AtTheEdge, NotConverged

L = TypeVar("L", bound=PanelledLimit)
EXPLICIT, MEMORIES = 40, 20
"""Steps of gradient descent that are carried out one by one, until fast modes have died out. With momentum β they
oscillate and fall as β^{t/2}, which panels with any number of nodes would damp too fast: so many times 1/(1 − β)."""
OSCILLATING = 160
"""The most steps of descent that are then carried out one by one, until oscillations of losses have died out. Training
that still oscillates is at the edge of stability."""
EXPONENT = 1 / 6
"""The error of a panel with three nodes is of sixth order in its length."""
MOST_MOMENTUM = 0.96
"""With more, half of the nodes that there may be would be single steps."""
GROWTH, REJECTED, SHORTEST = 2.0, 2.0, 1e-12
"""The largest factor from one panel to the next; the error, in tolerances, above which a panel is rejected; and the
shortest panel relative to the time."""
MOST_UNSOLVED, MOST_NODES = 40, 1000
"""How many panels without a solution, and how many nodes there may be; with more, no panels would be long enough."""
AT_ENDS, WITH_FAST_MODES, LARGEST_TOLERANCE, ATTEMPTS = 25.0, 10.0, 1e-2, 4
"""The tolerance of a panel in units of that of the result, at first: if results are wanted at ends of panels, and if
fast modes are excited; its largest value; and how often it may be made smaller. Between nodes the error is of fourth
order in the length of a panel, so that it is tolerance^1.5 there."""
ESTIMATED, SOLVED = 1e-2, 1e-4
"""The precision of a panel that tells the error, and of those that stay, in units of the tolerance of a panel."""
VANISHED = 1e-3
"""The part of its start that a loss counts at least."""
FADED = 1e-3
"""Oscillations after a force of a single step must fall to this size before panels follow, in units of the tolerance of
a panel."""
RESTING = 1e-4
"""The change below which training with decay has come to rest, in units of the tolerance of a panel. What is left to
change is less than ten times this, unless the slowest mode takes a hundred times longer than weights take to forget."""
ROUNDED = 1e-12
"""What rounding leaves of observables, in units of their start."""


class Twins(NamedTuple, Generic[L]):
    """A limit, and one with a node less in each of its panels, whose difference tells the error."""

    fine: L
    coarse: L

    @property
    def end(self) -> float:
        """How far they have come."""
        return self.fine.end

    def step(self, course: Course) -> None:
        """One step of gradient descent."""
        rate = course.rate_of_step(round(self.end))
        self._carry_out("step", [limit.step(rate) for limit in self])

    def pause(self) -> None:
        """A second node at the same time."""
        self._carry_out("node", [limit.pause() for limit in self])

    def rest(self, end: float) -> None:
        """Nothing changes until this time."""
        self._carry_out("node", [limit.pause(end) for limit in self])

    def _carry_out(self, what: str, solved: list[bool]) -> None:
        if not all(solved):
            raise NotConverged(f"the single {what} at time {self.end:.4g} has no solution")


def train(twins: Twins[L], course: Course, tolerance: float, report: Report) -> None:
    """Both limits to the end of the course, in panels whose local error is about `tolerance`."""
    limit, unsolved = twins.fine, 0
    length = course.shortest() if course.steps else _first_length(limit, course)
    while limit.end < course.end:
        if limit.end in course.impulses:
            _make_impulse(twins, course, tolerance)
            length = course.shortest()
            continue
        length = course.allowed(limit.end, min(length, course.longest(limit.end)))
        if course.steps and (length < course.shortest() or _oscillates(limit, tolerance)):
            twins.step(course)
            length = course.shortest()
            continue
        error = _attempt(twins, course, length, tolerance)
        unsolved += error is None
        if unsolved > MOST_UNSOLVED or len(limit.times) > MOST_NODES:
            raise NotConverged(
                f"panels reach time {limit.end:.4g} of {course.end:.4g} with {len(limit.times)} nodes, and {unsolved} "
                "of them had no solution and were split; use a shorter training, or rows"
            )
        if error is None or error > REJECTED * tolerance:
            factor = 0.5 if error is None else max(0.2, 0.8 * (tolerance / error) ** EXPONENT)
            if course.steps and length <= course.shortest():
                # Steps one by one are exact.
                for _ in range(round(length)):
                    twins.step(course)
                continue
            _check_length(limit, length)
            length = max(length * min(factor, 0.7), course.shortest())
            continue
        if course.steps:
            _check_stability(limit, course)
        report(limit.end)
        if limit.at_rest(RESTING * tolerance) and not course.impulses:
            twins.rest(course.end)
        length *= min(GROWTH, 0.9 * (tolerance / max(error, 1e-300)) ** EXPONENT)
    if limit.end in course.impulses:
        _make_impulse(twins, course, tolerance)


def _oscillates(limit: PanelledLimit, tolerance: float) -> bool:
    """Whether a panel would damp too much of the losses; no more than the tolerance of the result at ends of panels."""
    last = len(limit.times) - 1
    if not limit.follows_steps(last) or limit.oscillation() <= tolerance / AT_ENDS:
        return False
    single = sum(1 for _ in itertools.takewhile(lambda x: x.single, reversed(limit.panels)))
    if single > explicit_steps(limit.momentum) + OSCILLATING:
        raise AtTheEdge(_at_the_edge(round(limit.end)))
    return True


def _make_impulse(twins: Twins[L], course: Course, tolerance: float) -> None:
    """A single step with a force of its own; at the end of training only the force.

    More single steps follow until the response of modes that changes its sign at every step has died out.
    """
    limit = twins.fine
    if limit.panels and not limit.panels[-1].single:
        twins.pause()
    for twin in twins:
        twin.impulses.append(len(twin.times) - 1)
    if limit.end < course.end:
        twins.step(course)
    turned = course.rate_of_step(round(limit.end)) * limit.sharpness() - 1
    fading = math.log(FADED * tolerance) / math.log(min(turned, 0.9)) if turned > 0 else 0.0
    for _ in range(math.ceil(fading)):
        if limit.end in course.impulses or limit.end >= course.end:
            return
        twins.step(course)


def explicit_steps(momentum: float) -> int:
    """The steps of gradient descent that are carried out one by one."""
    return max(EXPLICIT, math.ceil(MEMORIES / (1 - momentum)))


def _first_steps(limit: PanelledLimit, course: Course) -> None:
    """Carry out the first steps one by one."""
    while limit.end < min(explicit_steps(course.momentum), course.end):
        solved = limit.step(course.rate_of_step(round(limit.end)))
        if not solved or diverged(limit.losses[-1], limit.losses[0]):
            if solved:
                limit.withdraw()
            limit.diverged = True
            return
    edge = limit.edge_of_stability()
    if edge is not None:
        raise AtTheEdge(_at_the_edge(edge))


def _check_stability(limit: PanelledLimit, course: Course) -> None:
    """Refuse a learning rate η for which a mode that is learnt at the rate λ has come to oscillate: ηλ > 2 (1 + β)."""
    step, largest = round(limit.end), 2 * (1 + limit.momentum)
    speed = limit.sharpness() + (1 + limit.momentum) * limit.decay
    if course.rate_of_step(max(step - 1, 0)) * speed > largest:
        raise AtTheEdge(_at_the_edge(step))


def _at_the_edge(step: int) -> str:
    return (
        f"training is at the edge of stability by step {step}: its gradients change sign at every step, which panels "
        "cannot follow; use rows, the innovation basis or a smaller learning rate"
    )


def _first_length(limit: PanelledLimit, course: Course) -> float:
    rate = max(float(course.rates(np.array([0.0, course.end]))[0]), 1e-300)
    return min(0.01 / (rate * limit.speed), course.end)


def _check_length(limit: PanelledLimit, length: float) -> None:
    if length <= SHORTEST * max(limit.end, 1e-12):
        raise NotConverged(
            f"panels of length {length:.3g} at time {limit.end:.4g} are still too long; use rows or a larger tolerance"
        )


def _extended(
    limit: PanelledLimit, course: Course, length: float, count: int, precision: float
) -> bool:
    """Add a panel with so many nodes; whether that succeeded, with a solution to trust."""
    rule, end = course.rule(count, length), course.exact(limit.end + length)
    nodes = np.append((limit.end + length * rule.nodes)[:-1], end)
    before = limit.losses[-1]
    if not limit.extend(end, rule, course.rates(nodes), precision):
        return False
    risen = limit.losses[-1] > before * (1 + 1e-9) + precision * limit.losses[0]
    if risen and not (limit.decay or limit.momentum):
        # Implicit steps have several solutions, and training without decay and momentum lowers the loss.
        limit.withdraw()
        return False
    return True


def _attempt(twins: Twins[L], course: Course, length: float, tolerance: float) -> float | None:
    """Add a panel to both limits, unless its error is too large; the error as told by a panel with a node less.

    None if there is no solution to trust.
    """
    limit, coarse = twins
    if not _extended(limit, course, length, NODES - 1, ESTIMATED * tolerance):
        return None
    less = limit.summaries[-1]
    limit.withdraw()
    if not _extended(limit, course, length, NODES, SOLVED * tolerance):
        return None
    end = limit.summaries[-1]
    error = float(np.max(np.abs(end - less) / limit.scales(end)))
    trusted = error <= REJECTED * tolerance
    if trusted and _extended(coarse, course, length, NODES - 1, SOLVED * tolerance):
        return error
    limit.withdraw()
    return None if trusted else error


class PanelSolution(NamedTuple):
    """The observables at the times before training diverges, their accuracies, and the number of nodes."""

    arrays: dict[str, np.ndarray]
    accuracy: dict[str, float]
    nodes: int


def solve_in_panels(
    begin: Callable[[], L],
    read: Callable[[L, np.ndarray], dict[str, np.ndarray]],
    course: Course,
    times: Float[np.ndarray, " k"],
    tolerance: float,
    report: Report,
) -> PanelSolution:
    """The observables that `read` finds at the `times`, with losses to a relative `tolerance`.

    The accuracy is the difference from a solution with a node less in each panel, and what both of them lose. At the
    ends of panels its order is 5 instead of 7, but in long panels errors differ less than that tells. `begin` makes the
    limit at its start.
    """
    at_ends, first, reached = course.records_are_ends, begin(), []
    fast_modes = bool(course.impulses or course.momentum)
    local = (WITH_FAST_MODES if fast_modes else AT_ENDS) * tolerance if at_ends else tolerance**1.5
    local = min(local, LARGEST_TOLERANCE)
    if course.steps:
        _first_steps(first, course)
    # A loss that vanishes is known relative to its start only.
    start = read(first, np.zeros(1))
    losses = {name: abs(start[name][0]) for name in ("test_loss", "train_loss") if name in start}
    for attempt in range(ATTEMPTS):
        twins = Twins(first.copied(), first.copied())
        if not first.diverged:
            train(twins, course, local, _progress(report, course.end, attempt))
        limit, present = twins.fine, times[times <= twins.end]
        arrays, coarse = (read(twin, present) for twin in twins)
        errors = {name: np.abs(x - coarse[name]) for name, x in arrays.items()}
        relative = max(
            float(np.max(errors[name] / (np.abs(arrays[name]) + VANISHED * scale), initial=0.0))
            for name, scale in losses.items()
        )
        if relative <= tolerance:
            # What passes left, and what is left of oscillations when panels begin, in the square of a field.
            left = SOLVED * local + course.momentum ** explicit_steps(course.momentum)
            if limit.rested:
                left += 10 * RESTING * local
            damped = limit.damped(present[0]) if present.size else {}
            accuracy = {
                name: float(
                    np.max(x, initial=0.0)
                    + left * np.max(np.abs(arrays[name]), initial=0.0)
                    + ROUNDED * np.max(np.abs(start[name]), initial=0.0)
                )
                + damped.get(name, 0.0)
                for name, x in errors.items()
            }
            return PanelSolution(arrays, accuracy, len(limit.times))
        reached.append((relative, len(limit.times)))
        local *= 0.5 ** (attempt + 1) * (tolerance / relative) ** (1.2 if at_ends else 1.5)
    best, nodes = min(reached)
    raise NotConverged(
        f"panels reach a relative accuracy of {best:.2g} with {nodes} nodes, and not {tolerance:g}; use a larger "
        "tolerance, or rows"
    )


def _progress(report: Report, end: float, attempt: int) -> Report:
    """The fraction done, on a logarithmic scale of time, because panels grow with time."""

    def done(time: float) -> None:
        part = np.log1p(time / end * 1e4) / np.log1p(1e4)
        report((attempt + float(part)) / ATTEMPTS)

    return done

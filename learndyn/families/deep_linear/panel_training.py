"""`PanelTraining`: the limit of a deep linear network, panel by panel in training time."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.core.divergence import diverged
from learndyn.core.progressing import Report
from learndyn.errors import NotConverged
from learndyn.families.deep_linear.equations.panels import (
    FeedforwardPanels,
    ImpulseResponses,
    ResidualPanels,
)
from learndyn.families.deep_linear.limit_numbers import DATASET, LimitNumbers
from learndyn.families.deep_linear.observables import edge_of_stability
from learndyn.numerics.panels import PanelRule, radau, summed
from learndyn.numerics.precision import float64
from learndyn.problem.schedules import as_schedule
from learndyn.problem.training import GradientDescent

NODES = 4
"""Nodes of a panel. One with a node less shows its error."""
EXPLICIT = 40
"""Steps of gradient descent that are carried out one by one, until fast modes have died out."""
EXPONENT = 1 / 6
"""The error of a panel with three nodes is of sixth order in its length."""
GROWTH, REJECTED, SHORTEST = 2.0, 2.0, 1e-12
"""The largest factor from one panel to the next; the error, in tolerances, above which a panel is rejected; and the
shortest panel relative to the time."""
MOST_EDGES = 40
"""Up to so many recorded times are ends of panels."""


class Panel(NamedTuple):
    """A panel: its beginning and end in training time, its rule, and the number of its first node."""

    start: float
    end: float
    rule: PanelRule
    first: int

    @property
    def last(self) -> int:
        """The number of its last node, its end."""
        return self.first + len(self.rule.nodes) - 1


class PanelTraining:
    """The limit as far as its panels reach.

    Node 0 is the start of training; a panel adds the nodes of its rule, the last of which is its end. `diverged` tells
    that training diverges in the next step.
    """

    def __init__(self, numbers: LimitNumbers, decay: float):
        self.numbers, self.decay = numbers, decay
        kind = FeedforwardPanels if numbers.branch is None else ResidualPanels
        self.limit = kind(numbers)
        self.rule = ImpulseResponses()
        self.d, self.times = np.ones(1), np.zeros(1)
        self.panels: list[Panel] = []
        self.diverged = False
        Nc, beginning = numbers.outputs, np.eye(numbers.outputs)
        self.limit.solve_panel(
            np.zeros((1, 1)), np.ones(1), [(-beginning, beginning)] * len(self.limit.carried())
        )
        self.passes = [1]
        self.losses = [self._loss(Nc)]
        self.start = self.summary()

    @property
    def end(self) -> float:
        """The end of the last panel."""
        return float(self.times[-1])

    def _loss(self, rows: int) -> float:
        """The loss that training lowers, at the last of so many rows."""
        matrix = self.limit.input.C_Delta if self.numbers.data == DATASET else self.limit.input.C_v
        last = slice(rows - self.numbers.outputs, rows)
        return float(np.trace(matrix[last, last]))

    def summary(self) -> Float[np.ndarray, " numbers"]:
        """Numbers at the end of the last panel that show its error: losses, and the sizes of the fields g."""
        last = slice(self.limit.rows - self.numbers.outputs, self.limit.rows)
        matrices = [self.limit.input.C_v, *(layer.C_g for layer in self.limit.layers)]
        if self.numbers.data == DATASET:
            matrices.append(self.limit.input.C_Delta)
        return np.array([np.trace(matrix[last, last]) for matrix in matrices])

    def scales(self, summary: Float[np.ndarray, " numbers"]) -> Float[np.ndarray, " numbers"]:
        """The sizes relative to which errors of `summary` count: losses that vanish count relative to their start."""
        scales = np.abs(summary) + self.numbers.outputs * self.numbers.noise**2
        scales[0] += 1e-3 * (self.start[0])
        scales[-1] += 1e-3 * (self.start[-1])
        return scales

    def gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """|h⁰|² at all nodes, and h⁰·h⁰ at successive ones."""
        Nc, C = self.numbers.outputs, self.limit.input.C_h0[: self.limit.rows, : self.limit.rows]
        same, next_to = (np.diagonal(C, offset).reshape(-1, Nc).sum(axis=1) for offset in (0, -Nc))
        return same, next_to

    def step(self, rate: float) -> bool:
        """One step of gradient descent, as a panel with a single node."""
        n = len(self.times)
        self.rule.reserve(n + 1)
        kappa, keep = self.rule.kappa, 1 - rate * self.decay
        kappa[n, :n] = keep * kappa[n - 1, :n]
        kappa[n, n - 1] += rate
        kappa[n, n] = 0.0
        explicit = PanelRule(np.ones(1), np.zeros((1, 1)))
        return self._add(np.array([keep * self.d[-1]]), self.end + 1.0, explicit)

    def extend(self, end: float, rule: PanelRule, rates: Float[np.ndarray, " s"]) -> bool:
        """A panel up to this time, with the rates at its nodes; False if it cannot be solved."""
        n, s = len(self.times), len(rule.nodes)
        self.rule.reserve(n + s)
        a = (end - self.end) * rule.sums * rates
        undecayed = np.linalg.inv(np.eye(s) + self.decay * a)
        kept = undecayed.sum(axis=1)
        kappa = self.rule.kappa
        kappa[n : n + s, :n] = np.outer(kept, kappa[n - 1, :n])
        kappa[n : n + s, n : n + s] = undecayed @ a
        return self._add(kept * self.d[-1], end, rule)

    def _add(self, d: Float[np.ndarray, " s"], end: float, rule: PanelRule) -> bool:
        n, s = len(self.times), len(d)
        rows = self.rule.kappa[n : n + s, : n + s]
        passes = self.limit.solve_panel(rows, d, self._guess(end, rule))
        if passes is None:
            return False
        nodes = self.end + (end - self.end) * rule.nodes
        nodes[-1] = end
        self.panels.append(Panel(self.end, end, rule, n))
        self.times = np.concatenate([self.times, nodes])
        self.d = np.concatenate([self.d, d])
        self.passes.append(passes)
        self.losses.append(self._loss(self.limit.rows))
        return True

    def withdraw(self) -> None:
        """Take the last panel away."""
        first = self.panels.pop().first
        self.times, self.d = self.times[:first], self.d[:first]
        self.limit.rows = first * self.numbers.outputs
        self.passes.pop()
        self.losses.pop()

    def _guess(self, end: float, rule: PanelRule) -> list[tuple[np.ndarray, np.ndarray]]:
        """Responses are shifted along the diagonal by a panel; correlations are extrapolated from ends of panels."""
        numbers, Nc, s = self.numbers, self.numbers.outputs, len(rule.nodes)
        b, size = self.limit.rows, s * Nc
        E = np.kron(self._extrapolation(end, rule), np.eye(Nc))
        chosen = self._last_ends()
        ends = (np.array(chosen)[:, None] * Nc + np.arange(Nc)).ravel()
        guesses = []
        for number, (R, C) in enumerate(self.limit.carried()):
            R, C = R[:b, :b], C[:b, :b]
            left = E @ C[ends]
            right = E @ C[np.ix_(ends, ends)] @ E.T
            if len(self.panels) < 2:
                # Before anything is learnt, R_hr⁰ = −Σ ω_k λ_k S, and 1/(ν γ_0) times that above layer 1.
                factor = numbers.omega @ numbers.lam
                if number:
                    factor *= numbers.inverse_width / numbers.gamma
                rows = np.hstack([np.zeros((size, b)), -factor * np.eye(size)])
                if numbers.centered:
                    rows[:, :Nc] += factor * np.kron(np.ones((s, 1)), np.eye(Nc))
            else:
                rows = _shifted(R, size)
            guesses.append((rows, np.hstack([left, right])))
        return guesses

    def _last_ends(self) -> list[int]:
        ends = [0, *(panel.last for panel in self.panels)]
        return ends[-3:]

    def _extrapolation(self, end: float, rule: PanelRule) -> Float[np.ndarray, "s ends"]:
        """Weights that extrapolate from the last ends of panels to the new nodes, in the logarithm of time."""
        known = self.times[self._last_ends()]
        offset = max(known[1] - known[0], 1e-300) if len(known) > 1 else 1.0
        nodes = self.end + (end - self.end) * rule.nodes
        x, y = np.log(known + offset), np.log(nodes + offset)
        if len(known) == 1 or y[-1] - x[-1] > 2 * (x[-1] - x[0]):
            return np.ones((len(nodes), 1)) * (np.arange(len(known)) == len(known) - 1)
        weights = np.ones((len(nodes), len(known)))
        for i in range(len(known)):
            for j in range(len(known)):
                if i != j:
                    weights[:, i] *= (y - x[j]) / (x[i] - x[j])
        return weights


def _shifted(R: Float[np.ndarray, "b b"], size: int) -> Float[np.ndarray, "size b+size"]:
    """Rows that continue a response: those of the last panel, moved along the diagonal."""
    last = R[len(R) - size :]
    return np.hstack([last[:, :size], last])


class Course:
    """How the training goes on: the rules of its panels, its rates, and the edges that no panel may cross.

    - `steps`: whether time counts steps of gradient descent; otherwise it is that of gradient flow.
    - `end`: the last time.

    Recorded times are edges too, unless there are many: the ends of panels are more accurate than what lies between.
    """

    def __init__(self, training: GradientDescent, recorded: Float[np.ndarray, " k"]):
        self.steps, self.end = training.time is None, float(recorded[-1])
        self.schedule = as_schedule(training.learning_rate)
        breakpoints = [np.ceil(t) if self.steps else t for t in training.breakpoints(self.end)]
        self.records_are_ends = len(recorded) <= MOST_EDGES
        wanted = recorded.tolist() if self.records_are_ends else [self.end]
        self.edges = sorted({*breakpoints, *map(float, wanted)} - {0.0})

    def rates(self, times: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """η at times within a panel; at an edge, from the left."""
        before = times.copy()
        if before[-1] in self.edges:
            before[-1] = np.nextafter(before[-1], 0.0)
        with float64():
            return np.asarray(self.schedule(before), float)

    def rate_of_step(self, step: int) -> float:
        """η of one step."""
        with float64():
            return float(self.schedule(float(step)))

    def exact(self, time: float) -> float:
        """The time, or the edge from which it differs by rounding."""
        nearest = min(self.edges, key=lambda edge: abs(edge - time))
        return nearest if abs(nearest - time) < 1e-12 * nearest else time

    def rule(self, count: int, length: float) -> PanelRule:
        """The rule for a panel of this length."""
        return summed(count, round(length)) if self.steps else radau(count)

    def shortest(self) -> float:
        """The shortest panel."""
        return 2.0 * NODES if self.steps else 0.0

    def allowed(self, start: float, length: float) -> float:
        """A panel of about this length that ends at or before the next edge."""
        left = next(edge for edge in self.edges if edge > start) - start
        if self.steps:
            length = float(round(length))
        # Two panels of half the length, rather than a long and a very short one.
        if length >= left * (1 - 1e-12):
            return left
        if length > left / 2:
            return float(round(left / 2)) if self.steps else left / 2
        return length


def trained(
    numbers: LimitNumbers, decay: float, course: Course, tolerance: float, report: Report
) -> PanelTraining:
    """The limit to the end of the course, in panels whose local error is about `tolerance`."""
    state = PanelTraining(numbers, decay)
    length = _explicit_steps(state, course) if course.steps else _first_length(numbers, course)
    while state.end < course.end and not state.diverged:
        length = course.allowed(state.end, length)
        if course.steps and length < course.shortest():
            state.step(course.rate_of_step(round(state.end)))
            length = course.shortest()
            continue
        error = _attempt(state, course, length)
        if error is None or error > REJECTED * tolerance:
            factor = 0.5 if error is None else max(0.2, 0.8 * (tolerance / error) ** EXPONENT)
            if error is not None:
                state.withdraw()
            if course.steps and length <= course.shortest():
                # Steps one by one are exact.
                for _ in range(round(length)):
                    state.step(course.rate_of_step(round(state.end)))
                continue
            _check_length(state, length)
            length = max(length * min(factor, 0.7), course.shortest())
            continue
        report(state.end)
        length *= min(GROWTH, 0.9 * (tolerance / max(error, 1e-300)) ** EXPONENT)
    return state


def _explicit_steps(state: PanelTraining, course: Course) -> float:
    """Carry out the first steps one by one; the length of the first panel."""
    while state.end < min(EXPLICIT, course.end):
        solved = state.step(course.rate_of_step(round(state.end)))
        if not solved or diverged(state.losses[-1], state.losses[0]):
            if solved:
                state.withdraw()
            state.diverged = True
            return 0.0
    edge = edge_of_stability(*state.gradients())
    if edge is not None:
        raise NotConverged(
            f"training is at the edge of stability from step {edge}: its gradients change sign at every step, which "
            "panels cannot follow; use Rows, Innovation or a smaller learning rate"
        )
    return course.shortest()


def _first_length(numbers: LimitNumbers, course: Course) -> float:
    rate = max(float(course.rates(np.array([0.0, course.end]))[0]), 1e-300)
    # About the largest eigenvalue of the covariance of the examples.
    largest = np.max(numbers.lam) + numbers.inverse_data * (numbers.omega @ numbers.lam)
    return min(0.01 / (rate * (numbers.depth + 1) * largest), course.end)


def _check_length(state: PanelTraining, length: float) -> None:
    if length <= SHORTEST * max(state.end, 1e-12):
        raise NotConverged(
            f"panels of length {length:.3g} at time {state.end:.4g} are still too long; use Rows or a larger tolerance"
        )


def _extended(state: PanelTraining, course: Course, length: float, count: int) -> bool:
    """Add a panel with so many nodes; whether that succeeded."""
    rule, end = course.rule(count, length), course.exact(state.end + length)
    nodes = np.append((state.end + length * rule.nodes)[:-1], end)
    return state.extend(end, rule, course.rates(nodes))


def _attempt(state: PanelTraining, course: Course, length: float) -> float | None:
    """Add a panel; its error as told by a panel with a node less, or None if there is no solution to trust."""
    before, ends = state.losses[-1], []
    for count in (NODES - 1, NODES):
        if not _extended(state, course, length, count):
            return None
        ends.append(state.summary())
        if count < NODES:
            state.withdraw()
    risen = state.losses[-1] > before * (1 + 1e-9) + 1e-13 * state.losses[0]
    if risen and not state.decay:
        # Implicit steps have several solutions, and training without decay lowers the loss.
        state.withdraw()
        return None
    return float(np.max(np.abs(ends[1] - ends[0]) / state.scales(ends[1])))


def with_fewer_nodes(state: PanelTraining, course: Course) -> PanelTraining:
    """The same panels with a node less each."""
    coarse = PanelTraining(state.numbers, state.decay)
    for panel in state.panels:
        if len(panel.rule.nodes) == 1:
            coarse.step(course.rate_of_step(round(coarse.end)))
        elif not _extended(coarse, course, panel.end - coarse.end, NODES - 1):
            raise NotConverged(
                f"the panel from time {coarse.end:.4g} on has no solution with {NODES - 1} nodes"
            )
    return coarse

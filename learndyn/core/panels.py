"""Long trainings in panels: the nodes of a limit, and the course of its training.

All weights obey W(t_i) = d_i W(0) + Σ_j κ_ij F(t_j) with the force F at the nodes t_j. Node 0 is the start; a panel
adds the nodes of a rule (`learndyn/numerics/panels.py`), the last of which is its end. A family's limit solves its
equations with this κ, which has entries within a panel: all nodes of a panel at a time.
"""

import abc
import copy
import itertools
import math
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float

from learndyn.numerics.multistep import lagrange
from learndyn.numerics.panels import PanelRule, radau, summed
from learndyn.numerics.precision import float64
from learndyn.problem.schedules import as_schedule
from learndyn.problem.training import GradientDescent

NODES = 4
"""Nodes of a panel. One with a node less shows its error."""
MOST_EDGES = 40
"""Up to so many recorded times are ends of panels."""
FINEST = 1e-13
"""The finest precision to which the nodes of a panel are solved."""
FORGOTTEN = 10.0
"""Weights have forgotten their past when they have decayed by the exponential of this."""
MEMORY = 3.0
"""The longest panel with decay, in units of the time after which weights forget. The forces of longer ones balance the
decay within the panel, a loop through all layers that passes leave to the iteration; it then converges badly."""
ALTERNATING = np.array([(-1) ** k * math.comb(8, k) for k in range(9)]) / 2**8
"""Weights of nine successive steps that leave what changes its sign at every step, and nearly nothing of a mode that is
learnt at a rate below one half."""
SINGLE = PanelRule(np.ones(1), np.zeros((1, 1)))
"""The rule of a panel with one node, whose force acts later only."""


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

    @property
    def single(self) -> bool:
        """Whether it has one node: a step of gradient descent, or a pause."""
        return len(self.rule.nodes) == 1


class PanelledLimit(abc.ABC):
    """A limit as far as its panels reach. `diverged` tells that training diverges in the next step.

    - `decay` (λ), `momentum` (β): of the weights, B ← βB + ηF, W ← (1 − ηλ) W + B.
    - `times`, `d`: of all nodes. `kappa` (κ): of all nodes, in the leading block of a larger array.
    - `velocities`: B at the start and at the ends of panels, as weights of the forces F at the nodes.
    - `impulses`: the nodes whose force acts in a single step, which is not that of a panel.
    - `rested`: whether training came to rest.
    - `losses`: what training lowers, at the start and at the ends of panels; `summaries` likewise. `passes`: iterations
      of each panel.

    A family calls `begin` when it has solved node 0.
    """

    def __init__(self, decay: float, momentum: float = 0.0):
        self.decay, self.momentum = decay, momentum
        self.velocities: list[Float[np.ndarray, " nodes"]] = [np.zeros(1)]
        self.kappa = np.zeros((64, 64))
        self.d, self.times = np.ones(1), np.zeros(1)
        self.panels: list[Panel] = []
        self.impulses: list[int] = []
        self.passes: list[int] = []
        self.losses: list[float] = []
        self.summaries: list[Float[np.ndarray, " numbers"]] = []
        self.diverged = self.rested = False

    @abc.abstractmethod
    def solve_nodes(
        self, kappa: Float[np.ndarray, "s e"], end: float, rule: PanelRule, precision: float
    ) -> int:
        """Solve the nodes of a panel with these rows of κ; the number of passes, or 0 if they do not converge.

        `d` and `times` have the new nodes already. What follows from the nodes needs this relative `precision` only.
        """

    @abc.abstractmethod
    def constants(self) -> tuple[object, ...]:
        """What never changes, so that copies share it."""

    @abc.abstractmethod
    def forget(self, nodes: int) -> None:
        """Keep the first `nodes` nodes only."""

    @abc.abstractmethod
    def loss(self) -> float:
        """The loss that training lowers, at the last node."""

    @abc.abstractmethod
    def summary(self) -> Float[np.ndarray, " numbers"]:
        """Numbers at the last node that show the error of a panel."""

    @abc.abstractmethod
    def scales(self, summary: Float[np.ndarray, " numbers"]) -> Float[np.ndarray, " numbers"]:
        """The sizes relative to which errors of `summary` count."""

    @abc.abstractmethod
    def edge_of_stability(self) -> int | None:
        """The first step of descent at which training oscillates for ever, or None."""

    def sharpness(self) -> float:
        """The fastest rate of the flow at the last node, for a learning rate of one; 0 if it is not known."""
        return 0.0

    def alternating(self, node: int, first: int) -> dict[str, float]:
        """The parts of observables, from node `first` on, that change sign at every step to `node`; {} if unknown."""
        return {}

    def follows_steps(self, node: int) -> bool:
        """Whether this node and those before it are successive steps, enough for `ALTERNATING`."""
        times = self.times[max(node - len(ALTERNATING) + 1, 0) : node + 1]
        return len(times) == len(ALTERNATING) and bool(np.all(np.diff(times) == 1.0))

    def oscillation(self) -> float:
        """The part of the losses that changes sign at every step up to the last one, relative to them."""
        return 0.0

    def damped(self, time: float) -> dict[str, float]:
        """What panels lose of observables from this time on: they damp what changes its sign at every step."""
        lost: dict[str, float] = {}
        for before, after in itertools.pairwise(self.panels):
            if not after.single and self.follows_steps(before.last):
                first = min(int(np.searchsorted(self.times, time)), before.last)
                for name, part in self.alternating(before.last, first).items():
                    lost[name] = max(part, lost.get(name, 0.0))
        return lost

    @property
    @abc.abstractmethod
    def speed(self) -> float:
        """About the fastest rate of the flow at the start, for a learning rate of one."""

    def begin(self) -> None:
        """Node 0 is solved."""
        self.passes, self.losses = [1], [self.loss()]
        self.start = self.summary()
        self.summaries = [self.start]

    def copied(self) -> Self:
        """A limit as far as this one, that can go another way."""
        return copy.deepcopy(self, {id(part): part for part in self.constants()})

    @property
    def end(self) -> float:
        """The end of the last panel."""
        return float(self.times[-1])

    def step(self, rate: float) -> bool:
        """One step of gradient descent, as a panel with a single node."""
        n = self._reserve(1)
        kappa, keep = self.kappa, 1 - rate * self.decay
        velocity = np.append(self.momentum * self.velocities[-1], 0.0)
        velocity[n - 1] += rate
        kappa[n, : n + 1] = velocity
        kappa[n, :n] += keep * kappa[n - 1, :n]
        return self._add(np.array([keep * self.d[-1]]), velocity, self.end + 1.0, SINGLE)

    def pause(self, end: float | None = None) -> bool:
        """A second node at the end of the last panel, with the same weights: its force is that of the next step only.

        Responses to this force are responses to a force that acts in a single step. With a later `end`, training rests
        until then.
        """
        self.rested = end is not None
        n = self._reserve(1)
        self.kappa[n, :n] = self.kappa[n - 1, :n]
        self.kappa[n, n] = 0.0
        velocity = np.append(self.velocities[-1], 0.0)
        return self._add(self.d[-1:], velocity, self.end if end is None else end, SINGLE)

    def extend(
        self,
        end: float,
        rule: PanelRule,
        rates: Float[np.ndarray, " s"],
        precision: float = FINEST,
    ) -> bool:
        """A panel up to this time, with the rates at its nodes; False if it cannot be solved."""
        s = len(rule.nodes)
        n = self._reserve(s)
        a, beta = (end - self.end) * rule.sums, self.momentum
        undecayed = np.linalg.inv(np.eye(s) + self.decay * a * rates)
        kept = undecayed.sum(axis=1)
        # B = slowed (B(0) + a ηF) from B ← B − (1 − β) B + ηF, a polynomial too: with exact sums of forces times powers
        # of β, panels shorter than ten memories 1/(1 − β) would amplify oscillations.
        slowed = np.linalg.inv(np.eye(s) + (1 - beta) * a)
        before = self.velocities[-1]
        self.kappa[n : n + s, :n] = np.outer(kept, self.kappa[n - 1, :n])
        self.kappa[n : n + s, :n] += np.outer(undecayed @ a @ slowed.sum(axis=1), beta * before)
        self.kappa[n : n + s, n : n + s] = undecayed @ a @ (np.eye(s) + beta * slowed @ a) * rates
        velocity = np.append(slowed[-1].sum() * before, slowed[-1] @ a * rates)
        return self._add(kept * self.d[-1], velocity, end, rule, precision)

    def withdraw(self) -> None:
        """Take the last panel away."""
        self._drop_nodes(self.panels.pop().first)
        self.passes.pop()
        self.losses.pop()
        self.summaries.pop()
        self.velocities.pop()

    def last_ends(self) -> list[int]:
        """The nodes at the ends of the last panels."""
        return [0, *(panel.last for panel in self.panels if panel.end > panel.start)][-3:]

    def extrapolation(self, end: float, rule: PanelRule) -> Float[np.ndarray, "s ends"]:
        """Weights that extrapolate from the last ends of panels to the new nodes, in the logarithm of time."""
        known = self.times[self.last_ends()]
        offset = max(known[1] - known[0], 1e-300) if len(known) > 1 else 1.0
        nodes = known[-1] + (end - known[-1]) * rule.nodes
        x, y = np.log(known + offset), np.log(nodes + offset)
        if len(known) == 1 or y[-1] - x[-1] > 2 * (x[-1] - x[0]):
            return np.ones((len(nodes), 1)) * (np.arange(len(known)) == len(known) - 1)
        return lagrange(x, y)

    def at_rest(self, tolerance: float) -> bool:
        """Whether nothing has changed by more than `tolerance` while weights forgot their past many times over.

        Then nothing changes any more: weights that decay are where their forces balance the decay.
        """
        last = np.array([0, *(panel.last for panel in self.panels)])
        within = int(np.count_nonzero(self.d[last] * np.exp(-FORGOTTEN) > self.d[-1]))
        if not (self.decay and within):
            return False
        values = np.array(self.summaries[within - 1 :])
        return bool(np.all(np.ptp(values, axis=0) <= tolerance * self.scales(values[-1])))

    def interpolation(self, times: Float[np.ndarray, " k"]) -> Float[np.ndarray, "k nodes"]:
        """The matrix from values at the nodes to values at `times`, by the polynomials of the panels."""
        E = np.zeros((len(times), len(self.times)))
        ends = np.array([panel.end for panel in self.panels])
        for row, time in enumerate(times):
            if time <= 0:
                E[row, 0] = 1.0
                continue
            panel = self.panels[min(int(np.searchsorted(ends, time)), len(ends) - 1)]
            part = (time - panel.start) / (panel.end - panel.start)
            # The node before the first of a panel is the end of the panel before it.
            E[row, panel.first - 1 : panel.last + 1] = panel.rule.interpolate(np.array([part]))[0]
        return E

    def _add(
        self,
        d: Float[np.ndarray, " s"],
        velocity: Float[np.ndarray, " nodes"],
        end: float,
        rule: PanelRule,
        precision: float = FINEST,
    ) -> bool:
        n, s = len(self.times), len(d)
        nodes = self.end + (end - self.end) * rule.nodes
        nodes[-1] = end
        start = self.end
        self.times, self.d = np.append(self.times, nodes), np.append(self.d, d)
        passes = self.solve_nodes(self.kappa[n : n + s, : n + s], end, rule, precision)
        if not passes:
            self._drop_nodes(n)
            return False
        self.panels.append(Panel(start, end, rule, n))
        self.passes.append(passes)
        self.losses.append(self.loss())
        self.summaries.append(self.summary())
        self.velocities.append(velocity)
        return True

    def _drop_nodes(self, first: int) -> None:
        # A shorter panel that follows does not write all of these.
        self.kappa[first : len(self.times)] = 0.0
        self.times, self.d = self.times[:first], self.d[:first]
        self.forget(first)

    def _reserve(self, more: int) -> int:
        """Make room in κ; the number of nodes so far."""
        n = len(self.times)
        if n + more > len(self.kappa):
            larger = np.zeros((2 * (n + more), 2 * (n + more)))
            larger[:n, :n] = self.kappa[:n, :n]
            self.kappa = larger
        return n


class Course:
    """How the training goes on: the rules of its panels, its rates, and the edges that no panel may cross.

    - `steps`: whether time counts steps of gradient descent; otherwise it is that of gradient flow.
    - `end`: the last time. `momentum` (β): of the training.
    - `impulses`: times at which a single step is made between panels, so that responses to its force are known.

    Recorded times are edges too, unless there are many: the ends of panels are more accurate than what lies between.
    """

    def __init__(
        self, training: GradientDescent, recorded: Float[np.ndarray, " k"], impulses: bool = False
    ):
        self.steps, self.end = training.time is None, float(recorded[-1])
        self.schedule, self.momentum = as_schedule(training.learning_rate), training.momentum
        self.decay = float(training.weight_decay)
        breakpoints = [np.ceil(t) if self.steps else t for t in training.breakpoints(self.end)]
        self.records_are_ends = len(recorded) <= MOST_EDGES
        wanted = recorded.tolist() if self.records_are_ends else [self.end]
        self.edges = sorted({*breakpoints, *map(float, wanted)} - {0.0})
        self.impulses = set(map(float, recorded)) if impulses else set()

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

    def longest(self, start: float) -> float:
        """The longest panel at this time: weights that decay must not forget too much of their past in it."""
        rate = float(self.rates(np.array([start, start]))[0])
        return MEMORY / max(rate * self.decay, 1e-300)

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

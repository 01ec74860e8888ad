"""Gradient flow dθ/dt = η(t)(−θ̄ − λθ) of a program, in steps that adapt to their error.

The parameters are vectors, scalars and matrices c W + V M U, all of which can be added and multiplied by numbers. A
node is a forward and a backward pass at some θ. Dormand and Prince's rule of fifth order takes six of them for a step,
and is stable up to steps of about 3/ρ, with the fastest rate ρ of the flow. Where that would take hundreds of steps,
the flow is stiff: the rule of Runge, Kutta and Chebyshev (Verwer, Hundsdorfer and Sommeijer 1990), of second order,
then takes s nodes for a step of up to 0.65 s²/ρ. States between the ends of a step come from the cubic polynomial
through both and their slopes.

The error of a step is the largest root mean square change of a vector, or the norm of the change of a matrix;
parameters are of order one, so that the tolerance is an absolute one. ρ comes from the last two nodes of a step, which
are at the same time, |F(x) − F(y)|/|x − y|, and from a few power iterations at the start.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from learndyn.errors import NotConverged
from learndyn.programs.affine import Affine
from learndyn.programs.gaussian import Combination
from learndyn.programs.matrices import Matrix
from learndyn.programs.net import Net
from learndyn.programs.optimisers import gradients
from learndyn.programs.values import Value

STABLE = 3.0
"""The largest step of Dormand and Prince's rule, times ρ."""
STIFF = 300.0
"""From this value of ρ times the whole time on, Chebyshev's rule takes fewer nodes."""
POWER_ITERATIONS = 6
STEPS_ADD_UP = 4.0
"""A step may have an error of the tolerance over this: linear networks of three layers were then within it."""
MOST_NODES = 10**6
"""Nodes after which the flow is given up."""
MOST_STAGES = 200

# Row i has the weights of the slopes before node i; the last row is the step itself.
A = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
C = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
E = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
"""The fifth-order step less the fourth-order one."""

State = list[Any]
"""The data of all parameters: arrays, coordinates, or combinations of matrices."""


class Step(NamedTuple):
    """A step from `start` to `end`, with the states and slopes at both ends."""

    start: float
    end: float
    before: State
    after: State
    slope_before: State
    slope_after: State

    def at(self, time: float) -> State:
        """The state at a time between, by a cubic polynomial."""
        h = self.end - self.start
        x = (time - self.start) / h
        weights = (1 - x) ** 2 * (1 + 2 * x), x**2 * (3 - 2 * x), h * x * (1 - x) ** 2
        states = self.before, self.after, self.slope_before, self.slope_after
        return _sum((*weights, -h * x**2 * (1 - x)), states)


class Flow:
    """Carries all trained parameters of a net along the gradient flow of a loss.

    - `loss`: a function that runs the forward pass at the present parameters.
    - `rate` (η): a function of the time.
    - `end`: when training ends.
    - `decay` (λ): 0 unless given.
    - `tolerance`: the error of the outputs, absolute. 1e-3 unless given; in single precision rounding prevents less.
    """

    def __init__(
        self,
        net: Net,
        loss: Callable[[], Value],
        rate: Callable[[float], float],
        end: float,
        decay: float = 0.0,
        tolerance: float = 1e-3,
    ):
        self.net, self.loss, self.rate, self.end = net, loss, rate, end
        self.decay, self.tolerance = decay, tolerance / STEPS_ADD_UP
        self.nodes, self.rejected, self.stiff = 0, 0, False
        self._parameters = net.parameters
        self._now: Step | None = None
        self._size = self._rho = 0.0
        self._fastest: State = []

    def advance(self, until: float) -> None:
        """Go on to this time; nothing happens in the last state."""
        if self.net.last:
            return
        if self._now is None:
            state = self._state()
            slope = self._slope(0.0, state)
            self._now = Step(0.0, 0.0, state, state, slope, slope)
            self._start(state, slope)
        while self._now.end < until:
            self._now = self._step(self._now)
        self._set(self._now.at(until) if until < self._now.end else self._now.after)

    def _norm(self, state: State) -> float:
        """The largest root mean square of a vector, or norm of a matrix."""
        return max(map(_length, self._parameters, state), default=0.0)

    def _state(self) -> State:
        return [x.state if isinstance(x, Matrix) else x.data for x in self._parameters]

    def _set(self, state: State) -> None:
        for parameter, data in zip(self._parameters, state, strict=True):
            if isinstance(parameter, Matrix):
                parameter.state = data
            else:
                if parameter.dim is not None and isinstance(data, np.ndarray):
                    data = data.astype(parameter.dim.site.dtype, copy=False)
                parameter.data = data

    def _slope(self, time: float, state: State) -> State:
        """η(t)(−θ̄ − λθ)."""
        self.nodes += 1
        self.net.nodes += 1
        if self.nodes > MOST_NODES:
            raise NotConverged(
                f"gradient flow takes more than {MOST_NODES} forward passes; use less time, a smaller learning rate or "
                "smaller inputs"
            )
        self._set(state)
        rate, slopes = self.rate(time), gradients(self.loss(), self._parameters)
        if not self.decay:
            return [-rate * x for x in slopes]
        return [-rate * (x + self.decay * y) for x, y in zip(slopes, state, strict=True)]

    def _start(self, state: State, slope: State) -> None:
        """ρ by power iterations, and the first step."""
        self._fastest = slope
        for _ in range(POWER_ITERATIONS):
            self._iterate(0.0, state, slope)
        speed = self._norm(slope)
        self._size = min(
            self.end, 0.5 / self._rho if self._rho else self.end, 0.1 / speed if speed else self.end
        )

    def _iterate(self, time: float, state: State, slope: State) -> None:
        """One power iteration for the fastest direction of the flow, from a small change of the state."""
        length = self._norm(self._fastest)
        if not length:
            return
        small = 1e-2 / length
        change = _sum(
            (1.0, -1.0),
            (self._slope(time, _sum((1.0, small), (state, self._fastest))), slope),
        )
        self._rho = self._norm(change) / (small * length)
        self._fastest = change

    def _step(self, last: Step) -> Step:
        """The next step, repeated with a smaller size until its error is small enough."""
        time, state, slope = last.end, last.after, last.slope_after
        left = self.end - time
        self.stiff = self._rho * self.end > STIFF
        if self.stiff:
            self._iterate(time, state, slope)
        while True:
            size = min(self._size, left)
            if not self.stiff and self._rho:
                size = min(size, STABLE / self._rho)
            # The end is met exactly, without a last step that is tiny.
            if size > 0.99 * left:
                size = left
            elif size > left / 2:
                size = left / 2
            order = 3 if self.stiff else 5
            rule = self._chebyshev if self.stiff else self._dormand_prince
            after, slope_after, error = rule(time, size, state, slope)
            ratio = error / self.tolerance
            factor = 0.9 * ratio ** (-1 / order) if ratio > 0 else 5.0
            self._size = size * min(max(factor, 0.2), 5.0)
            if ratio <= 1 or not math.isfinite(error):
                return Step(time, time + size, state, after, slope, slope_after)
            self.rejected += 1

    def _dormand_prince(
        self, time: float, h: float, state: State, slope: State
    ) -> tuple[State, State, float]:
        """The state after a step, its slope, and the error."""
        slopes, before, after = [slope], state, state
        for weights, c in zip(A, C, strict=True):
            before, after = after, _sum((1.0, *(h * a for a in weights)), (state, *slopes))
            slopes.append(self._slope(time + c * h, after))
        apart = self._norm(_sum((1.0, -1.0), (after, before)))
        if apart > 0:
            self._rho = self._norm(_sum((1.0, -1.0), (slopes[-1], slopes[-2]))) / apart
        error = self._norm(_sum([h * e for e in E], slopes))
        return after, slopes[-1], error

    def _chebyshev(
        self, time: float, h: float, state: State, slope: State
    ) -> tuple[State, State, float]:
        """The state after a step, its slope, and the error."""
        s = min(max(2, 1 + math.isqrt(int(1.54 * h * self._rho + 1))), MOST_STAGES)
        rule = _chebyshev_weights(s)
        earlier, now = state, _sum((1.0, rule.first * h), (state, slope))
        for j in range(2, s + 1):
            mu, nu, drive, drift, c = rule.weights[j]
            node = self._slope(time + c * h, now)
            weights = 1 - mu - nu, mu, nu, drive * h, drift * h
            earlier, now = now, _sum(weights, (state, now, earlier, node, slope))
        after = self._slope(time + h, now)
        error = self._norm(_sum((0.8, -0.8, 0.4 * h, 0.4 * h), (state, now, slope, after)))
        return now, after, error


class ChebyshevRule(NamedTuple):
    """μ̃_1, and μ_j, ν_j, μ̃_j, γ̃_j and the time of node j − 1 as a part of the step, by j."""

    first: float
    weights: dict[int, tuple[float, float, float, float, float]]


def _chebyshev_weights(s: int) -> ChebyshevRule:
    """The damped rule of second order with s stages."""
    w0 = 1 + 2 / (13 * s * s)
    T, D, DD = [1.0, w0], [0.0, 1.0], [0.0, 0.0]
    for _ in range(2, s + 1):
        T, D, DD = (
            [*T, 2 * w0 * T[-1] - T[-2]],
            [*D, 2 * T[-1] + 2 * w0 * D[-1] - D[-2]],
            [*DD, 4 * D[-1] + 2 * w0 * DD[-1] - DD[-2]],
        )
    w1 = D[s] / DD[s]
    b = [DD[max(j, 2)] / D[max(j, 2)] ** 2 for j in range(s + 1)]
    c = [w1 * DD[j] / D[j] if j > 1 else 0.0 for j in range(s + 1)]
    c[1] = c[2] / D[2]
    weights = {}
    for j in range(2, s + 1):
        drive = 2 * b[j] * w1 / b[j - 1]
        drift = -(1 - b[j - 1] * T[j - 1]) * drive
        weights[j] = 2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2], drive, drift, c[j - 1]
    return ChebyshevRule(b[1] * w1, weights)


def _sum(weights: Any, states: Any) -> State:
    """Σ_k w_k x_k, parameter by parameter."""

    def total(parts: tuple[Any, ...]) -> Any:
        terms = [weight * part for weight, part in zip(weights, parts, strict=True) if weight]
        first, *rest = terms
        for term in rest:
            first = first + term
        return first

    return [total(parts) for parts in zip(*states, strict=True)]


def _length(parameter: Any, data: Any) -> float:
    if isinstance(data, Combination):
        return max(abs(data.c), float(np.linalg.norm(data.M)))
    if isinstance(parameter, Matrix):
        return float(np.linalg.norm(data))
    if isinstance(data, Affine):
        return float(np.sqrt(np.max(np.sum(data.array**2, axis=-1), initial=0.0)))
    if parameter.dim is None:
        return float(np.max(np.abs(data), initial=0.0))
    return float(np.sqrt(np.max(np.mean(np.square(data, dtype=float), axis=-1), initial=0.0)))

"""The growing network of the innovation basis on its way through training, and the observables read off it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from learndyn.core.divergence import diverged
from learndyn.core.progressing import Diverged, Progressing, Report
from learndyn.families.deep_linear.equations.innovation import GrowingDeepLinear
from learndyn.families.deep_linear.limit_numbers import DATASET, POPULATION, RULE, LimitNumbers
from learndyn.families.deep_linear.observables import (
    alignment,
    axis_labels,
    common_evidence,
    part_left,
    tangent_kernel,
)
from learndyn.numerics.gram import stacked
from learndyn.numerics.growing import Reduction, Space, padded
from learndyn.numerics.products import sums
from learndyn.numerics.stability import edge_of_stability
from learndyn.problem.problem import Problem
from learndyn.problem.weight_response import PerStepRule

REPORT_EVERY = 16
"""Steps between two reports of progress."""


class GrowingTraining(Progressing):
    """The growing network in training, with the numbers and fields recorded so far.

    - `problem`: the problem
    - `numbers`: its limit numbers
    - `tolerance`: the relative length below which a new direction is dropped; in lazy networks it is less
    - `strength`: the length of the sources that fields get at recorded steps, for their responses; 0 for none
    - `initial`: the observables at the start of training, unless these overflow
    """

    now: int = 0
    changeable = RULE

    def __init__(
        self, problem: Problem, numbers: LimitNumbers, tolerance: float, strength: float = 0.0
    ):
        self.problem, self.numbers, self.tolerance = problem, numbers, tolerance
        self.network = GrowingDeepLinear(numbers, tolerance, strength)
        self.rule = PerStepRule.of(problem.training)
        self.scalars: list[list[float]] = []
        self.correlations = Correlations()
        self.powers: list[float] = []
        self.successive: list[float] = []
        self.modes: list[tuple[np.ndarray, np.ndarray]] = []
        self.undriven: list[float] = [1.0]
        self.recorded: list[int] = []
        self.initial: dict[str, np.ndarray] = {}
        self.scale: float | None = None

    def _compute_fields(self) -> None:
        """Compute the fields of the present step; raises `Diverged`."""
        network, numbers = self.network, self.numbers
        if network.grown:
            self.correlations.measure()
            self.correlations.reduce(network.reduce(), network.space_of)
        before = network.h[0] if self.now > 0 else None
        network.reserve()
        network.backward()
        network.errors()
        noise = numbers.outputs * numbers.noise**2
        self.test_loss = float(np.trace(network.C_v)) + noise
        dataset = numbers.data == DATASET
        self.train_loss = float(np.sum(network.Delta**2)) if dataset else self.test_loss
        largest = max(self.test_loss, self.train_loss)
        if self.scale is None:
            self.scale = largest
        if diverged(largest, self.scale):
            raise Diverged
        network.forward()
        gradient = network.h[0]
        self.powers.append(float(np.sum(gradient**2)))
        if before is not None:
            self.successive.append(float(np.sum(before * gradient[:, : before.shape[1]])))

    def _present_scalars(self) -> list[float]:
        """The losses, the decomposition of the test loss and the overlaps with the target."""
        parts, overlaps = self.network.decomposition(), self.network.target_overlaps()
        return [self.test_loss, self.train_loss, *parts, *overlaps]

    def advance(self, states: Sequence[float] | np.ndarray, report: Report) -> int:
        with np.errstate(over="ignore", invalid="ignore"):
            for number, state in enumerate(states):
                try:
                    self._move(state, report)
                except Diverged:
                    return number
                self.scalars.append(self._present_scalars())
                self.correlations.add(self.network.fields() | self.network.responding())
                self.modes.append(self.network.by_modes())
                self.recorded.append(self.now)
        return len(states)

    def _move(self, until: float, report: Report) -> None:
        if self.scale is None:
            self.network.sourced = until == 0
            self._compute_fields()
            self.initial = self.observe()
            report(self.now)
        while self.now < until:
            self.network.step(self.rule.at(self.now))
            self.undriven.append(self.network.W[0].undriven)
            self.now += 1
            self.network.sourced = self.now == until
            self._compute_fields()
            if self.now % REPORT_EVERY == 0:
                report(self.now)

    def arrays(self) -> dict[str, np.ndarray]:
        return self._arrays(self.scalars, self.correlations, self.modes, self.recorded)

    def observe(self) -> dict[str, np.ndarray]:
        network, correlations = self.network, Correlations()
        correlations.add(network.fields())
        return self._arrays(
            [self._present_scalars()], correlations, [network.by_modes()], [self.now]
        )

    def _arrays(
        self,
        scalars: list[list[float]],
        correlations: "Correlations",
        modes: list[tuple[np.ndarray, np.ndarray]],
        states: list[int],
    ) -> dict[str, np.ndarray]:
        numbers = self.numbers
        arrays = _losses(np.reshape(scalars, (-1, 7)), numbers) | correlations.arrays(numbers)
        same = np.arange(len(states))
        equal_steps = np.moveaxis(arrays["C_g"][:, same, :, same], 0, 1)
        arrays["kernel"] = tangent_kernel(equal_steps, np.array(self.undriven)[states], numbers)
        if numbers.shows_modes:
            shape = len(modes), len(numbers.gram)
            loss, overlap = (np.reshape([x[i] for x in modes], shape) for i in (0, 1))
            arrays["mode_loss"] = loss
            arrays["transfer"] = part_left(overlap, np.einsum("kcc->k", numbers.gram))
        return arrays

    def responses(self) -> dict[str, np.ndarray]:
        """The responses of later recorded steps to the sources of earlier ones."""
        numbers, network = self.numbers, self.network

        def response(name: str) -> np.ndarray:
            return self.correlations.crossed(name) / network.length_of_source(name)

        single = ("R_vu", "R_hr0", "R_Delta") if numbers.data == DATASET else ("R_vu", "R_hr0")
        responses = {name: response(name) for name in single}
        for name in ("R_hr", "R_gu"):
            layers = range(1, numbers.depth + 1)
            responses[name] = np.array([response(f"{name}{l}") for l in layers])
        return responses

    def labels(self) -> dict[str, np.ndarray]:
        return axis_labels(self.numbers)

    def evidence(self) -> dict[str, Any]:
        """The evidence of all methods, the dimension of the largest space, and the tolerance."""
        edge = edge_of_stability(self.powers, self.successive) if self.powers else None
        basis = max(space.largest for space in self.network.spaces)
        evidence = common_evidence(self.problem, "innovation", self.numbers, edge)
        return evidence | {"basis": basis, "tolerance": self.tolerance}

    def after(self) -> int:
        return self.now + 1

    def change(self, problem: Problem) -> None:
        self.rule = self.rule.until(self.now, problem.training)
        self.problem = problem


def _losses(scalars: np.ndarray, numbers: LimitNumbers) -> dict[str, np.ndarray]:
    """The observables at single steps."""
    test_loss, train_loss, bias, width_variance, data_variance, overlap, target = scalars.T
    losses = {
        "bias": bias,
        "width_variance": width_variance,
        "data_variance": data_variance,
        "test_loss": test_loss,
        "alignment": alignment(overlap, bias + width_variance + data_variance, target),
    }
    return losses if numbers.data == POPULATION else losses | {"train_loss": train_loss}


class Correlations:
    """Inner products of the vectors recorded so far.

    They are measured before directions are given up, and the vectors go on in the new directions: what they lose there
    has no product with anything later. Every record has as many vectors of a name.
    """

    def __init__(self):
        self.new: list[dict[str, np.ndarray]] = []
        self.vectors: dict[str, np.ndarray] = {}
        self.products: dict[str, list[np.ndarray]] = {}
        self.each: dict[str, int] = {}

    def add(self, fields: dict[str, np.ndarray]) -> None:
        """Add the vectors of a record."""
        self.new.append(fields)
        self.each = {name: len(x) for name, x in fields.items()}

    def _stack(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The new vectors of a name, and all of them, in the same coordinates."""
        new = stacked([x[name] for x in self.new], self.each[name])
        new = new.reshape(-1, new.shape[2])
        old = self.vectors.get(name, new[:0])
        return new, np.vstack([padded(old, (len(old), new.shape[1])), new])

    def measure(self) -> None:
        """Multiply the new vectors with each other and with all before."""
        for name in self.new[0] if self.new else ():
            new, every = self._stack(name)
            self.products.setdefault(name, []).append(sums(new, every))
            self.vectors[name] = every
        self.new = []

    def reduce(self, reductions: dict[Space, Reduction], space_of: Callable[[str], Space]) -> None:
        """Take the vectors, all of them measured, over into the new directions of their spaces."""
        for name, x in self.vectors.items():
            self.vectors[name] = reductions[space_of(name)].apply(x)

    def arrays(self, numbers: LimitNumbers) -> dict[str, np.ndarray]:
        """The observables at pairs of steps."""
        single = ("C_v", "C_h0", "C_Delta") if numbers.data == DATASET else ("C_v", "C_h0")
        correlations = {name: self._whole(name, numbers.outputs) for name in single}
        for name in ("C_h", "C_g"):
            layers = [f"{name}{l}" for l in range(1, numbers.depth + 1)]
            correlations[name] = np.array([self._whole(l, numbers.outputs) for l in layers])
        return correlations

    def _whole(self, name: str, each: int) -> np.ndarray:
        """C(t, c, t', c') from the products with everything before; looking at it changes nothing."""
        blocks = list(self.products.get(name, []))
        if self.new:
            blocks.append(sums(*self._stack(name)))
        size = sum(len(block) for block in blocks)
        C, row = np.zeros((size, size)), 0
        for block in blocks:
            end = row + len(block)
            C[row:end, :end] = block
            C[:end, row:end] = block.T
            row = end
        return C.reshape(size // each, each, size // each, each)

    def crossed(self, name: str) -> np.ndarray:
        """Products (t, c, t', c') of the first half of the vectors of every record t with the second half of t'."""
        C = self._whole(name, self.each[name])
        half = C.shape[1] // 2
        return C[:, :half, :, half:]

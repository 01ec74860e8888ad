"""Residual networks of infinite depth, extrapolated from sampled networks of three depths.

With branches of size β_0/√L the layers of h^{ℓ+1} = h^ℓ + (β_0/√L) W^ℓφ(h^ℓ) are steps of a diffusion in the layer time
τ = ℓ/L, and an observable is a series F + a/L + b/L² + …, whose first two terms depths L, 2L and 4L remove. The stated
accuracy is the difference from the extrapolation of the first two depths: above the true error if the finest depth at
least halved it, up to sampling errors. What layers have is given at the layer times τ = 1/L, 2/L, …, 1 that all
depths share.
"""

import dataclasses
import math

import numpy as np

from learndyn.core.batches import power_of_two
from learndyn.core.curves import Curves
from learndyn.core.method import Method, Way
from learndyn.core.progressing import Report
from learndyn.core.record import Record
from learndyn.errors import NoTheory
from learndyn.families.wide.observables import INFINITE_TABLE
from learndyn.families.wide.solve import SampledLayers
from learndyn.numerics.richardson import richardson
from learndyn.problem.checks import optional, whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem


class DepthExtrapolation(Method):
    """Residual networks of infinite depth: the limit of `depth`, twice and four times as many sampled layers.

    - `depth`: the smallest number of layers. 4 unless given.
    - `samples`: neurons of each layer in a batch, a power of two. Not given: as many as `SampledLayers` takes.
    - `batches`: independent batches, at least two. 8 unless given.
    """

    depth: int = field(whole(1), default=4)
    samples: int | None = field(optional(power_of_two), default=None)
    batches: int = field(whole(2), default=8)

    def way(self, problem: Problem) -> Way:
        """One problem at a time, because batches run on all cores."""
        return "alone"

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        network = problem.network
        if not math.isinf(network.depth):
            raise NoTheory("DepthExtrapolation is for infinite depth; use SampledLayers")
        method = SampledLayers(samples=self.samples, batches=self.batches)
        depths = [self.depth * factor for factor in (1, 2, 4)]
        solved, done = [], 0
        for number, depth in enumerate(depths):
            finite = problem.with_values(network=network.with_values(depth=depth))

            def advance(x: float, done: int = done, depth: int = depth) -> None:
                report((done + x * depth) / sum(depths))

            # Batches of other seeds, so that the errors of the three depths are independent.
            curves = method.solve(finite, record, 3 * seed + number, advance)
            solved.append(self._at_common_times(curves, depth))
            done += depth
        return self._extrapolated(solved, depths)

    def _at_common_times(self, curves: Curves, depth: int) -> Curves:
        """The curves of a depth at the layer times of the smallest depth."""
        every = depth // self.depth
        layered = {quantity.name for quantity in INFINITE_TABLE if "tau" in quantity.axes}

        def taken(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            kept = {n: x for n, x in arrays.items() if n != "preactivation"}
            return {n: x[every - 1 :: every] if n in layered else x for n, x in kept.items()}

        return dataclasses.replace(
            curves,
            table=INFINITE_TABLE,
            arrays=taken(curves.arrays),
            errors=taken(curves.errors),
            labels={"tau": np.arange(1, self.depth + 1) / self.depth},
        )

    def _extrapolated(self, solved: list[Curves], depths: list[int]) -> Curves:
        """The limit of large depth, with its standard errors and its accuracy."""
        count = min(curves.count for curves in solved)
        cut = [curves.cut(count) for curves in solved]
        limits = {name: richardson([curves[name] for curves in cut]) for name in cut[-1].arrays}
        # The weights of the three depths in the extrapolation.
        shares = richardson(list(np.eye(3))).values
        errors = {
            name: np.sqrt(sum((w * c.errors[name]) ** 2 for w, c in zip(shares, cut, strict=True)))
            for name in limits
        }
        accuracy = {name: float(limit.error.max(initial=0.0)) for name, limit in limits.items()}
        arrays = {name: limit.values for name, limit in limits.items()}
        curves = dataclasses.replace(cut[-1], arrays=arrays, errors=errors)
        return curves.told(
            solver="sampled layers, extrapolated in the depth", depths=depths, accuracy=accuracy
        )

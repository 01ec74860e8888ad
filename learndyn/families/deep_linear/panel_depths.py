"""Infinitely deep residual networks in panels: finite depths, extrapolated.

A network of n blocks with β² = exp(β_0²/n) − 1 differs from the limit of infinite depth by a series in 1/n. Its
observables for a growing sequence of n are extrapolated by the polynomial in 1/n through all of them; the changes by
the last depths show the error. Layers are those at τ = 0 and 1, which all depths have.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from learndyn.core.curves import Curves
from learndyn.core.progressing import Report
from learndyn.errors import NotConverged
from learndyn.families.deep_linear.limit_numbers import LimitNumbers
from learndyn.families.deep_linear.observables import INFINITE_TABLE, LAYERED

BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""The numbers of blocks n, in the order in which they are tried."""
LEAST = 4
"""Depths that are extrapolated at least."""
AMPLIFIED = 100.0
"""About Σ|w| of the weights of an extrapolation: finite depths must be more accurate by this factor."""


def solve_infinite_depth(
    solve_depth: Callable[[LimitNumbers, Report], Curves],
    numbers: LimitNumbers,
    beta0: float,
    tolerance: float,
    report: Report,
) -> Curves:
    """The limit of infinite depth from `solve_depth`, with losses to a relative `tolerance`."""
    solved: list[Curves] = []
    work = np.cumsum([0, *BLOCKS]) / sum(BLOCKS)
    change = math.inf
    for number, n in enumerate(BLOCKS):
        deep = numbers._replace(rho=np.ones(n + 2), branch=math.sqrt(math.expm1(beta0**2 / n)))
        start, share = work[number], work[number + 1] - work[number]
        curves = solve_depth(deep, lambda done, a=start, b=share: report(a + b * done))
        solved.append(_at_the_ends(curves))
        count = min(one.count for one in solved)
        solved = [one.cut(count) for one in solved]
        if number + 1 < LEAST:
            continue
        limits = [_limit(solved[:k], BLOCKS[:k]) for k in range(number - 1, number + 2)]
        now, errors = limits[-1], _errors(*limits)
        change = max(
            float(
                np.max(
                    errors[name] / (np.abs(now[name]) + 1e-3 * np.abs(now[name][:1])), initial=0.0
                )
            )
            for name in ("test_loss", "train_loss")
            if name in now
        )
        if change <= tolerance:
            weights = np.abs(extrapolation_weights(BLOCKS[: number + 1]))
            of_panels = [one.evidence["accuracy"] for one in solved]
            accuracy = {
                name: float(np.max(errors[name], initial=0.0))
                + float(sum(w * each[name] for w, each in zip(weights, of_panels, strict=True)))
                for name in now
            }
            return Curves(
                INFINITE_TABLE,
                solved[-1].record,
                now,
                count,
                labels=solved[-1].labels,
                evidence=solved[-1].evidence
                | {"depths": [n + 1 for n in BLOCKS[: number + 1]], "accuracy": accuracy},
            )
    raise NotConverged(
        f"depths up to {BLOCKS[-1] + 1} determine the limit of infinite depth to {change:.1g} of the loss, and not to "
        f"{tolerance:g}; use a larger tolerance or a smaller beta0"
    )


def extrapolation_weights(blocks: Sequence[int]) -> np.ndarray:
    """Weights of values at n blocks in the value of their polynomial in 1/n at 1/n = 0."""
    x = 1.0 / np.asarray(blocks, float)
    return np.array([np.prod([b / (b - a) for b in x if b != a]) for a in x])


def _errors(
    first: dict[str, np.ndarray], second: dict[str, np.ndarray], third: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Errors of the last of three extrapolations.

    The last change alone may be small by chance; each depth was seen to divide the error by four at least.
    """
    return {
        name: np.maximum(np.abs(values - second[name]), np.abs(second[name] - first[name]) / 4)
        for name, values in third.items()
    }


def _limit(solved: Sequence[Curves], blocks: Sequence[int]) -> dict[str, np.ndarray]:
    weights = extrapolation_weights(blocks)
    return {
        name: np.tensordot(weights, np.stack([one[name] for one in solved]), 1)
        for name in solved[0].arrays
    }


def _at_the_ends(curves: Curves) -> Curves:
    """The curves of a finite depth with its first and last layer only."""
    arrays = {
        name: values[[0, -1]] if name in LAYERED else values
        for name, values in curves.arrays.items()
    }
    labels = {"tau": np.array([0.0, 1.0]), "mode": curves.labels["mode"]}
    return Curves(
        INFINITE_TABLE, curves.record, arrays, curves.count, labels=labels, evidence=curves.evidence
    )

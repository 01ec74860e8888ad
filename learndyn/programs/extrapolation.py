"""The limit without its bias of order 1/S.

Averages over S samples fluctuate, and the path depends on them in a nonlinear way; projections on r directions remove
r/S of anything independent. Both shift results by b/S. With F on all samples, and F_1 and F_2 on the two halves of the
same samples,

    2F − (F_1 + F_2)/2

has no such shift, and little more noise, because that of F and that of the halves are nearly the same. `share` tells
whether it was needed: the rms over states of the shift F − (F_1 + F_2)/2, in units of |F_1 − F_2|/2, which is about the
standard deviation of F. Below one, the bias is below the error of one run.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from learndyn.programs.backends import Limit
from learndyn.programs.run import ProgramRun, TrainingLoop, run


@dataclasses.dataclass(frozen=True)
class Extrapolated:
    """Extrapolated records up to where the first of the three runs diverged, the runs, and `share` by record."""

    records: dict[str, np.ndarray]
    share: dict[str, float]
    whole: ProgramRun
    halves: tuple[ProgramRun, ProgramRun]


def extrapolated(
    program: TrainingLoop, parameters: Mapping[str, Any] | None, backend: Limit
) -> Extrapolated:
    """Run a program on all samples and on both halves, for about twice the time."""
    whole = run(program, parameters, backend)
    first, second = (
        run(program, parameters, dataclasses.replace(backend, half=half)) for half in (0, 1)
    )
    records, share = {}, {}
    for name, curve in whole.records.items():
        if name not in first.records or name not in second.records:
            continue
        curves = curve, first.records[name], second.records[name]
        states = min(map(len, curves))
        F, F1, F2 = (part[:states] for part in curves)
        shift = F - (F1 + F2) / 2
        records[name] = F + shift
        share[name] = _rms(shift) / max(_rms(F1 - F2) / 2, np.finfo(float).tiny)
    return Extrapolated(records, share, whole, (first, second))


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean(x**2)))

"""What revealed inputs take from the sampling of programs: batches, their halves and their averages."""

from collections.abc import Iterable
from typing import Any

from learndyn.core.progressing import Report
from learndyn.families.program import sampling
from learndyn.families.program.sampling import Batch, Sampling

__all__ = ["Batch", "Sampling", "sampled"]


def sampled(
    setting: Any, samples: int, numbers: Iterable[int], halves: bool, report: Report
) -> Sampling:
    """Batches of so many samples of a setting that has a `seed` and can be `carried_out`, on all cores."""
    return sampling.sampled(setting, setting.with_samples(samples), numbers, halves, report)

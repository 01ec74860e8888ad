"""What batches of samples will take, told before they are run."""

from collections.abc import Callable

import psutil

from learndyn.core.progress import note
from learndyn.core.progressing import Report
from learndyn.errors import TooFewSamples
from learndyn.memory import require_memory
from learndyn.sampling.batches import Sampleable, Sampling, sampled

PILOT_SAMPLES = 1024
"""Samples of a batch of a pilot."""
WORTH_SAYING, MUCH_MEMORY = 20.0, 2**30
"""Seconds and bytes from which a forecast is said."""
COPIED = 2.0
"""Arrays that grow are copied into larger ones."""
FEWEST = 64
"""Fewer samples than these are not worth advising."""


def piloted(
    setting: Sampleable, count: int = 1, halves: bool = False, report: Report | None = None
) -> Sampling:
    """Batches of few samples; of more samples if those are too few."""
    samples = PILOT_SAMPLES
    while True:
        try:
            return sampled(setting, samples, range(count), halves, report or (lambda done: None))
        except TooFewSamples as error:
            samples = max(2 * samples, error.needed)


def say_forecast(samples: int, batches: int, seconds: float, memory: float) -> None:
    """Say what batches will take on all cores, if it is much."""
    if seconds > WORTH_SAYING or memory > MUCH_MEMORY:
        note(
            f"{batches} batches of {samples} samples: about {seconds:.2g} s, {memory / 2**20:.3g} MB"
        )


def require_room(
    needed: Callable[[int], float], samples: int, purpose: str, otherwise: str
) -> None:
    """Refuse samples that need more memory than is free, and say how many would fit, or what to do `otherwise`."""
    free, fits = psutil.virtual_memory().available, samples
    while fits > FEWEST and needed(fits) > free:
        fits //= 2
    advice = f"{fits} samples would fit" if needed(fits) <= free else otherwise
    require_memory(needed(samples), purpose, advice)


def forecast(pilot: Sampling, samples: int, batches: int) -> None:
    """Say what so many samples will take, by what a pilot took, and refuse too much memory."""
    seconds, memory = pilot.cost(samples, batches)
    say_forecast(samples, batches, seconds, memory)
    require_room(
        lambda count: COPIED * pilot.cost(count, batches)[1],
        samples,
        f"{batches} batches of {samples} samples",
        "record fewer states",
    )

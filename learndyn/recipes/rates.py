"""Learning rates as Python text."""

import numpy as np

from learndyn.errors import ProblemError
from learndyn.numerics.precision import float64
from learndyn.problem.schedules import (
    Constant,
    ExponentialDecay,
    PerStep,
    Piecewise,
    PowerDecay,
    Schedule,
    WarmUp,
)

LONGEST = 5000
"""The largest number of steps for which a schedule is written out step by step."""


def rate_text(schedule: Schedule, steps: int, per_time: int | None, jax: bool) -> str:
    """η as an expression in `t`, a step, or a time if training is measured in time; of JAX, or of plain numbers."""
    text = _known(schedule, jax)
    if text is not None:
        return text
    if steps > LONGEST:
        allowed = (
            f"is not a schedule of the library, and {steps} steps are too many to be written out"
        )
        raise ProblemError("training.learning_rate", schedule, allowed)
    with float64():
        t = np.arange(steps) / (per_time or 1)
        values = [float(rate) for rate in np.asarray(schedule(t), dtype=float)]
    index = "t" if per_time is None else f"t * {per_time}"
    return (
        f"jnp.array({values})[jnp.rint({index}).astype(int)]"
        if jax
        else f"{values}[round({index})]"
    )


def _known(schedule: Schedule, jax: bool) -> str | None:
    """The text of a schedule of the library, or None."""
    match schedule:
        case Constant(value=value):
            return repr(float(value))
        case ExponentialDecay(initial=initial, rate=rate):
            return f"{float(initial)!r} * {'jnp' if jax else 'math'}.exp(-{float(rate)!r} * t)"
        case PowerDecay(initial=initial, exponent=exponent, timescale=timescale):
            return f"{float(initial)!r} * (1 + t / {float(timescale)!r}) ** -{float(exponent)!r}"
        case WarmUp(duration=duration, then=then) if (rest := _known(then, jax)) is not None:
            minimum = "jnp.minimum" if jax else "min"
            return f"{minimum}(t / {float(duration)!r}, 1.0) * ({rest})"
        case Piecewise(times=times, values=values):
            at, rates = times.tolist(), values.tolist()
            if jax:
                return f'jnp.array({rates})[jnp.searchsorted(jnp.array({at}), t, side="right")]'
            return f"{rates}[sum(t >= change for change in {at})]"
        case PerStep(values=values) if len(values) <= LONGEST:
            rates, last = values.tolist(), len(values) - 1
            if jax:
                return f"jnp.array({rates})[jnp.minimum(jnp.floor(t), {last}).astype(int)]"
            return f"{rates}[min(int(t), {last})]"
    return None

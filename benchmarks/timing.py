"""Measuring on a noisy machine."""

import time


def best(function, repeat: int = 5) -> float:
    """The shortest of `repeat` calls, in seconds: noise only ever adds."""
    durations = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        durations.append(time.perf_counter() - start)
    return min(durations)


def row(what: str, seconds: float, reference: str, reference_seconds: float) -> None:
    """One line: the ratio first, both durations behind it."""
    ratio, word = reference_seconds / seconds, "faster"
    if ratio < 1:
        ratio, word = 1 / ratio, "slower"
    print(
        f"  {what:<44} {ratio:8.1f} times {word} than {reference}"
        f"  ({_shown(seconds)} against {_shown(reference_seconds)})"
    )


def _shown(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.3g} s"

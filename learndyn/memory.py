"""Refuse work that the machine has no memory for, before it starts."""

import psutil

from learndyn.errors import NotEnoughMemory


def require_memory(needed: float, purpose: str, advice: str) -> None:
    """Raise `NotEnoughMemory` if `needed` bytes exceed what is free; `advice` says what to make smaller."""
    free = psutil.virtual_memory().available
    if needed > free:
        raise NotEnoughMemory(
            f"{purpose} needs about {_gib(needed)} of memory, but only {_gib(free)} are free; {advice}"
        )


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"

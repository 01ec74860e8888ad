"""Values that may be None in general, but not where a test uses them."""

from typing import TypeVar

T = TypeVar("T")


def not_none(value: T | None) -> T:
    """The value, which must be there."""
    assert value is not None
    return value

"""Matrices over the nodes of all panels so far: they grow with the panels, in blocks of rows."""

import inspect
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Square = Float[np.ndarray, "n n"]
Squares = Float[np.ndarray, "modes n n"]


class Growing:
    """Square matrices that grow: the annotated attributes of a class, of which a leading block is in use.

    With `stacked`, each attribute is a stack of that many matrices.
    """

    def __init__(self, *stacked: int):
        self.stacked, self.room = stacked, 0
        self.reserve(64)

    def reserve(self, n: int) -> None:
        """Make room for n rows."""
        if n <= self.room:
            return
        room = max(n, 2 * self.room)
        for name in inspect.get_annotations(type(self)):
            larger = np.zeros((*self.stacked, room, room))
            if self.room:
                larger[..., : self.room, : self.room] = getattr(self, name)
            setattr(self, name, larger)
        self.room = room

    def open(self, b: int, e: int) -> None:
        """Make room for the rows b … e − 1 and clear what rejected panels left in their columns."""
        self.reserve(e)
        for name in inspect.get_annotations(type(self)):
            getattr(self, name)[..., :b, b:e] = 0.0


class Block(NamedTuple):
    """The rows of a panel: `new` = rows b … e − 1, `upto` = all up to e, `old` = those before b."""

    b: int
    e: int
    new: slice
    upto: slice
    old: slice

    @classmethod
    def of(cls, b: int, e: int) -> "Block":
        """Rows b … e − 1."""
        return cls(b, e, slice(b, e), slice(0, e), slice(0, b))


def put_symmetric(C: Square, block: Block, rows: Float[np.ndarray, "s e"]) -> None:
    """Write rows of a symmetric matrix, and the columns that they are."""
    new, old = block.new, block.old
    own = rows[:, new]
    C[new, old], C[old, new] = rows[:, old], rows[:, old].T
    C[new, new] = (own + own.T) / 2

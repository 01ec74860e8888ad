"""The ways to run a program.

- `Dense(size, seed)`: a network; a dimension of ratio r has round(r · size) entries, and matrices are arrays.
- `Lazy(size, seed)`: the same law, with matrices revealed only as far as they are asked.
- `Limit(samples, seed)`: the limit of infinite size, each dimension sampled.
- `Coordinates()`: the limit of linear programs, without samples.

A part of a vector shorter than `drop` times the vector opens no new direction of a matrix, and neither does one shorter
than `floor` times the longest vector asked so far (a tenth of `drop` unless set).
With `single`, vectors are stored in single precision, which takes half the memory; averages, coordinates and the arrays
of trained matrices stay in double precision.
Every vector and matrix has a random stream of its own, numbered in the order of the program, so that a `Lazy` run with
`revealed` starts from the very arrays of the `Dense` run of the same seed and reproduces it.
"""

import dataclasses
from typing import Any

import numpy as np

from learndyn.errors import ProgramError
from learndyn.programs.gaussian import DenseGaussian, Gaussian
from learndyn.programs.sites import Axes, Entries, Samples, Site


def dtype(single: bool) -> type:
    """The precision of vectors."""
    return np.float32 if single else np.float64


def stream(seed: int, *key: int) -> np.random.Generator:
    """The random stream of one thing of a program."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


@dataclasses.dataclass(frozen=True)
class Dense:
    """A network of `size` · ratio entries in each dimension, with arrays for matrices."""

    size: int
    seed: int = 0

    limit = False

    def site(self, name: str, ratio: float, number: int) -> Site:
        """A dimension's entries."""
        return Entries(name, max(1, round(ratio * self.size)))

    def ratio(self, rows: Any, cols: Any) -> float:
        """ρ = n/m."""
        return rows.site.length / cols.site.length

    def gaussian(self, rows: Any, cols: Any, number: int) -> Any:
        """A matrix of entries N(0, 1/m)."""
        array = self._array(rows, cols, number)
        return DenseGaussian(rows.site, cols.site, self.ratio(rows, cols), array)

    def rng(self, number: int) -> np.random.Generator:
        """The stream of thing number `number`."""
        return stream(self.seed, number)

    def _array(self, rows: Any, cols: Any, number: int) -> np.ndarray:
        n, m = rows.site.length, cols.site.length
        return self.rng(number).standard_normal((n, m)) / np.sqrt(m)

    def reseeded(self, seed: int) -> Any:
        """The same with another seed."""
        return dataclasses.replace(self, seed=seed)


@dataclasses.dataclass(frozen=True)
class Lazy(Dense):
    """A network of the same law as `Dense`, its matrices known through their products."""

    drop: float = 1e-7
    floor: float | None = None
    revealed: bool = False
    single: bool = False

    def site(self, name: str, ratio: float, number: int) -> Site:
        """A dimension's entries."""
        return Entries(name, max(1, round(ratio * self.size)), dtype(self.single))

    def gaussian(self, rows: Any, cols: Any, number: int) -> Any:
        """A lazily revealed matrix."""
        array = self._array(rows, cols, number) if self.revealed else None
        floor = self.drop / 10 if self.floor is None else self.floor
        ratio, rng = self.ratio(rows, cols), self.rng(number)
        return Gaussian(rows.site, cols.site, ratio, rng, self.drop, floor, array)


@dataclasses.dataclass(frozen=True)
class Limit:
    """The limit, with `samples` (a power of two) of each dimension's site.

    With `half`, 0 or 1, only that half of the same samples is used, for `extrapolated`. `mirrored` starts the second
    half of the samples as minus the first. It makes the first steps of relu networks more accurate (1.6 times after
    two steps with 256 samples; nothing was gained after ten with 1024) and odd activations less (1.7 times).
    The dimensions named in `linear` have vectors that are linear in normals and innovations only: they are kept as
    coordinates, which is exact and cheaper.
    """

    samples: int = 2048
    seed: int = 0
    drop: float = 1e-3
    floor: float | None = None
    single: bool = False
    half: int | None = None
    mirrored: bool = False
    linear: tuple[str, ...] = ()

    limit = True

    def __post_init__(self) -> None:
        if self.samples < 16 or self.samples & (self.samples - 1):
            raise ProgramError(f"samples = {self.samples}: must be a power of two, at least 16")
        if self.half not in (None, 0, 1):
            raise ProgramError(f"half = {self.half}: must be 0, 1 or None")

    def site(self, name: str, ratio: float, number: int) -> Site:
        """A dimension's samples, or its coordinates."""
        if name in self.linear:
            return Axes(name)
        seed = np.random.SeedSequence(self.seed, spawn_key=(number, 1))
        precision = dtype(self.single)
        return Samples(name, self.samples, seed, precision, self.half, self.mirrored)

    def ratio(self, rows: Any, cols: Any) -> float:
        """ρ = n/m."""
        return rows.ratio / cols.ratio

    def gaussian(self, rows: Any, cols: Any, number: int) -> Any:
        """A lazily revealed matrix."""
        floor = self.drop / 10 if self.floor is None else self.floor
        ratio = self.ratio(rows, cols)
        return Gaussian(rows.site, cols.site, ratio, self.rng(number), self.drop, floor)

    def rng(self, number: int) -> np.random.Generator:
        """The stream of thing number `number`."""
        return stream(self.seed, number)

    def reseeded(self, seed: int) -> Any:
        """The same with another seed."""
        return dataclasses.replace(self, seed=seed)


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """The limit of linear programs, without samples and without seeds."""

    drop: float = 1e-12
    floor: float = 0.0

    limit = True

    def site(self, name: str, ratio: float, number: int) -> Site:
        """A dimension's coordinates."""
        return Axes(name)

    def ratio(self, rows: Any, cols: Any) -> float:
        """ρ = n/m."""
        return rows.ratio / cols.ratio

    def gaussian(self, rows: Any, cols: Any, number: int) -> Any:
        """A lazily revealed matrix."""
        ratio = self.ratio(rows, cols)
        return Gaussian(rows.site, cols.site, ratio, self.rng(number), self.drop, self.floor)

    def rng(self, number: int) -> np.random.Generator:
        """Not used: innovations are unit vectors."""
        return np.random.default_rng(0)

    def reseeded(self, seed: int) -> Any:
        """The same: nothing is random."""
        return self


Backend = Dense | Lazy | Limit | Coordinates

"""The object a program is handed: it makes dimensions, vectors and matrices, and counts the states of training."""

import contextlib
import math
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from learndyn.programs.backends import Backend, Limit
from learndyn.programs.dims import Dim, NotFinite, refuse
from learndyn.programs.functions import where
from learndyn.programs.lines import users_line
from learndyn.programs.matrices import Matrix
from learndyn.programs.values import Parameter, Value

CHECKED_TOGETHER = 0.1
"""The part of a matrix's directions whose orthonormality is checked at a time."""


class Net:
    """A program's dimensions, random vectors and matrices, records and states.

    `state` is the number of the present state of training, None outside the loop; `last` tells that it is the last one,
    after which optimisers change nothing. `smallest` is the smallest ratio of a dimension. `keep` are the states
    that the caller wants, None for all; with `keep_weights` the weights of the present state can be asked for.
    `shown` are arrays that the program leaves for the caller in the present state, such as samples of its vectors.
    """

    def __init__(
        self,
        backend: Backend,
        done: Callable[[int, int], None] | None = None,
        keep: Collection[int] | None = None,
    ):
        self.backend, self.limit = backend, backend.limit
        self.smallest = float("inf")
        self.keep, self.keep_weights, self._recording = keep, False, True
        self._before: tuple[int | None, dict[str, np.ndarray]] = (-1, {})
        self.state: int | None = None
        self.last = False
        self.records: list[dict[str, np.ndarray]] = []
        self.shown: dict[str, Any] = {}
        self.ranks: dict[str, tuple[int, int]] = {}
        self.dropped = self.orthonormality = self.fullness = 0.0
        self.bytes = self.nodes = 0
        self._done = done
        self._things = 0
        self._open: int | None = None
        self._parameters: list[weakref.ref[Any]] = []
        self._matrices: weakref.WeakSet[Any] = weakref.WeakSet()
        self._sites: weakref.WeakSet[Any] = weakref.WeakSet()
        self._names: dict[str, weakref.ref[Any]] = {}

    def _number(self) -> int:
        self._things += 1
        return self._things - 1

    def dim(self, name: str, ratio: float = 1.0) -> Dim:
        """A large dimension; `ratio` is its size relative to those of ratio one."""
        if not isinstance(name, str):
            raise refuse(f"net.dim takes a name first, as in net.dim('neurons'), and not {name!r}")
        if not (math.isfinite(ratio) and ratio > 0):
            raise refuse(f"the ratio of the dimension {name!r} is {ratio}: must be positive")
        site = self.backend.site(name, float(ratio), self._number())
        self._sites.add(site)
        self.smallest = min(self.smallest, float(ratio))
        return Dim(name, float(ratio), site)

    def normal(
        self, dim: Dim, *small: int, trained: bool = True, apart_from: Value | None = None
    ) -> Value:
        """A vector of independent standard normals, with small axes in front.

        In the limit ⟨x y⟩ = 0 for a normal x and every vector y from before; samples obey this exactly for normal
        vectors, for what matrices were asked, and for the vectors in `apart_from`.
        """
        rng, count = self.backend.rng(self._number()), math.prod(small)
        if apart_from is not None and not dim.site.grows:
            dim.site.note(dim.site.unwrapped(apart_from.data))
        rows = self._site(dim).normals(count, rng)
        return self._vector(dim.site.wrapped(rows, small), dim, trained)

    def uniform(self, dim: Dim, *small: int) -> Value:
        """A vector of independent numbers between 0 and 1; it is not trained."""
        rng, count = self.backend.rng(self._number()), math.prod(small)
        rows = self._site(dim).uniforms(count, rng)
        return Value(self, dim.site.wrapped(rows, small), dim)

    def mask(self, dim: Dim, fraction: float, *small: int) -> Value:
        """1/fraction at random entries, that fraction of all, and 0 elsewhere: mini-batches and dropout."""
        return where(self.uniform(dim, *small) < fraction, 1 / fraction, 0.0)

    def zeros(self, dim: Dim, *small: int, trained: bool = True) -> Value:
        """A vector of zeros."""
        data = self._site(dim).constant(np.zeros(small))
        if not dim.site.grows:
            data = np.zeros((*small, dim.site.length), dim.site.dtype)
        return self._vector(data, dim, trained)

    def parameter(self, initial: Any) -> Value:
        """A trained vector or scalar that starts from this value."""
        value = (
            initial if isinstance(initial, Value) else Value(self, np.asarray(initial, float), None)
        )
        return self._vector(value.data, value.dim, True)

    def matrix(
        self,
        rows: Dim,
        cols: Dim,
        trained: bool = True,
        name: str | None = None,
        tied: bool = True,
        noisy: bool = False,
    ) -> Matrix:
        """A matrix with independent entries N(0, 1/cols).

        Unless `tied`, W and W^⊤ are independent of each other, which no matrix is but an approximation makes; for the
        sampled limit only. `noisy` says that training will add noise, if the matrix is used before there is an `SGD`.
        """
        for dim in (rows, cols):
            self._site(dim)
        gaussian = self.backend.gaussian(rows, cols, self._number())
        if not tied:
            if not isinstance(self.backend, Limit):
                raise refuse("a matrix with tied=False exists in the sampled limit only")
            gaussian.tied = False
        if noisy and isinstance(self.backend, Limit):
            gaussian.expect_noise()
        self._matrices.add(gaussian)
        label = self._free(name or f"{rows.name}×{cols.name}")
        matrix = Matrix(self, rows, cols, gaussian, gaussian.initial(), trained, label)
        self._names[label] = weakref.ref(gaussian)
        if trained:
            self._parameters.append(weakref.ref(matrix))
        return matrix

    @property
    def parameters(self) -> list[Any]:
        """The trained vectors, scalars and matrices."""
        alive = [(reference, reference()) for reference in self._parameters]
        self._parameters = [reference for reference, thing in alive if thing is not None]
        return [thing for _, thing in alive if thing is not None]

    def weights(self) -> dict[str, np.ndarray]:
        """The trained things of a dense network in the present state: matrices by name, vectors and scalars in order.

        The dimension is the last axis of a vector; the entries of a matrix have variance 1/cols at first. Needs
        `keep_weights`, unless the state has not been trained on.
        """
        return self._before[1] if self._before[0] == self.state else self._weights()

    def before_update(self) -> None:
        """Optimisers call this before they change anything: weights are kept if they may be asked for."""
        if self.keep_weights and self._before[0] != self.state:
            self._before = self.state, self._weights()

    def _weights(self) -> dict[str, np.ndarray]:
        values = [thing for thing in self.parameters if not isinstance(thing, Matrix)]
        named = {f"{getattr(x.dim, 'name', 'scalar')} {k}": x.data for k, x in enumerate(values, 1)}
        matrices = {x.name: x.state for x in self.parameters if isinstance(x, Matrix)}
        return {name: np.array(data) for name, data in (named | matrices).items()}

    def record(self, **scalars: Any) -> None:
        """Keep these scalars for the present state of training."""
        if self.state is None:
            raise refuse("net.record is called outside the loop over net.steps")
        if not self._recording:
            return
        row = self.records[self.state]
        for name, value in scalars.items():
            if isinstance(value, Value) and value.dim is not None:
                raise refuse(
                    f"{name} is {value.words()}: only scalars can be recorded, such as its mean"
                )
            if name in row:
                raise refuse(f"{name} is recorded twice in state {self.state}")
            number = np.array(value.data if isinstance(value, Value) else value, float)
            before = self.records[0].get(name)
            if before is not None and before.shape != number.shape:
                raise refuse(f"{name} had small axes {before.shape}, and now has {number.shape}")
            if not np.all(np.isfinite(number)):
                raise NotFinite(f"{users_line()}\n  {name} is no longer finite")
            row[name] = number

    @property
    def kept(self) -> bool:
        """Whether the present state is among those that the caller wants: costly records need be made in these only."""
        return self.keep is None or self.state in self.keep

    @contextlib.contextmanager
    def unrecorded(self) -> Iterator[None]:
        """A block in which `record` does nothing."""
        before, self._recording = self._recording, False
        try:
            yield
        finally:
            self._recording = before

    def steps(self, steps: int) -> Iterator[int]:
        """Hand out the states 0 … `steps` of training; no update follows the last one."""
        if self.records:
            raise refuse("a program has one loop over net.steps")
        if not isinstance(steps, int | np.integer) or steps < 0:
            raise refuse(f"net.steps({steps}): must be a whole number, not negative")
        for state in range(steps + 1):
            self.state, self.last = state, state == steps
            self.records.append({})
            self.shown = {}
            self._open = steps
            yield state
            self.end_state()
        self.state = None

    def end_state(self) -> None:
        """The present state is over; this is called again after the program, which may have left its loop early."""
        if self._open is None:
            return
        steps, self._open = self._open, None
        if not any(self.records):
            raise refuse("nothing was recorded in the first state: call net.record in the loop")
        things = [*self._matrices, *self._sites]
        self.fullness = max(self.fullness, *(site.fullness for site in self._sites), 0.0)
        self.bytes = max(self.bytes, sum(thing.bytes for thing in things))
        if self.last:
            for gaussian in self._matrices:
                self._check(gaussian, 0.0)
        if self._done is not None:
            self._done(len(self.records) - 1, int(steps))

    def watch(self, matrix: Matrix) -> None:
        """Note how far a matrix is revealed, while it lives."""
        gaussian = matrix.gaussian
        self.ranks[matrix.name] = tuple(
            np.maximum(self.ranks.get(matrix.name, (0, 0)), gaussian.ranks).tolist()
        )
        # One product for many directions: it takes as long as one for a single direction.
        self._check(gaussian, CHECKED_TOGETHER)

    def _check(self, gaussian: Any, part: float) -> None:
        for directions in (getattr(gaussian, "U", None), getattr(gaussian, "V", None)):
            if directions is not None:
                directions.check(part)
                self.dropped = max(self.dropped, float(directions.dropped))
                self.orthonormality = max(self.orthonormality, directions.orthonormality)

    def _site(self, dim: Any) -> Any:
        if not isinstance(dim, Dim):
            raise refuse(f"{dim!r} is no dimension: make one with net.dim('name')")
        return dim.site

    def _free(self, name: str) -> str:
        """The name, with a number behind if a living matrix has it."""
        label, number = name, 1
        while label in self._names and self._names[label]() is not None:
            number += 1
            label = f"{name} {number}"
        return label

    def _vector(self, data: Any, dim: Dim | None, trained: bool) -> Value:
        if not trained:
            return Value(self, data, dim)
        parameter = Parameter(self, data, dim)
        self._parameters.append(weakref.ref(parameter))
        return parameter

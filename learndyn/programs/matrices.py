"""Matrices of a program: W @ x and W.T @ z, and their gradients.

The adjoint of a matrix is the operator W̄ = ρ ∂L/∂W (as an array), with ρ = n/m for n rows and m columns:

    y = W x:      x̄ += (1/ρ) W^⊤ȳ,    W̄ += ȳ⟨x, ·⟩
    y = W^⊤z:     z̄ += ρ W ȳ,         W̄ += ρ z⟨ȳ, ·⟩ .

For weights w = √m W of unit variance, W −= η W̄ is w −= η n ∂L/∂w.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from learndyn.errors import ProgramError, TooFewSamples
from learndyn.programs.affine import NotLinear, Product
from learndyn.programs.dims import Dim, NotFinite, not_linear, refuse
from learndyn.programs.lines import Line, users_line
from learndyn.programs.values import Value

if TYPE_CHECKING:
    from learndyn.programs.net import Net


class Matrix:
    """A Gaussian matrix, and what training made of it: `state`."""

    def __init__(
        self, net: "Net", rows: Dim, cols: Dim, gaussian: Any, state: Any, trained: bool, name: str
    ):
        self.net, self.rows, self.cols, self.gaussian = net, rows, cols, gaussian
        self.state, self.trained, self.name = state, trained, name
        self.line = users_line()

    @property
    def T(self) -> "Transposed":
        """The transposed matrix, for W.T @ z."""
        return Transposed(self)

    def frozen(self) -> "Matrix":
        """An untrained copy of the matrix as it is now; it stays correlated with the original."""
        rows, cols, name = self.rows, self.cols, self.name
        return Matrix(self.net, rows, cols, self.gaussian, self.state, False, name)

    def __repr__(self) -> str:
        return f"<matrix {self.name!r}>"

    def __matmul__(self, x: Any) -> Value:
        return _product(self, x, False)

    def __array_ufunc__(self, *arguments: Any, **keywords: Any) -> Any:
        raise refuse(_ENTRIES.format(self))

    def _entries(self, *arguments: Any) -> Any:
        raise refuse(_ENTRIES.format(self))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _entries
    __pow__ = __getitem__ = __abs__ = __neg__ = sum = mean = _entries


class Transposed:
    """The transposed of a matrix."""

    __array_ufunc__ = None

    def __init__(self, matrix: Matrix):
        self.T = matrix

    def __matmul__(self, z: Any) -> Value:
        return _product(self.T, z, True)


_ENTRIES = (
    "entries of {} are asked for: in the limit a matrix is known only through its products W @ x and "
    "W.T @ z. Scale or add the products instead"
)


def _product(matrix: Matrix, x: Any, transposed: bool) -> Value:
    """W x or W^⊤x, on the tape."""
    if isinstance(x, Matrix | Transposed):
        raise refuse(
            "a product of two matrices has no limit of its own: write W1 @ (W2 @ x) with the vector"
        )
    start, end = matrix.cols, matrix.rows
    if transposed:
        start, end = end, start
    if not isinstance(x, Value) or x.dim is None:
        raise refuse(f"{matrix} is multiplied with what is no vector over {start}")
    if x.dim is not start:
        raise refuse(
            f"{matrix}{'.T' * transposed} takes vectors over {start}, and this is {x.words()}"
        )
    if isinstance(x.data, Product):
        raise not_linear(NotLinear("a matrix times a product of two vectors"), x.dim)
    gaussian, state, shape = matrix.gaussian, matrix.state, x.shape
    ways = gaussian.apply, gaussian.apply_transposed
    forward, backward = ways[::-1] if transposed else ways
    rho, line = gaussian.rho, users_line()
    with _named(line):
        rows, coordinates = forward(state, start.site.unwrapped(x.data))
    matrix.net.watch(matrix)
    data = end.site.wrapped(rows, shape)
    if not x.needs and not matrix.trained:
        return Value(matrix.net, data, end)

    def pull(adjoint: Any) -> Iterable[tuple[Any, Any]]:
        ybar = end.site.unwrapped(adjoint)
        with _named(line):
            if x.needs:
                back, own = backward(state, ybar)
            else:
                back, own = None, gaussian.coordinates(ybar, not transposed, images=False)
        matrix.net.watch(matrix)
        if back is not None:
            yield x, start.site.wrapped((rho if transposed else 1 / rho) * back, shape)
        if matrix.trained and transposed:
            yield matrix, rho * gaussian.outer(coordinates, own)
        elif matrix.trained:
            yield matrix, gaussian.outer(own, coordinates)

    return Value(matrix.net, data, end, pull)


@contextlib.contextmanager
def _named(line: Line) -> Iterator[None]:
    """Errors from inside a product name the user's line."""
    try:
        yield
    except NotFinite as error:
        raise NotFinite(f"{line}\n  {error}") from None
    except TooFewSamples as error:
        raise TooFewSamples(f"{line}\n  {error}", error.needed) from None
    except ProgramError as error:
        raise refuse(str(error), line) from None

"""The operators of Python on vectors and scalars, each an entrywise function."""

import abc
from typing import Any


class Operators(abc.ABC):
    """Derived classes say how an entrywise function is applied."""

    __slots__ = ()

    @abc.abstractmethod
    def entrywise(self, name: str, *arguments: Any) -> Any:
        """f(x_1, x_2, …), by the name of NumPy's function."""

    def __add__(self, other: Any) -> Any:
        return self.entrywise("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self.entrywise("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self.entrywise("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.entrywise("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return self.entrywise("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.entrywise("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.entrywise("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.entrywise("divide", other, self)

    def __pow__(self, other: Any) -> Any:
        return self.entrywise("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self.entrywise("power", other, self)

    def __lt__(self, other: Any) -> Any:
        return self.entrywise("less", self, other)

    def __le__(self, other: Any) -> Any:
        return self.entrywise("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return self.entrywise("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return self.entrywise("greater_equal", self, other)

    def __matmul__(self, other: Any) -> Any:
        return self.entrywise("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self.entrywise("matmul", other, self)

    def __neg__(self) -> Any:
        return self.entrywise("negative", self)

    def __pos__(self) -> Any:
        return self.entrywise("positive", self)

    def __abs__(self) -> Any:
        return self.entrywise("absolute", self)

"""Rules that train, on gradients without n.

    SGD     B ← βB − η_t g,  θ ← (1 − η_t λ) θ + B + √(2 η_t τ) ξ,  ξ new normals (a new Gaussian matrix);
            coupled: B ← βB − g − λθ,  θ ← θ + η_t B + √(2 η_t τ) ξ
    Sign    θ ← (1 − η_t λ) θ − η_t sign g
    Adam    m ← β₁m + (1 − β₁)g,  v ← β₂v + (1 − β₂)g²,  θ ← (1 − η_t λ) θ − η_t m̂/(√v̂ + ε),  hats: over 1 − β^t
    Muon    B ← βB + g,  θ ← (1 − η_t λ) θ − η_t NS(B), matrices only; NS drives singular values towards one

g is x̄ = n ∂L/∂x, s̄ = ∂L/∂s, W̄ = ρ ∂L/∂W. Sign and Adam act on a matrix through the kernel m W̄_ij, which is of order
one, and change its entries by 1/m. ε is in the units of g.
"""

import abc
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from learndyn.programs.affine import NotLinear
from learndyn.programs.backends import Limit
from learndyn.programs.dims import NotFinite, not_linear, refuse
from learndyn.programs.gradients import adjoints
from learndyn.programs.matrices import Matrix
from learndyn.programs.net import Net
from learndyn.programs.sites import Axes
from learndyn.programs.values import Value

Rate = float | Callable[[int], float]
MOST_ENTRIES = 4096**2
"""Entries of the arrays that rules on entries keep of a lazily revealed matrix."""


class Optimiser(abc.ABC):
    """Changes parameters, all trained ones of the net unless `parameters` names some.

    `rate` is a number or a function of the step, counted from zero.
    """

    def __init__(
        self, net: Net, rate: Rate, decay: float = 0.0, parameters: Iterable[Any] | None = None
    ):
        self.net, self.rate, self.decay, self.count = net, rate, decay, 0
        self.only = None if parameters is None else list(parameters)
        self.memory: dict[int, Any] = {}
        for parameter in self.only or ():
            if not (isinstance(parameter, Matrix) and parameter.trained) and not getattr(
                parameter, "needs", False
            ):
                raise refuse(f"{parameter!r} is not trained: it was made with trained=False")

    def step(self, loss: Value) -> None:
        """One step down the gradient of the loss; nothing happens at the last state."""
        if self.net.last:
            return
        self.net.before_update()
        parameters = self._chosen() if self.only is None else self.only
        rate = self.rate(self.count) if callable(self.rate) else self.rate
        self.count += 1
        for parameter, gradient in zip(parameters, gradients(loss, parameters), strict=True):
            if isinstance(parameter, Matrix):
                self._train_matrix(parameter, gradient, rate)
            else:
                self._train_value(parameter, gradient, rate)

    def _chosen(self) -> list[Any]:
        return self.net.parameters

    def _train_value(self, parameter: Value, gradient: Any, rate: float) -> None:
        if parameter.dim is None and not np.all(np.isfinite(gradient)):
            raise NotFinite(
                f"{parameter.line}\n  the gradient of this parameter is no longer finite"
            )
        try:
            moved = self.moved(parameter, gradient, rate)
        except NotLinear as error:
            raise not_linear(error, parameter.dim) from None
        data = parameter.data if not self.decay else (1 - rate * self.decay) * parameter.data
        data = data + moved
        if isinstance(data, np.ndarray) and parameter.dim is not None:
            data = data.astype(parameter.dim.site.dtype, copy=False)
        parameter.data = data

    def _train_matrix(self, matrix: Matrix, gradient: Any, rate: float) -> None:
        moved = self.moved_matrix(matrix, gradient, rate)
        matrix.state = (1 - rate * self.decay) * matrix.state + moved

    @abc.abstractmethod
    def moved(self, parameter: Value, gradient: Any, rate: float) -> Any:
        """By how much a vector or scalar changes, decay aside."""

    @abc.abstractmethod
    def moved_matrix(self, matrix: Matrix, gradient: Any, rate: float) -> Any:
        """By how much a matrix changes, decay aside."""


def gradients(loss: Value, parameters: list[Any]) -> list[Any]:
    """The gradients of a loss; zero for parameters on which it does not depend."""
    known = adjoints(loss, parameters)
    if all(gradient is None for gradient in known):
        raise refuse("the loss depends on no trained parameter")
    return [_nothing(x) if g is None else g for x, g in zip(parameters, known, strict=True)]


def _nothing(parameter: Any) -> Any:
    """A gradient of zero."""
    if isinstance(parameter, Matrix):
        low_rank, dims = hasattr(parameter.gaussian, "U"), (parameter.rows, parameter.cols)
        n, m = (0 if low_rank else dim.site.length for dim in dims)
        return 0.0 * parameter.gaussian.outer(np.zeros((0, n)), np.zeros((0, m)))
    if parameter.dim is None:
        return np.zeros(parameter.shape)
    return parameter.dim.site.constant(np.zeros(parameter.shape))


class SGD(Optimiser):
    """Gradient descent with momentum β, decay λ and noise of temperature τ.

    `coupled` has the decay inside the momentum buffer and the rate outside.

    A scalar parameter has no noise: the whole network pulls at it.
    """

    def __init__(
        self,
        net: Net,
        rate: Rate,
        momentum: float = 0.0,
        decay: float = 0.0,
        temperature: float = 0.0,
        parameters: Iterable[Any] | None = None,
        coupled: bool = False,
    ):
        super().__init__(net, rate, 0.0 if coupled else decay, parameters)
        self.momentum, self.temperature = momentum, temperature
        self.coupled, self.inner_decay = coupled, decay if coupled else 0.0
        if temperature and isinstance(net.backend, Limit):
            for parameter in net.parameters if self.only is None else self.only:
                if isinstance(parameter, Matrix):
                    parameter.gaussian.expect_noise()

    def moved(self, parameter: Value, gradient: Any, rate: float) -> Any:
        """B, and noise."""
        B = self._buffer(parameter, parameter.data, gradient, rate)
        if self.temperature and parameter.dim is not None:
            noise = self.net.normal(parameter.dim, *parameter.shape, trained=False)
            return B + np.sqrt(2 * rate * self.temperature) * noise.data
        return B

    def moved_matrix(self, matrix: Matrix, gradient: Any, rate: float) -> Any:
        """B, and noise."""
        B = self._buffer(matrix, matrix.state, gradient, rate)
        size = float(np.sqrt(2 * rate * self.temperature))
        if self.temperature and getattr(matrix.gaussian, "noisy", None) is not None:
            return B + matrix.gaussian.new_noise(size)
        if self.temperature:
            noise = self.net.matrix(matrix.rows, matrix.cols, trained=False, name="noise")
            return B + noise.gaussian.noise(size)
        return B

    def _buffer(self, parameter: Any, theta: Any, gradient: Any, rate: float) -> Any:
        """The change of a parameter whose value is `theta`, noise aside; its buffer is kept for the next step."""
        inner, outer = (1.0, rate) if self.coupled else (rate, 1.0)
        B = -inner * gradient
        if self.inner_decay:
            B = B + (-self.inner_decay) * theta
        if not self.momentum:
            return B if outer == 1 else outer * B
        if id(parameter) in self.memory:
            B = self.momentum * self.memory[id(parameter)][1] + B
        # The parameter is kept too, so that no other one is given its identity.
        self.memory[id(parameter)] = parameter, B
        return B if outer == 1 else outer * B


class _Entrywise(Optimiser):
    """A rule for each entry on its own."""

    def moved(self, parameter: Value, gradient: Any, rate: float) -> Any:
        """−η times the rule."""
        if parameter.dim is not None and isinstance(parameter.dim.site, Axes):
            raise NotLinear(f"{type(self).__name__} on a vector")
        return -rate * self.rule(parameter, gradient)

    def moved_matrix(self, matrix: Matrix, gradient: Any, rate: float) -> Any:
        """−η times the rule on the kernel."""
        if isinstance(matrix.rows.site, Axes):
            raise not_linear(NotLinear(f"{type(self).__name__} on a matrix"), matrix.rows)
        gaussian, shape = matrix.gaussian, (matrix.rows.site.length, matrix.cols.site.length)
        if hasattr(gaussian, "U") and shape[0] * shape[1] > MOST_ENTRIES:
            raise refuse(
                f"{type(self).__name__} on {matrix} needs arrays of {shape[0]} × {shape[1]} entries, and at "
                f"most {MOST_ENTRIES} are taken: use fewer samples, or SGD or Muon for matrices"
            )
        return gaussian.from_kernel(-rate * self.rule(matrix, gaussian.kernel(gradient)))

    @abc.abstractmethod
    def rule(self, parameter: Any, g: np.ndarray) -> np.ndarray:
        """The direction to go, entry by entry."""


class Sign(_Entrywise):
    """Steps of length η in each entry."""

    def rule(self, parameter: Any, g: np.ndarray) -> np.ndarray:
        """sign g."""
        return np.sign(g)


class Adam(_Entrywise):
    """Adam, with decay apart from the gradient."""

    def __init__(
        self,
        net: Net,
        rate: Rate,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        decay: float = 0.0,
        parameters: Iterable[Any] | None = None,
    ):
        super().__init__(net, rate, decay, parameters)
        self.betas, self.eps = betas, eps

    def rule(self, parameter: Any, g: np.ndarray) -> np.ndarray:
        """m̂/(√v̂ + ε)."""
        (b1, b2), t = self.betas, self.count
        _, m, v = self.memory.get(id(parameter), (parameter, 0.0, 0.0))
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        self.memory[id(parameter)] = parameter, m, v
        return m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + self.eps)


class Muon(Optimiser):
    """Orthogonalised momentum, for matrices; train vectors with another rule."""

    def __init__(
        self,
        net: Net,
        rate: Rate,
        momentum: float = 0.95,
        decay: float = 0.0,
        iterations: int = 5,
        parameters: Iterable[Any] | None = None,
    ):
        super().__init__(net, rate, decay, parameters)
        self.momentum, self.iterations = momentum, iterations
        if any(not isinstance(parameter, Matrix) for parameter in self.only or ()):
            raise refuse("Muon trains matrices only: give vectors and scalars to SGD or Adam")

    def _chosen(self) -> list[Any]:
        return [parameter for parameter in self.net.parameters if isinstance(parameter, Matrix)]

    def moved(self, parameter: Value, gradient: Any, rate: float) -> Any:
        """Never asked."""
        raise refuse("Muon trains matrices only: give vectors and scalars to SGD or Adam")

    def moved_matrix(self, matrix: Matrix, gradient: Any, rate: float) -> Any:
        """−η NS(B)."""
        B = gradient
        if id(matrix) in self.memory:
            B = self.momentum * self.memory[id(matrix)][1] + B
        self.memory[id(matrix)] = matrix, B
        return -rate * matrix.gaussian.spectral(self._newton_schulz, B)

    def _newton_schulz(self, X: np.ndarray) -> np.ndarray:
        """Quintic iterations X ← aX + (bA + cA²)X with A = XX^⊤, from |X| = 1."""
        a, b, c = 3.4445, -4.7750, 2.0315
        norm = np.linalg.norm(X)
        X = X / norm if norm > 0 else X
        for _ in range(self.iterations):
            A = X @ X.T
            X = a * X + (b * A + c * A @ A) @ X
        return X

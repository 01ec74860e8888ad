"""Given examples: task and supply in one."""

from typing import Any

import numpy as np

from learndyn.errors import ProblemError
from learndyn.numerics.covariance import covariance_root
from learndyn.problem.checks import (
    SQUARED,
    array,
    boolean,
    exclusive,
    optional,
    room,
    semidefinite,
    whole,
)
from learndyn.problem.given import given_examples
from learndyn.problem.part import field, traced
from learndyn.problem.supplies import Supply


class Points(Supply):
    """Your own examples: P points with inputs x_μ in D dimensions and targets y_μ with C outputs.

    - `inputs` (x_μ): an array P × D.
    - `targets` (y_μ): an array of length P, or P × C.
    - `test_inputs`: inputs that are predicted but not trained on, with D columns. None unless given.
    - `test_targets`: the targets of the test points; the test loss needs them. None unless given.
    - `gram` (K_μα = x_μ·x_α/D): the Gram matrix of all points, the trained ones first, instead of `inputs` and
      `test_inputs`. Networks see the inputs only through it.
    """

    constructors = ("random",)

    inputs: Any = field(optional(array(2)), default=None)
    targets: Any = field(optional(array(1, 2)), default=None)
    test_inputs: Any = field(optional(array(2)), default=None)
    test_targets: Any = field(optional(array(1, 2)), default=None)
    gram: Any = field(optional(array(2)), default=None)

    def validate(self) -> None:
        if self.targets is None:
            raise ProblemError(
                "Points.targets", None, "missing; give one target for each trained point"
            )
        exclusive(self, inputs=self.inputs, gram=self.gram)
        exclusive(self, test_inputs=self.test_inputs, gram=self.gram)
        if self.gram is not None:
            self._check_gram()
        elif self.inputs is None:
            raise ProblemError(
                "Points.inputs", None, "missing; give inputs, or their Gram matrix as gram"
            )
        elif len(self.inputs) != len(self.targets):
            allowed = f"must have one row per target ({len(self.targets)}); its shape is {self.inputs.shape}"
            raise ProblemError("Points.inputs", self.inputs, allowed)
        if self.test_inputs is not None and self.test_inputs.shape[1] != self.inputs.shape[1]:
            allowed = f"must have as many columns as inputs ({self.inputs.shape[1]})"
            raise ProblemError("Points.test_inputs", self.test_inputs, allowed)
        for name in ("inputs", "test_inputs"):
            if getattr(self, name) is not None:
                self._check_size(name)
        if self.test_targets is not None:
            tested = self.total - self.trained
            shape = (tested, *self.targets.shape[1:])
            if self.test_targets.shape != shape:
                allowed = f"must have the shape {shape}: a row for each test point, with as many outputs as targets"
                raise ProblemError("Points.test_targets", self.test_targets, allowed)

    def _check_size(self, name: str) -> None:
        """Refuse inputs whose Gram matrix would be too large for double precision."""
        inputs = getattr(self, name)
        if not traced(inputs) and np.abs(inputs).max() > SQUARED:
            allowed = f"every entry must be at most {SQUARED:g} in size"
            raise ProblemError(f"Points.{name}", inputs.tolist(), allowed)

    def _check_gram(self) -> None:
        if self.gram.shape[0] != self.gram.shape[1] or len(self.gram) < len(self.targets):
            allowed = f"must be square, with rows for the {len(self.targets)} targets and, after them, the test points"
            raise ProblemError(
                "Points.gram", self.gram, f"{allowed}; its shape is {self.gram.shape}"
            )
        semidefinite("Points.gram", self.gram)

    @property
    def task(self) -> "Points":
        """What is to be learnt: these very examples."""
        return self

    @property
    def trained(self) -> int:
        """The number of trained points (P)."""
        return len(self.targets)

    @property
    def total(self) -> int:
        """The number of all points, test points included."""
        if self.gram is not None:
            return len(self.gram)
        return self.trained + (0 if self.test_inputs is None else len(self.test_inputs))

    @property
    def outputs(self) -> int:
        """The number of outputs (C)."""
        return 1 if self.targets.ndim == 1 else self.targets.shape[1]

    def kernel(self) -> np.ndarray:
        """K_μα = x_μ·x_α/D over all points, the trained ones first."""
        if self.gram is not None:
            return self.gram
        x = self.all_inputs()
        return x @ x.T / x.shape[1]

    def all_inputs(self) -> np.ndarray:
        """The inputs of all points (total × D), trained first; if `gram` is given, inputs with this Gram matrix."""
        if self.gram is not None:
            return covariance_root(self.gram) * np.sqrt(self.total)
        if self.test_inputs is None:
            return self.inputs
        return np.concatenate([self.inputs, self.test_inputs])

    @classmethod
    def from_data(
        cls,
        inputs: Any,
        targets: Any,
        count: int,
        seed: int = 0,
        test_count: int = 0,
        centered: bool = True,
        scaled: bool = True,
    ) -> "Points":
        """`count` of your own examples, drawn at random, and `test_count` others to test on.

        - `inputs`, `targets`: all examples, n × D and n (or n × C).
        - `centered`: whether the mean of the chosen trained inputs is subtracted from all. True unless given.
        - `scaled`: whether all inputs are divided by one number, so that |x|² = D on average over the trained ones,
          as the theory has it in mind. True unless given.

        Targets are left as they are.
        """
        X, Y = given_examples(inputs, targets, "Points")
        P, Q = whole(1)(count, "Points.count"), whole(0)(test_count, "Points.test_count")
        if len(X) < P + Q:
            name, value = ("count", P) if len(X) < P else ("test_count", Q)
            allowed = f"is too many: there are {len(X)} examples, and {P} + {Q} are asked for"
            raise ProblemError(f"Points.{name}", value, allowed)
        chosen = np.random.default_rng(whole(0)(seed, "Points.seed")).permutation(len(X))[: P + Q]
        x, y = X[chosen], Y[chosen]
        if boolean(centered, "Points.centered"):
            x = x - x[:P].mean(axis=0)
        if boolean(scaled, "Points.scaled"):
            size = np.sqrt(np.mean(x[:P] ** 2))
            if size == 0:
                allowed = (
                    "the chosen inputs are all the same, so they cannot be scaled; choose more"
                )
                raise ProblemError("Points.count", P, allowed)
            x = x / size
        y = y[:, 0] if y.shape[1] == 1 else y
        return cls(x[:P], y[:P], x[P:], y[P:]) if Q else cls(x, y)

    @classmethod
    def random(
        cls, points: int, dimension: int, seed: int = 0, outputs: int = 1, test_points: int = 0
    ) -> "Points":
        """Inputs drawn from N(0, 1) and targets ±1 at random (for test points as well)."""
        P, D = whole(1)(points, "Points.points"), whole(1)(dimension, "Points.dimension")
        C, Q = whole(1)(outputs, "Points.outputs"), whole(0)(test_points, "Points.test_points")
        rng = np.random.default_rng(whole(0)(seed, "Points.seed"))
        count = "points" if P >= Q else "test_points"
        room(f"Points.{count}", max(P, Q), P + Q, D + C)
        x = rng.standard_normal((P + Q, D))
        y = rng.choice([-1.0, 1.0], (P + Q, C))
        y = y[:, 0] if C == 1 else y
        if not Q:
            return cls(x, y)
        return cls(x[:P], y[:P], x[P:], y[P:])

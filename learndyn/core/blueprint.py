"""A finite network with every scaling factor, as its family describes it to those who write it out elsewhere."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from learndyn.errors import ProblemError
from learndyn.problem.activations import Activation
from learndyn.problem.training import GradientDescent


@dataclass(frozen=True)
class Layer:
    """One array of weights, as the library trains it.

    - `name`: its name among the weights of a run.
    - `shape`: units × inputs, or units alone for a bias.
    - `std`: standard deviation of its entries at the start.
    - `multiplier` (a): what stands before it in the forward pass.
    - `rate` (ρ): its raw rate down the gradient is ρη(t) with η the learning rate of training; 0 if it is not trained.
    - `decay` (κ): a step multiplies it by 1 − κη(t).
    - `temperature` (τ): a step adds √(2τη(t)) ζ.
    - `schedule`: whose rate is η(t).
    """

    name: str
    shape: tuple[int, ...]
    std: float
    multiplier: float
    rate: float
    decay: float = 0.0
    temperature: float = 0.0
    schedule: Literal["learning_rate", "readout_learning_rate"] = "learning_rate"


@dataclass(frozen=True)
class DataCode:
    """Functions in NumPy that draw weights and data, as Python text; `rng` is a `numpy.random.Generator`.

    - `words`: what the data are.
    - `constants`: assignments that the functions use.
    - `functions`: `draw(rng)`, which gives the initial weights (arrays by name) and the target; `batches(…)`, which
      yields inputs x and labels y (both with the examples first) for every step; `test_examples(rng, target)`. In the
      text `{SCALE[name]}` stands for the factor from the library's weights to those of the parameterisation.
    - `batches`: the call of `batches` in which `rng` and `target` are known.
    - `prepared`: lines before that call.
    - `train_set`: the examples on which the train loss is measured: those of the step ("batch"), a variable ("data"),
      or None if it is not measured.
    - `tested`: whether there is a test loss.
    - `arrays`: large arrays, which the text reads from the file `{DATA_FILE}`.
    """

    words: str
    constants: str
    functions: str
    batches: str = "batches(rng, target)"
    prepared: str = ""
    train_set: Literal["batch", "data"] | None = "batch"
    tested: bool = True
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Blueprint:
    """Dense layers in a row: h ← φ(a W h + a_b b), or h ← h + … in a residual network, and a readout.

    - `words`: what it is.
    - `hidden`: the weights of every hidden layer and its biases, or None.
    - `readout`: the last weights.
    - `activation`: φ, or None for the identity.
    - `residual`: whether layers after the first are added to what is below them, h ← h + a W φ(h) + a_b b.
    - `normalised`: whether preactivations have a layer norm.
    - `centered`: whether the initial function is subtracted.
    - `criterion`, `mean`: the loss that is descended, as in `GradientDescent`; "squared" has the factor ½.
    - `logged`: the recorded losses are this multiple of it.
    - `noise`: what is added to the recorded test loss.
    - `steps`: the number of steps.
    - `per_time`: steps per unit of time if training is measured in time, else None.
    - `data`: weights and data as text.
    """

    words: str
    hidden: tuple[tuple[Layer, Layer | None], ...]
    readout: Layer
    activation: Activation | None
    steps: int
    data: DataCode
    residual: bool = False
    normalised: bool = False
    centered: bool = False
    criterion: str = "squared"
    mean: bool = True
    logged: float = 1.0
    noise: float = 0.0
    per_time: int | None = None

    @property
    def layers(self) -> list[Layer]:
        """All weights, those of the first layer first and its bias after them."""
        pairs = [layer for pair in self.hidden for layer in pair if layer is not None]
        return [*pairs, self.readout]


def array_text(array: np.ndarray) -> str:
    """An array as Python text, with all digits; the rows of a matrix stand below each other."""
    if array.ndim == 1 or len(array) == 1:
        return f"np.array({array.tolist()!r})"
    rows = "".join(f"        {row!r},\n" for row in array.tolist())
    return f"np.array(\n    [\n{rows}    ]\n)"


LARGEST_TEXT = 400
"""Arrays of more numbers are kept in a file beside the text."""


def constants_of(arrays: dict[str, np.ndarray]) -> tuple[str, dict[str, np.ndarray]]:
    """Assignments of arrays by name, and those arrays that are too large for text."""
    large = {name: array for name, array in arrays.items() if array.size > LARGEST_TEXT}
    lines = [
        f'{name} = np.load("{{DATA_FILE}}")["{name}"]'
        if name in large
        else f"{name} = {array_text(array)}"
        for name, array in arrays.items()
    ]
    return "\n".join(lines), large


def steps_of(training: GradientDescent) -> int:
    """The number of steps; refuses gradient flow."""
    if training.steps is None:
        allowed = "a training loop needs steps, and gradient flow has none; give training.steps with a small rate"
        raise ProblemError("training.time", training.time, allowed)
    return training.steps

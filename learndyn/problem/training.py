"""Training rules."""

from learndyn.errors import ProblemError
from learndyn.problem.checks import choice, number, optional, whole
from learndyn.problem.part import Part, field
from learndyn.problem.schedules import Schedule, rate_or_schedule


class Training(Part, abstract=True):
    """Base of the training rules."""


class GradientDescent(Training):
    """Gradient descent; stochastic if the data arrive in batches.

    A step changes every weight W and its momentum buffer B: B ← βB − η·gradient, W ← (1 − ηλ) W + B; this is the
    `momentum_rule` "decoupled". "coupled" is the rule of PyTorch's and optax's SGD, which has the decay inside the
    buffer and the rate outside: B ← βB − gradient − λW, W ← W + ηB. Without momentum they are the same.

    - `learning_rate` (η): a number or a schedule. The network's page says how the rate of the finite network follows
      from it.
    - `steps`: the length of training as a number of steps.
    - `time`: the length of training as a time. Give either `steps` or `time`; the network's page says which one.
    - `momentum` (β): at least 0 and below 1. 0 unless given.
    - `weight_decay` (λ): at least 0. 0 unless given.
    - `noise` (τ): temperature of the Langevin noise √(2ητ)ζ that is added to every weight at every step. 0 unless
      given.
    - `readout_learning_rate` (η_v): the rate of a trained readout, a number or a schedule. Equal to `learning_rate`
      unless given.
    - `loss`: whether the loss of several examples is their "mean" or their "sum". "mean" unless given.
    - `criterion`: the loss of one example. "squared", ½(y − f)², unless given; or "logistic", log(1 + e^(−yf)) with
      y = ±1; or "cross_entropy", −Σ_c y_c log softmax(f)_c with y the probabilities of the classes.
    - `momentum_rule`: "decoupled" or "coupled", as above. "decoupled" unless given.
    """

    learning_rate: float | Schedule = field(rate_or_schedule)
    steps: int | None = field(optional(whole(1)), default=None)
    time: float | None = field(optional(number(above=0)), default=None)
    momentum: float = field(number(minimum=0, below=1), default=0.0)
    weight_decay: float = field(number(minimum=0), default=0.0)
    noise: float = field(number(minimum=0), default=0.0)
    readout_learning_rate: float | Schedule | None = field(optional(rate_or_schedule), default=None)
    loss: str = field(choice("mean", "sum"), default="mean")
    criterion: str = field(choice("squared", "logistic", "cross_entropy"), default="squared")
    momentum_rule: str = field(choice("decoupled", "coupled"), default="decoupled")

    def validate(self) -> None:
        if (self.steps is None) == (self.time is None):
            lengths = {"steps": self.steps, "time": self.time}
            raise ProblemError(
                "GradientDescent.steps, time", lengths, "give exactly one of the two"
            )

    def breakpoints(self, end: float) -> list[float]:
        """The times before `end` at which one of the rates is not smooth."""
        rates = [self.learning_rate, self.readout_learning_rate]
        kinks = {
            float(t) for rate in rates if isinstance(rate, Schedule) for t in rate.breakpoints()
        }
        return sorted(t for t in kinks if 0 < t < end)

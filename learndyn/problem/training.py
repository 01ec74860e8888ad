"""Training rules."""

from learndyn.errors import ProblemError
from learndyn.problem.checks import choice, number, optional, whole
from learndyn.problem.part import Part, field
from learndyn.problem.schedules import Schedule, rate_or_schedule


class Training(Part, abstract=True):
    """Base of the training rules."""


class GradientDescent(Training):
    """Gradient descent, stochastic where the data say so.

    Its length is `steps`, or `time` where the theory measures training in time; the network's page says which, and how
    the rate of the finite network follows from `learning_rate` (η). `readout_learning_rate` (η_v) is the rate of a
    trained readout, equal to `learning_rate` unless given. `momentum` (β) and `weight_decay` (λ) act as
    B ← βB − η·gradient, W ← (1 − ηλ) W + B. `noise` (τ) is the temperature of Langevin noise √(2ητ)ζ added to every
    weight at every step. `loss` says whether the loss of several examples is their mean or sum, and `criterion` what
    the loss of one is: squared, ½(y − f)²; logistic, log(1 + e^(−yf)) with y = ±1; or cross_entropy,
    −Σ_c y_c log softmax(f)_c with y the probabilities of the classes.
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

    def validate(self):
        if (self.steps is None) == (self.time is None):
            given = {"steps": self.steps, "time": self.time}
            raise ProblemError("GradientDescent.steps, time", given, "give exactly one of the two")

    def breakpoints(self, end: float) -> list[float]:
        """The times before `end` at which one of the rates is not smooth."""
        rates = [self.learning_rate, self.readout_learning_rate]
        kinks = {
            float(t) for rate in rates if isinstance(rate, Schedule) for t in rate.breakpoints()
        }
        return sorted(t for t in kinks if 0 < t < end)

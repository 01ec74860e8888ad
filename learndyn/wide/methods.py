"""The methods for wide networks: the full theory, and its approximations."""

from learndyn.batches import power_of_two
from learndyn.part import Part, choice, field, number, whole


class WideMethod(Part, abstract=True):
    """Base of the methods. Gradient flow is known to `tolerance`, relative to the largest prediction or loss."""

    tolerance: float = field(number(above=0), default=1e-3)


class SampledLayers(WideMethod, abstract=True):
    """Base of the methods that sample neurons: the mean over `batches` independent batches of `samples` of each layer.

    Their spread is the standard error. `responses` come from tracing changes back through every sample ("adjoint"), or
    from Gaussian integration by parts ("stein", which a relu needs); "auto" picks. `precision` is that of the tracing,
    most of the cost: what "single" rounds is far below the standard errors. All else is in double precision.
    """

    samples: int = field(power_of_two, default=1024)
    batches: int = field(whole(2), default=8)
    responses: str = field(choice("auto", "adjoint", "stein"), default="auto")
    precision: str = field(choice("single", "double"), default="single")


class KernelEvolution(SampledLayers):
    """The full theory, forward in training time without iteration.

    Linear networks are solved exactly; one hidden layer by particles, each a neuron on its own; deeper ones by
    sampling. `form` is that of the linear solution: "rows" (the row recursion, with responses), "innovation" (the
    innovation basis, for long runs) or "auto": rows while they take seconds.
    """

    form: str = field(choice("auto", "rows", "innovation"), default="auto")


class GradientIndependence(SampledLayers):
    """No responses (A = B = 0): the backward pass as if through weights of its own. Exact for one hidden layer.

    Outputs follow the tangent kernel of the fields, f(t+1) = f(t) + ηK(t, t)E(t); plain gradient descent only.
    """


class AlternatingIteration(SampledLayers):
    """The paper's algorithm: iterate whole trajectories, new = (1 − `damping`) old + `damping` sampled.

    It ends when no output changes by more than `change`, or fails after `iterations`. Outputs follow the tangent
    kernel; plain gradient descent only.
    """

    damping: float = field(number(above=0, maximum=1), default=0.5)
    change: float = field(number(above=0), default=1e-4)
    iterations: int = field(whole(1), default=100)


class StaticKernel(WideMethod):
    """The lazy limit γ_0 → 0: outputs follow the tangent kernel of the start, f(t+1) = f(t) + ηK(0)E(t)."""


class Perturbative(WideMethod):
    """Deep linear networks to the leading order γ_0² in which features move; plain gradient descent only."""

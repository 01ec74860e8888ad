"""Wide networks in training as Gaussian programs, and their observables.

In the recorded states the program shows h^ℓ, φ(h^ℓ) and g^ℓ of all points: g^ℓ_μc is the adjoint of h^ℓ_μ for the loss
γ_0 f_μc. Kernels are products of these vectors.
"""

from typing import Any

import numpy as np

from learndyn.core.progressing import Products
from learndyn.core.record import Record
from learndyn.families.wide import architecture_kernels as kernels
from learndyn.families.wide.forward import ForwardPass, ProgramFields
from learndyn.families.wide.kernel_observables import tangent_kernel, with_summaries
from learndyn.families.wide.network import FEEDBACK
from learndyn.families.wide.observables import losses
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.families.wide.responses import LinkState, link_state, responses
from learndyn.numerics.gram import gram
from learndyn.numerics.precision import float64
from learndyn.problem.problem import Problem
from learndyn.problem.weight_response import rates
from learndyn.programs import SGD, Net
from learndyn.programs.backends import Backend
from learndyn.programs.dims import NotFinite
from learndyn.programs.gradients import adjoints
from learndyn.programs.matrices import Matrix
from learndyn.programs.values import Value
from learndyn.sampling.losses import loss_on_points
from learndyn.sampling.rules import descent_rule, flow_rule, times_of
from learndyn.sampling.trainee import Loop, ProgramTrainee

PREACTIVATIONS = 512
"""The largest number of samples of the preactivations in a solution."""


class EqualRates(SGD):
    """The same raw rate for all weights, whatever the width of their layer."""

    def _buffer(self, parameter: Any, theta: Any, gradient: Any, rate: float) -> Any:
        rows = parameter.rows if isinstance(parameter, Matrix) else parameter.dim
        return super()._buffer(parameter, theta, (1 / rows.ratio) * gradient, rate)


def training_loop(
    net: Net,
    problem: Problem,
    setting: WideSetting,
    record: Record,
    tolerance: float,
    with_responses: bool = False,
) -> None:
    """The training of a wide network: in steps, or in gradient flow through the recorded times.

    `with_responses`: every state shows what is known of the weights in it.
    """
    forward, training = ForwardPass(net, problem), problem.training
    trained, y = slice(setting.trained), setting.loss.targets
    loss = loss_on_points(training.criterion, training.loss)
    if record.axis == "step":
        train = descent_rule(net, training, setting.gamma, EqualRates)
        for _ in net.steps(training.steps):
            fields = fields_in_state(net, forward, trained, setting, with_responses)
            train.step(loss(fields.f, y))
        return
    times = times_of(record)
    flow = flow_rule(net, training, setting.gamma, lambda: loss(forward(trained).f, y), tolerance)
    for state in net.steps(len(times) - 1):
        fields_in_state(net, forward, trained, setting)
        if not net.last:
            flow.advance(float(times[state + 1]))


def gradient_independent_loop(
    net: Net, problem: Problem, setting: WideSetting, record: Record
) -> None:
    """Descent with a backward pass through weights of its own; f follows the tangent kernel of the fields."""
    forward, training = ForwardPass(net, problem, tied=False), problem.training
    train = descent_rule(net, training, setting.gamma)
    with float64():
        eta = np.asarray(rates(training, training.steps), float)
    f, everything = np.zeros((setting.points, setting.outputs)), slice(None)
    for t in net.steps(training.steps):
        if setting.diverged(f):
            raise NotFinite("training has diverged")
        fields = forward(everything)
        g = backward(fields, setting)
        net.record(f=f)
        net.shown = {"h": _data(fields.h), "phi": _data(fields.phi), "g": g}
        E = setting.loss.force(f)
        train.step(-(E * fields.f).sum())
        if not net.last:
            f = f + eta[t] * _tangent_step(setting, net.shown["phi"], g, E)


def _tangent_step(
    setting: WideSetting, phi: list[np.ndarray], g: list[np.ndarray], E: np.ndarray
) -> np.ndarray:
    """K(t, t) E (points × C), with the tangent kernel K = Σ_ℓ G^{ℓ+1} Φ^ℓ."""
    Phi = np.stack([gram(features, mean=True) for features in phi])[:, None]
    G = np.stack([gram(gradients, mean=True) for gradients in g])[:, None]
    return np.einsum("mcad,ad->mc", tangent_kernel(setting, Phi, G)[0], E)


def _data(values: list[Value]) -> list[np.ndarray]:
    return [value.data for value in values]


def fields_in_state(
    net: Net,
    forward: ForwardPass,
    trained: slice,
    setting: WideSetting,
    with_responses: bool = False,
) -> ProgramFields:
    """The fields of the trained points in a state of training, recorded if the state is kept."""
    fields = forward(trained)
    if setting.diverged(fields.f.data):
        raise NotFinite("training has diverged")
    net.record(trained=fields.f)
    if net.kept:
        show(net, forward, fields, setting)
    if with_responses:
        phi, g = _data(fields.phi), None
        if net.kept:
            phi, g = net.shown["phi"], net.shown["g"]
        g = backward(fields, setting) if g is None else g
        net.shown["links"] = [
            link_state(W, phi[ell], g[ell + 1], setting.trained, net.kept)
            for ell, W in enumerate(forward.matrices)
        ]
    return fields


def show(net: Net, forward: ForwardPass, trained: ProgramFields, setting: WideSetting) -> None:
    """Show h, φ and g of all points, and record f."""
    parts = [trained]
    if setting.points > setting.trained:
        parts.append(forward(slice(setting.trained, None)))
    net.record(f=np.concatenate([fields.f.data for fields in parts]))
    h, phi = (_joined([_data(getattr(fields, x)) for fields in parts]) for x in ("h", "phi"))
    g = _joined([backward(fields, setting) for fields in parts])
    network = forward.network
    if not network.plain:
        # The adjoint of h^ℓ is √ν_ℓ g^ℓ.
        g = [x / nu**0.5 for x, nu in zip(g, network.relative_widths, strict=True)]
        true = g
        if network.learning_rule in FEEDBACK:
            true = backward(forward(slice(None), backprop=True), setting)  # all widths are one
        net.record(kernel=kernels.tangent_kernel(network, forward.inputs, phi, g, true))
        phi, g = [kernels.pooled(network, x) for x in phi], [kernels.summed(network, x) for x in g]
        h = [kernels.positions_behind(network, x)[:, 0] for x in h]
    net.shown = {"h": h, "phi": phi, "g": g}


def backward(fields: ProgramFields, setting: WideSetting) -> list[np.ndarray]:
    """g^1 … g^L (points × outputs × samples)."""
    each = [
        adjoints(setting.gamma * fields.f[:, c].sum(), fields.h) for c in range(setting.outputs)
    ]
    return [np.stack(outputs, axis=1) for outputs in zip(*each, strict=True)]


def _joined(parts: list[list[np.ndarray]]) -> list[np.ndarray]:
    """A field of every layer at all points."""
    return parts[0] if len(parts) == 1 else [np.concatenate(x) for x in zip(*parts, strict=True)]


class WideProgram(ProgramTrainee):
    """A batch of samples of a wide network's limit, in training."""

    def __init__(
        self,
        loop: Loop,
        backend: Backend,
        record: Record | None,
        problem: Problem,
        setting: WideSetting,
    ):
        super().__init__(loop, backend, [], record)
        self.problem, self.setting = problem, setting
        self.links: list[list[LinkState]] = []

    def _next(self) -> None:
        super()._next()
        if "links" in self.net.shown:
            self.links.append(self.net.shown["links"])

    def measure(self) -> dict[str, Any]:
        shown = self.net.shown
        samples = min(PREACTIVATIONS, *(h.shape[-1] for h in shown["h"]))
        numbers = {name: self.records[name] for name in ("f", "kernel") if name in self.records}
        return numbers | {
            "now": self.now,
            "preactivation": np.stack([h[:, :samples] for h in shown["h"]]),
            "Phi": Products(shown["phi"]),
            "G": Products(shown["g"]),
        }

    def finish(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not arrays:
            return empty_observables(self.setting)
        observables = losses(self.setting.loss, arrays["f"], self.problem.data.test_targets)
        observables |= with_summaries(self.setting, arrays["Phi"], arrays["G"])
        if "kernel" in arrays:
            observables["kernel"] = arrays["kernel"]
        if self.links:
            links = [list(link) for link in zip(*self.links, strict=True)]
            observables |= responses(self.setting, links, arrays["now"].astype(int))
        return observables | {"preactivation": np.moveaxis(arrays["preactivation"], 0, 1)}


def empty_observables(setting: WideSetting) -> dict[str, np.ndarray]:
    """The observables of no state at all."""
    L, p, C = setting.depth, setting.points, setting.outputs
    Phi, G = np.zeros((L, 0, p, 0, p)), np.zeros((L, 0, p, C, 0, p, C))
    return losses(setting.loss, np.zeros((0, p, C)), None) | {
        "Phi": Phi,
        "G": G,
        "preactivation": np.zeros((L, 0, p, 0)),
        "kernel": np.zeros((0, p, C, p, C)),
        "alignment": np.zeros((L, 0)),
        "movement": np.zeros((L, 0)),
    }

"""Wide networks in training as Gaussian programs, and their observables.

A step is θ ← (1 − ηλ)θ + B, B ← βB − ηγ_0² θ̄, with the gradients θ̄ of `learndyn.programs`. In the recorded states the
program shows h^ℓ, φ(h^ℓ) and g^ℓ of all points: g^ℓ_μc is the adjoint of h^ℓ_μ for the loss γ_0 f_μc. Kernels are
products of these vectors.
"""

from typing import Any

import numpy as np

from learndyn.core.progressing import Products
from learndyn.core.record import Record
from learndyn.families.wide import architecture_kernels as kernels
from learndyn.families.wide.forward import ForwardPass, ProgramFields
from learndyn.families.wide.kernel_observables import with_summaries
from learndyn.families.wide.network import FEEDBACK
from learndyn.families.wide.observables import losses
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.numerics.precision import float64
from learndyn.problem.problem import Problem
from learndyn.problem.weight_response import rates
from learndyn.programs import SGD, Net
from learndyn.programs.backends import Backend
from learndyn.programs.dims import NotFinite
from learndyn.programs.gradients import adjoints
from learndyn.sampling.losses import loss_on_points
from learndyn.sampling.trainee import Loop, ProgramTrainee

PREACTIVATIONS = 512
"""The largest number of samples of the preactivations in a solution."""


def descent(net: Net, problem: Problem, setting: WideSetting) -> None:
    """The training loop of a wide network."""
    forward, training = ForwardPass(net, problem), problem.training
    gamma, P = setting.gamma, setting.trained
    with float64():  # a program runs in a thread of its own
        eta = np.asarray(rates(training, training.steps), float) * gamma**2
    train = SGD(
        net,
        lambda step: float(eta[step]),
        training.momentum,
        training.weight_decay / gamma**2,
        training.noise / gamma**2,
    )
    loss = loss_on_points(training.criterion, training.loss)
    for _ in net.steps(training.steps):
        fields = forward(slice(P))
        if setting.diverged(fields.f.data):
            raise NotFinite("training has diverged")
        net.record(trained=fields.f)
        if net.kept:
            show(net, forward, fields, setting)
        train.step(loss(fields.f, setting.loss.targets))


def show(net: Net, forward: ForwardPass, trained: ProgramFields, setting: WideSetting) -> None:
    """Show h, φ and g of all points, and record f."""
    parts = [trained]
    if setting.points > setting.trained:
        parts.append(forward(slice(setting.trained, None)))
    net.record(f=np.concatenate([fields.f.data for fields in parts]))
    h, phi = (
        _joined([[value.data for value in getattr(fields, name)] for fields in parts])
        for name in ("h", "phi")
    )
    g = _joined([backward(fields, setting) for fields in parts])
    network = forward.network
    if not network.plain:
        true = g
        if network.learning_rule in FEEDBACK:
            true = backward(forward(slice(None), backprop=True), setting)
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

    def measure(self) -> dict[str, Any]:
        shown = self.net.shown
        numbers = {name: self.records[name] for name in ("f", "kernel") if name in self.records}
        return numbers | {
            "preactivation": np.stack([h[:, :PREACTIVATIONS] for h in shown["h"]]),
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

"""A recipe as a program for PyTorch."""

import textwrap

from learndyn.problem.activations.code import TORCH, activation_text
from learndyn.recipes.text import Written, forward_text, tidy

LOSSES = {
    "squared": "0.5 * (y - f) ** 2",
    "logistic": "-F.logsigmoid(y * f)",
    "cross_entropy": "-y * F.log_softmax(f, dim=1)",
}
DECOUPLED = '''class DecoupledSGD(torch.optim.Optimizer):
    """B <- momentum B - lr gradient, W <- (1 - lr weight_decay) W + B.

    torch.optim.SGD has the weight decay inside the momentum buffer B and the lr outside.
    """

    def __init__(self, groups, momentum):
        super().__init__(groups, {"momentum": momentum, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                buffer = self.state[p].setdefault("buffer", torch.zeros_like(p))
                buffer.mul_(group["momentum"]).sub_(p.grad, alpha=group["lr"])
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(buffer)


'''
NOISE = """
        with torch.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    p.add_(math.sqrt(2 * group["lr"] * group["temperature"]) * torch.randn_like(p))"""


def torch_program(written: Written) -> str:
    """The program."""
    blueprint = written.blueprint
    activation = ""
    if blueprint.activation is not None:
        text = activation_text(blueprint.activation, TORCH)
        norm = "    z = F.layer_norm(z, z.shape[-1:])\n" if blueprint.normalised else ""
        activation = f"def activation(z):\n{norm}    return {text}\n\n\n"
    weights = "self.weights"
    effective = ""
    if written.multiplied:
        weights = "W"
        effective = (
            'W = {name: LAYERS[name]["multiplier"] * w for name, w in self.weights.items()}\n'
        )
    lines = forward_text(
        blueprint, f"F.linear({{x}}, {weights}[{{W}}]|, {weights}[{{b}}]", "activation({})"
    )
    forward = textwrap.indent(effective + "\n".join(_closed(line) for line in lines), " " * 8)
    rates = written.rates(jax=False)
    return tidy(f'''{written.header(_IMPORTS)}{activation}class Network(nn.Module):
    """{blueprint.words}, from weights by name."""

    def __init__(self, weights):
        super().__init__()
        self.weights = nn.ParameterDict({{name: torch.tensor(w) for name, w in weights.items()}})

    def forward(self, x):
{forward}


{rates + chr(10) + chr(10) if rates else ""}{"" if written.framework_rule else DECOUPLED}def optimizer_of(model):
    """SGD with a group for every array of weights."""
{textwrap.indent(_optimizer(written), "    ")}


def loss_of(f, y):
    return ({LOSSES[blueprint.criterion]}).sum(dim=1).{"mean" if blueprint.mean else "sum"}()


def train(model, {written.arguments}):
    """Train the model, and yield {", ".join(written.columns)}."""
{textwrap.indent(_loop(written), "    ")}

{written.main("Network(weights)", "row")}''')


_IMPORTS = """import numpy as np
import scipy.special
import torch
import torch.nn.functional as F
from torch import nn

torch.set_default_dtype(torch.float64)
"""


def _closed(line: str) -> str:
    """A line whose call of `F.linear` is closed."""
    return line + ")" if "F.linear(" in line else line


def _optimizer(written: Written) -> str:
    keys = ["lr"]
    keys += ["weight_decay"] if written.decayed else []
    keys += ["temperature"] if written.noisy else []
    entries = ", ".join(f'"{key}": LAYERS[name]["{key}"]' for key in keys)
    cls = "torch.optim.SGD" if written.framework_rule else "DecoupledSGD"
    momentum = f", momentum={written.momentum!r}" if written.momentum else ""
    return f"""groups = [
    {{"params": [w], {entries}}}
    for name, w in model.weights.items()
]
return {cls}(groups{momentum})"""


def _loop(written: Written) -> str:
    """The lines of the training loop."""
    blueprint = written.blueprint
    centered = " - start({0})" if blueprint.centered else ""
    outputs = f"model({{0}}){centered}"

    def value(x: str, y: str) -> str:
        return f"loss_of({outputs.format(x)}, {y}).item()"

    whole = blueprint.data.train_set == "data"
    sets = [("test", "x_test, y_test")] if blueprint.data.tested else []
    sets += [("data", "x_train, y_train")] if whole else []
    before = "".join(f"{names} = map(torch.as_tensor, {name})\n" for name, names in sets)
    if blueprint.centered:
        before += (
            "start = copy.deepcopy(model).requires_grad_(False)  # its function is subtracted\n"
        )
    schedule = after = ""
    if written.schedules:
        lambdas = written.rate_of
        if len(written.schedules) > 1:
            lambdas = "[RATES[name] for name in model.weights]"
        schedule = f"scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, {lambdas})\n"
        after = "\n    scheduler.step()"
    train = value("x_train", "y_train") if whole else "loss.item()"
    row = written.row(train, value("x_test", "y_test"))
    noise = NOISE.replace("\n    ", "\n") if written.noisy else ""
    return f"""{before}optimizer = optimizer_of(model)
{schedule}for step in range(STEPS + 1):
    x, y = map(torch.as_tensor, next(batches))
    loss = loss_of({outputs.format("x")}, y)
    if step % EVERY == 0 or step == STEPS:
        yield (
            {row},
        )
    if step == STEPS:
        return
    optimizer.zero_grad()
    loss.backward()
    optimizer.step(){noise}{after}"""

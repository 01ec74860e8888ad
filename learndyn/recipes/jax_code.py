"""A recipe as a program for JAX and optax."""

import textwrap

from learndyn.problem.activations.code import JAX, activation_text
from learndyn.recipes.text import Written, forward_text, tidy

LOSSES = {
    "squared": "0.5 * (y - f) ** 2",
    "logistic": "-jax.nn.log_sigmoid(y * f)",
    "cross_entropy": "-y * jax.nn.log_softmax(f)",
}
NORM = """    z = z - z.mean(-1, keepdims=True)
    z = z / jnp.sqrt((z**2).mean(-1, keepdims=True) + 1e-5)
"""
_IMPORTS = """import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.special

jax.config.update("jax_enable_x64", True)
"""


def optax_program(written: Written) -> str:
    """The program."""
    blueprint = written.blueprint
    activation = ""
    if blueprint.activation is not None:
        text = activation_text(blueprint.activation, JAX)
        norm = NORM if blueprint.normalised else ""
        activation = f"def activation(z):\n{norm}    return {text}\n\n\n"
    weights, effective = "weights", ""
    if written.multiplied:
        weights = "W"
        effective = 'W = {name: LAYERS[name]["multiplier"] * w for name, w in weights.items()}\n'
    template = f"{{x}} @ {weights}[{{W}}].T| + {weights}[{{b}}]"
    lines = forward_text(blueprint, template, "activation({})")
    forward = textwrap.indent(effective + "\n".join(lines), "    ")
    rates = written.rates(jax=True)
    start = ", start" if blueprint.centered else ""
    outputs = "network(weights, x)" + (" - network(start, x)" if start else "")
    key = ", key" if written.noisy else ""
    return tidy(f'''{written.header(_IMPORTS)}{activation}def network(weights, x):
    """{blueprint.words}."""
{forward}


@jax.jit
def loss_of(weights, x, y{start}):
    f = {outputs}{"  # the initial function is subtracted" if start else ""}
    return ({LOSSES[blueprint.criterion]}).sum(axis=1).{"mean" if blueprint.mean else "sum"}()


{rates + chr(10) + chr(10) if rates else ""}{_optimizer(written)}


@jax.jit
def update(weights, state, x, y{start}{key}{", step" if written.noisy else ""}):
    gradient = jax.grad(loss_of)(weights, x, y{start})
    updates, state = optimizer.update(gradient, state, weights)
{_applied(written)}


def train(weights, {written.arguments}):
    """Train from the weights, and yield {", ".join(written.columns)}, and the weights."""
{textwrap.indent(_loop(written, start), "    ")}

{written.main("weights", "row, _")}''')


def _optimizer(written: Written) -> str:
    """The optimiser: a rule for every array of weights."""
    lr, decay = 'layer["lr"]', 'layer["weight_decay"]'
    if written.schedules:
        lr = f'lambda step: layer["lr"] * {written.rate_of}(step)'
    momentum = f", momentum={written.momentum!r}" if written.momentum else ""
    if written.framework_rule:
        rule = f"optax.sgd({lr}{momentum})"
        if written.decayed:
            rule = f"optax.chain(optax.add_decayed_weights({decay}), {rule})"
        words = "W <- (1 - lr weight_decay) W - lr gradient"
        if momentum:
            words = "B <- momentum B + gradient + weight_decay W, W <- W - lr B"
    else:
        words = "B <- momentum B - lr gradient, W <- (1 - lr weight_decay) W + B"
        parts = [f"optax.scale_by_learning_rate({lr})", f"optax.trace({written.momentum!r})"]
        if written.decayed and written.schedules:
            decayed = f'lambda step: -{decay} * layer["lr"] * {written.rate_of}(step)'
            parts.append(f"optax.add_decayed_weights({decayed})")
        elif written.decayed:
            parts.append(f"optax.add_decayed_weights(-{lr} * {decay})")
        rule = "optax.chain(\n        " + ",\n        ".join(parts) + ",\n    )"
    return f'''def rule(name):
    """{words}."""
    layer = LAYERS[name]
    return {rule}


optimizer = optax.partition({{name: rule(name) for name in LAYERS}}, {{name: name for name in LAYERS}})'''


def _applied(written: Written) -> str:
    """The end of an update."""
    if not written.noisy:
        return "    return optax.apply_updates(weights, updates), state"
    rate = f" * {written.rate_of}(step)" if written.schedules else ""
    return f"""    weights = optax.apply_updates(weights, updates)
    keys = dict(zip(LAYERS, jax.random.split(key, len(LAYERS)), strict=True))
    for name, layer in LAYERS.items():  # Langevin noise
        size = jnp.sqrt(2 * layer["lr"] * layer["temperature"]{rate})
        weights[name] += size * jax.random.normal(keys[name], weights[name].shape)
    return weights, state"""


def _loop(written: Written, start: str) -> str:
    """The lines of the training loop."""
    data = written.blueprint.data
    train = "*data" if data.train_set == "data" else "x, y"
    row = written.row(
        f"float(loss_of(weights, {train}{start}))", f"float(loss_of(weights, *test{start}))"
    )
    begin = "start = weights\n" if start else ""
    key = more = ""
    if written.noisy:
        begin += "key = jax.random.key(0)\n"
        key, more = ", jax.random.fold_in(key, step)", ", step"
    return f"""weights = {{name: jnp.asarray(w) for name, w in weights.items()}}
{begin}state = optimizer.init(weights)
for step in range(STEPS + 1):
    x, y = next(batches)
    if step % EVERY == 0 or step == STEPS:
        row = (
            {row},
        )
        yield row, weights
    if step == STEPS:
        return
    weights, state = update(weights, state, x, y{start}{key}{more})"""

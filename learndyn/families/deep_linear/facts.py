"""What is told of the theories of deep linear networks, without and with skip connections."""

from pathlib import Path

from learndyn.core.facts import Facts

_FOLDER = Path(__file__).parent
_TRAINING = {
    "Dataset": "full-batch gradient descent on a reused dataset",
    "Population": "gradient descent on the expected loss",
    "Stream": "online SGD with fresh batches",
}


def _facts(name: str, supply: str, summary: str, template: str) -> Facts:
    return Facts(
        name=name,
        network="DeepLinear",
        task="LinearMap",
        supply=supply,
        training="GradientDescent",
        summary=summary,
        exactness="exact as D → ∞",
        reference="Bordelon & Pehlevan 2025",
        template=_FOLDER / template,
    )


FEEDFORWARD = {
    supply: _facts(
        name=f"deep_linear/{supply.lower()}",
        supply=supply,
        summary=f"correlation and response functions of {training}",
        template=f"{supply.lower()}.toml",
    )
    for supply, training in _TRAINING.items()
}
"""Those without skip connections, by the name of the supply."""
RESIDUAL = {
    supply: _facts(
        name=f"residual/{supply.lower()}",
        supply=supply,
        summary=f"residual networks, infinite depth included, in {training}",
        template=f"residual_{supply.lower()}.toml",
    )
    for supply, training in _TRAINING.items()
}
"""Those with skip connections, by the name of the supply."""
FACTS = {facts.name: facts for facts in (*FEEDFORWARD.values(), *RESIDUAL.values())}
"""By the name of the theory."""

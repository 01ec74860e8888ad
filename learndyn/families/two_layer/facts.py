"""What is told of the theories of two-layer networks."""

from pathlib import Path

from learndyn.core.facts import Facts

_FOLDER = Path(__file__).parent
_PARTS = {"network": "TwoLayer", "task": "Teacher", "training": "GradientDescent"}

FACTS = {
    facts.name: facts
    for facts in (
        Facts(
            name="two_layer/stream",
            supply="Stream",
            summary="order-parameter equations of online SGD",
            exactness="exact as N → ∞",
            reference="Saad & Solla 1995; Goldt et al. 2019; Carrasco-Davis & Grant 2025",
            template=_FOLDER / "online" / "stream.toml",
            **_PARTS,
        ),
        Facts(
            name="two_layer/population",
            supply="Population",
            summary="order-parameter equations of gradient flow",
            exactness="exact as N → ∞",
            reference="Saad & Solla 1995; Goldt et al. 2019",
            template=_FOLDER / "online" / "population.toml",
            **_PARTS,
        ),
        Facts(
            name="two_layer/dataset",
            supply="Dataset",
            summary="gradient descent on a reused dataset; grokking",
            exactness="exact as D → ∞",
            reference="Asymptotic dynamics for delayed feature learning, HiLD workshop 2024",
            template=_FOLDER / "reused" / "dataset.toml",
            **_PARTS,
        ),
    )
}
"""By the name of the theory."""

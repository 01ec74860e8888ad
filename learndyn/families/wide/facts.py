"""What is told of the theory of wide networks."""

from pathlib import Path

from learndyn.core.facts import Facts

FACTS = {
    "wide/points": Facts(
        name="wide/points",
        network="Wide",
        task="Points",
        supply="Points",
        training="GradientDescent",
        summary="how kernels move in infinitely wide networks on given points",
        exactness="exact as N → ∞",
        reference="Bordelon & Pehlevan 2022",
        template=Path(__file__).parent / "points.toml",
    )
}
"""By the name of the theory."""

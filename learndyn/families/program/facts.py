"""What is told of programs."""

from pathlib import Path

from learndyn.core.facts import Facts

_TEMPLATES = Path(__file__).parent / "templates"
_PAPERS = "Bayati & Montanari 2011; Bolthausen 2014; Yang 2019"

FACTS = {
    "program/loop": Facts(
        name="program/loop",
        network="Program",
        task="OwnData",
        supply="OwnData",
        training="OwnTraining",
        summary="a training loop of your own over large Gaussian matrices, data and rule included",
        exactness="exact as N → ∞",
        reference=_PAPERS,
        template=_TEMPLATES / "loop.py",
    ),
    "program/points": Facts(
        name="program/points",
        network="Program",
        task="Points",
        supply="Points",
        training="GradientDescent",
        summary="a network of your own, written as its forward pass, on given points",
        exactness="exact as N → ∞",
        reference=_PAPERS,
        template=_TEMPLATES / "points.py",
    ),
}
"""By the name of the theory."""

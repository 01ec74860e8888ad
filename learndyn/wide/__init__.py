"""Infinitely wide networks that learn features.

The exact linear solution (`linear.py`), particles for one hidden layer (`particles.py`), sampled layers for deep ones
(`sampled.py`), gradient flow (`flow.py`), approximations (`approximations.py`, `alternating.py`), which of them solves
what (`evolution.py`), and finite networks (`finite.py`).
"""

from pathlib import Path

from learndyn.data import Points
from learndyn.theory import Theory, register
from learndyn.training import GradientDescent
from learndyn.wide import convolutional_figure as convolutional_figure
from learndyn.wide import evolution, finite
from learndyn.wide import figures as figures
from learndyn.wide.methods import (
    AlternatingIteration,
    GradientIndependence,
    KernelEvolution,
    Perturbative,
    StaticKernel,
)
from learndyn.wide.network import Wide

register(
    Theory(
        name="wide/points",
        network=Wide,
        data=Points,
        training=GradientDescent,
        summary="how kernels move in infinitely wide networks on given points",
        exactness="exact as N → ∞",
        reference="Bordelon & Pehlevan 2022",
        solve=evolution.solve,
        finite=finite.finite,
        parallel=evolution.parallel,
        methods=(
            KernelEvolution,
            GradientIndependence,
            StaticKernel,
            Perturbative,
            AlternatingIteration,
        ),
        simulators=(finite.WideDescent,),
        template=Path(__file__).parent / "points.toml",
        demo_size=1000,
        demo_seeds=6,
    )
)

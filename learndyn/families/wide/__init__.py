"""Infinitely wide networks that learn features.

The exact linear solution (`linear.py`, `innovation.py`), particles for one hidden layer (`particles.py`), sampled
layers for deep ones (`sampled.py`), gradient flow (`flow.py`), approximations (`approximations.py`, `alternating.py`),
the methods (`methods.py`), and finite networks (`finite.py`).
"""

from pathlib import Path

from learndyn.core.theory import Theory, register
from learndyn.families.wide import finite
from learndyn.families.wide import solve as methods
from learndyn.families.wide.network import Wide
from learndyn.families.wide.observables import TABLE
from learndyn.problem.data import Points
from learndyn.problem.training import GradientDescent


@register
class OnPoints(Theory):
    name = "wide/points"
    network = Wide
    data = Points
    training = GradientDescent
    summary = "how kernels move in infinitely wide networks on given points"
    exactness = "exact as N → ∞"
    reference = "Bordelon & Pehlevan 2022"
    table = TABLE
    methods = (
        methods.Particles,
        methods.SampledLayers,
        methods.LinearRows,
        methods.LinearInnovation,
        methods.GradientIndependence,
        methods.StaticKernel,
        methods.Perturbative,
        methods.AlternatingIteration,
    )
    simulators = (finite.WideDescent,)
    template = Path(__file__).parent / "points.toml"
    demo_size = 1000
    demo_seeds = 6
    time_words = "time t (gradient flow)"

    def automatic(self, problem, record):
        return methods.automatic(problem, record)

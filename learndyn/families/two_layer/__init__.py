"""Two-layer networks: online learning (`stream.py`, `ode.py`) and its finite networks (`finite.py`); a reused dataset
(`reused.py`, `sampled_curves.py`, `sampling.py`, `fixed_point.py`) and its finite networks (`full_batch.py`)."""

from pathlib import Path
from typing import ClassVar

from learndyn.core.theory import Theory, register
from learndyn.families.two_layer import symmetries
from learndyn.families.two_layer.network import TwoLayer
from learndyn.families.two_layer.observables import TABLE
from learndyn.families.two_layer.online import finite
from learndyn.families.two_layer.online import solve as ode
from learndyn.families.two_layer.reused import finite as full_batch
from learndyn.families.two_layer.reused import fixed_point
from learndyn.families.two_layer.reused import solve as sampling
from learndyn.problem.data import Dataset, Population, Stream
from learndyn.problem.training import GradientDescent

_folder = Path(__file__).parent


class _Online(Theory):
    network = TwoLayer
    training = GradientDescent
    exactness = "exact as N → ∞"
    table = TABLE
    methods = (ode.OrderParameterODE,)
    demo_size = 784

    def symmetries(self, problem):
        return symmetries.symmetric_start(problem)


@register
class OnStream(_Online):
    name = "two_layer/stream"
    data = Stream
    summary = "order-parameter equations of online SGD"
    reference = "Saad & Solla 1995; Goldt et al. 2019; Carrasco-Davis & Grant 2025"
    simulators = (finite.SGD, finite.OverlapChain)
    template = _folder / "online" / "stream.toml"
    demo_seeds = 10


@register
class OnPopulation(_Online):
    name = "two_layer/population"
    data = Population
    summary = "order-parameter equations of gradient flow"
    reference = "Saad & Solla 1995; Goldt et al. 2019"
    simulators = (finite.PopulationDescent,)
    template = _folder / "online" / "population.toml"
    demo_seeds = 2


@register
class OnDataset(Theory):
    name = "two_layer/dataset"
    network = TwoLayer
    data = Dataset
    training = GradientDescent
    summary = "full-batch descent on a reused dataset; grokking"
    exactness = "exact as D → ∞"
    reference = "Asymptotic dynamics for delayed feature learning, HiLD workshop 2024"
    table = TABLE
    methods = (sampling.CausalSampling, fixed_point.FixedPoint)
    simulators = (full_batch.FullBatch,)
    template = _folder / "reused" / "dataset.toml"
    demo_size = 1000
    demo_seeds = 6
    size_symbol = "D"
    time_words = "time t"
    former_names: ClassVar = {"A": "R"}
    former_factors: ClassVar = {"test_loss": 0.5, "train_loss": 0.5, "leading_gap": 0.5}

    def symmetries(self, problem):
        return symmetries.symmetric_start(problem)

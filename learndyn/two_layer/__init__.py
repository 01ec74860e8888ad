"""Two-layer networks: online learning (`stream.py`, `ode.py`) and its finite networks (`finite.py`); a reused dataset
(`reused.py`, `sampled_curves.py`, `sampling.py`, `fixed_point.py`) and its finite networks (`full_batch.py`)."""

from pathlib import Path

from learndyn.data import Dataset, Population, Stream
from learndyn.theory import Theory, register
from learndyn.training import GradientDescent
from learndyn.two_layer import figures as figures
from learndyn.two_layer import (
    finite,
    fixed_point,
    full_batch,
    ode,
    sampled_curves,
    sampling,
    symmetries,
)
from learndyn.two_layer import reused_figures as reused_figures
from learndyn.two_layer.network import TwoLayer

_folder = Path(__file__).parent
_shared = {
    "network": TwoLayer,
    "training": GradientDescent,
    "solve": ode.solve,
    "trace": ode.trace,
    "many": ode.solve_many,
    "finite": finite.finite,
    "symmetries": symmetries.symmetric_start,
    "methods": (ode.OrderParameterODE,),
    "exactness": "exact as N → ∞",
}

register(
    Theory(
        name="two_layer/stream",
        data=Stream,
        summary="order-parameter equations of online SGD",
        reference="Saad & Solla 1995; Goldt et al. 2019; Carrasco-Davis & Grant 2025",
        simulators=(finite.SGD, finite.OverlapChain),
        template=_folder / "stream.toml",
        demo_size=784,
        demo_seeds=10,
        **_shared,
    )
)
register(
    Theory(
        name="two_layer/population",
        data=Population,
        summary="order-parameter equations of gradient flow",
        reference="Saad & Solla 1995; Goldt et al. 2019",
        simulators=(finite.PopulationDescent,),
        template=_folder / "population.toml",
        demo_size=784,
        demo_seeds=2,
        **_shared,
    )
)
register(
    Theory(
        name="two_layer/dataset",
        network=TwoLayer,
        data=Dataset,
        training=GradientDescent,
        summary="full-batch descent on a reused dataset; grokking",
        exactness="exact as D → ∞",
        reference="Asymptotic dynamics for delayed feature learning, HiLD workshop 2024",
        solve=sampled_curves.solve,
        finite=full_batch.finite,
        symmetries=symmetries.symmetric_start,
        parallel=lambda problem, method: "alone",
        methods=(sampling.CausalSampling, fixed_point.FixedPoint),
        simulators=(full_batch.FullBatch,),
        template=_folder / "dataset.toml",
        demo_size=1000,
        demo_seeds=6,
    )
)

"""An exercise: a new observable of a theory is one line of its table and one line where it is measured, no more.

The squared length of the readout of a deep linear network, w·w/N. In the limit it is C_g of the last layer at equal
times.
"""

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.curves import Quantity
from learndyn.core.method import Ensemble
from learndyn.core.theory import registered, theory_for
from learndyn.families.deep_linear.finite import DeepLinearTraining, Descent, finite_spec
from learndyn.families.deep_linear.solve import Rows
from tests import problems
from tests.fakes import instead_of

PROBLEM = problems.deep_linear(depth=2, width=1.0, ratio=1.5, rate=0.05, steps=6)
NEW = Quantity("readout_length", ("step", "output"), "squared length of the readout w·w/N")


class MeasuredNetworks(DeepLinearTraining):
    """Deep linear networks with the line of measurement."""

    def measure(self):
        w = self.networks[0][0].w
        return super().measure() | {"readout_length": np.mean(w**2, axis=-1)}


class MeasuredDescent(Descent):
    """Descent on such networks."""

    def ensemble(self, problem, size, record) -> Ensemble:
        known, made = super().ensemble(problem, size, record), finite_spec(problem, size)

        def draw(seed):
            return MeasuredNetworks(problem, made, seed, False, len(record))

        return Ensemble(draw, *(getattr(known, n) for n in ("record", "bytes", "what", "advice")))


class MeasuredRows(Rows):
    """The row recursion with the line of measurement."""

    def solve(self, problem, record, seed, report):
        curves = super().solve(problem, record, seed, report)
        length = np.einsum("tctc->tc", curves["C_g"][-1])
        return type(curves)(
            (*curves.table, NEW), record, curves.arrays | {"readout_length": length}
        )


@pytest.fixture
def extended():
    """The theory with the line in its table."""
    theory = theory_for(PROBLEM)
    more = instead_of(
        theory,
        table=(*theory.table, NEW),
        methods=(MeasuredRows,),
        simulators=(MeasuredDescent,),
        automatic=lambda self, problem, record: MeasuredRows(),
    )
    with registered(more):
        yield


@pytest.mark.usefixtures("extended")
def test_everything_knows_a_new_observable(tmp_path):
    theory, runs = ld.solve(PROBLEM), ld.simulate(PROBLEM, 200, 6)
    assert theory["readout_length"].dims == ("step", "output")
    assert runs["readout_length"].dims == ("seed", "step", "output")
    assert theory["readout_length"].attrs["long_name"] == NEW.words
    assert ld.compare(theory, runs).table.loc["readout_length", "verdict"] == "agrees"
    assert ld.alignment(theory, runs).loc["readout_length", "mean"] > 0.99
    assert "readout_length" in ld.start(PROBLEM, size=20).state
    swept = ld.sweep(PROBLEM, {"training.learning_rate": [0.02, 0.05]})
    assert swept["readout_length"].dims == ("learning_rate", "step", "output")
    theory.save(tmp_path / "theory.nc")
    assert ld.load(tmp_path / "theory.nc").data.identical(theory.data)
    label = ld.plot(theory, runs, observables="readout_length").axes[0].get_ylabel()
    assert label.replace("\n", " ") == NEW.words

"""The methods for deep linear networks: each solves the exact limit forward in training time, without iteration."""

import abc
import math

import numpy as np

from learndyn.core.curves import Curves
from learndyn.core.memory import require_memory
from learndyn.core.method import Method
from learndyn.core.progressing import Report, of_states
from learndyn.core.record import Record
from learndyn.errors import NotConverged, NoTheory, ProblemError
from learndyn.families.deep_linear.equations.feedforward import memory as memory_of_rows
from learndyn.families.deep_linear.gradient import losses_of
from learndyn.families.deep_linear.innovation import GrowingTraining
from learndyn.families.deep_linear.node_numbers import LAYER_TIMES, by_nodes
from learndyn.families.deep_linear.observables import INFINITE_TABLE, TABLE, told
from learndyn.families.deep_linear.recursion import SHORT_WORK, RowRecursion, work
from learndyn.families.deep_linear.setting import POPULATION, STREAM, Setting, setting
from learndyn.problem.checks import boolean, number, whole
from learndyn.problem.part import field
from learndyn.problem.weight_response import impulse_response

ROWS_WORK = 1.5e9
"""Up to this much work the row recursion takes seconds, and it gives the responses too."""
FEWER_BINS = 4
"""A spectrum in fewer bins, by this factor, shows the accuracy of its grouping."""
RUNAWAY = 10.0
"""A loss that has risen to this many times its start is on its way to divergence."""
SMALL_RICHNESS = 1e-2
"""Below it, the innovation basis of a centred network loses digits that the row recursion keeps."""


class Binned(Method, abstract=True):
    """Base of the methods. A spectrum of more than `bins` eigenvalues is grouped into so many.

    It is then solved in a quarter of the bins, too: the difference is the stated accuracy.
    """

    bins: int = field(whole(2), default=64)

    def solve(self, problem, record, seed, report):
        self.check(problem)
        made = setting(problem, self.bins)
        if not made.grouped:
            return self.with_setting(problem, made, record, report)
        curves = self.with_setting(problem, made, record, lambda done: report(0.7 * done))
        if not curves.count:
            return curves
        few = max(self.bins // FEWER_BINS, 1)
        coarse = self.with_setting(
            problem, setting(problem, few), record, lambda done: report(0.7 + 0.3 * done)
        )
        if coarse.count < curves.count:
            loss = curves["test_loss"]
            if not np.max(loss) > RUNAWAY * loss[0]:
                step = record.at[coarse.count]
                raise NotConverged(
                    f"training diverges by step {step} with the spectrum in {few} bins, and not in {self.bins}: too "
                    "few to know the limit; use more bins"
                )
            # Both diverge, one a little earlier.
            curves = curves.cut(coarse.count)
        # The error of grouping modes falls as 1/bins² for a smooth spectrum and as 1/bins for a rough one: it is then
        # about a third of this difference.
        accuracy = curves.differences(coarse)
        known = curves.evidence["accuracy"]
        return curves.told(accuracy={n: known.get(n, 0.0) + x for n, x in accuracy.items()})

    def check(self, problem) -> None:
        """Refuse what this method cannot solve."""
        if math.isinf(problem.network.depth):
            name = type(self).__name__
            raise ProblemError("method", name, "must be LayerNodes for an infinitely deep network")

    @abc.abstractmethod
    def with_setting(self, problem, made: Setting, record: Record, report: Report) -> Curves:
        """The limit with the modes of a setting; its evidence has an accuracy."""

    def trace(self, problem, record):
        """Test and train loss as a JAX function of the training rule: by the row recursion, whatever the method."""
        if problem.network.branch is not None:
            raise NoTheory("derivatives are not known for residual networks")
        made, steps = setting(problem, self.bins), problem.training.steps
        # A gradient needs the finished matrices and their adjoints.
        needed = 2.5 * memory_of_rows(made, steps)
        require_memory(needed, "the gradient of a row recursion", "use fewer steps")
        test, train = losses_of(made)(*impulse_response(problem.training, steps))
        found = {"test_loss": test[record.at], "train_loss": train[record.at]}
        return {n: found[n] for n in found if n == "test_loss" or made.data != POPULATION}


class Rows(Binned):
    """The row recursion: correlations, responses, the decomposition of the loss, and gradients.

    `ensembles` adds the error overlaps of networks that share the data or the initial weights only. The cost grows as
    the third power of the steps.
    """

    ensembles: bool = field(boolean, default=False)

    def check(self, problem):
        super().check(problem)
        if self.ensembles and problem.network.branch is not None:
            raise ProblemError("Rows.ensembles", True, "is not known for residual networks")

    def with_setting(self, problem, made, record, report):
        recursion = RowRecursion(problem, made, int(record.last), self.ensembles)
        return recursion.curves(record, of_states(report, record.last, 3))

    def start(self, problem, seed=0):
        self.check(problem)
        made = setting(problem, self.bins)
        return RowRecursion(problem, made, problem.training.steps, self.ensembles)

    def pays_together(self, problems, record):
        """Short recursions of one shape: what surrounds a recursion is done once."""
        return self._of_one_shape(problems, record) is not None

    def _of_one_shape(self, problems, record: Record) -> list[Setting] | None:
        """The settings of problems that are best solved in the same memory, or None."""
        if self.ensembles or any(problem.network.branch is not None for problem in problems):
            return None
        steps = int(record.last)
        settings = [setting(problem, self.bins) for problem in problems]
        short = all(not made.grouped and work(made, steps) <= SHORT_WORK for made in settings)
        return settings if short and len({len(made.lam) for made in settings}) == 1 else None

    def solve_many(self, problems, record, seed, wanted=None):
        """One after the other in the same memory."""
        settings = self._of_one_shape(problems, record)
        if settings is None:
            return super().solve_many(problems, record, seed, wanted)
        responses: dict = {}
        curves, recursion = [], None
        for problem, made in zip(problems, settings, strict=True):
            training = problem.training
            if id(training) not in responses:
                responses[id(training)] = impulse_response(training, training.steps)
            response = responses[id(training)]
            if recursion is None:
                recursion = RowRecursion(problem, made, int(record.last), response=response)
            else:
                recursion.begin(problem, made, response)
            curves.append(recursion.curves(record, lambda step: None, wanted))
        return curves


class Innovation(Binned):
    """The innovation basis: long runs, losses and correlations.

    `tolerance` is the relative size below which a new direction is dropped.
    """

    tolerance: float = field(number(minimum=1e-14, maximum=1e-2), default=1e-10)

    def with_setting(self, problem, made, record, report):
        training = GrowingTraining(problem, made, self.tolerance)
        reached = training.advance(record.at, of_states(report, record.last))
        evidence = training.evidence()
        # Measured against the row recursion: 0.02 tolerances in smooth runs, up to 40 at the edge of stability.
        relative = self.tolerance * (1.0 if evidence["edge_of_stability"] is None else 40.0)
        labels = training.labels()
        curves = Curves(TABLE, record, training.arrays(), reached, labels=labels, evidence=evidence)
        accuracy = {
            name: relative * float(np.max(np.abs(x), initial=0.0))
            for name, x in curves.arrays.items()
        }
        return curves.told(accuracy=accuracy)

    def start(self, problem, seed=0):
        self.check(problem)
        return GrowingTraining(problem, setting(problem, self.bins), self.tolerance)


class LayerNodes(Binned):
    """Infinitely deep residual networks: the row recursion at nodes of the layer time, as many as it takes."""

    def check(self, problem):
        if not math.isinf(problem.network.depth):
            allowed = "must be Rows or Innovation: LayerNodes is for an infinitely deep network"
            raise ProblemError("method", "LayerNodes", allowed)

    def with_setting(self, problem, made, record, report):
        arrays, reached, evidence = by_nodes(problem, made, record.at, report)
        count = int(np.count_nonzero(record.at < reached))
        evidence = told(problem, "rows", made, evidence["edge_of_stability"]) | evidence
        return Curves(
            INFINITE_TABLE, record, arrays, count, labels={"tau": LAYER_TIMES}, evidence=evidence
        )


def automatic(problem, record: Record) -> Method:
    """Rows while they take seconds, or where the innovation basis is poor; at infinite depth the nodes."""
    if math.isinf(problem.network.depth):
        return LayerNodes()
    made = setting(problem, Rows().bins)
    lazy = made.centered and made.gamma < SMALL_RICHNESS
    quick = work(made, int(record.last)) <= ROWS_WORK
    # Fresh noise at every step leaves the innovation basis nothing to compress, and skip connections make one large
    # space of all layers.
    poor_basis = made.data == STREAM or made.branch is not None
    return Rows() if lazy or quick or poor_basis else Innovation()

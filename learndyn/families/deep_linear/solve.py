"""The methods for deep linear networks: each solves the exact limit forward in training time."""

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import threadpoolctl

from learndyn.core.curves import Curves
from learndyn.core.method import Method, Way
from learndyn.core.panel_control import MOST_MOMENTUM, solve_in_panels
from learndyn.core.panels import MOST_EDGES, Course
from learndyn.core.progressing import Progressing, Report, of_states
from learndyn.core.record import Record
from learndyn.errors import NotConverged, NoTheory, ProblemError
from learndyn.families.deep_linear.differentiable_losses import differentiable_losses
from learndyn.families.deep_linear.equations.feedforward import memory as memory_of_rows
from learndyn.families.deep_linear.equations.innovation import LOST
from learndyn.families.deep_linear.growing_training import GrowingTraining
from learndyn.families.deep_linear.limit_numbers import (
    POPULATION,
    STREAM,
    LimitNumbers,
    limit_numbers,
)
from learndyn.families.deep_linear.node_refinement import LAYER_TIMES, refine_nodes
from learndyn.families.deep_linear.observables import (
    INFINITE_TABLE,
    TABLE,
    axis_labels,
    common_evidence,
)
from learndyn.families.deep_linear.panel_depths import AMPLIFIED, solve_infinite_depth
from learndyn.families.deep_linear.panel_observables import read, read_with_responses
from learndyn.families.deep_linear.panel_training import PanelTraining
from learndyn.families.deep_linear.row_recursion import SHORT_WORK, RowRecursion, work
from learndyn.memory import require_memory
from learndyn.problem.checks import boolean, number, whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Stream
from learndyn.problem.weight_response import impulse_response

ROWS_WORK = 1.5e9
"""Up to this much work the row recursion takes seconds; it is then preferred, because it also gives the responses."""
POOR_WORK = 2e10
"""The same on a stream if the innovation basis loses digits or is large: lazy, residual, or with a spectrum."""
MANY_STEPS, MOST_STEPS, FEW_JUMPS = 5000, 50_000, 50
"""Beyond so many steps panels are used: the first number if few steps are recorded, because panels are more accurate at
their ends than between; and unless the learning rate jumps often, because every jump ends a panel."""
DEEP_STEPS = 1000
"""The same for infinite depth, where rows are dear, if few steps are recorded."""
SMALLEST_TOLERANCE = 1e-9
"""The smallest tolerance of panels."""
FEWER_BINS = 4
"""The accuracy of a grouped spectrum is measured against a solution with fewer bins by this factor."""
RUNAWAY = 10.0
"""A loss that has risen to this many times its initial value is taken to be diverging."""
SMALL_RICHNESS = 1e-2
"""Below this γ_0, the innovation basis of a centred network loses digits that the row recursion keeps."""


class DeepLinearMethod(Method, abstract=True):
    """Base of the methods.

    - `bins`: the largest number of input modes; a spectrum with more eigenvalues is grouped into this many. It is then
      solved a second time with a quarter of the bins, and the difference is the stated accuracy. Default: 64.
    """

    libraries = ("numba",)

    bins: int = field(whole(2), default=64)

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        self.check(problem)
        numbers = limit_numbers(problem, self.bins)
        if not numbers.grouped:
            return self.solve_limit(problem, numbers, record, report)
        curves = self.solve_limit(problem, numbers, record, lambda done: report(0.7 * done))
        if not curves.count:
            return curves
        few = max(self.bins // FEWER_BINS, 1)
        coarse = self.solve_limit(
            problem, limit_numbers(problem, few), record, lambda done: report(0.7 + 0.3 * done)
        )
        if coarse.count < curves.count:
            loss = curves["test_loss"]
            if not np.max(loss) > RUNAWAY * loss[0]:
                step = record.at[coarse.count]
                raise NotConverged(
                    f"training diverges by step {step} with the spectrum in {few} bins, but not in {self.bins}: the "
                    "bins are too few to find the limit; use more bins"
                )
            # Both solutions diverge, one of them a little earlier.
            curves = curves.cut(coarse.count)
        # The error of grouping modes falls as 1/bins² for a smooth spectrum and as 1/bins for a rough one: it is then
        # about a third of this difference.
        accuracy = curves.restricted(set(curves.arrays) - {"mode_loss", "transfer"}).differences(
            coarse
        )
        other_errors = curves.evidence["accuracy"]
        return curves.told(
            accuracy={name: other_errors.get(name, 0.0) + x for name, x in accuracy.items()}
        )

    def check(self, problem: Problem) -> None:
        """Refuse a problem that this method cannot solve."""
        if problem.training.time is not None:
            allowed = "must be Panels for gradient flow; or give training steps instead of a time"
            raise ProblemError("method", type(self).__name__, allowed)
        if math.isinf(problem.network.depth):
            name = type(self).__name__
            raise ProblemError("method", name, "must be LayerNodes for an infinitely deep network")

    @abc.abstractmethod
    def solve_limit(
        self, problem: Problem, numbers: LimitNumbers, record: Record, report: Report
    ) -> Curves:
        """The limit with the modes in `numbers`; its evidence states an accuracy."""

    def trace(self, problem: Problem, record: Record) -> dict[str, Any]:
        """Test and train loss as a JAX function of the training rule, by the row recursion whatever the method."""
        if problem.network.branch is not None:
            raise NoTheory("derivatives are not available for residual networks")
        if problem.training.time is not None:
            raise NoTheory("derivatives are not available for gradient flow; give training steps")
        numbers, steps = limit_numbers(problem, self.bins), problem.training.steps
        # A gradient needs the finished matrices and their adjoints.
        needed = 2.5 * memory_of_rows(numbers, steps)
        require_memory(needed, "the gradient of a row recursion", "use fewer steps")
        test, train = differentiable_losses(numbers)(*impulse_response(problem.training, steps))
        losses = {"test_loss": test[record.at]}
        return losses if numbers.data == POPULATION else losses | {"train_loss": train[record.at]}


class Rows(DeepLinearMethod):
    """The row recursion: correlations, responses, the decomposition of the loss, and gradients.

    - `bins`: the largest number of input modes; a spectrum with more eigenvalues is grouped into this many.
      Default: 64.
    - `ensembles`: whether to add the error overlaps of networks that share only the data or only the initial weights.
      Default: False.

    The cost grows as the third power of the steps.
    """

    ensembles: bool = field(boolean, default=False)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if self.ensembles and problem.network.branch is not None:
            allowed = "must be False for residual networks, whose overlaps are not known"
            raise ProblemError("Rows.ensembles", True, allowed)

    def solve_limit(
        self, problem: Problem, numbers: LimitNumbers, record: Record, report: Report
    ) -> Curves:
        recursion = RowRecursion(problem, numbers, int(record.last), self.ensembles)
        return recursion.curves(record, of_states(report, record.last, 3))

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        self.check(problem)
        numbers = limit_numbers(problem, self.bins)
        return RowRecursion(problem, numbers, problem.training.steps, self.ensembles)

    def pays_together(self, problems: Sequence[Problem], record: Record) -> bool:
        """Whether the recursions are short and of the same shape, so that preparing them once saves time."""
        return self._numbers_of_one_shape(problems, record) is not None

    def _numbers_of_one_shape(
        self, problems: Sequence[Problem], record: Record
    ) -> list[LimitNumbers] | None:
        """The limit numbers of the problems if they are best solved in the same memory, or None."""
        if self.ensembles or any(problem.network.branch is not None for problem in problems):
            return None
        steps = int(record.last)
        all_numbers = [limit_numbers(problem, self.bins) for problem in problems]
        if any(numbers.grouped or work(numbers, steps) > SHORT_WORK for numbers in all_numbers):
            return None
        same_modes = len({len(numbers.lam) for numbers in all_numbers}) == 1
        return all_numbers if same_modes else None

    def solve_many(
        self,
        problems: Sequence[Problem],
        record: Record,
        seed: int,
        wanted: Sequence[str] | None = None,
    ) -> list[Curves]:
        """One problem after the other, in the same memory."""
        all_numbers = self._numbers_of_one_shape(problems, record)
        if all_numbers is None:
            return super().solve_many(problems, record, seed, wanted)
        responses: dict[int, tuple] = {}
        curves, recursion = [], None
        for problem, numbers in zip(problems, all_numbers, strict=True):
            training = problem.training
            if id(training) not in responses:
                responses[id(training)] = impulse_response(training, problem.training.steps)
            response = responses[id(training)]
            if recursion is None:
                recursion = RowRecursion(problem, numbers, int(record.last), response=response)
            else:
                recursion.begin(problem, numbers, response)
            curves.append(recursion.curves(record, lambda step: None, wanted))
        return curves


SHOWN_BY = {"R_vu": "C_v", "R_hr0": "C_h0", "R_Delta": "C_Delta", "R_hr": "C_h", "R_gu": "C_g"}
"""The correlation of the field that shows a response."""


class Innovation(DeepLinearMethod):
    """The innovation basis: losses and correlations of long runs; for a stream, of 10⁵ steps.

    - `bins`: the largest number of input modes; a spectrum with more eigenvalues is grouped into this many.
      Default: 64.
    - `tolerance`: the relative length below which a new direction is dropped; in lazy networks it is less.
      Default: 1e-10.
    - `responses`: whether to give the responses to sources at recorded steps too, at most 40, by a second solution that
      has small sources. Default: False.
    """

    tolerance: float = field(number(minimum=1e-14, maximum=1e-2), default=1e-10)
    responses: bool = field(boolean, default=False)

    def solve_limit(
        self, problem: Problem, numbers: LimitNumbers, record: Record, report: Report
    ) -> Curves:
        if not self.responses:
            return self._solve_without_sources(problem, numbers, record, report)
        if len(record) > MOST_EDGES:
            raise _too_many_responses("Innovation", record)
        curves = self._solve_without_sources(
            problem, numbers, record, lambda done: report(done / 2)
        )
        if not curves.count:
            return curves
        return self._with_responses(problem, numbers, curves, lambda done: report((1 + done) / 2))

    def _solve_without_sources(
        self, problem: Problem, numbers: LimitNumbers, record: Record, report: Report
    ) -> Curves:
        """Everything but the responses."""
        training = GrowingTraining(problem, numbers, self.tolerance)
        reached = training.advance(record.at, of_states(report, record.last))
        evidence = training.evidence()
        relative = self._relative_error(numbers, evidence["edge_of_stability"] is not None)
        labels = training.labels()
        curves = Curves(TABLE, record, training.arrays(), reached, labels=labels, evidence=evidence)
        largest = _largest(curves.arrays, training.initial)
        # The parts of the loss are differences of its size, and the alignment is that of a function of this size.
        loss = largest["test_loss"]
        largest |= dict.fromkeys(("bias", "width_variance", "data_variance"), loss)
        largest["alignment"] = max(1.0, math.sqrt(loss / float(numbers.omega @ numbers.lam)))
        return curves.told(accuracy={name: relative * x for name, x in largest.items()})

    def _with_responses(
        self, problem: Problem, numbers: LimitNumbers, curves: Curves, report: Report
    ) -> Curves:
        """The curves and, from a solution with sources, the responses.

        Their error comes from what the sources change, which shows in all correlations, and from what is dropped.
        """
        strength = self._tolerance(numbers) ** (1 / 3)
        training = GrowingTraining(problem, numbers, self.tolerance, strength)
        record, count = curves.record, curves.count
        if training.advance(record.at[:count], of_states(report, record.last)) < count:
            raise NotConverged(
                f"training with sources of length {strength:.1g} diverges before step {record.at[count - 1]:g}, "
                "without them it does not; use a smaller tolerance, or no responses"
            )
        responses = training.responses()
        arrays = training.arrays() | responses
        with_sources = Curves(TABLE, record, arrays, count, labels=curves.labels)
        moved = max(
            difference / max(float(np.max(np.abs(curves[name]))), 1e-300)
            for name, difference in curves.differences(with_sources).items()
            if name.startswith("C_")
        )
        edge = curves.evidence["edge_of_stability"] is not None
        dropped = self._relative_error(numbers, edge) / strength
        accuracy, largest = {}, _largest(arrays, training.initial)
        for name, R in responses.items():
            # What is dropped of a field is a fraction of its length.
            length = math.sqrt(largest[SHOWN_BY[name]])
            accuracy[name] = moved * float(np.max(np.abs(R))) + dropped * length
        accuracy = curves.evidence["accuracy"] | accuracy
        basis = max(curves.evidence["basis"], training.evidence()["basis"])
        return dataclasses.replace(curves, arrays=curves.arrays | responses).told(
            accuracy=accuracy, basis=basis, sources=strength
        )

    def _tolerance(self, numbers: LimitNumbers) -> float:
        """The relative length below which directions are dropped or lost in rounding."""
        return max(self.tolerance, LOST / min(1.0, numbers.gamma))

    def _relative_error(self, numbers: LimitNumbers, edge: bool) -> float:
        """The error in units of the largest value, a multiple of the tolerance and of rounding.

        Measured against the row recursion: 0.1 tolerances, 5 with a spectrum, and up to 40 at the edge of stability.
        Subtracting the initial function of a centred network costs 5ε/γ_0².
        """
        lazy = min(1.0, numbers.gamma)
        multiple = 40.0 if edge else 10.0 if len(numbers.lam) > 1 else 1.0
        rounding = 5 * np.finfo(float).eps / lazy**2 if numbers.centered else 0.0
        return multiple * self._tolerance(numbers) + rounding

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        self.check(problem)
        if self.responses:
            allowed = "must be False step by step: responses need a second solution; use solve"
            raise ProblemError("Innovation.responses", True, allowed)
        return GrowingTraining(problem, limit_numbers(problem, self.bins), self.tolerance)


class Panels(DeepLinearMethod):
    """Long trainings: gradient flow to any time, and gradient descent of millions of steps, on a few hundred nodes.

    - `bins`: the largest number of input modes; a spectrum with more eigenvalues is grouped into this many.
      Default: 64.
    - `tolerance`: the relative accuracy of both losses; one that vanishes counts as a thousandth of its start at least.
      Default: 1e-5.
    - `responses`: whether to give the responses to the forces of recorded steps too, at most 40, without momentum. It
      takes some ten or twenty nodes more for each. Default: False.

    For a dataset or the population. The first 40 steps of gradient descent, or 20/(1 − β) with momentum β ≤ 0.96, are
    carried out one by one, and up to 160 more while losses oscillate; training must not be at the edge of stability by
    then. Infinite depth is extrapolated from
    finite depths, which costs some hundred times as much; of the layers, the first and the last are given.
    """

    tolerance: float = field(number(minimum=SMALLEST_TOLERANCE, maximum=1e-2), default=1e-5)
    responses: bool = field(boolean, default=False)

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Whether the problem can be solved in panels."""
        training = problem.training
        # Momentum is a rule of steps.
        most = MOST_MOMENTUM if training.time is None else 0.0
        return not isinstance(problem.data, Stream) and training.momentum <= most

    def check(self, problem: Problem) -> None:
        if not self.suits(problem):
            other = "LayerNodes" if math.isinf(problem.network.depth) else "Rows or Innovation"
            allowed = f"is for a dataset or the population, with a momentum up to {MOST_MOMENTUM}; use {other}"
            raise ProblemError("method", "Panels", allowed)
        if self.responses and problem.training.time is not None:
            allowed = "must be False for gradient flow: responses are those to the force of a step"
            raise ProblemError("Panels.responses", True, allowed)
        if self.responses and problem.training.momentum:
            allowed = "must be False with momentum, where a single force causes fast oscillations; use Rows"
            raise ProblemError("Panels.responses", True, allowed)

    def way(self, problem: Problem) -> Way:
        """In processes, because Python leads the computation."""
        return "processes"

    def solve_limit(
        self, problem: Problem, numbers: LimitNumbers, record: Record, report: Report
    ) -> Curves:
        if math.isfinite(problem.network.depth):
            return self._solve_depth(problem, numbers, record, self.tolerance, report)
        tolerance = max(self.tolerance / AMPLIFIED, SMALLEST_TOLERANCE)

        def solve_depth(deep: LimitNumbers, report: Report) -> Curves:
            return self._solve_depth(problem, deep, record, tolerance, report)

        beta0 = problem.network.skip.beta0
        return solve_infinite_depth(solve_depth, numbers, beta0, self.tolerance, report)

    def _solve_depth(
        self,
        problem: Problem,
        numbers: LimitNumbers,
        record: Record,
        tolerance: float,
        report: Report,
    ) -> Curves:
        """The limit at a finite depth."""
        if self.responses and len(record) > MOST_EDGES:
            raise _too_many_responses("Panels", record)
        training = problem.training
        rule = float(training.weight_decay), float(training.momentum)
        # Products of a few rows are slower on several threads.
        with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
            solution = solve_in_panels(
                lambda: PanelTraining(numbers, *rule),
                read_with_responses if self.responses else read,
                Course(training, record.at, self.responses),
                record.at,
                tolerance,
                report,
            )
        evidence = common_evidence(problem, "panels", numbers, None) | {
            "nodes": solution.nodes,
            "accuracy": solution.accuracy,
        }
        arrays = solution.arrays
        reached, labels = len(arrays["test_loss"]), axis_labels(numbers)
        return Curves(TABLE, record, arrays, reached, labels=labels, evidence=evidence)


class LayerNodes(DeepLinearMethod):
    """Infinitely deep residual networks: the row recursion at nodes of the layer time, added until it converges.

    - `bins`: the largest number of input modes; a spectrum with more eigenvalues is grouped into this many.
      Default: 64.
    """

    def check(self, problem: Problem) -> None:
        if not math.isinf(problem.network.depth):
            allowed = "must be Rows or Innovation: LayerNodes is for an infinitely deep network"
            raise ProblemError("method", "LayerNodes", allowed)
        if problem.training.time is not None:
            allowed = "must be Panels for gradient flow; or give training steps instead of a time"
            raise ProblemError("method", "LayerNodes", allowed)

    def solve_limit(
        self, problem: Problem, numbers: LimitNumbers, record: Record, report: Report
    ) -> Curves:
        arrays, reached, evidence = refine_nodes(problem, numbers, record.at, report)
        count = int(np.count_nonzero(record.at < reached))
        evidence = (
            common_evidence(problem, "rows", numbers, evidence["edge_of_stability"]) | evidence
        )
        labels = axis_labels(numbers) | {"tau": LAYER_TIMES}
        return Curves(INFINITE_TABLE, record, arrays, count, labels=labels, evidence=evidence)


def _largest(*measured: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The largest size of every observable in any of the measurements."""
    largest: dict[str, float] = {}
    for arrays in measured:
        for name, x in arrays.items():
            largest[name] = max(largest.get(name, 0.0), float(np.max(np.abs(x), initial=0.0)))
    return largest


def _too_many_responses(method: str, record: Record) -> ProblemError:
    """Why the responses of all recorded steps are not given."""
    allowed = f"must be False if more than {MOST_EDGES} steps are recorded, here {len(record)}"
    return ProblemError(f"{method}.responses", True, allowed)


def automatic(problem: Problem, record: Record) -> Method:
    """The method that is used unless the user names one.

    `Panels` for gradient flow and very many steps; else `LayerNodes` at infinite depth, `Rows` if it takes seconds, or
    if the innovation basis is poor, or `Innovation`.
    """
    infinite = math.isinf(problem.network.depth)
    numbers = limit_numbers(problem, Rows().bins)
    enough = DEEP_STEPS if infinite else MANY_STEPS
    many = record.last > (enough if len(record) <= MOST_EDGES else MOST_STEPS)
    many = many and len(problem.training.breakpoints(record.last)) < FEW_JUMPS
    if record.axis == "time" or (many and Panels.suits(problem)):
        return Panels()
    if infinite:
        return LayerNodes()
    lazy = numbers.centered and numbers.gamma < SMALL_RICHNESS
    work_of_rows = work(numbers, int(record.last))
    # Skip connections join all layers in one large space.
    most = math.inf if lazy or numbers.branch is not None else ROWS_WORK
    if numbers.data == STREAM and (most > ROWS_WORK or len(numbers.lam) > 1):
        # Every mode has its own noise. But there is no other way to go far.
        most = POOR_WORK
    return Rows() if work_of_rows <= most else Innovation()

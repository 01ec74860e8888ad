"""The parts of a problem of this family, with their types."""

from learndyn.families.deep_linear.network import DeepLinear
from learndyn.problem.data import Dataset, Population, Stream
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent

Supply = Dataset | Population | Stream


def network_of(problem: Problem) -> DeepLinear:
    """The network of a problem that is known to be deep and linear."""
    assert isinstance(problem.network, DeepLinear)
    return problem.network


def supply_of(problem: Problem) -> Supply:
    """How the examples of the problem arrive."""
    assert isinstance(problem.data, Supply)
    return problem.data


def training_of(problem: Problem) -> GradientDescent:
    """The training rule of the problem."""
    assert isinstance(problem.training, GradientDescent)
    return problem.training


def steps_of(problem: Problem) -> int:
    """T: the number of training steps, which every problem of this family has."""
    steps = training_of(problem).steps
    assert steps is not None
    return steps

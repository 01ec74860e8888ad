"""learndyn: how neural networks learn, exactly, in the limit where they are large."""

from importlib.metadata import version

from learndyn.activations import (
    Activation,
    Custom,
    Erf,
    Formula,
    Linear,
    Polynomial,
    Relu,
    activation,
)
from learndyn.alignment import alignment
from learndyn.compare import Comparison, compare
from learndyn.core.run import Run, start
from learndyn.core.simulate import simulate
from learndyn.core.solve import solve, trace
from learndyn.core.theory import Theory, register, theories
from learndyn.data import (
    Dataset,
    Observations,
    Points,
    Population,
    PowerLaw,
    Spectrum,
    Stream,
    Teacher,
)
from learndyn.deep_linear.ensemble_loss import ensemble_loss
from learndyn.deep_linear.finite import Descent
from learndyn.deep_linear.methods import Innovation, LayerNodes, Rows
from learndyn.deep_linear.network import DeepLinear, ScaledSkip
from learndyn.errors import (
    CannotCompare,
    FileError,
    Interrupted,
    LearndynError,
    NotConverged,
    NotEnoughMemory,
    NoTheory,
    ProblemError,
)
from learndyn.exponents import local_exponent
from learndyn.grokking import grokking_delay
from learndyn.neural_ode.fields import CustomField, FormulaField, PolynomialField
from learndyn.neural_ode.finite import AdjointDescent
from learndyn.neural_ode.inference import StationaryFlow, inference, stationary_flow
from learndyn.neural_ode.methods import OverlapMap, TrainingMemory
from learndyn.neural_ode.network import NeuralODE
from learndyn.neural_ode.recovery import Recovery, recovery
from learndyn.numerics.times import linear_times, log_times
from learndyn.plotting import plot
from learndyn.problem import Problem
from learndyn.rates import BestRate, best_rate, largest_stable_rate, rates_over
from learndyn.solution import Solution, load
from learndyn.sweeps import Sweep, load_sweep, sweep
from learndyn.sweeps.pictures import plot_sweep
from learndyn.training import (
    Constant,
    ExponentialDecay,
    GradientDescent,
    PerStep,
    Piecewise,
    PowerDecay,
    WarmUp,
)
from learndyn.two_layer.finite import SGD, OverlapChain, PopulationDescent
from learndyn.two_layer.fixed_point import FixedPoint
from learndyn.two_layer.full_batch import FullBatch
from learndyn.two_layer.network import TwoLayer
from learndyn.two_layer.ode import OrderParameterODE
from learndyn.two_layer.sampling import CausalSampling
from learndyn.wide.comparison import Approximations, approximations
from learndyn.wide.finite import WideDescent
from learndyn.wide.methods import (
    AlternatingIteration,
    GradientIndependence,
    LinearInnovation,
    LinearRows,
    Particles,
    Perturbative,
    SampledLayers,
    StaticKernel,
)
from learndyn.wide.network import Wide

__version__ = version("learndyn")

__all__ = [
    "SGD",
    "Activation",
    "AdjointDescent",
    "AlternatingIteration",
    "Approximations",
    "BestRate",
    "CannotCompare",
    "CausalSampling",
    "Comparison",
    "Constant",
    "Custom",
    "CustomField",
    "Dataset",
    "DeepLinear",
    "Descent",
    "Erf",
    "ExponentialDecay",
    "FileError",
    "FixedPoint",
    "Formula",
    "FormulaField",
    "FullBatch",
    "GradientDescent",
    "GradientIndependence",
    "Innovation",
    "Interrupted",
    "LayerNodes",
    "LearndynError",
    "Linear",
    "LinearInnovation",
    "LinearRows",
    "NeuralODE",
    "NoTheory",
    "NotConverged",
    "NotEnoughMemory",
    "Observations",
    "OrderParameterODE",
    "OverlapChain",
    "OverlapMap",
    "Particles",
    "PerStep",
    "Perturbative",
    "Piecewise",
    "Points",
    "Polynomial",
    "PolynomialField",
    "Population",
    "PopulationDescent",
    "PowerDecay",
    "PowerLaw",
    "Problem",
    "ProblemError",
    "Recovery",
    "Relu",
    "Rows",
    "Run",
    "SampledLayers",
    "ScaledSkip",
    "Solution",
    "Spectrum",
    "StaticKernel",
    "StationaryFlow",
    "Stream",
    "Sweep",
    "Teacher",
    "Theory",
    "TrainingMemory",
    "TwoLayer",
    "WarmUp",
    "Wide",
    "WideDescent",
    "activation",
    "alignment",
    "approximations",
    "best_rate",
    "compare",
    "ensemble_loss",
    "grokking_delay",
    "inference",
    "largest_stable_rate",
    "linear_times",
    "load",
    "load_sweep",
    "local_exponent",
    "log_times",
    "plot",
    "plot_sweep",
    "rates_over",
    "recovery",
    "register",
    "simulate",
    "solve",
    "start",
    "stationary_flow",
    "sweep",
    "theories",
    "trace",
]

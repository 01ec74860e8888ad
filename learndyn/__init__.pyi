"""The public names, for Python (see `__init__.py`), editors and type checkers."""

from learndyn.analyses.alignment import alignment
from learndyn.analyses.exponents import local_exponent
from learndyn.analyses.frontier import Frontier, frontier
from learndyn.analyses.grokking import grokking_delay
from learndyn.analyses.rates import BestRate, best_rate, largest_stable_rate
from learndyn.analyses.transfer import Transfer, transfer
from learndyn.core.cite import cite
from learndyn.core.compare import Comparison, compare
from learndyn.core.given_runs import runs
from learndyn.core.run import Run, start
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution, load
from learndyn.core.solve import solve, trace
from learndyn.core.theory import Theory, register, theories
from learndyn.errors import (
    AtTheEdge,
    CannotCompare,
    FileError,
    Interrupted,
    LearndynError,
    NotConverged,
    NotEnoughMemory,
    NoTheory,
    ProblemError,
    ProgramError,
)
from learndyn.families.deep_linear.ensemble_loss import ensemble_loss
from learndyn.families.deep_linear.finite import Descent
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.families.deep_linear.solve import Innovation, LayerNodes, Panels, Rows
from learndyn.families.neural_ode.fields import CustomField, FormulaField, PolynomialField
from learndyn.families.neural_ode.finite.descent import AdjointDescent
from learndyn.families.neural_ode.inference import StationaryFlow, inference, stationary_flow
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.families.neural_ode.recovery import Recovery, recovery
from learndyn.families.neural_ode.solve import OverlapMap, TrainingMemory
from learndyn.families.program.finite import ProgramNetwork
from learndyn.families.program.network import OwnData, OwnTraining, Program
from learndyn.families.program.solve import ExactLimit, SampledLimit
from learndyn.families.two_layer.network import TwoLayer
from learndyn.families.two_layer.online.finite import SGD, OverlapChain, PopulationDescent
from learndyn.families.two_layer.online.solve import OrderParameterODE
from learndyn.families.two_layer.reused.finite import FullBatch
from learndyn.families.two_layer.reused.implicit_sampling import ImplicitSampling
from learndyn.families.two_layer.reused.solve import CausalSampling
from learndyn.families.wide.comparison import Approximations, approximations
from learndyn.families.wide.finite import WideDescent
from learndyn.families.wide.infinite_depth import DepthExtrapolation
from learndyn.families.wide.network import Convolution, Wide
from learndyn.families.wide.solve import (
    GradientIndependence,
    LinearInnovation,
    LinearPanels,
    LinearRows,
    Perturbative,
    SampledLayers,
    StaticKernel,
)
from learndyn.numerics.precision import float64
from learndyn.numerics.times import linear_times, log_times
from learndyn.pictures.frontier import plot_frontier
from learndyn.pictures.plotting import plot
from learndyn.pictures.spectra import plot_spectrum
from learndyn.pictures.sweeps import plot_sweep
from learndyn.pictures.transfer import plot_transfer
from learndyn.problem.activations import (
    Activation,
    Custom,
    Erf,
    Formula,
    Linear,
    Polynomial,
    Relu,
    activation,
)
from learndyn.problem.examples import Examples
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import (
    Constant,
    ExponentialDecay,
    PerStep,
    Piecewise,
    PowerDecay,
    WarmUp,
)
from learndyn.problem.skips import ScaledSkip
from learndyn.problem.spectra import PowerLaw, PowerLawFit, Spectrum
from learndyn.problem.supplies import Dataset, Population, Stream
from learndyn.problem.tasks import LinearMap, Observations, Teacher, TeacherFlow
from learndyn.problem.training import GradientDescent
from learndyn.recipes.recipe import Recipe, recipe
from learndyn.sweeps import Sweep, load_sweep, sweep

__version__: str

__all__ = [
    "SGD",
    "Activation",
    "AdjointDescent",
    "Approximations",
    "AtTheEdge",
    "BestRate",
    "CannotCompare",
    "CausalSampling",
    "Comparison",
    "Constant",
    "Convolution",
    "Custom",
    "CustomField",
    "Dataset",
    "DeepLinear",
    "DepthExtrapolation",
    "Descent",
    "Erf",
    "ExactLimit",
    "Examples",
    "ExponentialDecay",
    "FileError",
    "Formula",
    "FormulaField",
    "Frontier",
    "FullBatch",
    "GradientDescent",
    "GradientIndependence",
    "ImplicitSampling",
    "Innovation",
    "Interrupted",
    "LayerNodes",
    "LearndynError",
    "Linear",
    "LinearInnovation",
    "LinearMap",
    "LinearPanels",
    "LinearRows",
    "NeuralODE",
    "NoTheory",
    "NotConverged",
    "NotEnoughMemory",
    "Observations",
    "OrderParameterODE",
    "OverlapChain",
    "OverlapMap",
    "OwnData",
    "OwnTraining",
    "Panels",
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
    "PowerLawFit",
    "Problem",
    "ProblemError",
    "Program",
    "ProgramError",
    "ProgramNetwork",
    "Recipe",
    "Recovery",
    "Relu",
    "Rows",
    "Run",
    "SampledLayers",
    "SampledLimit",
    "ScaledSkip",
    "Solution",
    "Spectrum",
    "StaticKernel",
    "StationaryFlow",
    "Stream",
    "Sweep",
    "Teacher",
    "TeacherFlow",
    "Theory",
    "TrainingMemory",
    "Transfer",
    "TwoLayer",
    "WarmUp",
    "Wide",
    "WideDescent",
    "activation",
    "alignment",
    "approximations",
    "best_rate",
    "cite",
    "compare",
    "ensemble_loss",
    "float64",
    "frontier",
    "grokking_delay",
    "inference",
    "largest_stable_rate",
    "linear_times",
    "load",
    "load_sweep",
    "local_exponent",
    "log_times",
    "plot",
    "plot_frontier",
    "plot_spectrum",
    "plot_sweep",
    "plot_transfer",
    "recipe",
    "recovery",
    "register",
    "runs",
    "simulate",
    "solve",
    "start",
    "stationary_flow",
    "sweep",
    "theories",
    "trace",
    "transfer",
]

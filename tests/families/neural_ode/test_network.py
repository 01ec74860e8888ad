"""What a neural ODE accepts and refuses, and its problem files."""

import numpy as np
import pytest

import learndyn as ld
from tests.problems import PAPER, neural_ode

pytestmark = pytest.mark.compiles


def network(**fields):
    return ld.NeuralODE(
        **({"field": PAPER, "control_ratio": 0.75, "time": 1.0, "steps": 10} | fields)
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"control_ratio": 0}, r"control_ratio = 0.*greater than 0"),
        ({"steps": 0}, r"steps = 0.*at least 1"),
        ({"time": -1}, r"time = -1.*greater than 0"),
        ({"adjoint": "full"}, r"adjoint = 'full'.*'true', 'truncated'"),
        ({"noise": -0.1}, r"noise = -0.1.*at least 0"),
        ({"initial_overlap": 1.2}, r"initial_overlap = 1.2.*at most √initial_norm = 1"),
        ({"initial_overlap": -0.8, "initial_norm": 0.5}, r"initial_overlap = -0.8.*0.707"),
        ({"teacher_time": 0.55}, r"data.task.time = 0.55.*whole number of steps.*5.5 of them"),
        ({"field": [[0, 0], [0.4, 0]]}, r"columns 1 and up: the field must depend on the control"),
        ({"field": [[0, 0], [0, -0.4]]}, r"every entry must be at least 0"),
        ({"field": "q*m - q**2"}, r"'q\*m - q\*\*2'.*power series.*negative"),
        ({"field": "q**2"}, r"must depend on m"),
        ({"field": "q*z"}, r"'z' is not known; the variables are q and m"),
        ({"field": lambda q, m: q.wrong}, r"CustomField.function.*it raised AttributeError"),
        ({"field": 3}, r"field = 3.*must be one of the kinds"),
        ({"confinement": "tan"}, r"activation = 'tan'"),
    ],
)
def test_bad_values_are_refused_by_name(fields, words):
    with pytest.raises(ld.ProblemError, match=words):
        neural_ode(**{"steps": 10} | fields)


@pytest.mark.parametrize(
    ("data", "training", "words"),
    [
        (
            ld.Stream(ld.TeacherFlow(), batch_ratio=0.5),
            {},
            r"data.batch_ratio = 0.5.*of data that it understands: task, batch\)",
        ),
        (
            ld.Dataset(ld.TeacherFlow(), ratio=2.0),
            {},
            r"data.ratio = 2.*of data that it understands: task, examples, batch\)",
        ),
        (ld.Stream(ld.TeacherFlow(), noise=0.1), {}, r"data.noise = 0.1.*leave it at 0.0"),
        (
            ld.Stream(ld.TeacherFlow()),
            {"momentum": 0.9},
            r"training.momentum = 0.9.*leave it at 0.0",
        ),
        (ld.Stream(ld.TeacherFlow()), {"noise": 0.1}, r"training.noise = 0.1"),
        (ld.Stream(ld.TeacherFlow()), {"loss": "sum"}, r"training.loss = 'sum'"),
        (
            ld.Stream(ld.TeacherFlow()),
            {"steps": None, "time": 3.0},
            r"training.time = 3.*understands: learning_rate, steps",
        ),
    ],
)
def test_what_does_not_fit_is_refused(data, training, words):
    with pytest.raises(ld.ProblemError, match=words):
        ld.Problem(network(), data, ld.GradientDescent(0.1, **({"steps": 5} | training)))


def test_trajectories_are_for_neural_odes_and_a_population_of_them_has_no_theory():
    training = ld.GradientDescent(0.1, steps=5)
    for part, data in (
        (ld.DeepLinear(2, 1.0), ld.Stream(ld.TeacherFlow(chained=True), batch_ratio=1.0)),
        (network(), ld.Population(ld.TeacherFlow())),
    ):
        with pytest.raises(
            ld.NoTheory, match="of TeacherFlow by GradientDescent; there are theories for"
        ):
            ld.solve(ld.Problem(part, data, training))


def test_chained_trajectories_cannot_be_reused():
    with pytest.raises(ld.ProblemError, match=r"data.task.chained = True.*leave it at False"):
        neural_ode(supply="dataset", chained=True)


def test_batches_of_a_dataset_divide_it():
    with pytest.raises(ld.ProblemError, match=r"Dataset.batch = 2.*must divide.* examples, 3"):
        ld.Dataset(ld.TeacherFlow(), examples=3, batch=2)


@pytest.mark.parametrize("field", [PAPER, "0.8*q*m + 0.4*q**2"])
@pytest.mark.parametrize(
    "data",
    [
        ld.Stream(ld.TeacherFlow(chained=True), batch=2),
        ld.Dataset(ld.TeacherFlow(), examples=4, batch=2),
    ],
)
def test_problem_files_come_back(tmp_path, field, data):
    confinement = ld.Formula("1 + z")
    problem = neural_ode(
        field=field, confinement=confinement, steps=10, noise=0.1, data=data, teacher_time=1.5
    )
    problem.to_toml(tmp_path / "problem.toml")
    assert ld.Problem.from_toml(tmp_path / "problem.toml") == problem


def test_a_number_confines_evenly():
    assert network(confinement=1.5) == network(confinement=ld.Polynomial(np.array([1.5])))


def test_inference_steps_must_lie_within_training():
    problem = ld.Problem(network(), ld.Stream(ld.TeacherFlow()), ld.GradientDescent(0.1, steps=5))
    with pytest.raises(ld.ProblemError, match=r"inference_steps = \[3, 9\].*between 0 and 5"):
        ld.solve(problem, ld.OverlapMap(inference_steps=[3, 9]))
    with pytest.raises(ld.ProblemError, match="increasing order"):
        ld.OverlapMap(inference_steps=[3, 1])


def test_solutions_come_back_from_files(tmp_path):
    problem = ld.Problem(network(), ld.Stream(ld.TeacherFlow()), ld.GradientDescent(0.1, steps=5))
    made = ld.solve(problem, ld.OverlapMap(inference_steps=[0, 3]))
    made.save(tmp_path / "solution.nc")
    read = ld.load(tmp_path / "solution.nc")
    assert read.data.identical(made.data)
    assert read["C_yy"].dims == ("inference_step", "inference_time", "inference_time2")

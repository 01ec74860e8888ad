"""`Program`: its parameters, what makes two the same, and what files hold of it."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.problem.paths import changed, field_paths
from learndyn.programs import mean
from tests.families.program.loops import mlp, perceptron, regression

SCALE = 1.5
POINTS = ld.Points([[1.0, 0.2], [-0.3, 0.8]], [1.0, -1.0])


def test_parameters_are_those_given_and_the_defaults():
    program = ld.Program(regression, rate=0.1)
    assert program.parameters == {"alpha": 2.0, "rate": 0.1, "steps": 4}
    assert program.name == "regression"
    assert "train.step(loss / 2)" in program.source


def test_a_loop_brings_data_and_training_along():
    problem = ld.Problem(ld.Program(regression, steps=7))
    assert problem.data == ld.OwnData()
    assert problem.training == ld.OwnTraining(7)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ld.Program(regression, alfa=1), "Program.alfa = 1: unknown; did you mean 'alpha'"),
        (lambda: ld.Program(3), "Program.function = 3: must be a function that takes the net"),
        (lambda: ld.Program(lambda: None), "must take the net as its first argument"),
        (lambda: ld.Program(lambda net, a: None), "Program.a = None: missing; <lambda> needs it"),
        (lambda: ld.Program(regression, rate=object()), "must be a number, a text, an array"),
        (lambda: ld.Problem(ld.Program(mlp)), "mlp needs inputs, so it is a forward pass"),
        (
            lambda: ld.Problem(ld.Program(mlp), POINTS),
            "Problem.training = None: missing; Problem needs it",
        ),
        (lambda: ld.Problem(ld.Wide(1, "tanh")), "Problem.data = None: missing"),
        (
            lambda: ld.Problem(ld.Program(regression), POINTS, ld.GradientDescent(0.1, steps=2)),
            "regression must hand back a function from points to outputs",
        ),
        (
            lambda: ld.Problem(
                ld.Program(mlp), POINTS, ld.GradientDescent(0.1, time=2, momentum=0.5)
            ),
            "training.momentum = 0.5: must be 0 in gradient flow",
        ),
        (
            lambda: ld.Problem(
                ld.Program(mlp),
                ld.Points(gram=np.eye(2), targets=[1.0, 2.0]),
                ld.GradientDescent(0.1, steps=2),
            ),
            "a program sees the inputs themselves",
        ),
    ],
)
def test_what_does_not_fit_is_refused_when_the_problem_is_made(make, text):
    with pytest.raises(ld.LearndynError) as caught:
        make()
    assert text in str(caught.value)


def factory(scale):
    def loop(net, steps=1):
        x = net.normal(net.dim("n"))
        for _ in net.steps(steps):
            net.record(size=scale * mean(x**2))

    return loop


def with_global(net, steps=1):
    x = net.normal(net.dim("n"))
    for _ in net.steps(steps):
        net.record(size=SCALE * mean(x**2))


def test_programs_that_take_other_values_from_outside_differ(monkeypatch):
    assert ld.Program(factory(1.0)) == ld.Program(factory(1.0))
    assert ld.Program(factory(1.0)) != ld.Program(factory(2.0))
    assert ld.Program(factory(np.ones(2))) != ld.Program(factory(np.zeros(2)))
    before = ld.Program(with_global)
    monkeypatch.setitem(with_global.__globals__, "SCALE", 2.5)
    assert ld.Program(with_global) != before


def test_a_helper_function_is_part_of_a_program():
    def calling(helper):
        def loop(net, steps=1):
            x = net.normal(net.dim("n"))
            for _ in net.steps(steps):
                net.record(size=helper(mean(x**2)))

        return loop

    assert ld.Program(calling(lambda s: s + 1)) != ld.Program(calling(lambda s: s - 1))


def test_fields_to_vary_are_the_parameters_and_the_length_follows():
    problem = ld.Problem(ld.Program(regression))
    names = {"network.richness", "network.alpha", "network.rate", "network.steps"}
    assert set(field_paths(problem)) == names
    longer = changed(problem, {"network.steps": 9, "network.alpha": 3.0})
    assert longer.training.steps == 9
    assert longer.network.parameters == {"alpha": 3.0, "rate": 0.3, "steps": 9}


def test_a_file_holds_a_program_for_reading_only():
    problem = ld.Problem(ld.Program(regression, alpha=3.0))
    read = ld.Problem.from_text(problem.to_text())
    assert read == problem
    assert read.hash == problem.hash
    assert read.network.function is None
    assert read.network.source == problem.network.source
    for act in (ld.solve, ld.start, lambda p: ld.simulate(p, 10)):
        with pytest.raises(ld.ProblemError, match="is for reading only, because files never run"):
            act(read)


def test_a_problem_file_cannot_name_code_to_run(tmp_path):
    text = '[network]\nkind = "program"\nfunction = "os.system"\n[data]\nkind = "own_data"\n'
    text += '[training]\nkind = "own_training"\nsteps = 3\n'
    with pytest.raises(ld.ProblemError, match="for reading only"):
        ld.Problem.from_text(text)


def test_arrays_and_lists_are_parameters_too():
    def loop(net, weights, steps=1):
        x = net.normal(net.dim("n"))
        for _ in net.steps(steps):
            net.record(size=np.asarray(weights) * mean(x**2))

    problem = ld.Problem(ld.Program(perceptron, alpha=np.float64(1.5)))
    assert isinstance(problem.network.parameters["alpha"], float)
    with_list = ld.Program(loop, weights=np.array([1.0, 2.0]))
    assert with_list.to_dict()["parameters"]["weights"] == [1.0, 2.0]

"""Seeds and memory of finite networks, the same for all families."""

from typing import Any

import psutil
import pytest

import learndyn as ld
from learndyn.core.record import Record
from learndyn.core.theory import theory_for
from learndyn.numerics.precision import float64

TRAINING = ld.GradientDescent(0.1, steps=3)
ONLINE = ld.TwoLayer("erf", Q=[[0.5]], R=[[0.1]]), ld.Teacher("erf", T=[[1.0]])
PROBLEMS = {
    "two_layer/stream": ld.Problem(
        ONLINE[0], ld.Stream(ONLINE[1]), ld.GradientDescent(0.5, time=1.0)
    ),
    "two_layer/dataset": ld.Problem(ONLINE[0], ld.Dataset(ONLINE[1], ratio=2.0), TRAINING),
    "deep_linear/dataset": ld.Problem(
        ld.DeepLinear(2, 1.0), ld.Dataset(ld.LinearMap(), ratio=1.0), TRAINING
    ),
    "wide/points": ld.Problem(ld.Wide(2, "tanh"), ld.Points.random(3, 4, seed=0), TRAINING),
    "neural_ode/stream": ld.Problem(
        ld.NeuralODE([[0, 0], [0, 0.8]], 1.0, 0.5, 3), ld.Stream(ld.TeacherFlow()), TRAINING
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("cores", [2, 8])
def test_memory_is_asked_for_as_many_networks_as_train_at_a_time(name, cores, monkeypatch):
    """One seed needs what one network needs; many need that for every core, but not for every seed."""
    problem = PROBLEMS[name]
    theory = theory_for(problem)
    assert theory.name == name
    with float64():
        record = Record.of(problem.training)
        ensemble = theory.train(problem, 60, theory.simulator(None), record)
    monkeypatch.setattr("os.cpu_count", lambda: cores)

    def free(networks: float) -> None:
        memory = psutil.virtual_memory()._replace(available=networks * ensemble.bytes)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)

    free(1.01)
    assert ld.simulate(problem, 60, 1).size == 60
    with pytest.raises(ld.NotEnoughMemory, match=r"2 at a time.*or train one seed at a time"):
        ld.simulate(problem, 60, 2)
    free(0.99)
    with pytest.raises(ld.NotEnoughMemory) as refused:
        ld.simulate(problem, 60, 1)
    assert "at a time" not in str(refused.value)
    free(cores - 0.01)
    with pytest.raises(ld.NotEnoughMemory, match=f"{cores} at a time"):
        ld.simulate(problem, 60, 30)


def test_a_first_seed_may_be_a_whole_number_of_any_type():
    problem = PROBLEMS["deep_linear/dataset"]
    whole: Any = 3.0
    broken: Any = 3.5
    runs, same = (ld.simulate(problem, 12, 2, first_seed=seed) for seed in (whole, 3))
    assert runs["seed"].values.tolist() == [3, 4]
    assert runs.data.identical(same.data)
    with pytest.raises(ld.ProblemError, match=r"first_seed = 3\.5: must be a whole number"):
        ld.simulate(problem, 12, 2, first_seed=broken)

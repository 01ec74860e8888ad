"""What has no limit is refused in words that name the user's line."""

import numpy as np
import pytest

from learndyn.errors import LearndynError
from learndyn.programs import (
    SGD,
    Adam,
    Coordinates,
    Dense,
    Lazy,
    Limit,
    Muon,
    Net,
    ProgramError,
    einsum,
    mean,
    run,
    softmax,
)

BACKENDS = [Dense(20), Lazy(20), Limit(64), Coordinates()]


def refused(body, backend=None) -> str:
    """The message if `body(net, N, K, W, x)` is a program's first state."""

    def program(net: Net) -> None:
        N, K = net.dim("neurons"), net.dim("inputs", 0.5)
        W, x = net.matrix(K, N), net.normal(N)
        for _ in net.steps(1):
            net.record(fine=mean(x * x))
            body(net, N, K, W, x)

    with pytest.raises(ProgramError) as caught:
        run(program, {}, backend or Limit(64))
    assert isinstance(caught.value, LearndynError)
    assert caught.value.run is not None
    assert "fine" in caught.value.run.records
    return str(caught.value)


MISTAKES = {
    "combined entry by entry": lambda net, N, K, W, x: x + net.normal(K),
    "an entry of a vector over the dimension 'neurons'": lambda net, N, K, W, x: x[0],
    "a sum over the dimension 'neurons'": lambda net, N, K, W, x: x.sum(),
    "max of a vector over": lambda net, N, K, W, x: x.max(),
    "np.sort of a vector over": lambda net, N, K, W, x: np.sort(x),
    "np.add.reduce of a vector over": lambda net, N, K, W, x: np.add.reduce(x),
    "a product of two matrices": lambda net, N, K, W, x: W @ W.T,
    "entries of <matrix 'inputs×neurons'>": lambda net, N, K, W, x: np.tanh(W),
    "Scale or add the products": lambda net, N, K, W, x: 2 * W,
    "takes vectors over the dimension 'neurons'": lambda net, N, K, W, x: W @ net.normal(K),
    "no vector over the dimension": lambda net, N, K, W, x: W @ np.ones(3),
    "wrong is a vector over": lambda net, N, K, W, x: net.record(wrong=x),
    "fine is recorded twice": lambda net, N, K, W, x: net.record(fine=mean(x)),
    "the loss must be a single number": lambda net, N, K, W, x: SGD(net, 0.1).step(x),
    "Muon trains matrices only": lambda net, N, K, W, x: Muon(net, 0.1, parameters=[x]),
    "is not trained": lambda net, N, K, W, x: SGD(net, 0.1, parameters=[W.frozen()]),
    "depends on no trained parameter": lambda net, N, K, W, x: SGD(net, 0.1).step(mean(x * 0 > 1)),
    "a condition on a vector": lambda net, N, K, W, x: 1 if x > 0 else 0,
    "float() of a vector": lambda net, N, K, W, x: float(x),
    "has no entries to look at": lambda net, N, K, W, x: np.asarray(x),
    "do not fit together": lambda net, N, K, W, x: net.normal(N, 2) * net.normal(N, 3),
    "does not fit the small axes": lambda net, N, K, W, x: einsum("pd,d->p", np.ones((2, 3)), x),
    "einsum is written in full": lambda net, N, K, W, x: einsum("d", x),
    "softmax runs along a small axis": lambda net, N, K, W, x: softmax(x),
    "the @ of arrays": lambda net, N, K, W, x: np.ones((3, 3)) @ x,
    "np.arcsin is not among": lambda net, N, K, W, x: np.arcsin(x),
    "is no dimension": lambda net, N, K, W, x: net.normal(7),
    "must be positive": lambda net, N, K, W, x: net.dim("more", -1.0),
    "this is no vector": lambda net, N, K, W, x: mean(3.0),
    "two averages": lambda net, N, K, W, x: x.mean(),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_named_with_its_line(words):
    text = refused(MISTAKES[words])
    assert words in text or words == "two averages"
    assert "test_errors.py:" in text
    assert "lambda net" in text


@pytest.mark.parametrize("backend", BACKENDS, ids=repr)
def test_a_mistake_is_refused_in_every_back_end(backend):
    assert "combined entry by entry" in refused(lambda net, N, K, W, x: x + net.normal(K), backend)


def test_coordinates_refuse_what_is_not_linear_and_name_the_line():
    def cubic(net, N, K, W, x):
        return mean(x * x * x)

    text = refused(cubic, Coordinates())
    assert "return mean(x * x * x)" in text
    assert "a product of three vectors over the dimension 'neurons' is not linear" in text
    for body in (
        lambda net, N, K, W, x: np.tanh(x),
        lambda net, N, K, W, x: W @ (x * x),
        lambda net, N, K, W, x: (net.normal(N, 2) * x)[0],
        lambda net, N, K, W, x: Adam(net, 0.1).step(mean(x * x)),
        lambda net, N, K, W, x: einsum("i,j->ij", net.normal(N, 2), net.normal(N, 2)),
        lambda net, N, K, W, x: net.uniform(N),
    ):
        assert "Coordinates follows linear programs only" in refused(body, Coordinates())


@pytest.mark.parametrize("backend", BACKENDS, ids=repr)
def test_divergence_stops_the_run_and_keeps_what_was_recorded(backend):
    def explosive(net: Net) -> None:
        N = net.dim("neurons")
        w = net.normal(N)
        train = SGD(net, 1e80)
        for _ in net.steps(20):
            loss = mean(w * w) ** 2
            net.record(loss=loss)
            train.step(loss)

    outcome = run(explosive, {}, backend)
    assert outcome.diverged_at == len(outcome.records["loss"]) < 5
    assert np.all(np.isfinite(outcome.records["loss"]))
    assert "loss = mean(w * w) ** 2" in outcome.reason


def test_division_by_a_scalar_that_vanishes_stops_the_run():
    def program(net: Net) -> None:
        N = net.dim("neurons")
        w, x = net.normal(N), net.normal(N)
        for state in net.steps(2):
            net.record(norm=mean(x * x))
            if state:
                net.record(ratio=1 / mean(w * x))

    outcome = run(program, {}, Coordinates())
    assert outcome.diverged_at == 1
    assert "division by a scalar that vanishes in the limit" in outcome.reason
    assert len(outcome.records["norm"]) == 2


def test_recording_nothing_is_refused():
    def silent(net: Net) -> None:
        for _ in net.steps(3):
            pass

    def without_loop(net: Net) -> None:
        net.dim("neurons")

    with pytest.raises(ProgramError, match="nothing was recorded"):
        run(silent, {}, Dense(4))
    with pytest.raises(ProgramError, match=r"without_loop has no loop over net\.steps"):
        run(without_loop, {}, Dense(4))


def test_a_parameter_that_the_program_does_not_have_is_named_with_its_first_line():
    def program(net: Net, rate: float) -> None:
        net.dim("neurons")

    with pytest.raises(ProgramError, match="unexpected keyword argument 'rat'") as caught:
        run(program, {"rat": 0.1}, Dense(4))
    assert "def program(net: Net, rate: float)" in str(caught.value)


def test_rules_on_entries_refuse_arrays_that_are_too_large():
    def program(net: Net) -> None:
        N = net.dim("neurons")
        W, x = net.matrix(N, N), net.normal(N, trained=False)
        train = Adam(net, 0.1)
        for _ in net.steps(2):
            loss = mean((W @ x) ** 2)
            net.record(loss=loss)
            train.step(loss)

    with pytest.raises(
        ProgramError, match="Adam on <matrix 'neurons×neurons'> needs arrays of 8192 × 8192"
    ):
        run(program, {}, Limit(8192))
    assert len(run(program, {}, Limit(256)).records["loss"]) == 3


def test_an_exception_of_the_program_is_chained_and_records_are_kept():
    def failing(net: Net) -> None:
        x = net.normal(net.dim("neurons"))
        for state in net.steps(5):
            net.record(norm=mean(x * x))
            if state == 2:
                {}["missing"]

    with pytest.raises(ProgramError, match="the program raised KeyError in state 2") as caught:
        run(failing, {}, Dense(4))
    assert isinstance(caught.value.__cause__, KeyError)
    assert '{}["missing"]' in str(caught.value)
    assert caught.value.run is not None
    assert len(caught.value.run.records["norm"]) == 3

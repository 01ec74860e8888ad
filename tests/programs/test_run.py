"""Driving a program: at once, state by state, in replicates; and what is freed on the way."""

import ast
import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

import learndyn.programs
from learndyn.programs import (
    SGD,
    Coordinates,
    Dense,
    Lazy,
    Limit,
    Net,
    ProgramError,
    SteppedProgram,
    mean,
    replicates,
    run,
)
from tests.programs.cases import EXAMPLES, layered

MLP = EXAMPLES["mlp"]


def test_state_by_state_gives_the_same_records():
    whole = run(MLP, {"steps": 4}, Lazy(30))
    with SteppedProgram(MLP, {"steps": 4}, Lazy(30)) as program:
        states = list(program)
        assert program.advance() is None
    assert program.outcome is not None
    for name, curve in whole.records.items():
        np.testing.assert_array_equal([state[name] for state in states], curve)
        np.testing.assert_array_equal(program.outcome.records[name], curve)


def test_a_program_can_be_closed_in_the_middle():
    with SteppedProgram(MLP, {"steps": 50}, Lazy(30)) as program:
        program.advance()
        program.advance()
    assert program.outcome is not None
    assert len(program.outcome.records["loss"]) == 2
    never = SteppedProgram(MLP, {}, Lazy(30))
    never.close()
    assert never.outcome is None


def test_an_error_comes_out_of_advance():
    def failing(net: Net) -> None:
        x = net.normal(net.dim("neurons"))
        for state in net.steps(3):
            net.record(norm=mean(x * x) / (2 - state if state < 2 else "no"))

    with SteppedProgram(failing, {}, Dense(5)) as program:
        program.advance()
        program.advance()
        with pytest.raises(ProgramError, match="in state 2"):
            program.advance()
        assert program.advance() is None


def test_progress_is_told_and_may_end_the_run():
    states = []
    run(MLP, {"steps": 3}, Dense(10), lambda state, last: states.append((state, last)))
    assert states == [(0, 3), (1, 3), (2, 3), (3, 3)]

    def interrupt(state: int, last: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(MLP, {"steps": 3}, Dense(10), interrupt)


def test_no_update_follows_the_last_state():
    weights = []

    def program(net: Net, steps: int) -> None:
        w = net.normal(net.dim("neurons"))
        train = SGD(net, 0.1)
        for _ in net.steps(steps):
            loss = mean(w * w)
            net.record(loss=loss)
            before = w.data
            train.step(loss)
            weights.append(w.data is before)

    run(program, {"steps": 2}, Dense(5))
    assert weights == [False, False, True]


def test_a_record_that_a_state_lacks_is_not_a_number():
    def program(net: Net) -> None:
        w = net.normal(net.dim("neurons"))
        for state in net.steps(3):
            net.record(norm=mean(w * w))
            if state % 2 == 0:
                net.record(rare=[state, 1.0])

    records = run(program, {}, Dense(5)).records
    np.testing.assert_array_equal(records["rare"][::2], [[0, 1], [2, 1]])
    assert np.all(np.isnan(records["rare"][1::2]))


def test_replicates_have_means_and_errors():
    outcome = replicates(layered, {"steps": 3}, Limit(128, seed=5), count=4, threads=2)
    curves = np.array(
        [run(layered, {"steps": 3}, Limit(128, seed)).records["loss"] for seed in range(5, 9)]
    )
    np.testing.assert_array_equal(outcome.mean["loss"], curves.mean(0))
    np.testing.assert_allclose(outcome.error["loss"], curves.std(0, ddof=1) / 2, rtol=1e-12)
    assert len(outcome.runs) == 4


def fresh_batches(net: Net, steps: int = 12, alive: list | None = None) -> None:
    """Linear regression on a new batch at every step."""
    D = net.dim("inputs")
    target, w = net.normal(D, trained=False), net.zeros(D)
    train = SGD(net, 0.3)
    for _ in net.steps(steps):
        P = net.dim("batch", 2.0)
        X = net.matrix(P, D, trained=False)
        loss = mean((X @ (w - target)) ** 2) / 2
        net.record(loss=loss)
        train.step(loss)
        if alive is not None:
            alive += [weakref.ref(P.site), weakref.ref(X.gaussian)]


@pytest.mark.parametrize("backend", [Limit(256), Coordinates(), Lazy(50)], ids=repr)
def test_batches_that_are_forgotten_are_freed(backend):
    alive: list[weakref.ref] = []
    gc.disable()
    try:
        outcome = run(fresh_batches, {"alive": alive}, backend)
    finally:
        gc.enable()
    # Without the garbage collector: nothing refers to itself.
    assert all(reference() is None for reference in alive)
    longer = run(fresh_batches, {"steps": 24}, backend)
    assert list(outcome.ranks) == ["batch×inputs"] or list(outcome.ranks) == [
        "batch×inputs",
        "batch×inputs 2",
    ]
    assert list(longer.ranks) == list(outcome.ranks)
    if not isinstance(backend, Limit):
        # A dimension's innovations stay in the limit, for later ones to be orthogonal to.
        assert longer.bytes <= 1.5 * outcome.bytes + 100_000


def test_programs_import_neither_families_nor_the_core():
    for path in Path(learndyn.programs.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        own = {module for module in modules if module and module.startswith("learndyn")}
        allowed = ("learndyn.programs", "learndyn.numerics", "learndyn.errors")
        assert all(module.startswith(allowed) for module in own)


def test_a_program_may_leave_its_loop_early():
    def program(net: Net) -> None:
        x = net.normal(net.dim("neurons"))
        for state in net.steps(10):
            net.record(norm=mean(x * x))
            if state == 2:
                break

    assert len(run(program, {}, Dense(5)).records["norm"]) == 3
    with SteppedProgram(program, {}, Dense(5)) as states:
        assert len(list(states)) == 3


def test_what_a_run_tells_of_its_matrices():
    outcome = run(MLP, {"steps": 5}, Limit(256, drop=1e-2))
    assert set(outcome.ranks) == {"neurons×neurons"}
    assert 0 < outcome.dropped < 0.1
    assert outcome.orthonormality < 1e-13
    assert sum(outcome.ranks["neurons×neurons"]) / 256 < outcome.fullness < 1 / 1.5
    assert run(MLP, {"steps": 2}, Lazy(30)).fullness == 0
    # Two sets of directions with images, and the basis of the dimension.
    assert outcome.bytes > 8 * 256 * 2 * sum(outcome.ranks["neurons×neurons"])
    with pytest.raises(ProgramError, match="choose Dense, Lazy, Limit or Coordinates"):
        run(MLP)

"""The result of a sweep: every point where it belongs, what failed, what is reused, and files."""

import math
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import learndyn as ld
from learndyn.errors import FileError, NotConverged, ProblemError, UnknownObservable
from learndyn.problem.paths import changed
from tests import problems
from tests.fakes import number_of, told_apart

RATES = [0.01, 0.02, 0.03]
linear = partial(
    problems.deep_linear, depth=2, width=0.8, richness=0.7, ratio=1.2, noise=0.5, rate=0.02, steps=6
)
two_layer = partial(problems.two_layer, Q=[[0.5]], R=[[0.1]], teacher_activation="erf", time=5.0)
neural_ode = partial(problems.neural_ode, steps=4, epochs=3)


def over_rates(problem=None, **options):
    return ld.sweep(problem or linear(), {"training.learning_rate": RATES}, **options)


@pytest.fixture
def counted(stand_in):
    """Instead of every theory: a loss that tells the problem, and a list of what was computed."""
    return stand_in(formula=told_apart)


def without_times(swept) -> xr.Dataset:
    names = [name for name in swept.data if str(name).startswith("wall_time")]
    return swept.data.drop_vars(names)


def test_every_point_is_the_solution_of_its_own_problem():
    over = {"training.learning_rate": RATES, "network.richness": [0.5, 1.5]}
    swept = ld.sweep(linear(), over)
    assert swept.axes == ["learning_rate", "richness"]
    assert swept["test_loss"].dims == ("learning_rate", "richness", "step")
    inner = ("step", "output", "step2", "output2")
    assert swept["C_v"].dims == ("learning_rate", "richness", *inner)
    assert swept["test_loss"].shape[:2] == (3, 2)
    for rate in RATES:
        for richness in over["network.richness"]:
            values = {"training.learning_rate": rate, "network.richness": richness}
            single = ld.solve(changed(linear(), values))
            point = swept.data.sel(learning_rate=rate, richness=richness)
            for name in map(str, single.data.data_vars):
                np.testing.assert_array_equal(point[name], single[name])
                assert swept[name].attrs == single[name].attrs
    assert swept["learning_rate"].attrs["long_name"] == "training.learning_rate"
    assert np.isnan(swept["diverged_at"]).all()
    assert (swept["wall_time"] > 0).all()
    assert set(swept.observables) == set(ld.solve(linear()).data.data_vars)


DECAY = ld.ExponentialDecay(0.5, 0.1)
FIELDS = [
    (linear(), {"network.width": [0.5, 2, math.inf, [0.5, 0.6]]}),
    (linear(), {"network.parameterization": ["mup", "ntk"]}),
    (linear(), {"network.skip": [None, 1.0], "network.depth": [1, 3]}),
    (linear(), {"network.centered": [True, False]}),
    (linear(), {"data.noise": np.linspace(0, 1, 3), "training.momentum": (0.0, 0.5)}),
    (linear(), {"training.learning_rate": [0.1, DECAY, {**DECAY.to_dict(), "rate": 0.2}]}),
    (two_layer(), {"network.activation": ["erf", "relu", ld.Formula("z**3"), jnp.tanh]}),
    (two_layer(), {"network.Q": [[[0.5]], np.array([[0.6]])], "network.train_readout": [True]}),
    (two_layer(), {"data.task.T": [[[1.0]], [[2.0]]], "data.batch": [1, 2]}),
    (two_layer(rate=DECAY), {"training.learning_rate.initial": [0.1, 0.2]}),
    (two_layer(rate=ld.WarmUp(1.0, DECAY)), {"training.learning_rate.then.rate": [0.1, 0.2]}),
    (
        two_layer(),
        {
            "network.Q": [np.eye(2)],
            "network.R": [[[0.1], [0.2]]],
            "network.readout": [[1.0, 2.0], [2.0, 1.0]],
        },
    ),
    (neural_ode(), {"network.adjoint": ["true", "truncated"], "network.steps": [2, 4]}),
    (neural_ode(), {"network.field.coefficients": [[[0, 0], [0, 0.5]], [[0, 0], [0, 0.8]]]}),
    (neural_ode(), {"data.task.time": [None, 2.0], "network.confinement": ["linear", 1.0]}),
]


@pytest.mark.parametrize(("made", "over"), FIELDS)
def test_any_field_can_be_swept(made, over, counted):
    swept = ld.sweep(made, over)
    for index in np.ndindex(*(len(values) for values in over.values())):
        values = {path: over[path][i] for path, i in zip(over, index, strict=True)}
        assert set(swept["test_loss"].values[index]) == {number_of(changed(made, values))}
    assert len(counted.computed) == swept["error"].size
    assert swept.evidence["computed"] == swept["error"].size
    assert [len(v) for v in swept.over.values()] == [len(v) for v in over.values()]


def test_an_axis_that_is_called_as_an_observable_has_the_whole_path(stand_in):
    swept = ld.sweep(linear(), {"network.depth": [1, 2]}, observables=["C_v"])
    assert swept.axes == ["depth"]
    stand_in(formula=lambda problem, times: {"Q": problem.network.Q[0, 0] * np.ones(len(times))})
    swept = ld.sweep(two_layer(), {"network.Q": [[[0.5]], [[0.6]]], "network.R": [[[0.1]]]})
    assert swept.axes == ["network.Q", "R"]
    assert swept["Q"].dims == ("network.Q", "R", "time")
    np.testing.assert_array_equal(swept["Q"].values[:, 0, 0], [0.5, 0.6])


def test_trainings_of_different_length_share_an_axis_with_nothing_after_the_end():
    swept = ld.sweep(linear(), {"training.steps": [4, 6]}, observables=["test_loss", "C_v"])
    np.testing.assert_array_equal(swept["step"], np.arange(7))
    for steps in (4, 6):
        single, point = ld.solve(linear(steps=steps)), swept.data.sel(steps=steps)
        inside = slice(None, steps + 1)
        np.testing.assert_array_equal(point["test_loss"][inside], single["test_loss"])
        np.testing.assert_array_equal(point["C_v"][inside, :, inside], single["C_v"])
        assert np.isnan(point["test_loss"][steps + 1 :]).all()
        assert np.isnan(point["C_v"][steps + 1 :]).all()
        assert np.isnan(point["C_v"][:, steps + 1 :]).all()


def test_recorded_steps_that_lie_between_each_other_are_put_in_order():
    swept = ld.sweep(linear(), {"training.steps": [9, 6]}, save_at=4, observables="test_loss")
    np.testing.assert_array_equal(swept["step"], [0, 2, 3, 4, 6, 9])
    for steps in (9, 6):
        single = ld.solve(linear(steps=steps), save_at=4)["test_loss"]
        point = swept["test_loss"].sel(steps=steps).dropna("step")
        np.testing.assert_array_equal(point["step"], single["step"])
        np.testing.assert_array_equal(point, single)


def test_layers_of_different_number_share_an_axis():
    swept = ld.sweep(linear(), {"network.depth": [1, 3]})
    np.testing.assert_array_equal(swept["layer"], [1, 2, 3])
    shallow = swept["C_h"].sel(depth=1)
    deep = ld.solve(changed(linear(), {"network.depth": 3}))
    np.testing.assert_array_equal(swept["C_h"].sel(depth=3), deep["C_h"])
    assert np.isfinite(shallow.sel(layer=1)).all()
    assert np.isnan(shallow.sel(layer=[2, 3])).all()


def test_a_curve_that_diverges_ends_where_its_own_solution_does():
    swept = ld.sweep(linear(steps=60), {"training.learning_rate": [0.02, 50.0]})
    single = ld.solve(linear(rate=50.0, steps=60))
    assert single.diverged_at is not None
    assert np.isnan(swept["diverged_at"][0])
    assert swept["diverged_at"][1] == single.diverged_at
    reached = single["step"].size
    np.testing.assert_array_equal(swept["test_loss"][1, :reached], single["test_loss"])
    assert np.isnan(swept["test_loss"][1, reached:]).all()
    assert np.isfinite(swept["test_loss"][0]).all()
    assert set(swept["error"].values.tolist()) == {""}


@pytest.mark.parametrize("seeds", [1, 3])
def test_runs_are_seed_by_seed_those_of_simulate(seeds):
    runs = {"size": 20, "seeds": seeds, "first_seed": 2}
    swept = over_rates(simulate=runs, save_at=3, workers=2)
    assert swept["test_loss_runs"].dims == ("learning_rate", "seed", "step")
    np.testing.assert_array_equal(swept["seed"], np.arange(2, 2 + seeds))
    assert {"test_loss", "test_loss_runs", "error_runs", "wall_time_runs"} <= set(swept.data)
    for rate in RATES:
        single = ld.simulate(linear(rate=rate), 20, seeds, first_seed=2, save_at=3)
        for name in map(str, single.data.data_vars):
            np.testing.assert_array_equal(
                swept[f"{name}_runs"].sel(learning_rate=rate), single[name]
            )
    assert swept.evidence["computed"] == 2 * len(RATES)
    alone = over_rates(simulate=runs, save_at=3, solve=False)
    assert "test_loss" not in alone.data
    assert alone.evidence["computed"] == len(RATES)
    np.testing.assert_array_equal(alone["test_loss_runs"], swept["test_loss_runs"])


def test_standard_errors_of_sampled_theories_are_carried_along(tmp_path):
    made = ld.Problem(ld.Wide(1, "tanh"), ld.Points.random(3, 4), ld.GradientDescent(0.1, steps=3))
    method = ld.SampledLayers(samples=64, batches=3)
    options = {"method": method, "observables": ["train_loss"], "seed": 5}
    over = {"network.richness": [0.5, 1.0]}
    swept = ld.sweep(made, over, store=tmp_path, **options)
    assert swept.observables == ["train_loss"]
    for richness in over["network.richness"]:
        single = ld.solve(changed(made, {"network.richness": richness}), method, seed=5)
        point = swept.data.sel(richness=richness)
        np.testing.assert_array_equal(point["train_loss"], single["train_loss"])
        error = point["train_loss_standard_error"]
        np.testing.assert_array_equal(error, single.standard_error("train_loss"))
        assert (error[1:] > 0).all()
        assert error.attrs["standard_error_of"] == "train_loss"
    again = ld.sweep(made, over, store=tmp_path, **options)
    assert again.evidence["reused"] == 2
    xr.testing.assert_identical(again.data, swept.data)


def test_finished_points_are_reused_and_only_new_ones_computed(tmp_path, counted):
    over_rates(store=tmp_path)
    assert len(counted.computed) == 3
    more = ld.sweep(linear(), {"training.learning_rate": [0.05, *RATES]}, store=tmp_path)
    assert [problem.training.learning_rate for problem in counted.computed[3:]] == [0.05]
    assert (more.evidence["computed"], more.evidence["reused"]) == (1, 3)
    for rate in (0.05, *RATES):
        assert set(more["test_loss"].sel(learning_rate=rate).values) == {
            number_of(linear(rate=rate))
        }
    over_rates(store=tmp_path, seed=1)
    assert len(counted.computed) == 7


def test_a_finished_sweep_is_read_again_as_it_was(tmp_path):
    options = {"simulate": {"size": 20, "seeds": 2}, "store": tmp_path}
    first, again = over_rates(**options), over_rates(**options)
    assert (again.evidence["computed"], again.evidence["reused"]) == (0, 6)
    xr.testing.assert_identical(again.data, first.data)
    xr.testing.assert_identical(
        without_times(again), without_times(over_rates(simulate=options["simulate"]))
    )


@pytest.mark.parametrize("content", [b"", b"garbage\n", None])
def test_a_damaged_point_is_computed_again(tmp_path, counted, content):
    first = over_rates(store=tmp_path)
    path = sorted(tmp_path.glob("*/*.point"))[1]
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] if content is None else content)
    again = over_rates(store=tmp_path)
    counts = {key: again.evidence[key] for key in ("computed", "reused", "damaged", "failed")}
    assert counts == {"computed": 1, "reused": 2, "damaged": 1, "failed": 0}
    assert len(counted.computed) == 4
    xr.testing.assert_identical(without_times(again), without_times(first))
    assert path.with_suffix(".damaged").exists()
    assert over_rates(store=tmp_path).evidence["damaged"] == 0


def gives_up(problem):
    if problem.training.learning_rate == RATES[1]:
        raise NotConverged("it gave up; try a smaller rate")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_point_that_fails_is_recorded_and_the_others_are_computed(tmp_path, counted, workers):
    counted.before = gives_up
    swept = over_rates(store=tmp_path, workers=workers)
    assert swept["error"].values.tolist() == ["", "it gave up; try a smaller rate", ""]
    assert swept.evidence["failed"] == 1
    assert np.isfinite(swept["test_loss"][[0, 2]]).all()
    assert np.isnan(swept["test_loss"][1]).all()
    table = swept.failures
    assert list(table.columns) == ["learning_rate", "what", "error"]
    assert table.values.tolist() == [[0.02, "theory", "it gave up; try a smaller rate"]]
    counted.before = lambda problem: None
    again = over_rates(store=tmp_path)
    assert len(counted.computed) == 3
    assert (again.evidence["reused"], again.evidence["failed"]) == (3, 1)
    xr.testing.assert_identical(again.data, swept.data)
    retried = over_rates(store=tmp_path, retry_failed=True)
    assert [problem.training.learning_rate for problem in counted.computed[3:]] == [0.02]
    assert retried.failures.empty
    assert (retried.evidence["computed"], retried.evidence["failed"]) == (1, 0)
    assert over_rates(store=tmp_path).evidence["failed"] == 0
    assert len(counted.computed) == 4


def test_an_error_of_another_kind_is_recorded_with_its_kind(counted):
    def divide(problem):
        raise ZeroDivisionError("by zero")

    counted.before = divide
    swept = over_rates()
    assert set(swept["error"].values.tolist()) == {"ZeroDivisionError: by zero"}
    assert swept.observables == []
    assert len(swept.failures) == 3


def test_runs_can_fail_where_the_theory_does_not():
    over = {"network.width": [0.8, math.inf]}
    swept = ld.sweep(linear(), over, simulate=20)
    assert swept["error"].values.tolist() == ["", ""]
    assert "width" in swept["error_runs"].values[1]
    assert swept.failures[["width", "what"]].values.tolist() == [[math.inf, "simulation"]]
    assert np.isnan(swept["test_loss_runs"].sel(width=math.inf)).all()
    assert np.isfinite(swept["test_loss_runs"].sel(width=0.8)).all()
    assert np.isfinite(swept["test_loss"]).all()


def test_ctrl_c_keeps_what_was_finished(tmp_path, counted):
    def interrupt(problem):
        if problem.training.learning_rate == RATES[2]:
            raise KeyboardInterrupt

    counted.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        over_rates(store=tmp_path, workers=1)
    counted.before = lambda problem: None
    counted.computed.clear()
    kept = len(list(tmp_path.glob("*/*.point")))
    assert kept == 2
    assert over_rates(store=tmp_path).evidence["reused"] == 2
    assert len(counted.computed) == 1


REFUSED = [
    ({"training.learning_rte": [0.1]}, {}, r"did you mean 'training\.learning_rate'"),
    ({"training": [0.1]}, {}, "is not a field"),
    ({"training.learning_rate": []}, {}, "at least one value"),
    ({"training.learning_rate": [0.1, 0.1]}, {}, "twice"),
    ({"training.learning_rate": [0.1, -1.0]}, {}, r"learning_rate = -1\.0"),
    ({"network.depth": [1, 2.5]}, {}, "depth"),
    ({"network.activation": ["erf"]}, {}, "is not a field"),
    ({}, {}, "over"),
    ({"network.depth": [1]}, {"solve": False}, "nothing to do"),
    ({"network.depth": [1]}, {"simulate": {"size": 0}}, "size"),
    ({"network.depth": [1]}, {"workers": 0}, "workers"),
    ({"network.depth": [1]}, {"seed": -1}, "seed"),
    ({"network.depth": [1]}, {"method": ld.OrderParameterODE()}, "method"),
    ({"network.depth": [1]}, {"save_at": [0, 1000]}, "save_at"),
    ({"network.depth": [1]}, {"save_at": "often"}, "save_at"),
    ({"training.steps": [9, 6]}, {"save_at": [0, 9]}, "between 0 and 6"),
]


@pytest.mark.parametrize(("over", "options", "words"), REFUSED)
def test_everything_is_checked_before_anything_runs(tmp_path, counted, over, options, words):
    with pytest.raises(ProblemError, match=words):
        ld.sweep(linear(), over, store=tmp_path / "store", **options)
    assert counted.computed == []
    assert not (tmp_path / "store").exists()


def test_a_path_within_another_and_a_function_with_a_store_are_refused(tmp_path, counted):
    over = {"training.learning_rate": [0.1], "training.learning_rate.rate": [0.2]}
    with pytest.raises(ProblemError, match="lies within"):
        ld.sweep(linear(rate=DECAY), over, store=tmp_path / "store")
    with pytest.raises(ProblemError, match="Formula"):
        ld.sweep(two_layer(), {"network.activation": [jnp.tanh]}, store=tmp_path / "store")
    assert counted.computed == []
    assert not (tmp_path / "store").exists()


def test_an_unknown_observable_is_an_error_and_leaves_nothing_behind(tmp_path):
    for workers in (1, 2):
        with pytest.raises(UnknownObservable, match="did you mean 'test_loss'"):
            over_rates(observables=["test_lss"], store=tmp_path, workers=workers)
    assert list(tmp_path.glob("*/*.point")) == []


def test_only_the_wanted_observables_and_their_axes_are_there():
    swept = over_rates(observables="test_loss")
    assert swept.observables == ["test_loss"]
    assert set(swept.data.dims) == {"learning_rate", "step"}


def test_a_saved_sweep_comes_back(tmp_path):
    over = {
        "network.richness": [0.5, 1.5],
        "network.parameterization": ["mup", "ntk"],
        "network.skip": [None, 1.0],
    }
    swept = ld.sweep(linear(), over, simulate={"size": 20, "seeds": 2})
    swept.save(tmp_path / "sweep.nc")
    found = ld.load_sweep(tmp_path / "sweep.nc")
    xr.testing.assert_identical(found.data, swept.data)
    assert found.problem == swept.problem
    assert found.over == swept.over
    assert found.evidence == swept.evidence
    assert found.axes == ["richness", "parameterization", "skip"]
    assert found.observables == swept.observables
    assert found.failures.equals(swept.failures)
    assert repr(found) == repr(swept)
    assert repr(found).startswith("Sweep over richness (2) × parameterization (2) × skip (2): ")
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.nc"]


def test_a_file_that_is_no_sweep_is_refused(tmp_path):
    with pytest.raises(FileError, match="it does not exist"):
        ld.load_sweep(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("text")
    with pytest.raises(FileError, match="not a NetCDF file"):
        ld.load_sweep(tmp_path / "text.nc")
    ld.solve(linear()).save(tmp_path / "solution.nc")
    with pytest.raises(FileError, match="not a sweep"):
        ld.load_sweep(tmp_path / "solution.nc")


def test_its_text_tells_axes_observables_and_counts():
    text = repr(over_rates(observables="test_loss", simulate=20))
    assert text == (
        "Sweep over learning_rate (3): test_loss, test_loss_runs; 6 computed, 0 reused, 0 failed"
    )

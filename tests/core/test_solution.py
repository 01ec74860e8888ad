import json
from functools import partial
from pathlib import Path

import jax.numpy as jnp
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from learndyn.core.solution import Solution, as_dataset, load
from learndyn.errors import FileError, LearndynError, ProblemError, UnknownObservable
from learndyn.problem.activations import Custom
from learndyn.problem.problem import Problem
from tests import problems
from tests.fakes import Bare, curves, observable

TIMES = np.linspace(0.0, 2.0, 5)
make_problem = partial(problems.two_layer, rate=0.1, time=2.0)

PROBLEM = make_problem()


def make_theory(problem=PROBLEM, **evidence):
    rng = np.random.default_rng(0)
    loss = {"long_name": "test loss ½⟨(y − ŷ)²⟩", "convention": "clean labels"}
    data = xr.Dataset(
        {
            "test_loss": ("time", rng.random(5), loss),
            "Q": (("time", "student", "student2"), rng.random((5, 2, 2)), {"long_name": "Q"}),
        },
        {"time": ("time", TIMES, {"long_name": "time t = steps / N"}), "student": [0, 1]},
    )
    return Solution(data, problem, {"kind": "theory", "theory": "a", **evidence})


def make_runs(seeds=3):
    values = np.random.default_rng(1).random((seeds, 5))
    data = xr.Dataset({"test_loss": (("seed", "time"), values)})
    data = data.assign_coords(seed=np.arange(4, 4 + seeds), time=TIMES)
    return Solution(data, PROBLEM, {"kind": "simulation", "size": 30, "seeds": [4, 5, 6]})


def assert_same(a: Solution, b: Solution):
    assert a.data.identical(b.data)
    assert list(a.data.data_vars) == list(b.data.data_vars)
    for name, variable in a.data.variables.items():
        assert variable.dims == b.data.variables[name].dims
        assert variable.dtype == b.data.variables[name].dtype
    assert a.problem == b.problem
    assert a.evidence == b.evidence
    assert a.diverged_at == b.diverged_at


def test_saving_loses_nothing(tmp_path):
    data = xr.Dataset(
        {
            "zeta": (
                ("seed", "step", "mode"),
                np.arange(12.0).reshape(2, 3, 2),
                {"long_name": "ζ"},
            ),
            "alpha": (("seed", "step"), np.array([[np.nan, np.inf, -0.0], [1e-308, 1, 2]])),
            "flag": ("step", np.array([True, False, True]), {"scale_factor": 2, "list": [1, 2]}),
            "count": ("step", np.arange(3, dtype=np.int32), {"units": "days since 1970-01-01"}),
            "single": ("step", np.ones(3, np.float32)),
            "number": ((), 3.5, {"none": None, "yes": True, "one": 1, "text": ""}),
        },
        {
            "step": np.array([0, 10, 1000]),
            "seed": np.array([7, 2**40]),
            "mode": ["slow", "schnell ½"],
            "rate": ("step", np.array([0.1, 0.2, 0.3]), {"units": "1/s"}),
        },
        {"title": "a title"},
    )
    evidence = {"kind": "simulation", "size": 3, "a": {"b": [1, 2.5, None, "ö", True]}}
    solution = Solution(data, PROBLEM, evidence, diverged_at=7.25)
    solution.save(tmp_path / "a.nc")
    assert_same(load(tmp_path / "a.nc"), solution)
    assert np.signbit(load(tmp_path / "a.nc")["alpha"].values[0, 2])


def test_a_second_save_of_a_loaded_solution_loses_nothing(tmp_path):
    solution = make_runs()
    solution.save(tmp_path / "a.nc")
    load(tmp_path / "a.nc").save(tmp_path / "b.nc")
    assert_same(load(tmp_path / "b.nc"), solution)


@settings(max_examples=30)
@given(arrays(np.float64, st.tuples(st.integers(0, 3), st.integers(1, 3))))
def test_every_double_survives_bit_for_bit(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("bits") / "a.nc"
    data = xr.Dataset({"a": (("time", "mode"), values)}, {"time": np.arange(len(values)) / 2})
    Solution(data, PROBLEM, {"kind": "theory"}).save(path)
    loaded = load(path)["a"].values
    assert loaded.shape == values.shape
    assert loaded.tobytes() == values.tobytes()


def test_a_loaded_solution_does_not_need_its_file(tmp_path):
    make_theory().save(tmp_path / "a.nc")
    loaded = load(tmp_path / "a.nc")
    (tmp_path / "a.nc").unlink()
    assert loaded["Q"].sum() > 0


def test_other_readers_see_what_an_array_is(tmp_path):
    make_theory().save(tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc") as file:
        assert file["test_loss"].attrs == {
            "long_name": "test loss ½⟨(y − ŷ)²⟩",
            "convention": "clean labels",
        }
        assert Problem.from_text(file.attrs["problem"]) == PROBLEM
        assert json.loads(file.attrs["evidence"])["kind"] == "theory"


def test_texts_larger_than_an_hdf5_attribute_are_saved(tmp_path):
    solution = make_theory(make_problem(units=60), trace=list(range(50_000)))
    assert len(solution.problem.to_text()) > 2**16
    solution.save(tmp_path / "a.nc")
    assert_same(load(tmp_path / "a.nc"), solution)


def test_a_result_with_a_python_function_is_not_lost(tmp_path):
    solution = make_theory(make_problem(activation=Custom(lambda z: jnp.tanh(z), "mine")))
    solution.save(tmp_path / "a.nc")
    loaded = load(tmp_path / "a.nc")
    assert loaded.data.identical(solution.data)
    assert loaded.problem.network.activation.name == "mine"
    with pytest.raises(ProblemError, match="function"):
        loaded.problem.network.activation(0.5)


def test_a_flipped_bit_in_the_data_is_noticed(tmp_path):
    path = tmp_path / "a.nc"
    solution = make_theory()
    solution.save(path)
    whole = path.read_bytes()
    start = whole.index(solution["Q"].values.tobytes())
    for offset in (0, 77, 159):
        changed = bytearray(whole)
        changed[start + offset] ^= 1
        path.write_bytes(changed)
        with pytest.raises(FileError, match=r"a\.nc is damaged.*checksum"):
            load(path)


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("problem", "learning_rate = 0.1", "learning_rate = 0.2"),
        ("evidence", "1e-09", "1e-08"),
        ("attributes", "steps / N", "steps / M"),
        ("diverged_at", "null", "1.0"),
    ],
)
def test_a_text_that_was_changed_in_the_file_is_noticed(tmp_path, key, old, new):
    path = tmp_path / "a.nc"
    make_theory(accuracy={"Q": 1e-9}).save(path)
    with netCDF4.Dataset(path, "a") as file:
        text = file.getncattr(key)
        assert old in text
        file.setncattr(key, text.replace(old, new))
    with pytest.raises(FileError, match=r"a\.nc is damaged.*checksum"):
        load(path)


def test_a_flipped_bit_anywhere_changes_nothing_or_is_noticed(tmp_path):
    path = tmp_path / "a.nc"
    solution = make_theory()
    solution.save(path)
    whole = path.read_bytes()
    noticed = 0
    for position in range(3, len(whole), len(whole) // 80):
        changed = bytearray(whole)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        try:
            assert_same(load(path), solution)
        except FileError:
            noticed += 1
    assert noticed > 10


def test_a_truncated_file_is_noticed(tmp_path):
    path = tmp_path / "a.nc"
    make_theory().save(path)
    whole = path.read_bytes()
    for length in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FileError, match=r"a\.nc is (damaged|not a NetCDF)"):
            load(path)


def test_a_file_of_something_else_is_named_as_such(tmp_path):
    (tmp_path / "text.nc").write_text("time,loss\n0,1\n")
    with pytest.raises(FileError, match=r"text\.nc is not a NetCDF file"):
        load(tmp_path / "text.nc")
    make_theory().data.to_netcdf(tmp_path / "other.nc", engine="netcdf4")
    with pytest.raises(FileError, match=r"other\.nc is a NetCDF file, but not a solution"):
        load(tmp_path / "other.nc")
    with pytest.raises(FileError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(FileError, match=r"missing\.nc: it does not exist"):
        load(tmp_path / "missing.nc")


def test_a_file_of_a_later_format_says_so(tmp_path):
    make_theory().save(tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file.format_version = 9
    with pytest.raises(FileError, match="version 9, but this learndyn reads version 1 and 2 and 3"):
        load(tmp_path / "a.nc")


class Alien(Problem):
    """A problem of another package."""

    def to_text(self):
        return "[network]\nkind = 'alien'\n[data]\n"


def test_an_unknown_kind_of_problem_in_a_file_is_explained(tmp_path):
    alien = Alien(PROBLEM.network, PROBLEM.data, PROBLEM.training)
    make_theory(alien).save(tmp_path / "a.nc")
    with pytest.raises(FileError, match="import it first"):
        load(tmp_path / "a.nc")


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.nc"
    make_theory().save(path)
    before = path.read_bytes()

    def fail(*_, **__):
        raise RuntimeError("NetCDF: HDF error")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", fail)
    with pytest.raises(FileError, match="HDF error"):
        make_runs().save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_that_cannot_be_written_or_values_that_cannot_be_stored_are_refused(tmp_path):
    with pytest.raises(FileError, match="cannot write"):
        make_theory().save(tmp_path / "nowhere" / "a.nc")
    data = make_theory().data.assign(z=("time", np.ones(5) * 1j))
    with pytest.raises(FileError, match="z holds complex128"):
        Solution(data, PROBLEM, {"kind": "theory"}).save(tmp_path / "a.nc")
    assert not list(tmp_path.iterdir())


def test_a_misspelt_observable_is_answered_with_the_nearest_one():
    theory = make_theory()
    for kind in (LearndynError, KeyError):
        with pytest.raises(kind) as caught:
            theory["test_los"]
        assert str(caught.value).startswith("no observable 'test_los'; did you mean 'test_loss'?")
    assert "test_loss" in theory
    assert "test_los" not in theory


def test_a_simulation_knows_its_seeds_and_size_and_a_theory_has_none():
    theory, runs = make_theory(), make_runs()
    assert (theory.axis, theory.is_simulation, theory.seeds, theory.size) == (
        "time",
        False,
        None,
        None,
    )
    assert (runs.axis, runs.is_simulation, runs.size) == ("time", True, 30)
    assert runs.seeds is not None
    assert runs.seeds.tolist() == [4, 5, 6]
    over_steps = theory.data.rename(time="step")
    assert Solution(over_steps, PROBLEM, {"kind": "theory"}).axis == "step"


def test_inconsistent_solutions_cannot_be_made():
    data = make_theory().data
    with pytest.raises(ValueError, match="'theory' or 'simulation'"):
        Solution(data, PROBLEM, {})
    with pytest.raises(ValueError, match="axis seed"):
        Solution(data, PROBLEM, {"kind": "simulation"})
    with pytest.raises(ValueError, match="time or step"):
        Solution(data.rename(time="epoch"), PROBLEM, {"kind": "theory"})
    with pytest.raises(TypeError, match="not plain data"):
        Solution(data, PROBLEM, {"kind": "theory", "where": Path()})


def test_numbers_of_numpy_and_jax_become_plain_ones():
    data = xr.Dataset({"a": ("time", jnp.ones(3))}, {"time": np.arange(3.0)})
    evidence = {"kind": "theory", "x": np.float64(1.5), "n": np.arange(2), "t": (1, 2)}
    solution = Solution(data, PROBLEM, evidence)
    assert type(solution["a"].values) is np.ndarray
    assert solution.evidence == {"kind": "theory", "x": 1.5, "n": [0, 1], "t": [1, 2]}


def test_the_table_has_one_row_for_every_number():
    theory, runs = make_theory(), make_runs()
    table = theory.table()
    assert list(table.columns) == ["observable", "time", "student", "student2", "value"]
    assert len(table) == 5 + 5 * 2 * 2
    row = table.query("observable == 'Q' and time == 1.0 and student == 1 and student2 == 0")
    assert row["value"].item() == theory["Q"].values[2, 1, 0]
    assert np.all(table.query("observable == 'test_loss'")["student"].isna())
    table = runs.table("test_loss")
    assert list(table.columns) == ["observable", "seed", "time", "value"]
    assert (
        table.query("seed == 5 and time == 2.0")["value"].item() == runs["test_loss"].values[1, 4]
    )
    assert "0,1" in theory.table(["Q"]).to_csv(index=False)
    with_number = Solution(theory.data.assign(limit=3.5), PROBLEM, {"kind": "theory"})
    assert with_number.table(["limit", "test_loss"])["value"].tolist()[0] == 3.5


def test_the_text_of_a_solution_says_what_it_is():
    theory = make_theory(method={"kind": "ode", "tolerance": 1e-9}, wall_time=1.5)
    text = repr(theory)
    for words in ("TwoLayer on Stream", "Q (time: 5, student: 2, student2: 2)", "ode", "1.5 s"):
        assert words in text
    assert len(text.splitlines()) < 10
    runs = Solution(make_runs().data, PROBLEM, {"kind": "simulation", "size": 30}, 1.5)
    assert "3 seeds at size 30" in repr(runs)
    assert "diverged at time 1.5" in repr(runs)
    assert "TwoLayer on Stream" in theory._repr_html_()


def make_sampled():
    """A theory that was sampled, with numbers for the whole curve beside its curves."""
    rng = np.random.default_rng(2)
    two = ("time", "student", "student2")
    observables = {
        "test_loss": observable(("time",), rng.random(5), "test loss", error=0.01 * TIMES),
        "Q": observable(two, rng.random((5, 2, 2)), "Q", error=0.1 * rng.random((5, 2, 2))),
        "exact": observable(("time",), rng.random(5), "not sampled"),
        "train_drop": observable((), 8.5, "time of the drop", judged=False, error=0.02),
        "test_drop": observable((), np.nan, "never", judged=False, error=np.nan),
    }
    return Solution(as_dataset(curves(observables, TIMES), Bare()), PROBLEM, {"kind": "theory"})


def test_standard_errors_stand_beside_their_observables_and_are_none_themselves(tmp_path):
    sampled = make_sampled()
    sampled.save(tmp_path / "a.nc")
    assert_same(load(tmp_path / "a.nc"), sampled)
    for solution in (sampled, load(tmp_path / "a.nc")):
        assert solution.observables == ["test_loss", "Q", "exact", "train_drop", "test_drop"]
        np.testing.assert_array_equal(solution.standard_error("test_loss"), 0.01 * TIMES)
        error = solution.standard_error("Q")
        assert error is not None
        assert error.identical(solution["Q_standard_error"])
        assert error.dims == solution["Q"].dims
        assert error.attrs == {
            "long_name": "standard error of Q",
            "standard_error_of": "Q",
        }
        assert solution.standard_error("train_drop") == 0.02
        assert solution.standard_error("exact") is None
        for unknown in ("test_los", "Q_standard_error", "time"):
            with pytest.raises(UnknownObservable, match="no observable"):
                solution.standard_error(unknown)
    assert make_theory().standard_error("Q") is None
    assert make_runs().standard_error("test_loss") is None


def test_the_table_of_a_sampled_theory_has_its_observables_only_unless_asked():
    sampled = make_sampled()
    table = sampled.table()
    assert list(table.columns) == ["observable", "time", "student", "student2", "value"]
    assert list(table["observable"].unique()) == sampled.observables
    assert len(table) == 5 + 20 + 5 + 1 + 1
    assert sampled.table("test_loss_standard_error")["value"].tolist() == (0.01 * TIMES).tolist()


def test_the_text_of_a_sampled_theory_says_how_well_it_is_known():
    text = repr(make_sampled())
    for words in (
        "test_loss (time: 5) ± 0.02 at most  test loss",
        "exact (time: 5)  not sampled",
        "train_drop = 8.5 ± 0.02  time of the drop",
        "test_drop = nan  never",
    ):
        assert words in text
    assert "standard_error" not in text


def test_an_error_of_another_shape_than_its_values_is_refused():
    wrong = {"a": observable(("time",), np.ones(5), "a", error=0.1)}
    with pytest.raises(ValueError, match="a has the shape"):
        curves(wrong, TIMES)

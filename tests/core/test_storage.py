"""Files of learndyn 0.1 and 0.2 load in today's conventions, and sweeps and points are checked as solutions are."""

import json
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

import learndyn as ld
from learndyn.core import storage
from learndyn.errors import FileError

DATA = Path(__file__).parent / "data"
FEW = ld.CausalSampling(samples=16, batches=2)
AT = [0, 2, 4]


def assert_same_arrays(old: xr.Dataset, new: xr.Dataset, names=None):
    """Names, axes, values to the last digit or two, and words."""
    for name in names or new.data_vars:
        assert old[name].dims == new[name].dims
        np.testing.assert_allclose(old[name], new[name], rtol=1e-12, atol=1e-14)
        assert old[name].attrs == new[name].attrs


def test_a_solution_of_version_1_is_what_is_solved_today():
    """The dataset's losses have a half now, its overlaps are called R, and the deep linear outputs have axes."""
    old = ld.load(DATA / "two-layer-0.1.nc")
    # What later versions measure too is not in the file.
    assert_same_arrays(old.data, ld.solve(old.problem, FEW, save_at=AT).data, old.observables)
    assert "A" not in old
    old = ld.load(DATA / "deep-linear-0.1.nc")
    assert_same_arrays(old.data, ld.solve(old.problem).data, old.observables)
    assert old["C_h"].dims == ("layer", "step", "output", "step2", "output2")


def test_runs_of_version_1_are_what_is_trained_today():
    old = ld.load(DATA / "two-layer-runs-0.1.nc")
    assert_same_arrays(old.data, ld.simulate(old.problem, 12, 2, save_at=AT).data, old.observables)
    theory = ld.solve(old.problem, save_at=AT)
    assert "R" in ld.compare(theory, old).table.index


def test_a_sweep_of_version_1_is_what_is_swept_today():
    old = ld.load_sweep(DATA / "sweep-0.1.nc")
    given = {"method": FEW, "save_at": [0, 4], "simulate": {"size": 12, "seeds": 2}}
    new = ld.sweep(old.problem, old.over, observables=["test_loss", "R"], **given)
    names = new.observables
    assert_same_arrays(old.data, new.data, names)
    assert old.axes == new.axes


def test_a_solution_of_version_2_has_its_task_in_the_data():
    old = ld.load(DATA / "neural-ode-0.2.nc")
    seen = ld.Observations([0.2, 0.4], visible=0.8)
    flow = ld.TeacherFlow(time=0.8, noise=0.1, observations=seen, chained=True)
    assert old.problem.data == ld.Stream(flow, batch=1)
    assert_same_arrays(old.data, ld.solve(old.problem).data)


def test_a_solution_that_was_converted_saves_as_one_of_today(tmp_path):
    old = ld.load(DATA / "two-layer-0.1.nc")
    old.save(tmp_path / "new.nc")
    again = ld.load(tmp_path / "new.nc")
    assert again.data.identical(old.data)
    with netCDF4.Dataset(tmp_path / "new.nc") as file:
        assert file.format_version == storage.VERSION


@pytest.fixture
def saved(tmp_path) -> Path:
    """A saved sweep."""
    problem = ld.load(DATA / "deep-linear-0.1.nc").problem
    path = tmp_path / "sweep.nc"
    ld.sweep(problem, {"training.learning_rate": [0.1, 0.2]}, observables="test_loss").save(path)
    return path


def test_a_sweep_that_was_changed_in_its_file_is_noticed(saved):
    whole = saved.read_bytes()
    values = ld.load_sweep(saved)["test_loss"].values.tobytes()
    changed = bytearray(whole)
    changed[whole.index(values) + 5] ^= 1
    saved.write_bytes(changed)
    with pytest.raises(FileError, match=r"sweep\.nc is damaged.*checksum"):
        ld.load_sweep(saved)


@pytest.mark.parametrize("key", ["problem", "over", "evidence", "attributes"])
def test_a_text_of_a_sweep_that_was_changed_is_noticed(saved, key):
    with netCDF4.Dataset(saved, "a") as file:
        file.setncattr(key, file.getncattr(key) + " ")
    with pytest.raises(FileError, match=r"sweep\.nc is damaged.*checksum"):
        ld.load_sweep(saved)


def test_a_sweep_of_a_later_version_says_so(saved):
    with netCDF4.Dataset(saved, "a") as file:
        file.format_version = 7
    with pytest.raises(FileError, match="version 7, but this learndyn reads version 1 and 2 and 3"):
        ld.load_sweep(saved)


def test_files_of_one_kind_are_not_read_as_another(saved):
    with pytest.raises(FileError, match="not a solution saved by learndyn"):
        ld.load(saved)
    with pytest.raises(FileError, match="not a sweep saved by learndyn"):
        ld.load_sweep(DATA / "deep-linear-0.1.nc")


def test_a_point_comes_back_as_it_was_and_a_point_of_another_version_is_put_aside(tmp_path):
    path = tmp_path / "a.point"
    arrays = {"x": xr.Variable(("step", "unit"), np.arange(6.0).reshape(3, 2), {"long_name": "x"})}
    labels = {"step": xr.Variable(("step",), np.array([0, 4, 9]), {"long_name": "step"})}
    storage.save_point(path, storage.Point(arrays, labels, {"wall_time": 0.5}))
    damaged = []
    found = storage.load_point(path, lambda: damaged.append(1))
    assert found is not None
    assert found.arrays["x"].identical(arrays["x"])
    assert found.labels["step"].identical(labels["step"])
    assert found.info == {"wall_time": 0.5}
    assert storage.load_point(tmp_path / "none.point", lambda: damaged.append(1)) is None
    assert not damaged
    path.write_bytes(path.read_bytes().replace(b"point 3", b"point 1"))
    assert storage.load_point(path, lambda: damaged.append(1)) is None
    assert damaged == [1]


def test_evidence_of_version_1_is_typed():
    evidence = ld.load(DATA / "two-layer-0.1.nc").evidence
    assert evidence.kind == "theory"
    assert evidence.size_symbol == evidence["size_symbol"] == "D"
    assert evidence.rest["samples"] == evidence["samples"] == 16
    assert json.loads(json.dumps(dict(evidence))) == evidence

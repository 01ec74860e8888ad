"""The store: entries are whole or not there, damage is found, and writers do not disturb each other."""

import concurrent.futures
import os
import stat
import threading

import numpy as np
import pytest
import xarray as xr

from learndyn.core.storage import Point
from learndyn.errors import FileError
from learndyn.sweeps.store import Store

KEY, OTHER = "ab" + "0" * 62, "cd" + "1" * 62


def result(value=1.0, size=5):
    times = np.linspace(0, 1, size)
    arrays = {
        "test_loss": xr.Variable(("time",), value * np.exp(-times), {"long_name": "loss ½⟨ε²⟩"}),
        "Q": xr.Variable(("time", "student"), np.ones((size, 2)), {"units": "1", "judged": 0}),
    }
    labels = {
        "time": xr.Variable(("time",), times, {"long_name": "time t"}),
        "student": xr.Variable(("student",), np.arange(2)),
    }
    info = {"diverged_at": None, "evidence": {"accuracy": {"Q": 1e-300}}, "wall_time": 0.1 + 0.2}
    return Point(arrays, labels, info)


def same(found, expected):
    assert found.info == expected.info
    for some, others in zip(found[:2], expected[:2], strict=True):
        assert list(some) == list(others)
        for name in others:
            assert some[name].identical(others[name])
            assert some[name].dtype == others[name].dtype


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_result_comes_back_as_it_was(tmp_path):
    Store(tmp_path).put(KEY, result())
    same(Store(tmp_path).get(KEY), result())
    assert Store(tmp_path).get(OTHER) is None


def test_a_failure_comes_back_as_it_was(tmp_path):
    failed = Point({}, {}, {"error": "no", "wall_time": 0.0})
    Store(tmp_path).put(KEY, failed)
    same(Store(tmp_path).get(KEY), failed)


def test_values_that_are_no_numbers_single_values_and_none_at_all_come_back(tmp_path):
    arrays = {
        "none": xr.Variable(("time", "seed"), np.zeros((0, 2))),
        "x": xr.Variable((), np.nan),
        "y": xr.Variable(("seed",), [np.inf, -0.0]),
        "last": xr.Variable(("time",), np.zeros(0)),
    }
    labels = {
        "seed": xr.Variable(("seed",), [3, 4]),
        "word": xr.Variable(("word",), np.array(["a", "½\n"])),
    }
    odd = Point(arrays, labels, {"diverged_at": 2.0})
    store = Store(tmp_path)
    store.put(KEY, odd)
    found = store.get(KEY)
    assert found is not None
    same(found, odd)
    assert np.signbit(found.arrays["y"].values[1])


def test_a_second_result_takes_the_place_of_the_first(tmp_path):
    store = Store(tmp_path / "new" / "folder")
    store.put(KEY, result(1.0))
    store.put(KEY, result(2.0))
    same(store.get(KEY), result(2.0))
    assert files(tmp_path) == [f"{KEY}.point"]


def truncated(content):
    return content[: len(content) // 2]


def last_byte_missing(content):
    return content[:-1]


def byte_flipped_in_the_middle(content):
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def byte_flipped_in_the_checksum(content):
    return content[:30] + bytes([content[30] ^ 1]) + content[31:]


def longer(content):
    return content + b"\0"


def empty(content):
    return b""


def garbage(content):
    return b"\x00\xff\n" * 1000


DAMAGE = [
    truncated,
    last_byte_missing,
    byte_flipped_in_the_middle,
    byte_flipped_in_the_checksum,
    longer,
    empty,
    garbage,
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_found_counted_put_aside_and_written_anew(tmp_path, damage):
    store = Store(tmp_path)
    store.put(KEY, result())
    store.put(OTHER, result(3.0))
    path = store.path(KEY)
    broken = damage(path.read_bytes())
    path.write_bytes(broken)
    assert store.get(KEY) is None
    assert store.damaged == 1
    assert path.with_suffix(".damaged").read_bytes() == broken
    assert not path.exists()
    assert store.get(KEY) is None
    assert store.damaged == 1
    store.put(KEY, result(2.0))
    same(store.get(KEY), result(2.0))
    same(store.get(OTHER), result(3.0))


def test_a_damaged_entry_that_another_process_put_aside_first_is_no_error(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.put(KEY, result())
    path = store.path(KEY)
    path.write_bytes(b"")
    read = type(path).read_bytes

    def read_and_lose(self):
        content = read(self)
        self.unlink()
        return content

    monkeypatch.setattr(type(path), "read_bytes", read_and_lose)
    assert store.get(KEY) is None


def test_a_writer_that_ends_before_the_renaming_leaves_the_old_entry(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.put(KEY, result(1.0))

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        for key in (KEY, OTHER):
            with pytest.raises(KeyboardInterrupt):
                store.put(key, result(2.0))
    same(store.get(KEY), result(1.0))
    assert store.get(OTHER) is None
    assert files(tmp_path) == [f"{KEY}.point"]


def test_readers_and_writers_of_one_entry_never_see_a_part_of_it(tmp_path):
    """The entry is large (800 kB), so that a write in place would be seen half done."""
    big = result(size=100_000)
    stop = threading.Event()
    Store(tmp_path).put(KEY, big)

    def read():
        store, count = Store(tmp_path), 0
        while not stop.is_set():
            assert store.get(KEY) is not None
            count += 1
        return store.damaged, count

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        writers = [
            pool.submit(lambda: [Store(tmp_path).put(KEY, big) for _ in range(10)])
            for _ in range(2)
        ]
        try:
            for writer in writers:
                writer.result()
        finally:
            stop.set()
        for reader in readers:
            damaged, count = reader.result()
            assert damaged == 0
            assert count > 0
    assert files(tmp_path) == [f"{KEY}.point"]


def test_entries_can_be_read_by_those_who_may_read_new_files(tmp_path):
    store = Store(tmp_path)
    store.put(KEY, result())
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(store.path(KEY).stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_store_that_cannot_be_used_says_which_path(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="file"):
        Store(tmp_path / "file")
    store = Store(tmp_path / "store")
    (tmp_path / "store" / KEY[:2]).touch()
    with pytest.raises(FileError, match=KEY):
        store.put(KEY, result())
    store.path(OTHER).mkdir(parents=True)
    with pytest.raises(FileError, match=OTHER):
        store.get(OTHER)

"""Curves on labelled axes: cut, restricted, averaged, extrapolated, each by the names of the axes."""

import dataclasses

import numpy as np
import pytest

from learndyn.core.curves import Convention, Curves, Quantity, averaged, extrapolated
from learndyn.core.record import Record
from learndyn.errors import UnknownObservable

TABLE = (
    Quantity("loss", ("step",), "loss L", convention=Convention("with the half", half=True)),
    Quantity("C", ("layer", "step", "unit", "step2", "unit2"), "correlation C"),
    Quantity("drop", (), "when it drops", judged=False),
)
RECORD = Record("time", np.array([0.0, 0.5, 1.0, 2.0]))


def made(seed=0, record=RECORD, reached=None, **more) -> Curves:
    rng = np.random.default_rng(seed)
    n = len(record)
    # In another order than that of the table.
    arrays = {"drop": np.array(3.0), "C": rng.random((2, n, 3, n, 3)), "loss": rng.random(n)}
    return Curves(TABLE, record, arrays, reached, **more)


def test_what_goes_on_beyond_divergence_is_cut_along_both_axes_of_time():
    whole, cut = made(), made(reached=2)
    np.testing.assert_array_equal(cut["C"], whole["C"][:, :2, :, :2])
    np.testing.assert_array_equal(cut["loss"], whole["loss"][:2])
    assert cut["drop"] == 3.0
    assert cut.times.tolist() == [0.0, 0.5]
    assert (whole.diverged_at, cut.diverged_at) == (None, 1.0)
    assert whole.cut(2).diverged_at == 1.0
    assert whole.cut(9).count == 4


def test_observables_are_in_the_order_of_the_table():
    assert list(made().arrays) == ["loss", "C", "drop"]


def test_variables_have_the_axes_of_the_record_words_and_labels():
    labels = {"layer": np.array([1, 2])}
    errors = {"loss": np.full(4, 0.1)}
    arrays, axes = made(labels=labels, errors=errors).variables("time t")
    assert arrays["C"].dims == ("layer", "time", "unit", "time2", "unit2")
    assert arrays["loss"].attrs == {"long_name": "loss L", "convention": "with the half"}
    assert arrays["drop"].attrs == {"long_name": "when it drops", "judged": 0}
    assert arrays["loss_standard_error"].attrs["standard_error_of"] == "loss"
    np.testing.assert_array_equal(axes["time2"], RECORD.at)
    np.testing.assert_array_equal(axes["layer"], [1, 2])
    np.testing.assert_array_equal(axes["unit"], [0, 1, 2])
    assert axes["time"].attrs["long_name"] == "time t"


def test_the_states_of_a_smaller_record_are_taken_along_both_axes_of_time():
    whole = made(reached=3)
    few = whole.at(Record("time", np.array([0.0, 1.0, 2.0])))
    np.testing.assert_array_equal(few["C"], whole["C"][:, [0, 2]][:, :, :, [0, 2]])
    assert few.count == 2
    assert few.diverged_at == 2.0


def test_some_observables_are_kept_with_their_errors_and_batches():
    curves = made(errors={"loss": np.zeros(4)}).restricted(["loss"])
    assert list(curves.arrays) == list(curves.errors) == ["loss"]
    with pytest.raises(UnknownObservable, match="did you mean 'loss'"):
        curves.restricted(["los"])
    assert curves.restricted(None) is curves


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"other": np.zeros(4)}, "no observable 'other'"),
        ({"loss": np.zeros((4, 1))}, "has the shape"),
        ({"loss": np.zeros(3)}, "has only 3 of 4 states"),
    ],
)
def test_arrays_that_do_not_fit_the_table_are_refused(arrays, words):
    with pytest.raises((ValueError, UnknownObservable), match=words):
        Curves(TABLE, RECORD, arrays)


def test_the_mean_over_batches_has_their_spread_and_ends_where_the_first_of_them_does():
    batches = [made(seed) for seed in range(3)] + [made(3, reached=3)]
    mean = averaged(batches)
    losses = np.stack([batch["loss"][:3] for batch in batches])
    np.testing.assert_allclose(mean["loss"], losses.mean(axis=0))
    np.testing.assert_allclose(mean.errors["loss"], losses.std(axis=0, ddof=1) / 2)
    np.testing.assert_array_equal(mean.batches["loss"], losses)
    assert mean.count == 3


def test_differences_are_the_largest_at_the_states_that_both_reached():
    first, second = made(0), made(1, reached=3)
    found = first.differences(second)
    assert found["loss"] == np.max(np.abs(first["loss"][:3] - second["loss"]))
    assert found["drop"] == 0.0


def test_a_polynomial_in_the_step_is_extrapolated_to_none():
    """x(h) = x + ah + bh²: three grids remove both; the change is what the last order removed."""
    x, a, b = (made(seed) for seed in range(3))

    def at(h: float) -> Curves:
        arrays = {name: x[name] + h * a[name] + h**2 * b[name] for name in x.arrays}
        return dataclasses.replace(x, arrays=arrays)

    result = extrapolated([at(1.0), at(0.5), at(0.25)], aside=["drop"])
    for name in ("loss", "C"):
        np.testing.assert_allclose(result.curves[name], x[name], rtol=1e-12)
        # One order less, with the two finest steps, leaves −b h²/2 for h = 1/2.
        np.testing.assert_allclose(result.change[name], b[name] / 8, rtol=1e-11)
        assert not np.any(result.noise[name])
    assert result.curves["drop"] == at(0.25)["drop"]


def test_batches_are_extrapolated_one_by_one():
    """Noise that a batch has at every step is in none of the changes."""
    noise = np.random.default_rng(0).normal(size=(5, 4))

    def at(h: float) -> Curves:
        mean = averaged([made() for _ in range(5)])
        batches = {"loss": mean.batches["loss"] + noise + h}
        return dataclasses.replace(mean.restricted(["loss"]), batches=batches)

    result = extrapolated([at(1.0), at(0.5), at(0.25)])
    np.testing.assert_allclose(result.curves.batches["loss"], made()["loss"] + noise, rtol=1e-12)
    np.testing.assert_allclose(result.change["loss"], 0.0, atol=1e-14)
    np.testing.assert_allclose(
        result.curves.errors["loss"], noise.std(axis=0, ddof=1) / np.sqrt(5), rtol=1e-12
    )

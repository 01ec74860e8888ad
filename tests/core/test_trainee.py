"""The loop of all finite networks: what it keeps, where it ends, what it leaves alone."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.progressing import Diverged, Products, StepByStep, of_states


class Walker(StepByStep):
    """A vector that is multiplied by a factor at every step, and is lost beyond a size."""

    def __init__(self, factor=2.0, largest=np.inf, expected=0):
        super().__init__(expected)
        self.x, self.factor, self.largest = np.array([1.0, -2.0, 3.0]), factor, largest

    def step(self):
        self.x = self.factor * self.x
        if np.max(np.abs(self.x)) > self.largest:
            raise Diverged

    def measure(self):
        return {
            "largest": np.max(np.abs(self.x)),
            "C": Products(self.x[None]),
            "sum": Products(self.x[None], mean=False),
            "layers": Products([self.x[None], self.x[None, :2]]),
        }

    def finish(self, arrays):
        return arrays | {"count": np.array(len(arrays["largest"]))}


def quiet(state: float) -> None:
    pass


@pytest.mark.parametrize("expected", [0, 1, 4])
def test_states_are_kept_and_vectors_become_products_at_two_states(expected):
    """Room that is too small grows."""
    walker = Walker(expected=expected)
    assert walker.advance([0, 1, 3], quiet) == 3
    arrays = walker.arrays()
    np.testing.assert_array_equal(arrays["largest"], [3.0, 6.0, 24.0])
    scale = np.array([1.0, 2.0, 8.0])
    products = np.outer(scale, scale)
    np.testing.assert_allclose(arrays["C"][:, 0, :, 0], 14 / 3 * products)
    np.testing.assert_allclose(arrays["sum"][:, 0, :, 0], 14 * products)
    assert arrays["layers"].shape == (2, 3, 1, 3, 1)
    np.testing.assert_allclose(arrays["layers"][1, :, 0, :, 0], 5 / 2 * products)
    assert arrays["count"] == 3


def test_pieces_are_the_whole():
    whole, pieces = Walker(), Walker()
    whole.advance([0, 2, 3, 7], quiet)
    for state in (0, 2, 3, 7):
        assert pieces.advance([state], quiet) == 1
    for name, values in whole.arrays().items():
        np.testing.assert_array_equal(values, pieces.arrays()[name])


def test_a_curve_ends_where_training_diverges():
    walker = Walker(largest=20.0)
    assert walker.advance([0, 2, 3, 9], quiet) == 2
    assert walker.now == 2
    np.testing.assert_array_equal(walker.arrays()["largest"], [3.0, 12.0])


def test_the_present_can_be_observed_without_being_kept():
    walker = Walker()
    walker.advance([0, 2], quiet)
    present = walker.observe()
    np.testing.assert_array_equal(present["largest"], [12.0])
    assert present["C"].shape == (1, 1, 1, 1)
    assert walker.arrays()["count"] == 2


def test_a_first_state_that_does_not_exist_is_divergence():
    class Nothing(Walker):
        def begin(self):
            raise Diverged

    assert Nothing().advance([0, 1], quiet) == 0


def test_reports_are_of_every_step_and_may_stop_the_run():
    seen = []
    Walker().advance([0, 4], of_states(seen.append, 4))
    assert seen == [0.25, 0.5, 0.75, 1.0]
    third = []
    Walker().advance([2], of_states(third.append, 2, power=3))
    assert third == [0.125, 1.0]

    def stop(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Walker().advance([1], stop)


def test_what_a_network_does_not_offer_is_said_in_words():
    walker = Walker()
    for call in (walker.weights, lambda: walker.sample(3)):
        with pytest.raises(ld.LearndynError, match="network does not show"):
            call()

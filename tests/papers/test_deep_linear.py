"""What is recorded for the figures of the paper."""

import numpy as np
import pytest

from learndyn.papers import deep_linear as drawn


@pytest.mark.parametrize("log", [False, True])
def test_recorded_steps_increase_up_to_the_end_and_leave_out_0_on_a_logarithmic_axis(log):
    steps = drawn._steps(640, 150, log)
    assert steps[0] == int(log)
    assert steps[-1] == 640
    assert (np.diff(steps) > 0).all()

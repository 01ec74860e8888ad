"""The pictures of wide networks show what their captions say."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from learndyn.core.solve import solve
from learndyn.families.wide.solve import SampledLayers
from learndyn.papers import wide as drawn
from learndyn.papers import wide_features
from learndyn.papers import wide_panels as panels
from learndyn.papers.digits import ten_digits
from learndyn.problem.points import Points
from tests.papers.test_figures import drawn_tiny
from tests.pictured import along_x, along_y

# Pictures take minutes in all.
pytestmark = pytest.mark.slow


def test_the_alignment_is_the_cosine_over_the_last_axes():
    first = np.array([[[3.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]])
    second = np.array([[2.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(panels.cosine(first, second, 2), [1.0, np.sqrt(0.5)], rtol=1e-15)
    np.testing.assert_allclose(panels.cosine(-first, second, 2)[0], -1.0, rtol=1e-15)


def test_kernels_at_equal_times_and_their_traces_are_the_right_entries():
    kernel = np.random.default_rng(0).standard_normal((2, 3, 4, 3, 4))
    for t in range(3):
        np.testing.assert_array_equal(panels.equal_times(kernel)[:, t], kernel[:, t, :, t])
        for s in range(3):
            expected = np.trace(kernel[:, t, :, s], axis1=1, axis2=2)
            # Sums of four numbers in another order.
            np.testing.assert_allclose(panels.traced(kernel)[:, t, s], expected, atol=1e-15)
    order = np.array([2, 0, 3, 1])
    final = panels.final(kernel, order)
    assert final[1, 0, 3] == kernel[1, 2, 2, 2, 1]


def test_points_are_ordered_by_target():
    points = Points(np.eye(4), np.array([1.0, -1.0, 1.0, -1.0]))
    assert panels.by_target(points).tolist() == [1, 3, 0, 2]


def test_weights_that_decay_are_trained_without_subtracting_the_initial_function():
    points = Points.random(3, 4)
    for decay, centered in ((0.0, True), (0.1, False)):
        problem: Any = panels.RichnessSeries(1, "relu", points, 0.3, 5, decay).problem(0.7)
        assert problem.network.centered is centered
        assert problem.network.richness == 0.7
        assert problem.training.weight_decay == decay
        assert problem.training.loss == "mean"


def test_the_share_of_the_kernel_is_that_of_its_trace():
    """Without force (γ_0 → 0 at short times) two layers of relu weights decay, and K as (1 − ηλ)^(2t)."""
    setting = panels.RichnessSeries(1, "relu", Points.random(3, 4), 0.1, 5, weight_decay=2.0)
    theory = solve(setting.problem(1e-6), SampledLayers(samples=64, batches=2))
    # Forces move fields by γ_0² at most.
    assert drawn.kernel_share(theory) == pytest.approx(0.8**10, rel=1e-5)


def test_shaded_are_the_networks_whose_kernel_vanished():
    axes = Figure().subplots()
    runs = [np.array([0.3, 0.5])] * 4
    shares = [1e-9, 1e-3, 0.02, 2.0]
    drawn._draw_alignments(axes, (0.1, 1.0, 4.0, 8.0), [0.4] * 4, [0.01] * 4, shares, runs)
    (span,) = axes.patches
    assert span.get_window_extent().x1 == pytest.approx(axes.transData.transform((2.0, 0.5))[0])
    theory = axes.lines[0]
    assert np.asarray(theory.get_ydata()).tolist() == [0.4] * 4


def test_a_scale_of_some_rows_cuts_the_others():
    block = Figure()
    network = np.array([[[0.5, 2.0], [1.0, 1.0]]])
    rows = {"network": network, "order": np.full((1, 2, 2), -9.0)}
    panels.draw_maps(block, "title", rows, panels.over_times(2), "value", scale=["network"])
    images = [panel.images[0] for panel in block.axes if panel.images]
    assert [(image.norm.vmin, image.norm.vmax) for image in images[:2]] == [(0.5, 2.0)] * 2
    assert np.min(np.asarray(images[1].get_array())) == -9.0
    panels.draw_maps(block := Figure(), "title", rows, panels.over_times(2), "value")
    images = [panel.images[0] for panel in block.axes if panel.images]
    assert [(image.norm.vmin, image.norm.vmax) for image in images[:2]] == [(-9.0, 9.0)] * 2


def test_maps_over_points_name_the_classes_and_have_a_line_between_them():
    axes = panels.over_points(Points(np.eye(4), np.array([1.0, -1.0, 1.0, 1.0])))
    assert axes.names == ("y=−1", "y=1")
    assert axes.ticks == (0.5, 2.5)
    assert axes.border == 1
    block = Figure()
    panels.draw_maps(block, "title", {"theory": np.ones((2, 4, 4))}, axes, "value")
    for layer, panel in enumerate(block.axes[:2], 1):
        assert panel.get_title() == f"ℓ = {layer}"
        assert along_y(panel.lines[0]).tolist() == along_x(panel.lines[1]).tolist() == [1, 1]


def test_approximations_are_next_to_the_networks_they_approximate():
    """At the shown γ_0 every theory has a line in the panel of losses, and they begin at ⟨y²⟩/2."""
    figure, _ = drawn_tiny("wide-4")
    losses = figure.axes[0]
    lines = {str(line.get_label()): np.asarray(line.get_ydata()) for line in losses.lines}
    for name in drawn.THEORIES:
        assert lines[name][0] == pytest.approx(0.5)
        assert lines[name][-1] < lines[name][0]
    assert not np.allclose(lines["full theory"], lines["static kernel"], rtol=1e-2)


def test_ten_images_of_two_classes_have_equal_lengths():
    """Every image has the mean 0 and K_μμ = 1; two of one class are closer on average than two of different ones."""
    points = ten_digits()
    assert np.bincount((points.targets > 0).astype(int)).tolist() == [5, 5]
    np.testing.assert_allclose(points.inputs.mean(axis=1), 0, atol=1e-14)
    K = points.kernel()
    np.testing.assert_allclose(np.diag(K), 1, rtol=1e-14)
    assert K[:5, :5].mean() > K[:5, 5:].mean() + 0.1


def titles_of(figure):
    """The titles of panels and of blocks of maps."""
    blocks, titles = [figure], [panel.get_title() for panel in figure.axes]
    while blocks:
        block = blocks.pop()
        blocks += block.subfigs
        titles.append(block.get_suptitle())
    return titles


def test_all_panels_of_the_first_figure_are_drawn():
    for name in ("wide-1", "wide-1-kernels"):
        titles = titles_of(drawn_tiny(name)[0])
        for letter in "abcd":
            assert sum(title.startswith(f"({letter})") for title in titles) == 1, letter


@pytest.mark.parametrize("name", ["wide-4", "wide-4-times"])
def test_kernels_of_approximations_are_shown_in_all_five_layers(name):
    titles = titles_of(drawn_tiny(name)[0])
    for layer in range(1, 6):
        assert titles.count(f"ℓ = {layer}") == 1


def test_network_and_theory_are_beside_each_other_at_the_same_times():
    """Below the losses of wide-2: three blocks of five layers, theory above network, with the same colours."""
    figure, _ = drawn_tiny("wide-2")
    images = [panel.images[0] for panel in figure.axes if panel.images]
    assert len(images) == 30
    for block in range(3):
        theory, network = (
            images[10 * block : 10 * block + 5],
            images[10 * block + 5 : 10 * block + 10],
        )
        for above, below in zip(theory, network, strict=True):
            assert above.get_size() == below.get_size()
            assert (above.norm.vmin, above.norm.vmax) == (below.norm.vmin, below.norm.vmax)


def test_preactivations_at_the_start_have_the_variance_of_the_kernel_below():
    """A mean of normal densities: its second moment is the mean of Φ^{ℓ−1}_μμ, which is 1 for the inputs."""
    setting = panels.RichnessSeries(2, "tanh", ten_digits(), 0.5, 2)
    theory = solve(setting.problem(1.0), SampledLayers(samples=256, batches=2))
    h = np.linspace(-12, 12, 4001)
    expected = [1.0, float(np.trace(theory["Phi"].values[0, 0, :, 0]) / 10)]
    assert expected[1] < 0.6
    for layer, variance in enumerate(expected):
        density = wide_features.initial_density(theory, setting, layer, h)
        # The trapezoidal rule is exact to rounding for functions that vanish so fast.
        assert np.trapezoid(density, h) == pytest.approx(1, abs=1e-9)
        assert np.trapezoid(h**2 * density, h) == pytest.approx(variance, abs=1e-6)

"""Infinitely wide networks that learn features, next to trained ones and to what simpler theories say of them.

Two hidden tanh layers fit four points. The kernel of the start says nothing of the features that they learn. Gradient
independence leaves out responses, and moves outputs by the tangent kernel (O(η) off). Run:  python examples/wide.py
"""

from matplotlib.figure import Figure

import learndyn as ld

problem = ld.Problem(
    network=ld.Wide(depth=2, activation="tanh", richness=2.0, centered=True),
    data=ld.Points.random(points=4, dimension=6, seed=1),
    training=ld.GradientDescent(learning_rate=0.3, steps=30),
)


def picture(theories, runs) -> Figure:
    """The train loss in all of them."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    panel = figure.subplots()
    trained = runs["train_loss"].transpose("step", "seed")
    dots = panel.plot(runs["step"], trained, "o", color="#0072B2", ms=4, mfc="none", alpha=0.6)
    dots[0].set_label(f"trained at N = {runs.size}, {runs['seed'].size} seeds")
    styles = (("-", "#0072B2"), ("--", "#D55E00"), (":", "#009E73"))
    for (name, found), (style, colour) in zip(theories.items(), styles, strict=True):
        panel.plot(found["step"], found["train_loss"], style, color=colour, lw=2.2, label=name)
    panel.set(xlabel="step", ylabel="train loss", yscale="log", xlim=(0, None))
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=9)
    return figure


def main(size: int = 1000, seeds: int = 8) -> None:
    theory = ld.solve(problem, ld.SampledLayers(samples=512))
    static = ld.solve(problem, ld.StaticKernel())
    independent = ld.solve(problem, ld.GradientIndependence(samples=512))
    runs = ld.simulate(problem, size, seeds)
    print(ld.compare(theory, runs))
    theories = {"theory": theory, "static kernel": static, "gradient independence": independent}
    last = runs["train_loss"].isel(step=-1)
    print(f"final loss, trained: {last.mean():.2e} ± {last.std(ddof=1) / seeds**0.5:.0e}")
    for name, found in theories.items():
        print(f"final loss, {name}: {found['train_loss'][-1]:.2e}")
    picture(theories, runs).savefig("wide.png", dpi=150)


if __name__ == "__main__":
    main()

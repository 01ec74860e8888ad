"""Grokking: a network fits its examples long before it finds the rule. Theory and training say when.

Two hidden units with φ(h) = h + 0.15 h² learn y = ½ρ² from three examples per input dimension. The linear part fits the
examples at once; the quadratic part, which the rule needs, grows slowly. Run it with:  python examples/grokking.py
"""

from matplotlib.figure import Figure

import learndyn as ld

problem = ld.Problem(
    network=ld.TwoLayer(
        ld.Polynomial([0, 1, 0.15]), Q=[[1, 0], [0, 1]], R=[[0.3], [-0.3]], readout=[0.25, 0.25]
    ),
    data=ld.Dataset(ld.Teacher(ld.Polynomial([0, 0, 0.5]), [[1]]), ratio=3.0),
    training=ld.GradientDescent(learning_rate=4.0, time=90.0),
)


def picture(theory, runs) -> Figure:
    """Both losses over logarithmic time, and when they drop."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    panel = figure.subplots()
    for kind, style, colour in (("train", "--", "#D55E00"), ("test", "-", "#0072B2")):
        curve, drop = theory[f"{kind}_loss"], float(theory[f"{kind}_drop"])
        trained = runs[f"{kind}_loss"].transpose("time", "seed")
        thin = panel.plot(runs["time"], trained, style, color=colour, lw=0.8, alpha=0.5)
        thin[0].set_label(f"{kind} loss, trained at D = {runs.size}")
        panel.plot(curve.time, curve, style, color=colour, lw=2.2, label=f"{kind} loss, theory")
        panel.plot([drop], [0.1 * curve[0]], "o", color=colour, ms=7, zorder=4)
        panel.text(drop, 0.1 * curve[0] + 0.02, f" t = {drop:.0f}", color=colour)
    panel.axhline(
        0.1 * theory["test_loss"][0], color="0.7", lw=0.8, ls=":", label="10 % of the start"
    )
    panel.set(xlabel="time", ylabel="loss", xscale="log", xlim=(0.75, 90), ylim=(0, None))
    panel.set_xticks([1, 3, 10, 30, 90], ["1", "3", "10", "30", "90"])
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=9, loc="upper right", bbox_to_anchor=(1, 1.04))
    return figure


def main(size: int = 1000, seeds: int = 8) -> None:
    theory = ld.solve(problem, ld.CausalSampling(step=0.75))
    runs = ld.simulate(problem, size, seeds, method=ld.FullBatch(step=0.75))
    print(ld.compare(theory, runs))
    for name in ("train_drop", "test_drop", "grokking_delay"):
        value, error = float(theory[name]), float(theory.standard_error(name))
        # A seed whose loss never dropped is no number, and must not silently be left out.
        mean = float(runs[name].mean(skipna=False))
        spread = float(runs[name].std(ddof=1, skipna=False)) / seeds**0.5
        print(f"{name}: theory {value:.2f} ± {error:.2f}, D = {size}: {mean:.2f} ± {spread:.2f}")
    picture(theory, runs).savefig("grokking.png", dpi=150)


if __name__ == "__main__":
    main()

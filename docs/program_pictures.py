"""Draws images/program-NAME.svg for each program in examples/programs: the limit, and ten networks of size 500."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.families.program.files import problem_in
from learndyn.pictures.plotting import save_figure
from learndyn.pictures.style import (
    COLOURS,
    TRAIN,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    new_panels,
)

DOCS = Path(__file__).parent
SIZE, SEEDS = 500, 10


def picture(theory: ld.Solution, runs: ld.Solution) -> Figure:
    """The losses of a program, in the limit and of networks; a training loss beside a test loss is dashed."""
    figure, panels = new_panels(1, 1, panel=(3.4, 2.6))
    panel = panels[0, 0]
    names = [name for name in theory.observables if name.endswith("loss")]
    for name, colour in zip(names, COLOURS, strict=False):
        values, measured = (
            found[name].squeeze([axis for axis in found[name].dims if axis not in ("step", "seed")])
            for found in (theory, runs)
        )
        error = theory.standard_error(name)
        style = TRAIN if name == "train_loss" and len(names) > 1 else "-"
        label = name.replace("_", " ") if len(names) > 1 else None
        draw_theory(
            panel, theory["step"], values, colour, label,
            error=None if error is None else np.asarray(error).reshape(values.shape), ls=style,
        )  # fmt: skip
        # Every second state, so that circles do not hide the line.
        every_second = measured.transpose("seed", "step").values[:, ::2]
        draw_networks(panel, runs["step"][::2], every_second, colour)
    words = "loss" if len(names) > 1 else names[0].replace("_", " ")
    finish(panel, xlabel="training step", ylabel=words)
    panel.set_ylim(bottom=0)
    legend_of(panel, f"{SEEDS} networks, N = {SIZE}")
    return figure


def draw(path: Path) -> None:
    """Draw the picture of one program, and say whether limit and networks agree."""
    problem = problem_in(path)
    theory = ld.solve(problem)
    runs = ld.simulate(problem, SIZE, SEEDS)
    verdict = ld.compare(theory, runs).verdict
    print(f"{path.stem}: {verdict}; solved in {theory.evidence['wall_time']:.1f} s", flush=True)
    save_figure(picture(theory, runs), DOCS / "images" / f"program-{path.stem}.svg")


if __name__ == "__main__":
    wanted = set(sys.argv[1:])
    for example in sorted((DOCS.parent / "examples" / "programs").glob("*.py")):
        if not wanted or example.stem in wanted:
            draw(example)

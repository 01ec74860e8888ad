"""Figure 1 of the paper on neural ODEs: one step of training, as a drawing."""

from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from learndyn.core.progressing import Report
from learndyn.papers.captions.neural_ode_pipeline import FACTS
from learndyn.papers.neural_ode import problem_of_figure_2
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import COLOURS, NEUTRAL, PANEL, TEXT

TEACHER, STUDENT, ADJOINT = COLOURS[2], COLOURS[0], COLOURS[1]


class Box(NamedTuple):
    """A box with a heading and a formula; x, y are its middle."""

    x: float
    y: float
    width: float
    height: float
    heading: str
    formula: str
    colour: str

    def draw(self, panel: Axes) -> None:
        corner = (self.x - self.width / 2, self.y - self.height / 2)
        look: dict[str, Any] = {"fc": "white", "ec": self.colour, "lw": 1.4, "zorder": 2}
        style = "round,pad=0,rounding_size=0.12"
        panel.add_patch(FancyBboxPatch(corner, self.width, self.height, boxstyle=style, **look))
        centre: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 3}
        up = self.height * 0.24
        panel.text(self.x, self.y + up, self.heading, color=self.colour, fontsize=10, **centre)
        panel.text(self.x, self.y - up, self.formula, fontsize=10, **centre)

    @property
    def left(self) -> tuple[float, float]:
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y

    @property
    def top(self) -> tuple[float, float]:
        return self.x, self.y + self.height / 2

    @property
    def bottom(self) -> tuple[float, float]:
        return self.x, self.y - self.height / 2


BOXES = {
    "input": Box(0.85, 4.0, 1.5, 1.0, "input", "$x_0 = y_0 = z$", NEUTRAL),
    "teacher": Box(4.1, 4.9, 3.6, 1.0, "teacher", r"$\dot x = -\mu\, x + r(x, θ^*)$", TEACHER),
    "student": Box(4.1, 3.1, 3.6, 1.0, "student", r"$\dot y = -\mu\, y + r(y, θ)$", STUDENT),
    "loss": Box(8.0, 4.0, 2.4, 1.0, "loss", r"$\frac{1}{2}\,|y(T) - x(T)|^2$", NEUTRAL),
    "adjoint": Box(
        4.1, 1.3, 4.3, 1.0,
        "adjoint, backwards in time", r"$-\dot p = -\mu\, p + ∇_y⟨p,\, r(y, θ)⟩$", ADJOINT,
    ),
    "update": Box(
        4.1, -0.5, 4.9, 1.0,
        "update of the control", r"$θ \leftarrow θ - η \int_0^T dt\; ∇_θ⟨p,\, r(y, θ)⟩$", STUDENT,
    ),
}  # fmt: skip


def _arrow(
    panel: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    bend: str = "arc3",
) -> None:
    look: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 12, "lw": 1.4, "zorder": 1}
    panel.add_patch(
        FancyArrowPatch(
            start, end, color=colour, connectionstyle=bend, shrinkA=0, shrinkB=0, **look
        )
    )


def pipeline(report: Report) -> Figure:
    """One step of training: both flows from one input, the loss at their ends, the adjoint back, the update."""
    figure = Figure(figsize=(2 * PANEL[0], 5.0), layout="constrained")
    panel = figure.subplots()
    panel.set(xlim=(-0.1, 9.4), ylim=(-1.15, 5.5), aspect="equal")
    panel.set_axis_off()
    for box in BOXES.values():
        box.draw(panel)
    start, teacher, student, loss, adjoint, update = BOXES.values()
    square, back = "angle,angleA=90,angleB=180,rad=6", "angle,angleA=0,angleB=90,rad=6"
    _arrow(panel, start.top, teacher.left, TEACHER, square)
    _arrow(panel, start.bottom, student.left, STUDENT, square)
    _arrow(panel, teacher.right, loss.top, TEACHER, back)
    low = loss.bottom[1]
    _arrow(panel, student.right, (loss.x - 0.5, low), STUDENT, back)
    _arrow(panel, (loss.x + 0.5, low), adjoint.right, ADJOINT, "angle,angleA=90,angleB=0,rad=6")
    _arrow(panel, student.bottom, adjoint.top, STUDENT)
    _arrow(panel, adjoint.bottom, update.top, ADJOINT)
    note: dict[str, Any] = {"fontsize": TEXT + 1, "va": "center"}
    panel.text(6.1, 5.12, "$x(T)$", color=TEACHER, **note)
    panel.text(6.0, 3.32, "$y(T)$", color=STUDENT, **note)
    panel.text(6.4, 1.55, "$p(T) = y(T) - x(T)$", color=ADJOINT, **note)
    panel.text(4.25, 2.2, "$y(t)$ is kept", color=STUDENT, **note)
    panel.text(4.25, 0.4, "$p(t)$", color=ADJOINT, **note)
    # The new control goes round the left side, to the student of the next step.
    corner = (0.5, update.y)
    panel.plot([update.left[0], corner[0]], [update.y] * 2, color=STUDENT, lw=1.4, zorder=1)
    _arrow(panel, corner, (student.left[0], 2.8), STUDENT, square)
    panel.text(0.62, 1.3, "next step,\nnew input", color=STUDENT, **note)
    report(1.0)
    return figure


register_figures(FACTS, {"neural-ode-1": pipeline}, {"neural-ode-1": problem_of_figure_2})

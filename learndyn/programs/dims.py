"""Large dimensions, and the sentences that refuse what has no limit."""

from typing import TYPE_CHECKING

from learndyn.errors import NotLinearProgram, ProgramError
from learndyn.programs.affine import NotLinear
from learndyn.programs.lines import Line, users_line

if TYPE_CHECKING:
    from learndyn.programs.sites import Site


class Dim:
    """A large dimension: its name, its size relative to the others, and the site that samples it."""

    def __init__(self, name: str, ratio: float, site: "Site"):
        self.name, self.ratio, self.site = name, ratio, site

    def __repr__(self) -> str:
        return f"the dimension {self.name!r}"


class NotFinite(Exception):
    """A scalar is infinite or not a number: training has diverged. The text names the line."""


def refuse(text: str, line: Line | None = None) -> ProgramError:
    """The error to raise, with the user's line."""
    return ProgramError(f"{line or users_line()}\n  {text}")


REDUCED = (
    "{} of {}: only mean over a dimension becomes a number in the limit; the largest entry, a sorted "
    "vector or a sum without 1/n does not"
)


def not_linear(error: NotLinear, dim: Dim | None, line: Line | None = None) -> NotLinearProgram:
    """The refusal of a program that coordinates cannot follow."""
    return NotLinearProgram(
        f"{line or users_line()}\n  {error} over {dim} is not linear, and Coordinates follows linear programs only: "
        "use Limit(samples)"
    )

"""What the command prints: results on standard output, remarks and errors on standard error."""

import sys
import textwrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 100
"""Columns of a table that goes into a file or a pipe, where no terminal says how wide it is."""


def say(text: str, style: str = "") -> None:
    """A result. Lines are never broken, so that a pipe gets them whole."""
    _print(Console(), text, style)


def remark(text: str) -> None:
    """What is going on, for the person in front of the screen."""
    _print(Console(stderr=True), text, "dim")


def complain(text: str) -> None:
    """An error: its first word in red."""
    first = text.partition(":")[0]
    console = Console(stderr=True)
    console.print(Text.assemble((first, "bold red"), text[len(first) :]), soft_wrap=True)


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A result with columns; the first one is never broken."""
    # A console that writes to a pipe has no width of its own.
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    drawn = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for index, name in enumerate(columns):
        drawn.add_column(name, no_wrap=index == 0, header_style="dim", overflow="fold")
    for row in rows:
        drawn.add_row(*map(Text, row))
    console.print(drawn)


def entries(items: list[tuple[str, list[str]]]) -> None:
    """Results with a heading and paragraphs each, the paragraphs indented and wrapped."""
    console = Console()
    width = min(console.width, PIPED_WIDTH) if console.is_terminal else PIPED_WIDTH
    for heading, paragraphs in items:
        say(heading, "bold")
        for paragraph in paragraphs:
            wrapped = textwrap.fill(paragraph, width - 4, break_on_hyphens=False)
            say(textwrap.indent(wrapped, "    "))


def _print(console: Console, text: str, style: str) -> None:
    console.print(Text(text, style=style), soft_wrap=True)

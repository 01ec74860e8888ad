"""Writes gallery.md and problems/NAME.toml from the registry of pictures and the lists of the papers' figures.

Run it after a picture, a caption or a list has changed; the tests notice if it was forgotten.
"""

import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from learndyn.papers.registry import PaperFigure, figures

DOCS = Path(__file__).parent
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("*/*.md")])

HEAD = """# Gallery

Every picture, with the command that makes it anew and the problem file of one of its curves, to start from. In all of
them a theory is a line and networks are open circles with standard errors; what is tested is solid, what is trained on
is dashed. Click on a picture for its page, with what it shows and all parameters. This page is made from the registry
of pictures, so that it cannot miss one.
"""

OTHERS = """
## Other pictures

Of the guide and the how-to pages.
"""

PANELS = """
## The papers' figures, panel by panel

What became of every figure of the five papers, and why something is missing.
"""

COST = """
## What it costs

The template of every theory, solved when it is compiled already, next to one network trained as long. CPU seconds on a
small machine: compare them with each other. `python -m benchmarks cost` measures it.

{cost}
"""


class Other(NamedTuple):
    """A picture of a page that no paper has: its file, its page and what the page says of it."""

    file: str
    page: str
    words: str


def others() -> Iterator[Other]:
    """The pictures that pages show by `figure` or in a table, each once."""
    seen = set()
    for path in PAGES:
        if path.name in ("gallery.md", "index.md"):
            continue
        text = path.read_text(encoding="utf-8")
        shown = re.findall(r"^```\{figure\} \S*images/(\S+)\n:alt: (.*)$", text, re.MULTILINE)
        shown += [
            (file, words) for words, file in re.findall(r"!\[(.*?)\]\(\S*images/(\S+)\)", text)
        ]
        for file, words in shown:
            if file not in seen:
                seen.add(file)
                yield Other(file, str(path.relative_to(DOCS)), words)


def page_of(name: str) -> str:
    """The page that shows a picture of a paper."""
    for path in PAGES:
        if f"{{picture}} {name}\n" in path.read_text(encoding="utf-8"):
            return str(path.relative_to(DOCS))
    raise ValueError(f"no page shows {name}: use the directive picture")


def card(image: str, alt: str, target: str, lines: list[str]) -> str:
    """A thumbnail with its words."""
    words = "\n".join(lines)
    return f"\n```{{figure}} images/{image}\n:alt: {alt}\n:target: {target}\n\n{words}\n```\n"


def paper_card(figure: PaperFigure) -> str:
    """The thumbnail of a picture of a paper."""
    target = page_of(figure.name).replace(".md", ".html") + f"#picture-{figure.name}"
    lines = [
        f"**{figure.title}.**",
        f"`learndyn figures {figure.name}`, about {figure.minutes:g} min.",
    ]
    if figure.problem is not None:
        lines.append(f"{{download}}`problem file <problems/{figure.name}.toml>`")
    return card(f"{figure.name}.svg", figure.title, target, lines)


def grid(cards: list[str]) -> str:
    """Cards side by side."""
    return "\n::::{container} gallery\n" + "".join(cards) + "::::\n"


def panel_table(path: Path) -> str:
    """The table of one paper: its panels, ours, and what is missing."""
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = [
        f"\n**{told['paper']}**\n\n| figure | shows | here | missing |\n| --- | --- | --- | --- |\n"
    ]
    for panel in told["panel"]:
        number = f"{panel['figure']} ({panel['panel']})" if panel["panel"] else panel["figure"]
        cells = [number, panel["shows"], panel["ours"] or "—", panel["missing"]]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return "".join(rows)


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for reference, group in itertools.groupby(figures(), key=lambda figure: figure.reference):
        parts.append(f"\n## {reference}\n")
        parts.append(grid([paper_card(figure) for figure in group]))
    parts.append(OTHERS)
    parts.append(
        grid([card(o.file, o.words, o.page.replace(".md", ".html"), [o.words]) for o in others()])
    )
    measured = (DOCS / "cost.txt").read_text(encoding="utf-8").splitlines()
    parts.append(COST.format(cost="\n".join(line for line in measured if line.startswith("|"))))
    parts.append(PANELS)
    parts += [panel_table(path) for path in sorted((DOCS / "paper-figures").glob("*.toml"))]
    return "".join(parts)


def problem_files() -> dict[str, str]:
    """The texts of the problem files, by the name of the picture."""
    return {f.name: f.problem().to_text() for f in figures() if f.problem is not None}


def write() -> None:
    """Write the page and the problem files, where they have changed."""
    folder = DOCS / "problems"
    folder.mkdir(exist_ok=True)
    wanted = {folder / f"{name}.toml": text for name, text in problem_files().items()}
    wanted[DOCS / "gallery.md"] = page()
    for old in set(folder.glob("*.toml")) - wanted.keys():
        old.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()

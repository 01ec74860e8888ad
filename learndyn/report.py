"""A report in one HTML file, which loads nothing: theories against trained networks."""

import base64
import dataclasses
import html
import io
import math
import os
import platform
import time
from collections.abc import Iterable

from matplotlib.figure import Figure

from learndyn.core.compare import Comparison
from learndyn.core.solution import Solution
from learndyn.core.theory import Theory


@dataclasses.dataclass(frozen=True)
class Chapter:
    """One theory of a report: what was asked and what came out, or, in `error`, why nothing did.

    `pictures` are captions and figures. What was computed before an error may still be given.
    """

    theory: Theory
    problem: str
    solution: Solution | None = None
    runs: Solution | None = None
    comparison: Comparison | None = None
    pictures: tuple[tuple[str, Figure], ...] = ()
    error: str | None = None

    @property
    def verdict(self) -> str:
        """One word: agrees, differs or failed."""
        if self.error is not None or self.comparison is None:
            return "failed"
        return "agrees" if self.comparison.agrees else "differs"

    @property
    def reason(self) -> str:
        """The verdict in a sentence."""
        if self.error is not None:
            return self.error
        return "not compared" if self.comparison is None else self.comparison.verdict


def html_report(chapters: Iterable[Chapter], title: str = "Theory against trained networks") -> str:
    """The text of the HTML file."""
    chapters = list(chapters)
    sections = "\n".join(_section(chapter) for chapter in chapters)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>learndyn: {_text(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{_text(title)}</h1>
<p>For each theory: the learning curve of an infinitely large network, computed, and that of finite
networks, trained. They agree if they differ by no more than chance and the finite size explain.</p>
<p>In the tables, s.e. is the standard error of the mean of the runs minus the theory, % is relative to the root mean
square of the theory's curve, and p is the chance of a deviation as large as the largest one, in as
many independent looks, if the theory is right.</p>
</header>
{_summary(chapters)}
{sections}
<footer>{_text(_made(chapters))}</footer>
</body>
</html>
"""


def _summary(chapters: list[Chapter]) -> str:
    heads = (
        "theory",
        "network",
        "data",
        "networks trained",
        "verdict",
        "theory",
        "training",
        "ratio",
    )
    rows = [
        [
            f'<a href="#{_anchor(chapter)}">{_text(chapter.theory.name)}</a>',
            _text(chapter.theory.network.__name__),
            _text(chapter.theory.supply.__name__),
            _text(_trained(chapter.runs)),
            _badge(chapter.verdict),
            _seconds(chapter.solution),
            _seconds(chapter.runs),
            _ratio(chapter),
        ]
        for chapter in chapters
    ]
    return _table(heads, rows, numbers=slice(5, 8))


def _section(chapter: Chapter) -> str:
    theory = chapter.theory
    parts = [
        f'<section id="{_anchor(chapter)}">',
        f"<h2>{_text(theory.name)} {_badge(chapter.verdict)}</h2>",
        f"<p>{theory.combination}: {_text(theory.summary)}, {_text(theory.exactness)}.</p>",
    ]
    if chapter.error is not None:
        parts.append(f'<pre class="error">{_text(chapter.error)}</pre>')
    pictures = "".join(_picture(caption, figure) for caption, figure in chapter.pictures)
    parts.append(f'<div class="pictures">{pictures}</div>')
    if chapter.comparison is not None:
        parts.append(_agreement(chapter.comparison))
    parts.append(_evidence(chapter))
    parts.append(f"<p>Reference: {_text(theory.reference)}.</p>")
    problem = _text(chapter.problem.strip())
    parts.append(f"<details><summary>The problem file</summary><pre>{problem}</pre></details>")
    return "\n".join([*parts, "</section>"])


def _agreement(comparison: Comparison) -> str:
    table = comparison.table
    rows = [
        [f"<b>{_text(name)}</b>", *(_cell(row[column]) for column in table.columns)]
        for name, row in table.iterrows()
    ]
    heads = ["observable", *(_heading(column, comparison.axis) for column in table.columns)]
    numbers = slice(1, len(table.columns))
    allowed = (
        f"{comparison.finite_size:g} × (largest value)/{comparison.size} is allowed for the finite "
        f"size; an observable differs if p is below {comparison.level:g}."
    )
    notes = "".join(f"<p>{_text(note)}</p>" for note in (allowed, *comparison.notes))
    return f"<h3>{_text(comparison.verdict)}</h3>{_table(heads, rows, numbers)}{notes}"


_HEADINGS = {
    "largest_in_errors": "largest [s.e.]",
    "beyond_allowance": "beyond allowance [s.e.]",
    "rms_in_errors": "rms [s.e.]",
    "rms_per_cent": "rms [%]",
    "worst_per_cent": "worst [%]",
}


def _heading(column: str, axis: str) -> str:
    return f"at {axis}" if column == "at" else _HEADINGS.get(column, column.replace("_", " "))


def _cell(value) -> str:
    """A number to three digits, a dash where runs without spread have no error bar, or a word."""
    if isinstance(value, str):
        return _badge(value)
    return f"{value:.3g}" if math.isfinite(value) else "–"


def _evidence(chapter: Chapter) -> str:
    rows = []
    for name, solution in (("theory", chapter.solution), ("training", chapter.runs)):
        if solution is None:
            continue
        evidence = solution.evidence
        rows.append(
            [
                name,
                _text(_method(evidence.get("method"))),
                _accuracy(solution),
                _text(_trained(solution)),
                _seconds(solution),
            ]
        )
    if not rows:
        return ""
    heads = ("", "method", "accuracy", "networks", "wall time")
    ratio = _ratio(chapter)
    note = (
        f"<p>Training took {ratio} as long as the theory, compilation included.</p>"
        if ratio
        else ""
    )
    return f"<h3>How it was computed</h3>{_table(heads, rows, numbers=slice(4, 5))}{note}"


def _accuracy(solution: Solution) -> str:
    """The largest error, and the largest standard error of a sampled theory."""
    accuracy = solution.evidence.get("accuracy")
    errors = [solution.standard_error(name) for name in solution.observables]
    sampled = [float(error.max()) for error in errors if error is not None]
    known = [error for error in sampled if math.isfinite(error)]
    texts = [f"{max(accuracy.values()):.1g}"] if accuracy else []
    return ", ".join([*texts, *([f"± {max(known):.1g} (sampled)"] if known else [])])


def _method(method) -> str:
    """The kind of a method and its settings, in words."""
    if not isinstance(method, dict):
        return str(method or "")
    numbers = {key: value for key, value in method.items() if isinstance(value, int | float)}
    settings = [f"{key} {value:g}" for key, value in numbers.items()]
    return ", ".join([str(method.get("kind", "")), *settings]).replace("_", " ")


def _trained(solution: Solution | None) -> str:
    if solution is None or solution.seeds is None:
        return ""
    return f"{len(solution.seeds)} of size {solution.size}"


def _seconds(solution: Solution | None) -> str:
    return "" if solution is None else f"{solution.evidence['wall_time']:.3g} s"


def _ratio(chapter: Chapter) -> str:
    """Time of the training over time of the theory."""
    if chapter.solution is None or chapter.runs is None:
        return ""
    return f"{chapter.runs.evidence['wall_time'] / chapter.solution.evidence['wall_time']:.2g} ×"


def _table(heads: Iterable[str], rows: list[list[str]], numbers: slice) -> str:
    """An HTML table of ready-made cells; the columns `numbers` are set flush right."""

    def line(tag: str, cells: list[str]) -> str:
        right = range(len(cells))[numbers]
        marks = [' class="number"' if index in right else "" for index in range(len(cells))]
        pairs = zip(marks, cells, strict=True)
        return "<tr>" + "".join(f"<{tag}{mark}>{cell}</{tag}>" for mark, cell in pairs) + "</tr>"

    body = "\n".join(line("td", row) for row in rows)
    head = line("th", [_text(word) for word in heads])
    return (
        f'<div class="wide"><table>\n<thead>{head}</thead>\n<tbody>{body}</tbody>\n</table></div>'
    )


def _picture(caption: str, figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160, facecolor="white")
    data = base64.b64encode(buffer.getvalue()).decode()
    alt = html.escape(caption)
    # Shown at the size it was drawn for, whatever the resolution.
    width = round(figure.get_figwidth() * 96)
    image = f'<img src="data:image/png;base64,{data}" width="{width}" alt="{alt}">'
    return f"<figure>{image}<figcaption>{alt}</figcaption></figure>"


def _badge(verdict: str) -> str:
    return f'<span class="{verdict}">{verdict}</span>'


def _anchor(chapter: Chapter) -> str:
    return html.escape(chapter.theory.name.replace("/", "-").replace(" ", "-"))


def _text(value) -> str:
    return html.escape(str(value), quote=False)


def _made(chapters: list[Chapter]) -> str:
    """When and with what."""
    solutions = [chapter.solution for chapter in chapters if chapter.solution is not None]
    versions = solutions[0].evidence.get("versions", {}) if solutions else {}
    made = [time.strftime("%Y-%m-%d %H:%M"), *(f"{name} {v}" for name, v in versions.items())]
    return ", ".join([*made, f"Python {platform.python_version()}", f"{os.cpu_count()} cores"])


_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fdfdfc; --line: #d6d6d2;
  --soft: #f1f1ee; --good: #00694b; --bad: #a83a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e3; --paper: #18191b; --line: #3d3f43;
  --soft: #232528; --good: #4fcf9f; --bad: #ff9457; } }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1, h2, h3 { line-height: 1.2; }
p { max-width: 56rem; }
h2 { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); }
a { color: inherit; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; border: 0; margin: .5rem 0; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
th, td { border: 0; padding: .25rem .8rem .25rem 0; text-align: left; white-space: nowrap; }
thead tr { border-bottom: 1px solid var(--line); }
.number { text-align: right; }
.agrees { color: var(--good); font-weight: 600; }
.differs, .failed { color: var(--bad); font-weight: 600; }
h2 span { font-size: 1rem; margin-left: .5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0; }
figure { margin: 0; }
img { max-width: 100%; height: auto; background: white; border-radius: 6px; padding: .5rem;
  box-sizing: border-box; }
figcaption, footer { font-size: .85rem; opacity: .75; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; border-radius: 6px;
  font-size: .82rem; }
pre.error { border-left: 4px solid var(--bad); white-space: pre-wrap; }
summary { cursor: pointer; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .5rem; }
"""

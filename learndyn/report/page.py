"""`html_report`: chapters through the template `report.html.jinja`."""

import math
import os
import platform
import time
from collections.abc import Iterable

import jinja2

from learndyn.report.chapter import Chapter
from learndyn.report.images import embed

TEMPLATE = "report.html.jinja"
COLUMNS = {
    "largest_in_errors": "largest [s.e.]",
    "beyond_allowance": "beyond allowance [s.e.]",
    "rms_in_errors": "rms [s.e.]",
    "rms_per_cent": "rms [%]",
    "worst_per_cent": "worst [%]",
}
"""Headings of the table of agreement; other columns keep their names."""


def html_report(chapters: Iterable[Chapter], title: str = "Theory against trained networks") -> str:
    """The report as the text of one HTML file, which loads nothing from elsewhere."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("learndyn.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "seconds": seconds,
        "ratio": ratio,
        "heading": heading,
    }
    environment.globals["embed"] = embed
    template = environment.get_template(TEMPLATE)
    chapters = list(chapters)
    return template.render(chapters=chapters, title=title, origin=_origin(chapters))


def number(value: float) -> str:
    """A number to three digits, or a dash: runs without spread have no standard errors."""
    return f"{value:.3g}" if math.isfinite(value) else "–"


def seconds(value: float | None) -> str:
    """A time to two digits with its unit, such as "4.5 ms" or "12 s"; empty if it is None."""
    if value is None:
        return ""
    if value < 0.0005:
        return "0 s" if value == 0 else "< 1 ms"
    if value < 0.9995:
        return f"{value * 1000:.2g} ms" if value < 0.0995 else f"{value * 1000:.0f} ms"
    return f"{value:.2g} s" if value < 99.5 else f"{value:.0f} s"


def ratio(value: float) -> str:
    """A ratio to two digits, such as "15 ×", without powers of ten."""
    return f"{float(f'{value:.2g}'):,g} ×"


def heading(column: str, axis: str) -> str:
    """The heading of a column of the table of agreement; `axis` is "time" or "step"."""
    return f"at {axis}" if column == "at" else COLUMNS.get(column, column.replace("_", " "))


def _origin(chapters: list[Chapter]) -> str:
    """When the report was written, and with which versions the theories were solved."""
    solutions = [chapter.solution for chapter in chapters if chapter.solution is not None]
    versions = (solutions[0].evidence.versions or {}) if solutions else {}
    libraries = [f"{name} {version}" for name, version in versions.items()]
    python = f"Python {platform.python_version()}"
    date = time.strftime("%Y-%m-%d %H:%M")
    return ", ".join([date, *libraries, python, f"{os.cpu_count()} cores"])

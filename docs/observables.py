"""Writes observables.md from the tables of observables of all theories, so that the two cannot differ."""

from pathlib import Path

import learndyn as ld

HEAD = """# Observables

Every observable of every network, with its axes and its convention. This page is made from the tables of the theories;
the same words stand in the attributes `long_name` and `convention` of each array. The main axis, `time` or `step`, is
called `step` here, and `step2` is the second one of a function of two times. Axes are always there, also with length
one; pictures leave those out. What is not judged is left out of the verdict of `compare`.

Within one network a name means the same whatever the supply of data is. Between networks losses differ, as in the
papers: the columns say how.
"""


def page() -> str:
    """The text of the page."""
    by_network: dict[str, dict] = {}
    for theory in ld.theories():
        if theory.network.__module__.startswith("learndyn."):
            rows = by_network.setdefault(theory.network.__name__, {})
            rows |= {quantity.name: quantity for quantity in theory.table}
    parts = [HEAD]
    for network, rows in by_network.items():
        parts.append(
            f"\n## {network}\n\n| name | axes | what | convention |\n| --- | --- | --- | --- |\n"
        )
        for quantity in rows.values():
            axes = ", ".join(f"`{axis}`" for axis in quantity.axes) or "none"
            words = quantity.words.replace("|", "\\|")
            convention = quantity.convention.words + ("" if quantity.judged else "not judged")
            parts.append(f"| `{quantity.name}` | {axes} | {words} | {convention} |\n")
    return "".join(parts)


def write() -> None:
    """Write the page, if it has changed."""
    path, text = Path(__file__).with_suffix(".md"), page()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()

"""The directive `picture`: a picture of a paper, with the caption and the command that the registry knows.

```{picture} primer-1
:alt: What there is to see.

What it shows.
```
"""

from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from learndyn.papers.figure_facts import known_figures


class Picture(SphinxDirective):
    """An image from docs/images, what it shows, and in smaller print its parameters, command and duration."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        known = {facts.name: facts for facts in known_figures()}
        if name not in known:
            raise self.error(f"no picture is called {name!r}")
        facts = known[name]
        figure = nodes.figure("", classes=["paper-picture"], ids=[f"picture-{name}"])
        image = nodes.image(uri=f"/images/{name}.svg", alt=self.options.get("alt", facts.title))
        figure += nodes.reference("", "", image, refuri=self._full_size(name))
        caption = nodes.caption()
        shown = self.parse_content_to_nodes()
        caption += nodes.strong("", f"{facts.title}. ")
        if shown:
            caption.extend(shown[0].children)
        figure += caption
        details = nodes.paragraph("", f"{facts.caption} ", classes=["picture-details"])
        details += nodes.literal("", f"learndyn figures {name}")
        details += nodes.Text(f", about {facts.minutes:g} min.")
        figure += nodes.legend("", details)
        return [figure]

    def _full_size(self, name: str) -> str:
        """Where the image is in the built pages, from this page."""
        return "../" * self.env.docname.count("/") + f"_images/{name}.svg"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Figures as images inside an HTML file."""

import base64
import dataclasses
import io

from matplotlib.figure import Figure

PIXELS_PER_INCH = 144
"""Resolution of the images: one and a half times that of an ordinary screen."""
CSS_PIXELS_PER_INCH = 96


@dataclasses.dataclass(frozen=True)
class EmbeddedImage:
    """A picture with its caption, as a data URI; `width` and `height` are those on the page, in CSS pixels."""

    caption: str
    uri: str
    width: int
    height: int


def embed(caption: str, figure: Figure) -> EmbeddedImage:
    """Draw a figure as a PNG. An SVG would be larger, since it describes every point of every curve in text."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=PIXELS_PER_INCH, facecolor="white")
    uri = f"data:image/png;base64,{base64.b64encode(drawn.getvalue()).decode()}"
    width, height = (round(inches * CSS_PIXELS_PER_INCH) for inches in figure.get_size_inches())
    return EmbeddedImage(caption, uri, width, height)

"""Figures as images inside an HTML file."""

import base64
import dataclasses
import io

from matplotlib.figure import Figure
from PIL import Image

PIXELS_PER_INCH = 144
"""Resolution of the images: one and a half times that of an ordinary screen."""
CSS_PIXELS_PER_INCH = 96
COLOURS = 256


@dataclasses.dataclass(frozen=True)
class EmbeddedImage:
    """A picture with its caption, as a data URI; `width` and `height` are those on the page, in CSS pixels."""

    caption: str
    uri: str
    width: int
    height: int


def embed(caption: str, figure: Figure) -> EmbeddedImage:
    """Draw a figure as a PNG with a palette, about a third of the size of one with full colours.

    An SVG would be larger, since it describes every point of every curve in text.
    """
    drawn, reduced = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=PIXELS_PER_INCH, facecolor="white")
    with Image.open(drawn) as image:
        # The other methods merge rare colours, such as the two ends of a colour bar.
        palette = image.convert("RGB").quantize(
            COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
        palette.save(reduced, format="png", optimize=True)
    smaller = min(drawn.getvalue(), reduced.getvalue(), key=len)
    uri = f"data:image/png;base64,{base64.b64encode(smaller).decode()}"
    width, height = (round(inches * CSS_PIXELS_PER_INCH) for inches in figure.get_size_inches())
    return EmbeddedImage(caption, uri, width, height)

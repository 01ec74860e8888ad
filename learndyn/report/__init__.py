"""Reports in one HTML file: theories against trained networks."""

from learndyn.report.chapter import Chapter
from learndyn.report.page import html_report

__all__ = ["Chapter", "html_report"]

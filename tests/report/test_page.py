"""The HTML report: whole, self-contained, and honest about failures."""

import base64
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

from learndyn.core.compare import Comparison
from learndyn.core.solution import Solution
from learndyn.core.theory import theories
from learndyn.problem.problem import Problem
from learndyn.report import Chapter, html_report
from learndyn.report.chapter import Timing
from learndyn.report.page import ratio, seconds

VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Collects tags, attributes and text, and checks that every tag is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tags, self.words = [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def comparison(p: float = 0.5) -> Comparison:
    verdict = "agrees" if p >= 0.01 else "differs"
    row = {
        "largest_in_errors": np.inf,
        "at": 2.5,
        "beyond_allowance": 1.25,
        "rms_in_errors": 0.5,
        "rms_per_cent": 0.1,
        "worst_per_cent": 0.2,
        "p": p,
        "looks": 3.0,
        "verdict": verdict,
    }
    table = pd.DataFrame.from_dict({"test_loss": row}, orient="index").rename_axis("observable")
    return Comparison(table, xr.Dataset(), "time", 0.01, 1.0, 50, 3, ("A note & more.",))


@pytest.fixture(scope="module")
def chapter() -> Chapter:
    theory = theories()[0]
    text = theory.template.read_text(encoding="utf-8")
    problem = Problem.from_text(text)
    times = {"time": [0.0, 1.0]}
    one = xr.Dataset({"test_loss": ("time", [1.0, 0.5])}, coords=times)
    evidence = {
        "kind": "theory",
        "method": {"kind": "order_parameter_ode", "rtol": 1e-9},
        "accuracy": {"test_loss": 2e-10},
        "wall_time": 12.0,
        "compile_time": 10.0,
        "versions": {"learndyn": "0.1.0"},
    }
    solution = Solution(one, problem, evidence)
    several = one.expand_dims(seed=[0, 1, 2])
    trained = {
        "kind": "simulation",
        "method": {"kind": "sgd"},
        "size": 50,
        "wall_time": 30.5,
        "compile_time": 0.5,
    }
    runs = Solution(several, problem, trained)
    pictures = (('A curve, "theory" & runs.', Figure(figsize=(2, 1))),)
    return Chapter(theory, text, solution, runs, comparison(), pictures)


def test_the_page_loads_nothing_from_elsewhere(chapter):
    text = html_report([chapter])
    page = Page(text)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "iframe", "object"})
    for tag, attributes in page.tags:
        for name in ("src", "href", "srcset", "data"):
            value = attributes.get(name, "#")
            assert value.startswith(("data:image/png;base64,", "#")), (tag, value)
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_pictures_are_inside_and_described(chapter):
    images = [a for tag, a in Page(html_report([chapter])).tags if tag == "img"]
    assert [image["alt"] for image in images] == ['A curve, "theory" & runs.']
    data = base64.b64decode(images[0]["src"].partition(",")[2], validate=True)
    assert data.startswith(b"\x89PNG")
    # Shown at the size it was drawn for, known before it is loaded, and loaded when it comes into view.
    assert (images[0]["width"], images[0]["height"]) == ("192", "96")
    assert (images[0]["loading"], images[0]["decoding"]) == ("lazy", "async")


def test_compiling_is_shown_apart_from_solving_and_training(chapter):
    page = Page(html_report([chapter]))
    words = page.words.split("\n")
    assert page.words.count("compiling (once)") == 3
    for text in ("10 s", "2 s", "500 ms", "30 s"):
        assert words.count(text) == 2, text


def test_a_solution_without_a_compile_time_shows_its_whole_time(chapter):
    import dataclasses

    evidence = {key: value for key, value in chapter.solution.evidence.items()}
    del evidence["compile_time"]
    whole = Solution(chapter.solution.data, chapter.solution.problem, evidence)
    old = dataclasses.replace(chapter, solution=whole)
    assert old.solving_time == Timing(None, 12.0)
    assert "12 s" in html_report([old])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0, "0 s"),
        (1e-5, "< 1 ms"),
        (0.0045, "4.5 ms"),
        (0.25, "250 ms"),
        (123.4, "123 s"),
    ],
)
def test_times_have_two_digits_and_a_unit(value, text):
    assert seconds(value) == text


def test_large_ratios_have_no_powers_of_ten():
    assert ratio(1234.0) == "1,200 ×"
    assert ratio(0.0123) == "0.012 ×"


def test_a_chapter_shows_problem_agreement_evidence_and_reference(chapter):
    words = " ".join(Page(html_report([chapter])).words.split())
    for expected in (
        chapter.theory.name,
        chapter.theory.exactness,
        chapter.theory.reference,
        "A note & more.",
        "order parameter ode, rtol 1e-09",
        "2e-10",
        "3 of size 50",
        "Training took 15 × as long as the theory, without compilation",
        "kind = ",
    ):
        assert expected in words
    assert " inf " not in words


def test_links_of_the_summary_lead_to_their_chapters(chapter):
    tags = Page(html_report([chapter])).tags
    links = {a["href"].lstrip("#") for tag, a in tags if tag == "a"}
    assert links == {a["id"] for tag, a in tags if tag == "section"}


def test_a_difference_is_marked_in_summary_heading_and_table(chapter):
    import dataclasses

    differing = dataclasses.replace(chapter, comparison=comparison(p=1e-6))
    assert differing.verdict == "differs"
    marks = [a.get("class") for tag, a in Page(html_report([differing])).tags if tag == "span"]
    assert marks == ["differs"] * 3


def test_an_error_is_shown_as_text_beside_what_was_computed(chapter):
    failed = Chapter(chapter.theory, "", chapter.solution, error="error: <b> & no convergence")
    page = Page(html_report([failed, chapter]))
    assert failed.verdict == "failed"
    assert "error: <b> & no convergence" in page.words
    marks = [a.get("class") for tag, a in page.tags if tag == "span"]
    assert marks.count("failed") == 2

"""What is cited for a solution."""

import importlib.metadata
import re
from pathlib import Path

import pytest
import yaml

import learndyn as ld
from learndyn.bibliography import LIBRARIES, PAPERS, of_learndyn, of_reference
from tests import problems

ENTRY = re.compile(r"^@\w+\{(\w+),$", re.MULTILINE)


@pytest.fixture(scope="module")
def solution():
    return ld.solve(problems.two_layer(time=0.1), save_at=2)


def told(solution: ld.Solution, **evidence) -> ld.Solution:
    """The solution with other evidence."""
    return ld.Solution(solution.data, solution.problem, {**solution.evidence, **evidence})


def test_a_solution_cites_its_papers_its_solver_and_learndyn(solution):
    papers = ["saad1995exact", "saad1995online", "goldt2019dynamics", "carrascodavis2025primer"]
    cited = ENTRY.findall(ld.cite(solution))
    assert cited == [*papers, "jax2018github", "kidger2021on", "learndyn"]


def test_the_version_of_learndyn_is_the_one_that_solved_it(solution):
    assert "version = {0.2.7}" in ld.cite(told(solution, versions={"learndyn": "0.2.7"}))


def test_a_paper_without_an_entry_is_a_comment(solution):
    text = ld.cite(told(solution, theory="mine", reference="Somebody 2030; Urbani 2025"))
    assert text.startswith("% Somebody 2030\n\n@misc{urbani2025theory,")
    assert ENTRY.findall(text) == ["urbani2025theory", "jax2018github", "learndyn"]


@pytest.mark.parametrize("theory", ld.theories(), ids=lambda theory: theory.name)
def test_every_paper_and_library_of_a_theory_has_an_entry(theory):
    assert all(ENTRY.match(text) for text in of_reference(theory.reference))
    for method in (*theory.methods, *theory.simulators):
        assert set(method.libraries) <= LIBRARIES.keys()


def test_every_entry_is_used_and_has_a_key_of_its_own():
    theories = ld.theories()
    assert {words for theory in theories for words in theory.reference.split("; ")} == set(PAPERS)
    methods = [m for theory in theories for m in (*theory.methods, *theory.simulators)]
    assert {"jax", *(name for m in methods for name in m.libraries)} == set(LIBRARIES)
    keys = ENTRY.findall("\n".join([*PAPERS.values(), *LIBRARIES.values(), of_learndyn()]))
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("text", [*PAPERS.values(), *LIBRARIES.values(), of_learndyn()])
def test_every_entry_is_bibtex(text):
    assert text.count("{") == text.count("}")
    for field in re.findall(r"^  (?! ).*(?:\n    .*)*", text, re.MULTILINE):
        assert re.fullmatch(r"  \w+ = \{.*\},?", field, re.DOTALL)


def test_the_citation_file_says_the_same_of_learndyn():
    path = Path(ld.__file__).parents[1] / "CITATION.cff"
    facts = yaml.safe_load(path.read_text(encoding="utf-8"))
    (author,) = facts["authors"]
    assert f"author = {{{{{author['name']}}}}}" in of_learndyn()
    assert f"title = {{{facts['title']}}}" in of_learndyn()
    assert facts["license"] == importlib.metadata.metadata("learndyn")["License-Expression"]

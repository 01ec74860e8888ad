"""What the README and the docs say is true: code runs, files parse, commands, names and numbers exist."""

import ast
import dataclasses
import importlib
import inspect
import re
import shlex
import tomllib
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import typer.main

import learndyn as ld
from learndyn.bibliography import PAPERS
from learndyn.cli import failures
from learndyn.cli.app import app
from learndyn.families.two_layer.online.equations import equations
from learndyn.families.two_layer.online.finite import _Chain
from learndyn.numerics.gaussian import error_moments
from learndyn.numerics.precision import float64
from learndyn.papers.registry import figures
from learndyn.problem.activations.convert import PLAIN
from learndyn.problem.activations.formula import FUNCTIONS
from learndyn.problem.activations.smooth import NAMED
from learndyn.problem.kinds import kinds_of
from learndyn.problem.network import Network
from learndyn.problem.schedules import Constant, Schedule
from learndyn.problem.supplies import Supply
from learndyn.problem.tasks import Task

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        *sorted(DOCS.glob("*.md")),
        *sorted(DOCS.glob("how-to/*.md")),
        *sorted(DOCS.glob("theories/*.md")),
        *sorted(DOCS.glob("tutorial/*.md")),
    )
}
COMMAND = typer.main.get_group(app)
NUMBER = r"-?\d+\.\d+(?:e[+-]?\d+)?"


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL)


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows, headings included."""
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def words(text: str) -> list[str]:
    """What stands in backticks, outside fenced blocks."""
    prose = re.sub("^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall("`([^`]+)`", prose)


@pytest.mark.parametrize(
    "page",
    [
        "docs/programs.md",
        "docs/sweeps.md",
        "docs/how-to/my-pytorch-loop.md",
        "docs/how-to/my-own-runs.md",
        "docs/how-to/my-own-data.md",
        pytest.param("docs/how-to/which-learning-rate.md", marks=pytest.mark.slow),
        "docs/how-to/which-method.md",
        pytest.param("docs/how-to/when-does-the-plateau-end.md", marks=pytest.mark.slow),
        # Compiling takes up to a minute.
        pytest.param("docs/concepts.md", marks=pytest.mark.slow),
        pytest.param("docs/theories/neural_ode_family.md", marks=pytest.mark.slow),
        pytest.param("docs/theories/deep_linear.md", marks=pytest.mark.slow),
        pytest.param("docs/theories/two_layer_online.md", marks=pytest.mark.slow),
    ],
)
def test_code_on_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    assert blocks(page, "python")
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_code_on_a_page_uses_names_that_exist(page):
    """Names of the library and, of what `solve` and `simulate` return, attributes; quicker than running the code."""
    known = {*dir(ld.Solution), *inspect.signature(ld.Solution).parameters}
    tree = ast.parse("\n".join(blocks(page, "python")))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "ld":
                assert node.attr in ld.__all__, node.attr
            if node.value.id in ("theory", "runs"):
                assert node.attr in known, node.attr


def test_no_other_page_has_code_that_is_never_run():
    pages = {page for page in PAGES if blocks(page, "python")}
    theories = {"deep_linear", "two_layer_online", "neural_ode_family"}
    others = {"README.md", "docs/concepts.md", "docs/programs.md", "docs/sweeps.md"}
    others |= {page for page in PAGES if page.startswith("docs/how-to/")}
    assert pages == others | {f"docs/theories/{name}.md" for name in theories}


def test_the_ten_lines_of_the_readme_are_the_example():
    _, code = blocks("README.md", "python")
    example = (ROOT / "examples" / "committee.py").read_text(encoding="utf-8")
    assert example.endswith(code)


def test_the_table_in_the_readme_lists_the_theories():
    shown = [row for row in rows(PAGES["README.md"]) if words(row[0])]
    expected = []
    for theory in ld.theories():
        facts = [theory.combination, theory.summary, theory.exactness, theory.reference]
        expected.append([f"`{theory.name}`", *facts])
    assert shown == expected


def test_problem_files_in_the_docs_are_understood():
    problems = 0
    for page in PAGES:
        for text in blocks(page, "toml"):
            values = tomllib.loads(text)
            if "network" in values:
                problem = ld.Problem.from_text(text)
                short = {"time": 0.1} if problem.training.steps is None else {"steps": 2}
                training = dataclasses.replace(problem.training, **short)
                assert ld.solve(problem.with_values(training=training), save_at=2).observables
                problems += 1
            elif "learning_rate" in values:
                ld.GradientDescent(**values, time=1.0)
            else:
                assert set(values["project"]["entry-points"]) == {"learndyn.theories"}
    assert problems > 0


def test_the_page_on_problem_files_has_every_kind_and_key():
    text = PAGES["docs/problem-file.md"]
    shown = {}
    for kind, table in re.findall(r'^`kind = "([\w.]+)"`(.*?)(?=^`kind|^#)', text, re.M | re.S):
        shown[kind] = {words(row[0])[0] for row in rows(table) if words(row[0])}
    for row in rows(text):
        if len(row) == 3 and re.fullmatch(r"`[\w.]+`", row[0]) and words(row[1]):
            shown.setdefault(row[0].strip("`"), set(words(row[1])))
    expected = {}
    for kind, cls in kinds_of(Network, Supply, Task, ld.GradientDescent, Schedule).items():
        if cls in (ld.Program, ld.OwnData):
            continue  # programs are Python files
        _, _, constructor = kind.partition(".")
        make = getattr(cls, constructor) if constructor else cls
        # A random network takes its teacher from the data.
        given = {"teacher"} if constructor and issubclass(cls, Network) else set()
        expected[kind] = set(inspect.signature(make).parameters) - given
    assert {kind: shown.get(kind) for kind in expected} == expected


def test_the_page_on_problem_files_has_every_activation():
    section = PAGES["docs/problem-file.md"].split("## Activations")[1].split("\n## ")[0]
    table, _, prose = section.partition("A formula may contain")
    assert set(re.findall(r'`"(\w+)"`', table)) == PLAIN.keys() | NAMED.keys()
    assert FUNCTIONS.keys() <= set(words(prose))


def test_the_error_on_the_page_on_problem_files_is_what_one_gets():
    (shown,) = blocks("docs/problem-file.md", "console")
    (text,) = blocks("docs/problem-file.md", "toml")[:1]
    with pytest.raises(ld.ProblemError) as caught:
        ld.Problem.from_text(text.replace("learning_rate", "learnign_rate"))
    assert shown.splitlines()[1] == f"error: {caught.value}"


def command_lines():
    """The calls of learndyn that the pages show."""
    for page in PAGES:
        for text in blocks(page, "console") + blocks(page, "sh"):
            yield from re.findall(r"^(?:\$ )?learndyn (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize("line", sorted(set(command_lines())))
def test_commands_in_the_docs_exist_with_their_options(line):
    name, *arguments = shlex.split(line, comments=True)
    context = COMMAND.commands[name].make_context(name, arguments)
    if name == "new":
        assert context.params["kind"] in {theory.name for theory in ld.theories()}
    if name == "figures":
        assert set(context.params["names"] or []) <= {figure.name for figure in figures()}


def test_the_page_on_the_command_lists_every_command():
    shown = re.findall(r"^\| `learndyn (\w+)", PAGES["docs/command.md"], re.MULTILINE)
    assert sorted(shown) == sorted(COMMAND.commands)


def test_the_exit_codes_on_the_page_are_those_of_the_command():
    shown = {int(row[0]) for row in rows(PAGES["docs/command.md"]) if row[0].isdigit()}
    names = ("DISAGREE", "BAD_INPUT", "GAVE_UP", "BUG", "INTERRUPTED")
    assert shown == {0, *(getattr(failures, name) for name in names)}


def test_make_targets_in_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"\bmake (\w+)", " ".join(words(PAGES["README.md"])))
    targets += re.findall(r"^make (\w+)", "\n".join(blocks("README.md", "sh")), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_interface_page_has_every_public_name():
    shown = re.findall(r"^\.\. auto\w+:: (\w+)$", PAGES["docs/api.md"], re.MULTILINE)
    assert sorted(shown) == sorted(ld.__all__)


def test_words_of_the_dictionary_exist():
    text = PAGES["docs/names.md"]
    named = re.findall(r"`([A-Z]\w+)\.(\w+)`", text)
    assert named
    for cls, attribute in named:
        fields = getattr(ld, cls).__dataclass_fields__
        assert attribute in fields or hasattr(getattr(ld, cls), attribute), (cls, attribute)
    known = {quantity.name for theory in ld.theories() for quantity in theory.table}
    named = set(re.findall(r'\["(\w+)"\]', text)) | set(re.findall(r"`([CR]_[a-z]{2})`", text))
    assert named <= known
    without_symbol = {"bias", "width_variance", "data_variance", "alignment", "movement"}
    without_symbol |= {"preactivation", "overlap_same_data", "overlap_same_weights"}
    along_the_flow = {name for name in known if re.fullmatch("[CR]_[xyp][xyp]", name)}
    assert known - named <= without_symbol | along_the_flow


def test_the_page_of_observables_is_that_of_the_tables(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    page = importlib.import_module("observables").page()
    assert PAGES["docs/observables.md"] == page


def test_tests_named_in_the_docs_exist():
    source = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/*.py"))
    found = (word for text in PAGES.values() for word in words(text))
    named = {word for word in found if word.startswith("test_") and word.count("_") > 2}
    assert named
    for name in named:
        assert f"def {name}(" in source, name


def corrections() -> dict[str, str]:
    """The sections of the page of corrections by their headings."""
    sections = PAGES["docs/corrections.md"].split("\n## ")[1:]
    return dict(section.split("\n", 1) for section in sections)


def test_corrections_are_those_of_the_papers_and_their_tests_exist():
    """Every row names tests of the list below its table, or none; every test of a list is a function of its file."""
    assert len(corrections()) == 5
    for paper, section in corrections().items():
        assert paper in PAPERS
        tests = dict(re.findall(r"^- \*\*(\w)\*\*\s+`([^`]+)`", section, re.MULTILINE))
        heading, *table = rows(section)
        assert heading[-1] == "test"
        assert all(len(row) == len(heading) for row in table)
        shown = {letter for row in table if row[-1] != "no test" for letter in row[-1].split(", ")}
        assert shown == tests.keys(), paper
        for path, name in (test.split("::") for test in tests.values()):
            assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), name


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_lead_somewhere(page):
    folder = (ROOT / page).parent
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGES[page])
    links += re.findall(r"^```\{(?:figure|literalinclude|include)\} (\S+)", PAGES[page], re.M)
    links += re.findall(r"\{download\}`[^<`]*<([^>]+)>`", PAGES[page])
    pictures = re.findall(r"^```\{picture\} (\S+)", PAGES[page], re.M)
    links += [str(DOCS / "images" / f"{name}.svg") for name in pictures]
    for link in links:
        assert (folder / link).is_file(), link
        if link.endswith((".png", ".svg")):
            assert (folder / link).stat().st_size < 200_000, link


def test_every_image_is_shown_somewhere():
    shown = {image for text in PAGES.values() for image in re.findall(r"images/([\w.-]+)", text)}
    shown |= {
        f"{name}.svg" for text in PAGES.values() for name in re.findall(r"\{picture\} (\S+)", text)
    }
    assert shown == {path.name for path in (DOCS / "images").iterdir()}


@pytest.fixture
def gallery(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("gallery")


def test_the_gallery_is_that_of_the_registry(gallery):
    """After a change of pictures, captions or lists of figures: python docs/gallery.py"""
    assert PAGES["docs/gallery.md"] == gallery.page()
    for figure in figures():
        assert f"learndyn figures {figure.name}`" in PAGES["docs/gallery.md"]


def test_the_problem_files_of_the_gallery_are_those_of_the_pictures(gallery):
    texts = gallery.problem_files()
    assert {path.stem for path in (DOCS / "problems").iterdir()} == texts.keys()
    for name, text in texts.items():
        kept = (DOCS / "problems" / f"{name}.toml").read_text(encoding="utf-8")
        # Products round differently on other processors.
        assert re.sub(NUMBER, "#", kept) == re.sub(NUMBER, "#", text)
        numbers = [np.array(re.findall(NUMBER, words), float) for words in (kept, text)]
        np.testing.assert_allclose(*numbers, rtol=1e-12, atol=1e-15)
        assert ld.Problem.from_text(text).to_text() == text


def test_every_panel_of_the_papers_is_made_or_said_to_be_missing():
    known = {figure.name for figure in figures()}
    papers = sorted((DOCS / "paper-figures").glob("*.toml"))
    assert len(papers) == 5
    for path in papers:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        assert len({(panel["figure"], panel["panel"]) for panel in told["panel"]}) == len(
            told["panel"]
        )
        for panel in told["panel"]:
            assert panel["shows"]
            assert panel["ours"] or panel["missing"]
            assert set(re.findall(r"[a-z]+(?:-[a-z]+)*-(?:\d+|[a-z]+)", panel["ours"])) <= known


CHAPTERS = [page for page in PAGES if page.startswith("docs/tutorial/")]


@pytest.mark.parametrize("page", CHAPTERS)
def test_a_chapter_of_the_tutorial_is_a_notebook_that_checks_what_it_says(page):
    """The docs build runs it; here, that it can be downloaded, has checks, and uses names that exist."""
    text = PAGES[page]
    assert f"{{nb-download}}`{Path(page).stem}.ipynb`" in text
    cells = re.findall(r"^```\{code-cell\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    hidden = [cell for cell in cells if cell.startswith(":tags: [remove-cell]\n")]
    assert any("assert " in cell for cell in hidden)
    code = "\n".join(re.sub(r"^:tags:.*\n", "", cell) for cell in cells)
    used = [
        node.attr
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ld"
    ]
    assert set(used) <= set(ld.__all__)
    assert "tutorial/" + Path(page).stem in PAGES["docs/index.md"]


@pytest.mark.slow
def test_the_printed_equations_miss_the_average_step_by_what_the_page_says():
    """N(⟨new⟩ − old) of the exact chain minus an equation, largest entry in standard errors.

    The numbers on the page are rounded, and another stream of random numbers would move them by a few standard errors
    and by the few per cent to which the spread of 200 000 heavy-tailed steps is known.
    """
    (primer,) = (text for heading, text in corrections().items() if "Carrasco-Davis" in heading)
    batch, cross, slope, readout, flow = (int(row[3]) for row in rows(primer) if row[3].isdigit())
    at_one, at_four = printed_deviations(1), printed_deviations(4)
    # The largest of 21 normal numbers exceeds 4.5 with probability 1.4e-4.
    assert max(at_one["corrected"], at_four["corrected"]) < 4.5
    for shown, found in (
        (batch, at_four["no 1/B"]),
        (cross, at_one["I3 repeated"]),
        (slope, at_one["J2 of the last unit"]),
        (readout, at_one["readout at the first layer's rate"]),
        (flow, at_one["gradient flow"]),
    ):
        assert shown == pytest.approx(found, abs=3, rel=0.05)
        assert shown > 4.5


def printed_deviations(batch: int) -> dict[str, float]:
    """Equations of the primer, as printed and corrected, against one step of the finite network."""
    K, size, count, noise, rate = 3, 10**7, 200_000, 0.7, 0.9
    teacher = ld.Teacher.random("erf", K, 30, seed=3, readout=[1.0, 0.75, 0.5])
    network = ld.TwoLayer.random(K, teacher, 0.8, 30, 5, readout_scale=0.9, train_readout=True)
    training = ld.GradientDescent(rate, time=1.0, readout_learning_rate=0.7)
    made = ld.Problem(network, ld.Stream(teacher, noise=noise, batch=batch), training)
    with float64():
        system, start = equations(made)
        chain = _Chain(system, start, size, batch)
        rng = np.random.Generator(np.random.SFC64(1))
        draws = [chain.draw(rng) for _ in range(-(-count // chain.block))]
        inputs = [np.concatenate(column)[:count] for column in zip(*draws, strict=True)]

        @jax.jit
        def increments(inputs):
            new = jax.vmap(lambda i: chain.step(start, inputs, i, 0.0))(jnp.arange(count))
            return jax.tree.map(lambda a, b: (a - b) * size, new, start)

        moved = jax.tree.map(np.asarray, increments(inputs))
        right, v = system.velocity(0.0, start, None), start.v
        s = jnp.concatenate([v, -system.v_star])
        average = error_moments(system.student, system.teacher, system.covariance(start), s, K)
        force, slope = average.force[:, :K], average.slope
        second = rate**2 / batch * jnp.outer(v, v)
        diffusion = second * (average.square + noise**2 * slope)
        same_rate = eqx.tree_at(lambda e: e.eta_v, system, Constant(jnp.asarray(rate)))
        printed = {
            "corrected": right,
            "no 1/B": right._replace(Q=right.Q + (batch - 1) * diffusion),
            "I3 repeated": right._replace(Q=right.Q + rate * v * (force.T - force)),
            "J2 of the last unit": right._replace(
                Q=right.Q + second * noise**2 * (slope[:, -1:] - slope)
            ),
            "readout at the first layer's rate": same_rate.velocity(0.0, start, None),
            "gradient flow": right._replace(Q=right.Q - diffusion),
        }
    return {
        name: max(
            np.max(np.abs(drift.mean(0) - np.asarray(part)) / (drift.std(0) / np.sqrt(count)))
            for drift, part in zip(moved, velocity, strict=True)
        )
        for name, velocity in printed.items()
    }

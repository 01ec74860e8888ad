"""What is imported when: light things without JAX, public names when they are used, theories when they are needed."""

import ast
import json
import os
import pickle
import pydoc
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import learndyn as ld
from learndyn.core.facts import known_facts
from learndyn.core.theory import theories

ROOT = Path(ld.__file__).parents[1]
STUB = ast.parse((ROOT / "learndyn" / "__init__.pyi").read_text(encoding="utf-8"))
HEAVY = {
    *("jax", "numba", "numpy", "scipy", "xarray", "pandas", "matplotlib", "equinox", "diffrax"),
    *("netCDF4", "distributed", "PIL", "jinja2"),
}


FORKS = """
import importlib, json, os, sys, tempfile, traceback

packages, codes = json.load(sys.stdin)
for package in packages:
    importlib.import_module(package)
outcomes = []
for code, arguments in codes:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        child = os.fork()
        if not child:
            status = 1
            try:
                sys.stdout, sys.argv = output, ["-c", *arguments]
                exec(code, {"__name__": "__main__"})
                status = 0
            except SystemExit as end:
                status = bool(end.code)
            except BaseException:
                traceback.print_exc(file=output)
            output.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        outcomes.append((status, output.read()))
print(json.dumps(outcomes))
"""
"""Runs codes in processes that have imported some packages and nothing of learndyn: importing JAX takes seconds."""


def python(*codes: tuple[str, ...], packages: Sequence[str] = (), path: Sequence[Path] = ()):
    """What codes with their arguments print, each in a process of its own that has imported no more than `packages`."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        input=json.dumps([packages, [(code, arguments) for code, *arguments in codes]]),
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *path))), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    for status, output in outcomes:
        assert status == 0, output
    return [output for _, output in outcomes]


SLOW_TO_IMPORT = ("jax", "numba", "diffrax", "xarray", "scipy.special", "scipy.linalg")
IMPORTED = (
    "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
)
COMMAND = f"""
import learndyn.cli
try:
    learndyn.cli.main()
except SystemExit as end:
    assert not end.code
{IMPORTED}
"""


def heavy_in(output: str) -> set[str]:
    """The slow packages among those that a process says it imported, in its last line."""
    return HEAVY & set(json.loads(output.splitlines()[-1]))


COMMANDS = (
    "new run solve simulate rates sweep compare plot exponent cite theories figures demo version"
)
COMPUTE_NOTHING = [
    ["--help"],
    ["version"],
    ["theories"],
    ["figures"],
    ["new"],
    ["new", "two_layer/stream"],
    ["cite", "two_layer/stream"],
    *([command, "--help"] for command in COMMANDS.split()),
]


def test_importing_the_library_imports_nothing_slow():
    (output,) = python((f"import learndyn; dir(learndyn); {IMPORTED}",))
    assert heavy_in(output) == set()


def test_importing_the_programs_imports_nothing_slower_than_numpy():
    (output,) = python((f"import learndyn.programs; {IMPORTED}",))
    assert heavy_in(output) == {"numpy"}


def test_a_command_that_computes_nothing_imports_nothing_slow(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outputs = python(*((COMMAND, *arguments) for arguments in COMPUTE_NOTHING), packages=["typer"])
    heavy = [heavy_in(output) for output in outputs]
    assert dict(zip(map(" ".join, COMPUTE_NOTHING), heavy, strict=True)) == {
        " ".join(arguments): set() for arguments in COMPUTE_NOTHING
    }


REVIEWED = """
import learndyn as ld
try:
    ld.Problem(
        ld.TwoLayer("erf", Q=[[0.25]], R=[[0.1]]),
        ld.Stream(ld.Teacher.orthonormal("erf", 1)),
        ld.GradientDescent(0.1, time=1.0, momentum=0.5),
    )
except ld.ProblemError as error:
    print(error)
"""
OWN = """
import sys
import learndyn as ld
data = ld.Dataset(ld.LinearMap(), ratio=1.5)
problem = ld.Problem(ld.DeepLinear(2, 1.0, 1.0), data, ld.GradientDescent(0.1, steps=2))
print(*sorted({name.split(".")[2] for name in sys.modules if name.startswith("learndyn.families.")}))
print(ld.Problem.from_text(problem.to_text()) == problem)
print(*(name.split(".")[2] for name in sys.modules if name.endswith(".theories")))
print(len(ld.theories()))
"""
KINDS = """
from learndyn.problem.problem import Problem
data = {"kind": "stream", "task": {"kind": "teacher.orthonormal", "activation": "erf", "hidden": 1}}
network = {"kind": "two_layer", "activation": "erf", "Q": [[0.25]], "R": [[0.1]]}
print(type(Problem(network, data, {"learning_rate": 0.1, "time": 1.0}).network).__name__)
"""
REPLACED = """
import learndyn as ld
from tests.fakes import Bare
instead = ld.register(type("Instead", (Bare,), {"name": "wide/points"}))
print([theory for theory in ld.theories() if theory.name == "wide/points"] == [instead])
"""
TOLD = """
from learndyn.core.facts import known_facts
told = known_facts()
import sys; assert "learndyn.core.theory" not in sys.modules
from learndyn.core.theory import theories
print(told == [theory.facts for theory in theories()], len(told))
"""
PICTURES = """
from dataclasses import astuple
from learndyn.papers.figure_facts import known_figures
told = [astuple(facts) for facts in known_figures()]
import sys; assert "learndyn.papers.registry" not in sys.modules
from learndyn.papers.registry import figures
print(told == [astuple(figure)[:len(told[0])] for figure in figures()], len(told) > 0)
"""
PICKLED = "import pickle; print(pickle.loads({task!r}).hidden)"


@pytest.fixture(scope="module")
def printed():
    """What the codes above print, each where nothing of learndyn was imported before."""
    pickled = PICKLED.format(task=pickle.dumps(ld.Teacher.orthonormal("erf", 2)))
    codes = {"reviewed": REVIEWED, "kinds": KINDS, "replaced": REPLACED, "told": TOLD}
    codes |= {"pictures": PICTURES, "pickled": pickled, "own": OWN}
    outputs = python(*((code,) for code in codes.values()), packages=SLOW_TO_IMPORT)
    return dict(zip(codes, outputs, strict=True))


@pytest.mark.slow
def test_a_problem_is_reviewed_although_no_theory_was_imported_before(printed):
    expected = "training.momentum = 0.5: the theory two_layer/stream does not understand"
    assert expected in printed["reviewed"]


def test_a_problem_imports_the_family_of_its_network_only(printed):
    """Also one from a file, whose kinds may be those of any family."""
    expected = ["deep_linear", "True", "deep_linear", str(len(theories()))]
    assert printed["own"].splitlines() == expected


def test_kinds_are_known_although_no_theory_was_imported_before(printed):
    assert printed["kinds"].strip() == "TwoLayer"


def test_a_theory_that_is_registered_first_of_all_replaces_one_of_the_library(printed):
    assert printed["replaced"].strip() == "True"


def test_what_is_told_of_the_theories_without_importing_them_is_true(printed):
    assert printed["told"].split() == ["True", str(len(theories()))]


def test_a_part_is_pickled_and_read_by_a_process_that_has_imported_nothing(printed):
    assert printed["pickled"].strip() == "2"


def test_what_is_told_of_the_pictures_without_importing_them_is_true(printed):
    assert printed["pictures"].split() == ["True", "True"]


def test_the_command_lists_a_theory_of_another_package(tmp_path):
    for name in ("own_theory.py", "own_theory.toml"):
        (tmp_path / name).write_bytes((ROOT / "examples" / name).read_bytes())
    package = tmp_path / "own_theory-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: own-theory\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[learndyn.theories]\nmine = own_theory\n")
    code = "import learndyn.cli as c; c.main()"
    (listed,) = python((code, "theories"), packages=SLOW_TO_IMPORT, path=[tmp_path])
    for name in ("linear_unit/stream", *(facts.name for facts in known_facts())):
        assert name in listed


def test_the_stub_has_the_public_names_in_their_modules():
    (exported,) = [
        ast.literal_eval(node.value) for node in STUB.body if isinstance(node, ast.Assign)
    ]
    assert sorted(exported) == ld.__all__
    for node in STUB.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert alias.asname is None
                value = getattr(ld, alias.name)
                assert value is getattr(sys.modules[str(node.module)], alias.name)


def test_public_names_are_listed_starred_and_explained():
    assert {*ld.__all__, "__version__"} <= set(dir(ld))
    names = {}
    exec("from learndyn import *", names)
    assert set(ld.__all__) <= names.keys()
    assert "class Problem" in pydoc.plain(pydoc.render_doc(ld))
    with pytest.raises(AttributeError, match="has no attribute 'slove'"):
        ld.slove  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]

"""Functions without an entrance for Python are called by compiled functions only: another call would crash."""

import ast
from pathlib import Path

import learndyn

COMPILED = {"compiled", "in_place", "inner", "unpacked", "inlined"}
WITHOUT_ENTRANCE = {"inner", "unpacked"}


def decorators(function: ast.FunctionDef) -> set[str]:
    return {item.id for item in function.decorator_list if isinstance(item, ast.Name)}


def test_no_python_function_calls_a_function_without_an_entrance_for_python():
    folder = Path(learndyn.__file__).parent / "families" / "deep_linear"
    functions = [
        (path, function)
        for path in folder.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
    ]
    inside = {(path, f.name) for path, f in functions if decorators(f) & WITHOUT_ENTRANCE}
    # A method may have the name of such a function; it is told apart by being an attribute.
    names = {name for _, name in inside}
    calls = {
        (path.name, function.name, call.func.id)
        for path, function in functions
        if not decorators(function) & COMPILED
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if call.func.id in names
    }
    assert len(names) > 10
    assert not calls

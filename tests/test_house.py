"""The rules of the house, read from the syntax trees: who imports whom, and how large things are.

CONTRIBUTING.md has the rules in words, docs/architecture.md the plan.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FRONT_DOOR = "edgeforest"  # which may import everything, and which nobody inside imports
LINES, FUNCTION_LINES, DOCSTRING = 800, 60, 90
BOARD = {  # what MicroPython has
    *("array", "binascii", "gc", "json", "math", "micropython", "os", "struct", "time"),
    # Guarded: a board does without, or has it as ulab, or as a native module.
    *("threading", "ulab", "numpy", "edgeforest_kernel"),
}
# Packages from elsewhere, and the rooms that may import them at import time. Whatever else is
# needed is imported inside of the function that needs it.
ELSEWHERE = {
    "numpy": ("engines", "estimators", "export", "forests", "host", "reports", "core_ulab"),
    "onnx": ("export",),
    "skl2onnx": ("export",),
}


def is_board_file(name: str) -> bool:
    return modules()[name].parent.name == "edgeforest" and not modules()[name].name.startswith("__")


@cache
def modules() -> dict[str, Path]:
    """The modules of the package by name; a package itself by the name of its folder."""
    found = {}
    for folder, package in (("edgeforest", "edgeforest"), ("export", "edgeforest.export")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join([package, *(part for part in parts if part != "__init__")])
            found[name] = path
    return found


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def imported(name: str, nodes: Iterator[ast.AST]) -> set[str]:
    """What these nodes of a module import: modules of ours whole, of others their first name."""
    found: set[str] = set()
    package = name if modules()[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
            names = [full if full in modules() else base for full in names]
        else:
            continue
        found |= {n if n in modules() else n.partition(".")[0] for n in names}
    return found - {name}


def at_import(name: str) -> set[str]:
    """What a module imports when it is imported itself: not inside of functions."""

    def walk(body: list[ast.stmt]) -> Iterator[ast.AST]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            yield node
            for part in ("body", "orelse", "finalbody"):
                yield from walk(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from walk(handler.body)

    return imported(name, walk(tree(name).body))


@cache
def graph() -> dict[str, set[str]]:
    """Who imports whom, inside of functions and for types too; the front door is left out."""
    return {
        name: {m for m in imported(name, ast.walk(tree(name))) if m in modules()} - {FRONT_DOOR}
        for name in modules()
        if name != FRONT_DOOR
    }


def test_no_module_is_imported_by_what_it_imports() -> None:
    def reached(start: str) -> set[str]:
        found: set[str] = set()
        todo = list(graph()[start])
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += graph()[name]
        return found

    knot = sorted(name for name in graph() if name in reached(name))
    assert not knot, f"these import each other, by whatever detour: {knot}"


def test_nobody_inside_imports_the_front_door() -> None:
    allowed = {"edgeforest.__main__"}
    for name in set(modules()) - {FRONT_DOOR}:
        if name not in allowed:
            assert FRONT_DOOR not in imported(name, ast.walk(tree(name))), name


@pytest.mark.parametrize("name", sorted(modules()))
def test_no_module_uses_another_ones_private_names(name: str) -> None:
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.ImportFrom) and (node.level or "edgeforest" in (node.module or "")):
            names = [a.name for a in node.names if a.name not in ("_kernel", "__version__")]
            private = [name for name in names if name.startswith("_")]
            assert not private, f"line {node.lineno} imports {private}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = node.value.id
            if owner in ("self", "cls") or owner in made_here(name) or node.attr == "_replace":
                continue  # the last is public, of a NamedTuple
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            assert not private, f"line {node.lineno} uses {owner}.{node.attr}"


@cache
def made_here(name: str) -> set[str]:
    """Names of objects that a module makes of its own classes, whose privates it may use."""
    classes = {node.name for node in ast.walk(tree(name)) if isinstance(node, ast.ClassDef)}
    found = set(classes)
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = ast.unparse(node.value.func).partition(".")[0] in {*classes, "cls", "object"}
            found |= {t.id for t in node.targets if made and isinstance(t, ast.Name)}
        elif isinstance(node, ast.arg) and node.annotation is not None:
            found |= {node.arg} if ast.unparse(node.annotation).strip("\"'") in classes else set()
    return found


@pytest.mark.parametrize("name", [name for name in modules() if is_board_file(name)])
def test_what_lies_directly_in_the_package_imports_only_what_boards_have(name: str) -> None:
    for found in at_import(name):
        if found in modules():
            # A computer's part is imported under `try` alone, and type checkers read `if 0:`.
            assert is_board_file(found) or found.startswith(
                ("edgeforest.host", "edgeforest.engines")
            )
        else:
            assert found in BOARD, found


@pytest.mark.parametrize("name", sorted(modules()))
def test_packages_from_elsewhere_are_imported_where_they_may(name: str) -> None:
    room = name.split(".")[1] if "." in name else ""
    for found in at_import(name) - set(modules()):
        if found in sys.stdlib_module_names or found in (
            "edgeforest",
            "edgeforest_kernel",
            "ulab",
            "",
        ):
            continue
        assert room in ELSEWHERE.get(found, ()), f"{found} is imported when {name} is"
    if room != "export":
        exports = {m for m in at_import(name) if m.startswith("edgeforest.export")}
        assert not exports, f"{name} imports {exports}"


@pytest.mark.parametrize("name", sorted(modules()))
def test_files_functions_and_first_lines_are_not_too_long(name: str) -> None:
    lines = modules()[name].read_text(encoding="utf-8").count("\n")
    assert lines <= LINES, f"{lines} lines"
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or 0) - node.body[0].lineno + 1  # without the list of arguments
            assert size <= FUNCTION_LINES, f"{node.name} has {size} lines"
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            what = getattr(node, "name", "the module")
            assert len(first) <= DOCSTRING + 10, f"{what}: {first}"


def test_no_file_of_tests_holds_an_example_to_run() -> None:
    """Pytest does not look for them there, to be quicker: they would not run."""
    for path in sorted((ROOT / "tests").glob("*.py")):
        assert not re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE), path.name

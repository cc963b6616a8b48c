"""The windows of a model in a MicroPython module: the code of `edgeforest/windows.py`.

`to_micropython` adds this to the module of a forest whose features are those of windows, so that the
module still needs nothing else.
"""

from __future__ import annotations

import ast
import inspect
from typing import TypeVar

from edgeforest import windows as board_file
from edgeforest.windows import Windows

COMPUTER = {"rows", "ends"}  # what only whole recordings need
FOR_NAMES = {"of", "names"}

Defined = TypeVar("Defined", ast.FunctionDef, ast.ClassDef)


def in_python(windows: Windows) -> list[str]:
    """The lines that define `windows()`, which makes the windows whose rows the forest wants."""
    leave = COMPUTER if windows.picks is not None else COMPUTER | FOR_NAMES
    tree = ast.parse(inspect.getsource(board_file))
    tree.body = [node for node in tree.body if not isinstance(node, ast.If | ast.Expr)]
    tree = ast.fix_missing_locations(_Shorter(leave).visit(tree))
    if windows.picks is not None:
        make = f"Windows.of({tuple(windows.names)!r})"
    else:
        parts = [windows.n_channels, windows.size, windows.step, windows.features]
        parts += [windows.channels, windows.magnitude, windows.bits]
        make = f"Windows({', '.join(map(repr, parts))})"
    return [
        ast.unparse(tree),
        "\n",
        "def windows():",
        '    """Windows for the samples of a sensor: `push(sample)` is true when `row` is ready."""',
        f"    return {make}",
    ]


class _Shorter(ast.NodeTransformer):
    """Leaves out docstrings, types, and these methods."""

    def __init__(self, leave: set[str]) -> None:
        self.leave = leave

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef | None:
        if node.name in self.leave:
            return None
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        return self._undocumented(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return self._undocumented(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign | None:
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def _undocumented(self, node: Defined) -> Defined:
        if ast.get_docstring(node) is not None:
            del node.body[0]
        self.generic_visit(node)
        return node

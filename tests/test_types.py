"""Types: every public function says what it takes and returns, and a strict type checker agrees."""

import ast
import inspect
import subprocess
import sys
from array import array
from importlib import import_module
from pathlib import Path

import pytest
from runtimes import board_files

import edgeforest
from edgeforest import Budget, Training, core_pure, load, train
from edgeforest.criteria import Contender, Split
from edgeforest.entropy import Entropy
from edgeforest.host.types import NodeOperations, Predictor, TreeGrower
from edgeforest.mse import MSE
from edgeforest.nodes import Nodes

PACKAGE = Path(core_pure.__file__).parent
EXPORT = PACKAGE.parent / "export"
BOARD = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in board_files()}
ROWS = [[float(i), float(i % 3)] for i in range(20)]


def is_public(name):
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def functions_of(tree):
    """The public functions of a module and public methods of its classes, with their names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and is_public(node.name):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and is_public(node.name):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and is_public(method.name):
                    yield f"{node.name}.{method.name}", method


def arguments_of(node):
    """All parameters of a function, those that collect the rest too."""
    given = node.args
    rest = [a for a in (given.vararg, given.kwarg) if a is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *rest]


# ---- The files for boards


def test_all_files_for_boards_are_looked_at():
    assert {"core_pure", "nodes", "forest", "budget", "codes", "criteria"} <= set(BOARD)
    assert sum(1 for tree in BOARD.values() for _ in functions_of(tree)) > 100


@pytest.mark.parametrize("module", BOARD)
def test_every_public_function_of_a_board_file_has_types(module):
    for name, node in functions_of(BOARD[module]):
        assert node.returns, f"{module}.{name} returns what?"
        for argument in arguments_of(node):
            typed = argument.annotation or argument.arg in ("self", "cls")
            assert typed, f"{module}.{name}({argument.arg})"


@pytest.mark.parametrize("module", BOARD)
def test_types_of_a_board_file_are_quoted(module):
    """A board would evaluate them, and has no `typing`; quoted ones are dropped by its compiler."""
    for node in ast.walk(BOARD[module]):
        said = []
        if isinstance(node, ast.FunctionDef):
            said = [node.returns, *[argument.annotation for argument in arguments_of(node)]]
        elif isinstance(node, ast.AnnAssign):
            said = [node.annotation]
        for annotation in filter(None, said):
            quoted = isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
            assert quoted, f"{module}:{annotation.lineno} {ast.unparse(annotation)}"


@pytest.mark.parametrize("module", BOARD)
def test_what_only_type_checkers_read_costs_a_board_nothing(module):
    """`if 0:` is dropped by the compiler, so names from there may be used in quotes only."""
    names = set()
    for node in BOARD[module].body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "0":
            for line in node.body:
                assert isinstance(line, (ast.ImportFrom, ast.Import)), ast.unparse(line)
                names |= {alias.asname or alias.name for alias in line.names}
    loaded = import_module(f"edgeforest.{module}")
    assert not (names - {"*"}) & set(vars(loaded))


# ---- Objects are what their types say


def made():
    """An object of each class, as they are when users see them."""
    training = Training(ROWS, [i % 2 for i in range(20)], n_trees=2)
    next(iter(training))
    grown = train(ROWS, [float(i) for i in range(20)], criterion="mse", n_trees=2, budget=100)
    yield from (training.trees, training.trees.tree, training.trees.nodes)
    yield from (training, training.data, training.engine, training.criterion)
    yield from (training.budget, training.budget.spent, Budget(seconds=1.5))
    forest = training.forest()
    yield from (forest, load(forest.to_json()), grown)
    yield from (core_pure.Rng(), Entropy(), MSE(), Split(0, 1, False, False, 0.5))
    yield Contender(0, b"", b"", b"", False)


PLAIN = {"int": int, "str": str, "bool": bool, "float": (int, float), "None": type(None)}
ABSTRACT = {"Any", "Callable", "Values", "Sequence", "Iterator", "Generator", "Iterable"}
ALIASES = {"Kind": str, "Criterion": str, "Splitter": str, "Label": (str, int, float)}


def agrees(value, annotation):
    """Whether a value has the type; of containers only the outer one is looked at."""
    if isinstance(annotation, ast.BinOp):
        return agrees(value, annotation.left) or agrees(value, annotation.right)
    said = ast.unparse(annotation).partition("[")[0]
    if said in PLAIN:
        return isinstance(value, PLAIN[said]) and (said == "bool" or not isinstance(value, bool))
    if said in ALIASES:
        return isinstance(value, ALIASES[said])
    if said in ABSTRACT:
        return True
    for protocol in (NodeOperations, Predictor, TreeGrower):
        if said == protocol.__name__:
            return all(callable(getattr(value, name, None)) for name in methods_of(protocol))
    return said in [base.__name__ for base in type(value).__mro__]


def methods_of(protocol):
    return [name for name in vars(protocol) if not name.startswith("_")]


def class_node(kind):
    """The syntax tree of a class in one of the board files."""
    tree = BOARD[kind.__module__.rpartition(".")[2]]
    return next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind.__name__)


def annotated(kind):
    """The attributes of a class that have a type: in its body, or where they are first set."""
    node = class_node(kind)
    found = {}
    for line in ast.walk(node):
        if isinstance(line, ast.AnnAssign):
            target = line.target
            own = isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
            name = target.attr if own else target.id if line in node.body else None
            if name and is_public(name) and "ClassVar" not in ast.unparse(line.annotation):
                found[name] = ast.parse(line.annotation.value, mode="eval").body
    return found


def test_attributes_exist_and_have_the_type():
    seen, looked = set(), 0
    for thing in made():
        kind = type(thing)
        seen.add(kind.__name__)
        for name, annotation in annotated(kind).items():
            value = getattr(thing, name)
            said = ast.unparse(annotation)
            assert agrees(value, annotation), f"{kind.__name__}.{name} is {value!r}, not {said}"
            looked += 1
    assert looked > 40
    wanted = {n.name for n in BOARD["core_pure"].body if isinstance(n, ast.ClassDef)}
    assert seen >= wanted | {"Forest", "Spent", "Budget", "Rng", "Nodes", "Data", "Contender"}


def test_attributes_of_a_forest_all_have_a_type():
    said = set(annotated(edgeforest.Forest))
    set_at_once = {  # by what a value shows: array("I") and the like
        target.attr
        for node in ast.walk(class_node(edgeforest.Forest))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute)
    }
    forest = train(ROWS, [i % 2 for i in range(20)], n_trees=2, engine="pure")
    assert {name for name in vars(forest) if is_public(name)} <= said | set_at_once


def test_arrays_of_a_forest_have_the_width_that_is_documented():
    forest = train(ROWS, [i % 2 for i in range(20)], n_trees=2, engine="pure")
    for name, codes in {"feature": "H", "threshold": "f", "right": "HI", "votes": "H"}.items():
        values = getattr(forest, name)
        assert isinstance(values, array)
        assert values.typecode in codes, name


# ---- The protocols of engines


def test_the_protocols_list_what_is_used():
    """Whatever the race and the growers call of a node's operations, and trainings of growers."""
    called = {"nodes": set(), "trees": set()}
    for module in ("core_pure", "race_paper"):
        for node in ast.walk(BOARD[module]):
            if isinstance(node, ast.Attribute):
                owner = ast.unparse(node.value).rpartition(".")[2]
                if owner in called:
                    called[owner].add(node.attr)
    assert called["nodes"] == set(methods_of(NodeOperations))
    assert called["trees"] == set(methods_of(TreeGrower))


def test_the_protocols_say_what_each_method_is_for():
    for protocol in (NodeOperations, TreeGrower):
        for name in methods_of(protocol):
            method = getattr(protocol, name)
            assert inspect.getdoc(method)
            assert "\n" not in inspect.getdoc(method), name
            given = inspect.signature(method)
            assert given.return_annotation is not given.empty
            for parameter in list(given.parameters.values())[1:]:
                assert parameter.annotation is not parameter.empty, name


def test_the_engines_have_the_methods_of_the_protocols():
    for name in edgeforest.engine.present():
        training = edgeforest.train_steps(ROWS, [i % 2 for i in range(20)], engine=name)
        assert all(callable(getattr(training.trees, method)) for method in methods_of(TreeGrower))
        if name != "native":  # which has them in C
            training.trees.draw(training.stream(0))
            nodes = training.trees.nodes
            assert isinstance(nodes, Nodes) == (name == "pure")
            assert all(callable(getattr(nodes, method)) for method in methods_of(NodeOperations))


def test_the_kernel_has_the_functions_that_its_types_list():
    kernel = pytest.importorskip("edgeforest.engines._kernel")
    stub = ast.parse((PACKAGE / "engines" / "_kernel.pyi").read_text(encoding="utf-8"))
    said = {n.name: n for n in stub.body if isinstance(n, ast.FunctionDef)}
    assert set(said) == {name for name, f in inspect.getmembers(kernel) if inspect.isbuiltin(f)}
    for name, node in said.items():
        assert node.returns, name
        assert all(argument.annotation for argument in arguments_of(node)), name


# ---- The package


def test_the_package_exports_what_it_says_it_does():
    assert sorted(edgeforest.__all__) == edgeforest.__all__
    known = {
        name: module
        for module, tree in BOARD.items()
        for name in [n.name for n in tree.body if isinstance(n, ast.ClassDef)]
    }
    for name in edgeforest.__all__:
        found = getattr(edgeforest, name)
        assert callable(found), name
        if name in known:
            assert found is getattr(import_module(f"edgeforest.{known[name]}"), name)
    assert {"Budget", "Forest", "OnlineForest", "Rng", "Spent", "Training"} <= set(known)
    assert set(edgeforest.__all__) <= set(dir(edgeforest))
    with pytest.raises(AttributeError, match="'florest'"):
        _ = edgeforest.florest


PROGRAM = """
from array import array
from typing import Any

import edgeforest
from edgeforest import Budget, Forest, Progress, RandomForestClassifier, Training
from edgeforest import engine, load, train, train_steps
from edgeforest.core_pure import Grower


def look(progress: Progress) -> bool:
    return progress.trees > 3 and progress.spent.insertions > 100


class HalfOfNodes:
    def __init__(self, task: Training) -> None:
        self.task = task

    def draw(self, rng: Any) -> int:
        return 0


model = RandomForestClassifier(10, budget=Budget(seconds=1), callback=look, max_features="log2")
forest: Forest = model.fit([[1.0], [2.0]], ["a", "b"]).forest_
same: RandomForestClassifier = edgeforest.prune(model, [[1.0]], ["a"], max_trees=1)
joined: Forest = edgeforest.merge([forest, model], weights=[1, 2.5])
agreed: float = edgeforest.stability([[1, 0], [0, 1]])
text: str = edgeforest.export_text(joined) + str(edgeforest.explain(model, {"x0": 1.0}))
share: Any = model.predict_proba([[1.0]])[0, 0]
for tree in model.estimators_[1:]:
    depth: int = tree.get_depth()

rows = [[1.0, 2.0], [3.0, 4.0]]
budget = Budget(insertions=1000, seconds=1)
plain: Forest = train(rows, [0, 1], n_trees=3, criterion="gini", engine="pure", budget=budget)
training: Training = train_steps([array("f", [1, 2])], [1.5, 2.5], by_column=True, n_jobs=-1)
for step in training:
    print(step.budget.spent.insertions)
again: Forest = load(plain.to_json())
used: str = engine.name
others: list[str] = [name for name in engine.absent()]
"""
# Lines of a program, and a part of what is said against each.
WRONG = {
    "Grower(Training([[1], [2]], [0, 1]), HalfOfNodes)": '"Callable[[Training], NodeOperations]"',
    "model.budget = 'much'": '"str"',
    "train(rows, [0, 1], n_tree=3)": 'Unexpected keyword argument "n_tree"',
    "train(rows, [0, 1], criterion='ginni')": 'Argument "criterion" to "train"',
    "train_steps(rows, [0, 1], engine='fast')": 'Argument "engine" to "train_steps"',
    "train_steps(rows, [0, 1], n_jobs='all')": 'Argument "n_jobs" to "train_steps"',
    "engine.nane": 'Module has no attribute "nane"',
    "load(5)": 'Argument 1 to "load"',
}


def test_strict_type_checking_finds_nothing_but_the_mistakes(tmp_path):
    """In the package, and in a program that uses it and has mistakes in its last lines.

    That the operations of an engine are all there is checked where they are given to a `Grower`.
    """
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "".join(f"{line}\n" for line in WRONG), encoding="utf-8")
    mypy = [sys.executable, "-m", "mypy", "--strict"]  # what has not changed, it knows from before
    done = subprocess.run(
        [*mypy, PACKAGE, EXPORT, program],
        capture_output=True,
        text=True,
        cwd=PACKAGE.parent,  # where pyproject.toml is
    )
    complaints = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(complaints) == len(WRONG), done.stdout + done.stderr
    first = PROGRAM.count("\n") + 1
    for place, (complaint, expected) in enumerate(
        zip(complaints, WRONG.values(), strict=True), first
    ):
        assert complaint.rpartition("program.py:")[2].startswith(f"{place}:")
        assert expected in complaint


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()

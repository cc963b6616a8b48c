"""The type stub says what the code says: the same names, parameters and defaults, nothing else."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import edgeforest
from edgeforest import Budget, Training, core_pure, load, train

CODE = Path(core_pure.__file__)
STUB = CODE.with_suffix(".pyi")
PACKAGE = CODE.parent
EXPORT = PACKAGE.parent / "export"
POSITIONAL = "positional"
KEYWORD = "keyword only"


def is_public(name):
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


@pytest.fixture(scope="module")
def stub():
    return ast.parse(STUB.read_text(encoding="utf-8"))


def definitions(body, kinds):
    """Public definitions in a body, by name; of overloads the last."""
    return {node.name: node for node in body if isinstance(node, kinds) and is_public(node.name)}


def annotated(body):
    """Public names with a type in a body."""
    return {
        node.target.id: node.annotation
        for node in body
        if isinstance(node, ast.AnnAssign) and is_public(node.target.id)
    }


def is_alias(node):
    return isinstance(node, ast.Name) and node.id == "TypeAlias"


def parameters(node):
    """(name, how it is given, whether it has a default) of each parameter in the stub."""
    arguments = node.args
    assert not arguments.vararg
    assert not arguments.kwarg, f"{node.name}: name the options"
    places = arguments.posonlyargs + arguments.args
    needed = len(places) - len(arguments.defaults)
    found = [(a.arg, POSITIONAL, i >= needed) for i, a in enumerate(places)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found + [(a.arg, KEYWORD, default is not None) for a, default in pairs]


def real_parameters(function):
    """The same of a function in the code; `**options` are those of `Training`."""
    found = []
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.VAR_KEYWORD:
            options = inspect.signature(Training.__init__).parameters.values()
            found += [
                (o.name, KEYWORD, o.default is not o.empty)
                for o in options
                if o.kind is o.KEYWORD_ONLY
            ]
        else:
            how = KEYWORD if p.kind is p.KEYWORD_ONLY else POSITIONAL
            assert p.kind is not p.VAR_POSITIONAL
            found.append((p.name, how, p.default is not p.empty))
    return found


FUNCTIONS = sorted(
    name
    for name, value in vars(core_pure).items()
    if inspect.isfunction(value) and value.__module__ == core_pure.__name__ and is_public(name)
)
CLASSES = sorted(
    name
    for name, value in vars(core_pure).items()
    if inspect.isclass(value) and value.__module__ == core_pure.__name__ and is_public(name)
)


def test_functions_and_classes_are_the_same(stub):
    assert sorted(definitions(stub.body, ast.FunctionDef)) == FUNCTIONS
    assert sorted(definitions(stub.body, ast.ClassDef)) == CLASSES


def test_constants_are_the_same(stub):
    """Every name in capitals that the code assigns, and of the type that it has."""
    types = {name: node for name, node in annotated(stub.body).items() if not is_alias(node)}
    names = [
        target.id
        for node in ast.parse(CODE.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and is_public(target.id)
    ]
    assert sorted(types) == sorted(set(names))
    for name, node in types.items():
        said = ast.unparse(node)
        kind = type(getattr(core_pure, name)).__name__
        assert said.startswith(f"Final[{kind}"), f"{name} is {kind}, the stub says {said}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_parameters_of_a_function_are_the_same(stub, name):
    node = definitions(stub.body, ast.FunctionDef)[name]
    assert parameters(node) == real_parameters(getattr(core_pure, name))


@pytest.mark.parametrize("name", CLASSES)
def test_the_methods_of_a_class_and_their_parameters_are_the_same(stub, name):
    said = definitions(definitions(stub.body, ast.ClassDef)[name].body, ast.FunctionDef)
    real = {
        key: value
        for key, value in vars(getattr(core_pure, name)).items()
        if (inspect.isfunction(value) or isinstance(value, property)) and is_public(key)
    }
    assert sorted(said) == sorted(real)
    for key, value in real.items():
        is_property = "property" in [ast.unparse(d) for d in said[key].decorator_list]
        assert is_property == isinstance(value, property)
        assert parameters(said[key]) == real_parameters(value.fget if is_property else value), key


@pytest.mark.parametrize("name", CLASSES)
def test_the_bases_of_a_class_are_the_same(stub, name):
    bases = [ast.unparse(base) for base in definitions(stub.body, ast.ClassDef)[name].bases]
    real = [base.__name__ for base in getattr(core_pure, name).__bases__ if base is not object]
    assert bases == real


def test_overloads_take_the_same_parameters(stub):
    for node in ast.walk(stub):
        if isinstance(node, ast.ClassDef) and is_public(node.name):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and is_public(method.name):
                    real = vars(getattr(core_pure, node.name))[method.name]
                    if not isinstance(real, property):
                        assert parameters(method) == real_parameters(real)


def test_everything_in_the_stub_has_a_type(stub):
    for node in ast.walk(stub):
        if isinstance(node, ast.FunctionDef):
            assert node.returns, f"{node.name} returns what?"
            for argument in node.args.posonlyargs + node.args.args + node.args.kwonlyargs:
                assert argument.annotation or argument.arg == "self", f"{node.name}({argument.arg})"


ROWS = [[float(i), float(i % 3)] for i in range(20)]


def made():
    """An object of each class, as they are when users see them."""
    training = Training(ROWS, [i % 2 for i in range(20)], n_trees=2)
    next(iter(training))
    split = core_pure.Split(0, 1, False, False, 0.5)
    yield training.tree
    yield training.forest()
    yield load(training.forest().to_json())
    yield train(ROWS, [float(i) for i in range(20)], criterion="mse", n_trees=2, budget=100)
    yield from (
        training,
        training.budget,
        training.budget.spent,
        core_pure.Loops(),
        training.criterion,
        split,
    )
    yield from (Budget(seconds=1.5), core_pure.Rng(), core_pure.Entropy(), core_pure.MSE())
    yield core_pure.Contender(0, b"", b"", b"", False)


PLAIN = {"int": int, "str": str, "bool": bool, "float": (int, float), "None": type(None)}


def agrees(value, annotation):
    """Whether a value has the type; of containers only the outer one is looked at."""
    if isinstance(annotation, ast.BinOp):
        return agrees(value, annotation.left) or agrees(value, annotation.right)
    said = ast.unparse(annotation).partition("[")[0]
    if said in PLAIN:
        return isinstance(value, PLAIN[said]) and (said == "bool" or not isinstance(value, bool))
    if said.startswith("_") or said == "Sequence":
        return True
    return said in [base.__name__ for base in type(value).__mro__]


def test_attributes_in_the_stub_exist_and_have_the_type(stub):
    classes = definitions(stub.body, ast.ClassDef)
    seen = set()
    for thing in made():
        node = classes[type(thing).__name__]
        types = annotated(node.body)
        for base in node.bases:
            types |= annotated(classes[ast.unparse(base)].body)
        seen |= {base.__name__ for base in type(thing).__mro__}
        for name, annotation in types.items():
            if isinstance(thing, core_pure.Tree) and getattr(thing, name) is None:
                continue  # a tree that is part of a forest needs these no more
            said, value = ast.unparse(annotation), getattr(thing, name)
            assert agrees(value, annotation), f"{node.name}.{name} is {value!r}, not {said}"
    assert seen >= set(classes)


def test_attributes_of_a_forest_are_all_in_the_stub(stub):
    said = annotated(definitions(stub.body, ast.ClassDef)["Forest"].body)
    forest = train(ROWS, [i % 2 for i in range(20)], n_trees=2, engine="pure")
    assert set(said) == {name for name in vars(forest) if is_public(name)}


def test_the_package_exports_what_it_says_it_does(stub):
    known = {*definitions(stub.body, ast.FunctionDef), *definitions(stub.body, ast.ClassDef)}
    assert sorted(edgeforest.__all__) == edgeforest.__all__
    for name in edgeforest.__all__:
        found = getattr(edgeforest, name)
        assert callable(found), name
        if name in known and name not in ("load", "train", "train_steps"):  # those pick an engine
            assert found is getattr(core_pure, name)
    assert set(edgeforest.__all__) <= set(dir(edgeforest))
    with pytest.raises(AttributeError, match="'forest'"):
        _ = edgeforest.forest


PROGRAM = """
from typing import Any

import edgeforest
from edgeforest import Budget, Forest, Progress, RandomForestClassifier


def look(progress: Progress) -> bool:
    return progress.trees > 3 and progress.spent.insertions > 100


model = RandomForestClassifier(10, budget=Budget(seconds=1), callback=look, max_features="log2")
forest: Forest = model.fit([[1.0], [2.0]], ["a", "b"]).forest_
same: RandomForestClassifier = edgeforest.prune(model, [[1.0]], ["a"], max_trees=1)
joined: Forest = edgeforest.merge([forest, model], weights=[1, 2.5])
agreed: float = edgeforest.stability([[1, 0], [0, 1]])
text: str = edgeforest.export_text(joined) + str(edgeforest.explain(model, {"x0": 1.0}))
share: Any = model.predict_proba([[1.0]])[0, 0]
for tree in model.estimators_[1:]:
    depth: int = tree.get_depth()
model.budget = "much"
"""


def test_strict_type_checking_finds_nothing_but_the_mistake(tmp_path):
    """In the package, and in a program that uses it and has one mistake."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--cache-dir",
            str(tmp_path / "cache"),
            PACKAGE,
            EXPORT,
            program,
        ],
        capture_output=True,
        text=True,
        cwd=PACKAGE.parent,  # where pyproject.toml is
    )
    complaints = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(complaints) == 1, done.stdout + done.stderr
    assert '"str"' in complaints[0]
    assert complaints[0].rpartition("program.py:")[2].startswith(f"{PROGRAM.count(chr(10))}:")


def test_the_package_says_that_it_is_typed():
    assert (CODE.parent / "py.typed").exists()

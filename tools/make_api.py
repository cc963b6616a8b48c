"""Write docs/api.md from the docstrings of what the package exports.

python tools/make_api.py           # write it
python tools/make_api.py --check   # say whether it is as it would be written
"""

import inspect
import re
import sys
from pathlib import Path

import edgeforest
import edgeforest.export
import edgeforest.fleet
import edgeforest.fleet.flower
import edgeforest.scores
import edgeforest.splits

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
GROUPS = {
    "Estimators": (
        "With scikit-learn's API; they need NumPy. The other estimators have the parameters of "
        "the first one.",
        [n for n in edgeforest.__all__ if n.endswith(("Classifier", "Regressor"))]
        + ["tune", "Tuning"],
    ),
    "Training": (
        "Without NumPy, scikit-learn or anything else, on boards too.",
        [
            "train",
            "train_steps",
            "Training",
            "open_source",
            "train_source",
            "OnlineForest",
            "Drift",
            "Windows",
            "Budget",
            "Spent",
            "Progress",
            "Rng",
        ],
    ),
    "Models": ("", ["Forest", "load", "calibrate", "merge", "prune"]),
    "Explaining": (
        "",
        [
            "explain",
            "Explanation",
            "export_text",
            "permutation_importance",
            "Importances",
            "stability",
            "partial_dependence",
            "Dependence",
            "shap_values",
            "ShapValues",
            "plot_tree",
            "plot_importances",
            "write_report",
        ],
    ),
    "Scores": (
        "In `edgeforest.scores` and `edgeforest.splits`; see also the measures in "
        "`edgeforest.scores.metrics`.",
        [*edgeforest.scores.__all__, *edgeforest.splits.__all__],
    ),
    "Pictures": (
        "In `edgeforest.plots`; they need NumPy. Each function returns a `Picture`.",
        edgeforest.plots.__all__,
    ),
    "Export": ("In `edgeforest.export`.", edgeforest.export.__all__),
    "Fleet": (
        "In `edgeforest.fleet`; `client_app` and `strategy` are in `edgeforest.fleet.flower`, and need "
        "`edgeforest[fleet]`. See [fleet.md](fleet.md).",
        [*edgeforest.fleet.__all__, "client_app", "strategy"],
    ),
}
GROUPS["Estimators"][1].sort(key=lambda n: (not n.startswith("RandomForest"), n == n.lower(), n))
# Of these classes a user meets some methods only; the others are for the engines.
METHODS = {
    "Training": ["forest", "working_bytes"],
    "Budget": [],
    "Rng": ["next", "below", "unit", "shuffle"],
}
LEFT_OUT = {"value", "prepare", "add_tree", "text", "index", "count"}
GIVEN = {"Training": {"engine", "n_jobs"}}  # parameters that `train_steps` gives


def text_of(item: object) -> str:
    """A docstring, its examples fenced."""
    doc = inspect.getdoc(item) or ""
    parts = []
    for block in re.split(r"\n\s*\n", doc):
        if block.lstrip().startswith(">>>"):
            block = f"```python\n{block}\n```"
        parts.append(block)
    return "\n\n".join(parts)


def signature(name: str, item: object, skip: bool = False) -> str:
    """`name(parameters)` without types, which the page would drown in."""
    given = list(inspect.signature(item).parameters.values())[1 if skip else 0 :]
    plain = [p.replace(annotation=p.empty) for p in given if p.name not in GIVEN.get(name, ())]
    return f"{name}{inspect.Signature(plain)}"


def methods(kind: type) -> list[tuple[str, object]]:
    """The methods and properties of a class that a user meets, in the order of the source."""
    found: dict[str, object] = {}
    for base in reversed(kind.__mro__[:-1]):
        if base.__module__.startswith("edgeforest"):
            found.update({n: v for n, v in vars(base).items() if not n.startswith("_")})
    wanted = METHODS.get(kind.__name__)
    return [
        (name, item)
        for name, item in found.items()
        if name not in LEFT_OUT
        and (wanted is None or name in wanted)
        and (inspect.isfunction(item) or isinstance(item, (property, classmethod)))
    ]


def entry(name: str) -> str:
    """One name of the page."""
    places = (
        *(edgeforest, edgeforest.scores, edgeforest.splits, edgeforest.export, edgeforest.plots),
        *(edgeforest.fleet, edgeforest.fleet.flower),
    )
    item = next(getattr(place, name) for place in places if hasattr(place, name))
    lines = [f"### {name}", ""]
    if inspect.isclass(item) and issubclass(item, tuple):
        lines.append(f"`{name}{item._fields}`".replace("'", ""))
    elif inspect.isclass(item) and name == "Forest":
        lines.append("`Forest`: made by `train` and `load`")
    else:
        lines.append(f"`{signature(name, item)}`")
    lines += ["", text_of(item), ""]
    first = GROUPS["Estimators"][1][0]
    if inspect.isclass(item) and (name not in GROUPS["Estimators"][1] or name == first):
        for method, value in methods(item):
            bare = getattr(value, "__func__", value)
            if isinstance(value, property):
                title = f".{method}"
            else:
                title = signature(f".{method}", bare, skip=True)
            lines += [f"#### `{title}`", "", text_of(bare), ""]
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    lines = ["# API", "", "Made from the docstrings by `python tools/make_api.py`.", ""]
    for title, (about, names) in GROUPS.items():
        lines += [f"## {title}", ""] + ([about, ""] if about else [])
        lines += [entry(name) for name in names]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def main() -> None:
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit("docs/api.md is not what the docstrings say; run: python tools/make_api.py")
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

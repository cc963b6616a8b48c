"""Let skl2onnx convert our estimators, alone and in scikit-learn's pipelines.

Importing this module is enough: it registers all six estimators with skl2onnx.

>>> import numpy as np
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import StandardScaler
>>> from skl2onnx import to_onnx
>>> import edgeforest.export.skl2onnx_converter
>>> from edgeforest import RandomForestClassifier
>>> X = np.array([[i % 7, i % 3] for i in range(90)], np.float32)
>>> pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0))
>>> model = to_onnx(pipeline.fit(X, X[:, 0] > 3), X[:1], options={"zipmap": False})
>>> [output.name for output in model.graph.output]
['label', 'probabilities']

Labels are text or whole numbers (True and False become 1 and 0), as in all models of skl2onnx. For a
forest alone, `to_onnx` of `edgeforest.export` is better: its model can be read back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import skl2onnx._supported_operators as supported  # type: ignore[import-untyped]
from onnx import TensorProto
from skl2onnx import update_registered_converter
from skl2onnx.common.data_types import (  # type: ignore[import-untyped]
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from skl2onnx.common.utils_classifier import (  # type: ignore[import-untyped]
    get_label_classes,
)

from edgeforest import estimators

from .onnx_model import category_codes, label, shares, value, votes
from .onnx_trees import trimmed
from .onnx_values import Array, category_array, label_array, tensor_type

CLASSIFIERS = (
    estimators.RandomForestClassifier,
    estimators.ExtraTreesClassifier,
    estimators.RandomPatchesClassifier,
)
REGRESSORS = (
    estimators.RandomForestRegressor,
    estimators.ExtraTreesRegressor,
    estimators.RandomPatchesRegressor,
)
VERSIONS = {"TreeEnsembleRegressor": 1, "LabelEncoder": 2}


def register() -> None:
    """Tell skl2onnx how to convert our estimators; importing this module does it."""
    options = {
        "zipmap": [True, False, "columns"],
        "output_class_labels": [False, True],
        "nocl": [False, True],  # labels as their places
    }
    for kind in CLASSIFIERS:
        update_registered_converter(
            kind, f"EdgeForest{kind.__name__}", _class_shapes, _convert_classifier, options=options
        )
        # Elsewhere it asks whether a class has scikit-learn's for a parent, and ours have not.
        if kind not in supported.sklearn_classifier_list:
            supported.sklearn_classifier_list.append(kind)
    for other in REGRESSORS:
        update_registered_converter(
            other, f"EdgeForest{other.__name__}", _value_shape, _convert_regressor
        )


def _class_shapes(operator: Any) -> None:
    rows = operator.inputs[0].get_first_dimension()
    classes = np.asarray(get_label_classes(operator.scope_inst, operator.raw_operator))
    kind = StringTensorType if classes.dtype.kind in "UO" else Int64TensorType
    operator.outputs[0].set_type(kind([rows]))
    operator.outputs[1].set_type(FloatTensorType([rows, len(classes)]))


def _value_shape(operator: Any) -> None:
    rows = operator.inputs[0].get_first_dimension()
    operator.outputs[0].set_type(FloatTensorType([rows, 1]))


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, container)
    model = operator.raw_operator
    classes = np.asarray(get_label_classes(scope, model)).tolist()
    labels = label_array(classes) if isinstance(classes[0], str) else np.array(classes, np.int64)
    sums = votes(graph, trimmed(model), _rows(graph, operator))
    label(graph, sums, labels, operator.outputs[0].full_name)
    shares(graph, sums, operator.outputs[1].full_name)


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, container)
    forest = trimmed(operator.raw_operator)
    total = votes(graph, forest, _rows(graph, operator))
    value(graph, forest, total, operator.outputs[0].full_name)


class _Graph:
    """The graph that skl2onnx is making, as a `Builder` of our exporter."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope = scope
        self.container = container

    def add(
        self, op: str, inputs: list[str], output: str = "", domain: str = "", **attributes: Any
    ) -> str:
        output = output or self.scope.get_unique_variable_name(op.lower())
        if op == "ReduceSum" and self.container.target_opset >= 13:  # there it is an input
            axes = np.array(attributes.pop("axes"), np.int64)
            inputs = [*inputs, self.constant("axes", axes)]
        name = self.scope.get_unique_operator_name(op)
        self.container.add_node(
            op,
            inputs,
            [output],
            op_domain=domain,
            op_version=VERSIONS.get(op),  # or else the newest that the user allows
            name=name,
            **attributes,
        )
        return output

    def constant(self, name: str, values: Array) -> str:
        name = self.scope.get_unique_variable_name(name)
        kind = tensor_type(values)
        text = kind == TensorProto.STRING
        content = [v.encode() for v in values] if text else values.ravel().tolist()
        self.container.add_initializer(name, kind, values.shape, content)
        return name


def _rows(graph: _Graph, operator: Any) -> str:
    """The operator's inputs as the numbers that trees compare."""
    forest = operator.raw_operator.forest_
    if forest.all_numbers:
        parts = [_cast(graph, given, TensorProto.FLOAT) for given in operator.inputs]
    else:
        parts = _encoded(graph, operator.inputs, forest)
    return parts[0] if len(parts) == 1 else graph.add("Concat", parts, axis=1)


def _encoded(graph: _Graph, inputs: list[Any], forest: Any) -> list[str]:
    """Each feature as a column, categories as their codes."""
    places = [(given, i) for given in inputs for i in range(given.get_second_dimension() or 0)]
    if len(places) != forest.n_features:
        raise ValueError(
            f"the model has {forest.n_features} features, and the inputs have {len(places)}; give "
            "skl2onnx rows, or initial_types with shapes"
        )
    columns = []
    for (given, i), name, kinds in zip(places, forest.names, forest.categories, strict=True):
        kind = TensorProto.FLOAT if kinds is None else tensor_type(category_array(kinds, name))
        if (kind == TensorProto.STRING) != isinstance(given.type, StringTensorType):
            wanted = "text" if kind == TensorProto.STRING else "numbers"
            raise ValueError(f"feature {name!r} has {wanted}, so its input must be of {wanted}")
        column = _cast(graph, given, kind)
        if given.get_second_dimension() > 1:
            place = graph.constant("place", np.array([i], np.int64))
            column = graph.add("Gather", [column, place], axis=1)
        columns.append(column if kinds is None else category_codes(graph, kinds, name, column))
    return columns


def _cast(graph: _Graph, given: Any, kind: int) -> str:
    """An input in that type."""
    same: dict[int, Any] = {TensorProto.FLOAT: FloatTensorType, TensorProto.INT64: Int64TensorType}
    if kind == TensorProto.STRING or type(given.type) is same[kind]:
        return str(given.full_name)
    return graph.add("Cast", [given.full_name], to=kind)


register()

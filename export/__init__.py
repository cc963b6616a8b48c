"""Take a forest elsewhere: ONNX, C, MicroPython; and bring forests in from scikit-learn.

The code lies in the top folder `export/`, and is imported as `edgeforest.export`. What a format
needs is imported when it is asked for: `to_onnx` needs onnx, `from_sklearn` nothing but the model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .c_header import to_c
    from .micropython_module import to_micropython
    from .onnx_model import from_onnx, to_onnx
    from .scaling import rounded_rows
    from .shrinking import Shrinkage, shrink
    from .signing import load_signed, sign, verify
    from .sklearn_import import from_sklearn

__all__ = [
    "Shrinkage",
    "from_onnx",
    "from_sklearn",
    "load_signed",
    "rounded_rows",
    "shrink",
    "sign",
    "to_c",
    "to_micropython",
    "to_onnx",
    "verify",
]

_LATER = {
    "c_header": ("to_c",),
    "micropython_module": ("to_micropython",),
    "onnx_model": ("from_onnx", "to_onnx"),
    "scaling": ("rounded_rows",),
    "shrinking": ("Shrinkage", "shrink"),
    "signing": ("load_signed", "sign", "verify"),
    "sklearn_import": ("from_sklearn",),
}

if not TYPE_CHECKING:  # which knows what there is without it

    def __getattr__(name: str) -> Any:
        for module, names in _LATER.items():
            if name in names:
                return getattr(import_module(f"edgeforest.export.{module}"), name)
        raise AttributeError(f"module 'edgeforest.export' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

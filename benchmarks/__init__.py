"""What the documents say, measured: `python -m benchmarks.NAME` in a checkout, `--help` for more.

`python -m benchmarks` runs all that docs/benchmarks.md is made of.
"""

import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def command() -> str:
    """The command that runs this benchmark again, as one types it in a checkout."""
    name = Path(sys.argv[0]).stem
    module = "benchmarks" if name == "__main__" else f"benchmarks.{name}"
    return shlex.join(["python", "-m", module, *sys.argv[1:]])

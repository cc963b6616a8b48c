"""Ask old and new releases of onnxruntime whether our ONNX models say what the forest says.

    python -m benchmarks.onnx_versions [VERSION ...] [--folder FOLDER]

Each release gets a virtual environment of its own (kept in the folder, if one is named), runs the
models of tests/test_export_onnx.py, and is compared bit for bit. Without versions: the oldest that
this Python can install, the first that knows TreeEnsemble, and the newest.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import test_export_onnx as parity

# Runs inside: knows NumPy and onnxruntime alone.
RUNNER = """
import base64, json, sys
import numpy as np
import onnxruntime

onnxruntime.set_default_logger_severity(4)

def tensor(given):
    if given["type"] == "string":
        return np.array(given["data"], object).reshape(given["dims"])
    data = base64.b64decode(given["data"])
    return np.frombuffer(data, given["type"]).reshape(given["dims"])

def packed(values):
    values = np.asarray(values)
    text = values.dtype == object
    data = values.ravel().tolist() if text else base64.b64encode(values.tobytes()).decode()
    return {"type": "string" if text else str(values.dtype), "dims": values.shape, "data": data}

answers = []
for case in json.load(open(sys.argv[1], encoding="utf-8")):
    try:
        model = base64.b64decode(case["model"])
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        found = session.run(None, {name: tensor(given) for name, given in case["feeds"].items()})
        answers.append({name: packed(values) for name, values in zip(names, found)})
    except Exception as error:
        answers.append(str(error).splitlines()[0])
json.dump(answers, open(sys.argv[2], "w", encoding="utf-8"))
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--folder", help="keep the environments here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.folder or scratch)
        cases = Path(scratch, "cases.json")
        cases.write_text(json.dumps(parity.packed_cases()), encoding="utf-8")
        print("| onnxruntime | classic | v5 |\n|---|---|---|", flush=True)
        for version in args.versions or some_versions():
            ask(version, folder / f"onnxruntime-{version}", cases, Path(scratch, "answers.json"))


def some_versions() -> list[str]:
    """Those that can be installed here: the oldest, the first that has TreeEnsemble, the newest."""
    command = [sys.executable, "-m", "pip", "index", "versions", "onnxruntime"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    listed = re.search("versions: (.*)", said)
    assert listed, said
    versions = listed[1].split(", ")
    return [versions[-1], "1.21.0", versions[0]]


def ask(version: str, place: Path, cases: Path, answers: Path) -> None:
    """Print a line of the table for one release."""
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        numpy = "numpy" if [int(v) for v in version.split(".")] >= [1, 19] else "numpy<2"
        packages = [f"onnxruntime=={version}", numpy]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    subprocess.run([python, "-c", RUNNER, cases, answers], check=True)
    counts = {"classic": [0, 0, ""], "v5": [0, 0, ""]}
    found = json.loads(answers.read_text(encoding="utf-8"))
    for case, outputs in zip(parity.cases(), found, strict=True):
        count = counts[case.operator]
        count[1] += 1
        try:
            if isinstance(outputs, str):
                count[2] = f" ({outputs[:60]})"
            else:
                parity.check(case, parity.unpacked(outputs))
                count[0] += 1
        except AssertionError:
            count[2] = " (differs)"
    cells = [f"{same} of {all_} equal{why}" for same, all_, why in counts.values()]
    print(f"| {version} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

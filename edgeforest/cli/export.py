"""The command `export`: a model for ONNX, C or MicroPython, or a smaller or signed one."""

import argparse
import os
import re
from typing import Any

from edgeforest.cli.arguments import coverage, row_scale, whole_number
from edgeforest.cli.models import exporter, load_model, read_key
from edgeforest.cli.parser import Problem, add_command
from edgeforest.cli.saving import kept_file, refuse_output, replaced
from edgeforest.cli.screen import say, shape
from edgeforest.host.words import count
from edgeforest.sources import open_source

WRITTEN_FOR = {  # the options that only some formats have, and which
    "coverage": (".onnx", ".h", ".py"),
    "operator": (".onnx",),
    "inputs": (".onnx",),
    "rows": (".h", ".py"),
    "scale": (".h", ".py"),
    "prefer": (".h",),
    "sign": (".json",),
}


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "export",
        run,
        "write a model for ONNX, C or MicroPython, or a smaller or signed one",
        "The ending names the format: .onnx, .h (a C header), .py (a MicroPython module) or .json "
        "(a model as train writes it). All of them predict the same.",
        "edgeforest export model.json model.onnx",
    )
    parser.add_argument("model", help="a model that train wrote")
    parser.add_argument("out", help="the file to write: .onnx, .h, .py or .json")
    parser.add_argument(
        "--shrink",
        action="store_true",
        help="leave out what is not needed; no prediction changes",
    )
    parser.add_argument(
        "--levels",
        type=whole_number(1, 65535),
        metavar="N",
        help="with --shrink: N votes a leaf at most, such as 255; smaller, but the model may then "
        "predict a little differently: predict --target shows how much",
    )
    parser.add_argument(
        "--check",
        metavar="LOG",
        help="say for how many rows of this log the model and what is written differ",
    )
    parser.add_argument(
        "--coverage",
        type=coverage,
        metavar="P",
        help="ONNX, C and MicroPython: also give intervals, or sets of classes, that hold the "
        "truth with this chance, such as 0.9; for a model of train --calibrate",
    )
    add_formats(parser)


def add_formats(parser: argparse.ArgumentParser) -> None:
    """Add the options that only some formats have."""
    onnx = parser.add_argument_group("ONNX")
    onnx.add_argument(
        "--operator",
        choices=("classic", "v5"),
        help="classic runs everywhere (default); v5 is smaller, for onnxruntime 1.21 and up",
    )
    onnx.add_argument(
        "--inputs",
        choices=("tensor", "columns"),
        help="one table of numbers (default), or an input for each feature, under its name",
    )
    code = parser.add_argument_group("C and MicroPython")
    code.add_argument(
        "--rows",
        choices=("float32", "int16", "uint8"),
        help="the type of a row's values (default float32); whole numbers need no floats",
    )
    code.add_argument(
        "--scale",
        type=row_scale,
        metavar="S",
        help="rows of int16 or uint8 hold every number times S, such as 10, for features that are "
        "not whole; auto finds a power of ten for each feature",
    )
    code.add_argument(
        "--prefer",
        choices=("size", "speed"),
        help="C: tables in little flash (default), or branches that take fewer instructions",
    )
    signing = parser.add_argument_group("JSON")
    signing.add_argument(
        "--sign",
        metavar="KEYFILE",
        help="sign the model with the bytes of this file: at least 16, best random ones; "
        "verify checks it",
    )


def run(args: argparse.Namespace) -> int:
    """Write a model in another format, or smaller, or signed."""
    ending = os.path.splitext(args.out)[1].lower()
    refuse_contradictions(args, ending)
    key = read_key(args.sign)
    forest = before = load_model(args.model)
    say("read", f"{kept_file(args.model)}: {shape(forest)}", wrap=False)
    try:
        if args.shrink:
            forest, report = exporter("shrinking").shrink(forest, levels=args.levels)
            say("shrunk", str(report))
        content = WRITERS[ending](forest, args, key)
    except (ValueError, TypeError) as error:
        raise Problem(f"{args.model}: {error}") from None
    if args.check is not None:
        say("checked", changes(before, forest, args), wrap=False)
    with replaced(args.out) as stream:
        stream.buffer.write(content)
    args.facts.update(model=args.model, out=args.out, bytes=len(content))
    more = {".h": f" of C text; call {c_name(args.out)}_predict(row)", ".py": " of Python text"}
    say("saved", kept_file(args.out, more.get(ending, "")), wrap=False)
    return 0


def refuse_contradictions(args: argparse.Namespace, ending: str) -> None:
    """Refuse, before any work, options that cannot work together."""
    kept = [args.model] if args.sign is None else [args.model, args.sign]
    refuse_output(args.out, *kept, option="the file")
    if ending not in WRITERS:
        raise Problem(
            f"the ending of {args.out} must name a format; give a name that ends in .json, .onnx, "
            ".h (C) or .py (MicroPython)"
        )
    for option, endings in WRITTEN_FOR.items():
        if getattr(args, option) is not None and ending not in endings:
            raise Problem(
                f"--{option} is for {' and '.join(endings)}, got {args.out}; leave it out"
            )
    if args.levels is not None and not args.shrink:
        raise Problem("--levels is how far --shrink goes; give both")


def changes(before: Any, after: Any, args: argparse.Namespace) -> str:
    """For how many rows of a log the model and what is written predict differently."""
    from edgeforest.sources.features import Features

    scaling = exporter("scaling")
    kind = args.rows or "float32"
    scales = scaling.scales_of(after, kind, args.scale)
    changed = rows = 0
    with open_source(args.check) as source:
        for block in Features(before, source):
            if not block.features:
                continue
            seen = scaling.round_rows(after, block.features, kind, scales)
            answers = zip(before.predict(block.features), after.predict(seen), strict=True)
            changed += sum(one != two for one, two in answers)
            rows += len(block.features)
    return f"{changed:,} of {count(rows, 'prediction')} for {args.check} change"


def json_of(forest: Any, args: argparse.Namespace, key: bytes | None) -> bytes:
    """The text of a model file, signed if there is a key."""
    text: str = forest.to_json()
    if key is not None:
        text = exporter("signing").sign(text, key)
        say("signed", f"with the key in {args.sign}", wrap=False)
    return text.encode() + b"\n"


def onnx_of(forest: Any, args: argparse.Namespace, key: bytes | None) -> bytes:
    """The bytes of an ONNX file."""
    try:
        to_onnx = exporter("onnx_model").to_onnx
    except ImportError as error:
        raise Problem(
            f"ONNX needs the package {error.name}, which is not installed; "
            "pip install 'edgeforest[onnx]'"
        ) from None
    options = {"operator": args.operator or "classic", "inputs": args.inputs or "tensor"}
    model = to_onnx(forest, coverage=args.coverage, **options)
    return bytes(model.SerializeToString())


def c_of(forest: Any, args: argparse.Namespace, key: bytes | None) -> bytes:
    """The text of a C header."""
    options = {"rows": args.rows or "float32", "scale": args.scale, "coverage": args.coverage}
    options["prefer"] = args.prefer or "size"
    text: str = exporter("c_header").to_c(forest, c_name(args.out), **options)
    return text.encode()


def micropython_of(forest: Any, args: argparse.Namespace, key: bytes | None) -> bytes:
    """The text of a MicroPython module."""
    options = {"rows": args.rows or "float32", "scale": args.scale, "coverage": args.coverage}
    text: str = exporter("micropython_module").to_micropython(forest, **options)
    return text.encode()


WRITERS = {".json": json_of, ".onnx": onnx_of, ".h": c_of, ".py": micropython_of}


def c_name(path: str) -> str:
    """What the functions of a header begin with: the name of the file as an identifier of C."""
    stem = os.path.splitext(os.path.basename(path))[0]
    name = re.sub(r"\W", "_", stem, flags=re.ASCII)
    return name if name[0].isalpha() else f"model_{name}"

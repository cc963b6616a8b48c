"""Print the part of CHANGELOG.md that is about one release: these are its release notes.

    python tools/release_notes.py v0.1.0

Exit codes: 0 printed, 1 the changelog has no such release, or says that it is not released yet, or
the package has another version (a sentence on stderr says which).
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def notes(changelog: str, version: str) -> str:
    """The text below the heading of a version, up to the next one."""
    for part in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        if heading.split(" ")[0] == version:
            if "not released" in heading:
                raise ValueError(f"CHANGELOG.md says {heading!r}; write the date there first")
            return body.strip()
    raise ValueError(f"CHANGELOG.md has no release {version}; add a heading '## {version} (date)'")


def main(argv: list[str]) -> int:
    """Print the notes of the version that a tag names."""
    if len(argv) != 1:
        print("give one tag: python tools/release_notes.py v0.1.0", file=sys.stderr)
        return 1
    version = argv[0].removeprefix("v")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if version != project["version"]:
        print(f"the tag says {version}, pyproject.toml {project['version']}", file=sys.stderr)
        return 1
    try:
        print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version))
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

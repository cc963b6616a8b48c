"""Put the tables that the benchmarks print into docs/benchmarks.md.

    python -m benchmarks > printed.txt
    python -m benchmarks.page printed.txt

A comment such as `<!-- table: Table 1: MNIST -->` stands before each table of the page. The table after it
becomes the one that was printed under the heading that begins so. Tables that were not printed stay as
they are; the sentences around them are for a person to check.
"""

import argparse
import re
import sys
from pathlib import Path

from benchmarks import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
MARKED = re.compile(r"<!-- table: (.+?) -->\n\n((?:\|.*\n)*)")


def printed(text: str) -> dict[str, str]:
    """The tables of an output, by the heading before each."""
    found: dict[str, str] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("### "):
            heading = line[4:]
            found[heading] = ""
        elif line.startswith("|") and heading:
            found[heading] += line + "\n"
        elif line and found.get(heading):
            heading = ""  # a table ends where something else begins
    return {name: table for name, table in found.items() if table}


def renewed(page: str, tables: dict[str, str]) -> tuple[str, list[str]]:
    """The page with these tables, and the titles that were put in."""
    done: list[str] = []

    def put(match: re.Match[str]) -> str:
        title, old = match.groups()
        fitting = [table for name, table in tables.items() if name.startswith(title)]
        if len(fitting) > 1:
            sys.exit(f"a title must fit one heading, {title!r} fits {len(fitting)}; make it longer")
        done.extend([title] * len(fitting))
        table = fitting[0] if fitting else old
        gap = "\n" if table and not old else ""  # nothing was there yet: a line ends the table
        return f"<!-- table: {title} -->\n\n{table}{gap}"

    return MARKED.sub(put, page), done


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("printed", nargs="+", type=Path, help="what the benchmarks printed")
    args = parser.parse_args()
    tables: dict[str, str] = {}
    for path in args.printed:
        tables |= printed(path.read_text())
    page, done = renewed(PAGE.read_text(), tables)
    PAGE.write_text(page)
    for title in done:
        print(f"put in: {title}")
    for title, _ in MARKED.findall(page):
        if title not in done:
            print(f"as before: {title}")


if __name__ == "__main__":
    main()

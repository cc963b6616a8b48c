"""Run all that docs/benchmarks.md is made of, one command after the other.

    python -m benchmarks            # under half an hour of CPU time
    python -m benchmarks --quick    # one or two seeds, fewer samples: under four minutes
    python -m benchmarks --list     # the commands, without running them

Each command can be run alone, with options of its own. --data FOLDER or $EDGEFOREST_DATA says where the
real data is (see data.py). CPU seconds follow each command, and their sum is the last line.
"""

import argparse
import os
import resource
import shlex
import subprocess
import sys

from benchmarks import ROOT

COMMANDS = [  # in full, and with --quick
    ("paper", "paper --quick --table 1", "paper --quick --table 3"),
    ("patches", "patches --quick"),
    ("paper_figures", "paper_figures --quick"),
    ("guarantee --nodes 300", "guarantee --nodes 20"),
    ("coverage --samples 1000", "coverage --samples 50 --only arms"),
    ("accuracy --seeds 5", "accuracy --seeds 1 --trees 20 --sets digits,wine,diabetes"),
]


def commands(quick: bool) -> list[list[str]]:
    """What to run: a module of this folder and its options."""
    chosen = [one[1:] if quick else one[:1] for one in COMMANDS]
    return [shlex.split(text) for one in chosen for text in one]


def cpu_seconds() -> float:
    """The CPU time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="one or two seeds, fewer samples")
    parser.add_argument("--list", action="store_true", help="print the commands alone")
    parser.add_argument("--data", metavar="FOLDER", help="where the real data is (see data.py)")
    args = parser.parse_args()
    if args.data:
        os.environ["EDGEFOREST_DATA"] = os.path.abspath(args.data)
    failed = []
    for module, *options in commands(args.quick):
        line = shlex.join(["python", "-m", f"benchmarks.{module}", *options])
        if args.list:
            print(line)
            continue
        print(f"\n## `{line}`\n", flush=True)
        before = cpu_seconds()
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *options], cwd=ROOT)
        print(f"\n{cpu_seconds() - before:.0f} CPU seconds", flush=True)
        if done.returncode:
            failed.append(line)
    if not args.list:
        print(f"\nAll together: {cpu_seconds():.0f} CPU seconds.")
    if failed:
        sys.exit(f"these failed: {'; '.join(failed)}")


if __name__ == "__main__":
    main()

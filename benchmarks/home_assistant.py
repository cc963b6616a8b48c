"""From a week of Home Assistant's recorder to a model: seconds, memory, and the score.

    python -m benchmarks.home_assistant [--quick]

The database has the recorder's own tables and a simulated house of six rooms. `edgeforest train` reads it as
it is, in a process of its own; memory is the most that the system saw of it.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import about

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from recorder import TARGET, week

COLUMNS = "sensor.*,light.*,sun.sun"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two days of two rooms")
    args = parser.parse_args()
    print(about())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "home-assistant_v2.db")
        house = (path, 2, 2) if args.quick else (path,)
        with multiprocessing.get_context("spawn").Pool(1) as pool:  # a child begins with our memory
            written = pool.apply(week, house)
        print(f"database   {written:,} states, {path.stat().st_size / 1e6:.0f} MB")
        command = ["-m", "edgeforest", "train", path.name, "--target", TARGET]
        command += ["--columns", COLUMNS, "--out", "model.json"]
        print("$ edgeforest", *command[2:], flush=True)
        begin = time.perf_counter()
        environment = {**os.environ, "TZ": "UTC"}
        child = subprocess.Popen([sys.executable, *command], cwd=folder, env=environment)
        _, code, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begin
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 1000
    print(f"took       {seconds:.1f} s, {cpu:.1f} CPU seconds, {memory:.0f} MB of memory")
    sys.exit(os.waitstatus_to_exitcode(code))


if __name__ == "__main__":
    main()

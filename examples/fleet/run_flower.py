"""Four devices and a server on this machine, with Flower: one forest, and no row leaves its device.

    pip install 'edgeforest[fleet]'
    python run_flower.py [--rounds 1]

Flower's SuperLink and a SuperNode for each device run as processes that talk by loopback, without
any network and without ray. All of them end with this program, also if it fails or is stopped.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import devices

import edgeforest

HERE = Path(__file__).resolve().parent
MACHINES = ("pump", "fan", "saw", "press")
PATIENCE = 600.0  # seconds, only for what hangs
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}


class Processes:
    """Programs that are started together and end together, with all that they started."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.started: list[tuple[str, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> "Processes":
        return self

    def start(self, log: str, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a program in a group of its own; what it prints goes to a file."""
        path = shutil.which(program, path=self.environment["PATH"])
        if path is None:
            raise SystemExit(f"{program} is missing: pip install 'edgeforest[fleet]'")
        with open(self.folder / f"{log}.log", "wb") as file:
            process = subprocess.Popen(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
            )
        self.started.append((log, process))
        return process

    def refuse_ended(self) -> None:
        """Stop with the last lines of a program that should still run."""
        for log, process in self.started:
            if process.poll():
                lines = (self.folder / f"{log}.log").read_text(errors="replace").splitlines()
                raise SystemExit(
                    "\n".join([f"{log} ended with code {process.poll()}:", *lines[-15:]])
                )

    def __exit__(self, *_: object) -> None:
        for how, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
            for _, process in self.started:  # a group may outlive the one that began it
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, how)
            end = time.monotonic() + seconds
            while time.monotonic() < end and any(self.alive()):
                time.sleep(0.05)

    def alive(self) -> list[int]:
        """The groups that have a process left."""
        found = []
        for _, process in self.started:
            process.poll()  # so that the dead are buried
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, 0)
                found.append(process.pid)
        return found


def free_port() -> str:
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def listening(port: str) -> bool:
    """Whether somebody listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), 1):
        return True
    return False


def wait(condition, processes: Processes, what: str) -> None:
    """Wait until something is so, unless a program has failed meanwhile."""
    end = time.monotonic() + PATIENCE
    while not condition():
        processes.refuse_ended()
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come within {PATIENCE:.0f} seconds")
        time.sleep(0.1)


def federated(folder: Path, names: list[str], rounds: int, timeout: float) -> None:
    """Run Flower: the joint model and what became of each device's go to `folder`/joint."""
    home = folder / "flower"
    home.mkdir()
    beside = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    environment = {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": beside}
    link = free_port()
    (home / "config.toml").write_text(
        f'[superlink.here]\naddress = "127.0.0.1:{link}"\ninsecure = true\n'
    )
    mine = ("--insecure", "--isolation", "process", "--host", "127.0.0.1", "--port")
    with Processes(folder, environment) as processes:
        processes.start("superlink", "flower-superlink", *mine, link)
        wait(lambda: listening(link), processes, "the SuperLink")
        runner = ("flower-superexec", "--insecure", "--runtime-api-address")
        processes.start("server", *runner, f"127.0.0.1:{link}")
        for name in names:
            port = free_port()
            config = f'name="{name}" log="{folder / name}.csv"'
            link_to = ("--superlink", f"127.0.0.1:{link}", "--node-config", config)
            processes.start(f"{name}-node", "flower-supernode", *mine, port, *link_to)
            wait(lambda port=port: listening(port), processes, "a SuperNode")
            processes.start(name, *runner, f"127.0.0.1:{port}")
        settings = (
            f'nodes={len(names)} rounds={rounds} timeout={timeout} rows="{folder / "server.csv"}" '
            f'out="{folder / "joint"}"'
        )
        app = shutil.copytree(HERE / "flower_app", folder / "app")
        run = processes.start("run", "flwr", "run", str(app), "here", "--run-config", settings)
        run.wait(PATIENCE)
        wait((folder / "joint" / "verdicts.json").exists, processes, "the joint forest")


def table(folder: Path, names: list[str]) -> None:
    """Print what each device sent, and how good each forest is."""
    rows = devices.rows_of("test")
    X, y = [row[:-1] for row in rows], [row[-1] for row in rows]

    def score(forest: edgeforest.Forest) -> str:
        found = forest.predict(X)
        return f"{sum(a == b for a, b in zip(found, y, strict=True)) / len(y):8.3f}"

    verdicts = json.loads((folder / "joint" / "verdicts.json").read_text())
    print(f"{'':16}{'accuracy':>8}{'bytes sent':>12}{'bytes of data':>15}")
    whole = []
    for name in names:
        log = folder / f"{name}.csv"
        whole.append(log)
        alone = edgeforest.train_source(log, "state", n_trees=20, max_depth=8, budget=5_000_000)
        verdict = next(
            (v for v in verdicts if v["device"] == name), {"bytes": 0, "reason": "silent"}
        )
        why = f"   rejected: {verdict['reason']}" if verdict["reason"] else ""
        size = log.stat().st_size
        print(f"{name + ' alone':16}{score(alone)}{verdict['bytes']:12,}{size:15,}{why}")
    joint = edgeforest.load(folder / "joint" / "joint.json")
    print(f"{'joint':16}{score(joint)}   ({len(joint)} trees, {len(joint.to_json()):,} bytes)")
    trees = 20 * len(names)
    together = edgeforest.train_source(whole, "state", n_trees=trees, max_depth=8)
    print(f"{'all rows at once':16}{score(together)}   ({trees} trees; the rows would have left)")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--devices", type=int, default=4, choices=range(2, 5))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds a device may take")
    given = parser.parse_args()
    names = list(MACHINES[: given.devices])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, as Ctrl-C does
    with tempfile.TemporaryDirectory(prefix="fleet-") as scratch:
        folder = Path(scratch)
        devices.write(folder)
        try:
            federated(folder, names, given.rounds, given.timeout)
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        table(folder, names)


if __name__ == "__main__":
    main()

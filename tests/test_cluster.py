"""Trees that grow on a Dask cluster: the same forest, whoever grows them, and whoever dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgeforest import (
    Budget,
    RandomForestClassifier,
    RandomForestRegressor,
    load,
    train_source,
)
from edgeforest.host import cluster as host_cluster
from edgeforest.sources import SourceError, Table

distributed = pytest.importorskip(
    "distributed", reason="Dask is not installed: pip install 'edgeforest[test]'"
)
joblib = pytest.importorskip("joblib")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers, each a process; they end with the module, also if a test fails."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
        ) as local,
        distributed.Client(local) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 20,000 rows."""
    path = tmp_path_factory.mktemp("log") / "log.csv"
    lines = ["a,b,c,room,y"]
    for i in range(20_000):
        a, b, c = i * 37 % 101, i * 53 % 97, i * 71 % 89
        lines.append(f"{a},{b},{c},r{i % 5},{'hot' if a * b > 2500 + 20 * c else 'cold'}")
    path.write_text("\n".join(lines) + "\n")
    return path


OPTIONS: list[dict[str, Any]] = [
    {"n_trees": 7},
    {"n_trees": 30, "budget": 300_000, "max_depth": 6},  # fewer trees than asked for
    {"n_trees": 9, "budget": Budget(bytes=2_500_000), "max_samples": 2000},  # several pools
]


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "insertions", "bytes"])
def test_a_forest_of_two_workers_is_that_of_one_process(
    client: Any, log: Path, options: dict[str, Any]
) -> None:
    alone = train_source(log, "y", seed=3, **options)
    with joblib.parallel_config("dask"):
        together = train_source(log, "y", seed=3, **options)
    assert together.to_json() == alone.to_json()
    assert together.spent.rows_read == alone.spent.rows_read


def test_an_estimator_uses_the_cluster_and_reports_progress(client: Any, log: Path) -> None:
    seen: list[int] = []
    forest = RandomForestRegressor(
        5, max_depth=5, random_state=0, callback=lambda p: seen.append(p.trees)
    )
    alone = RandomForestRegressor(5, max_depth=5, random_state=0).fit_source(log, "a")
    with joblib.parallel_config("dask"):
        forest.fit_source(log, "a")
    assert forest.forest_.to_json() == alone.forest_.to_json()
    assert sorted(set(seen)) in ([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5])


def test_a_callback_that_stops_keeps_the_first_trees(client: Any, log: Path) -> None:
    with joblib.parallel_config("dask"):
        forest = RandomForestRegressor(
            40, random_state=0, callback=lambda p: p.trees >= 2
        ).fit_source(log, "a")
    assert len(forest.forest_) == 2


def test_rows_in_memory_are_never_sent(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cluster.Cluster, "run", None)  # it would fail
    table = Table({"a": list(range(300)), "b": [i > 100 for i in range(300)]})
    with joblib.parallel_config("dask"):
        assert len(train_source(table, "b", n_trees=3)) == 3


def test_what_cannot_work_is_refused(client: Any, log: Path, tmp_path: Path) -> None:
    with joblib.parallel_config("dask"), pytest.raises(ValueError, match="budget in seconds"):
        train_source(log, "y", budget=Budget(seconds=5))
    from edgeforest.sources.training import Streaming, forget_held, grow_elsewhere

    path = tmp_path / "log.csv"
    path.write_bytes(log.read_bytes())
    from edgeforest.sources import open_source

    job = Streaming(open_source(path), "y", n_trees=2).job()
    path.write_text(path.read_text().replace("hot", "tepid"))
    forget_held()
    with pytest.raises(SourceError, match="another file on a worker"):
        grow_elsewhere(job, 0, 1)


def test_cores_of_this_machine_are_left_to_threads() -> None:
    with joblib.parallel_config("loky", n_jobs=2):
        assert host_cluster.active(None) is None


def test_the_command_line_trains_on_a_cluster(client: Any, log: Path, tmp_path: Path) -> None:
    from edgeforest.cli import main

    one, two = tmp_path / "one.json", tmp_path / "two.json"
    common = ["train", str(log), "--target", "y", "--trees", "5", "--holdout", "none"]
    assert not main([*common, "--checkpoint", str(one)])
    assert not main([*common, "--dask", client.scheduler.address, "--out", str(two)])
    assert load(two).to_json() == load(one).to_json()
    assert main([*common, "--dask", client.scheduler.address, "--seconds", "9"])


def test_a_worker_that_is_killed_changes_nothing(client: Any, log: Path) -> None:
    """Last of those with this cluster: the worker that takes the place of the other is not waited for."""
    alone = train_source(log, "y", n_trees=24, seed=1)
    killed: list[int] = []

    def kill(progress: Any) -> None:
        if progress.trees and not killed:  # some trees are done, most are not
            killed.extend(client.run(os.getpid).values())
            os.kill(killed[0], signal.SIGKILL)

    with joblib.parallel_config("dask", client=client):
        forest = RandomForestClassifier(24, random_state=1, callback=kill).fit_source(log, "y")
    ended = time.monotonic() + 30
    while Path(f"/proc/{killed[0]}").exists() and time.monotonic() < ended:
        time.sleep(0.05)
    assert not Path(f"/proc/{killed[0]}").exists()
    assert len(killed) == 2
    assert forest.forest_.to_json() == alone.to_json()


def test_a_scheduler_that_is_not_there_is_one_sentence(
    log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from edgeforest.cli import main

    assert main(["train", str(log), "--target", "y", "--dask", "nonsense://somewhere"])
    said = capfd.readouterr().err.strip()
    assert said.startswith("edgeforest: cannot reach a Dask scheduler at nonsense://somewhere")
    assert "\n" not in said

"""Trees that grow on a Dask cluster: the same forest, whoever grows them, and whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgeforest import (
    Budget,
    RandomForestClassifier,
    RandomForestRegressor,
    engine,
    load,
    permutation_importance,
    train_source,
    tune,
)
from edgeforest.cli import main
from edgeforest.engines.native_reader import CODES
from edgeforest.host import cluster as host_cluster
from edgeforest.scores.estimation import estimate
from edgeforest.sources import SourceError, Table, open_source, pools
from edgeforest.sources.training import Streaming

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


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"n_trees": 7},
    "insertions": {"n_trees": 30, "budget": 300_000, "max_depth": 6},  # fewer trees than asked for
    "pools": {"n_trees": 9, "budget": Budget(bytes=2_500_000), "max_samples": 2000},
    # A budget so small that trees leave too little room to each other:
    "room": {"target": "room", "n_trees": 9, "budget": Budget(bytes=2_000_000)},
}


@pytest.mark.parametrize("how", OPTIONS)
def test_a_forest_of_two_workers_is_that_of_one_process(
    client: Any, log: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = train_source(log, seed=3, **{"target": "y", **OPTIONS[how]})
    asked: list[Any] = []
    plain = host_cluster.Work.submit

    def submit(self: Any, function: Any, *given: Any, near: Any) -> Any:
        if function is pools.grow_elsewhere:
            asked.append(given[3:])
        return plain(self, function, *given, near=near)

    monkeypatch.setattr(host_cluster.Work, "submit", submit)
    with joblib.parallel_config("dask"):
        together = train_source(log, seed=3, **{"target": "y", **OPTIONS[how]})
    assert together.to_json() == alone.to_json()
    assert together.spent.rows_read == alone.spent.rows_read
    assert asked[0][1] - asked[0][0] < 3  # the trees of a pool are divided among workers ...
    assert any(whole for _, _, whole in asked) == (how == "room")  # ... unless room limits them


def held(log: Path, n_trees: int, *span: int) -> Any:
    """What a worker keeps in memory after it has grown some trees, in this process."""
    job = Streaming(open_source(log), "y", n_trees=n_trees, max_depth=2, seed=1).pools.job()
    try:
        pools.grow_elsewhere(job, 0, n_trees, *span, False)
        return pools._HELD[job]._ready.data
    finally:
        pools.forget_held(job)


@pytest.mark.skipif("native" not in engine.present(), reason="needs the native engine")
def test_a_worker_codes_the_rows_of_its_pool_whatever_it_grows_first(tmp_path: Path) -> None:
    """For one tree it does not pay to code all rows; for those that come later it does."""
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "log.csv"
    rows = numpy.random.default_rng(0).random((4000, 9))
    numpy.savetxt(path, rows, delimiter=",", header="a,b,c,d,e,f,g,h,y", comments="")
    kinds = [held(path, n, 0, 1).columns.layout[3::6] for n in (1, 200)]
    assert CODES not in kinds[0]
    assert set(kinds[1]) == {CODES}


def test_what_is_asked_for_first_goes_first() -> None:
    """Dask's own order may be the reverse, and then a worker reads its pools more than once."""

    asked: list[float] = []

    class Client:
        def nthreads(self) -> dict[str, int]:
            return {"one": 1, "two": 1}

        def submit(self, function: Any, priority: float = 0, **options: Any) -> None:
            asked.append(priority)  # Dask begins with the highest

    work = host_cluster.Work(Client(), 2, lambda: None)
    for pool in range(9):
        work.submit(print, near=(pool, 9))
    assert asked == sorted(set(asked), reverse=True)
    assert len(asked) == 9


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


def hold(marker: str, go: str) -> None:
    """In a worker: when it has grown a tree, the first of all stops, until it is killed.

    With `go`, all stop after the first two trees of the forest, until their work is cancelled.
    """
    plain = pools.Pools.grow

    def grow(self: Any, first: int, last: int) -> Iterator[Any]:
        for step in plain(self, first, last):
            yield step
            if step is not None and (not go or first > 1):
                try:
                    with open(marker, "x") as file:
                        file.write(str(os.getpid()))
                    mine = True
                except FileExistsError:
                    mine = bool(go)
                until = time.monotonic() + 200
                while mine and not self.cancelled and time.monotonic() < until:
                    time.sleep(0.02)
                if mine:
                    Path(f"{marker}.over").touch()

    pools.Pools.grow = grow  # type: ignore[method-assign]
    pools.plain = plain  # type: ignore[attr-defined]


def wait_for(what: Callable[[], bool]) -> None:
    """Wait until something has happened; a machine that is busy may need long."""
    until = time.monotonic() + 100
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def release() -> None:
    """In a worker: grow as ever."""
    pools.Pools.grow = vars(pools).pop("plain", pools.Pools.grow)  # type: ignore[method-assign]


def test_a_worker_that_is_killed_while_it_grows_a_tree_changes_nothing(
    client: Any, log: Path, tmp_path: Path
) -> None:
    alone = train_source(log, "y", n_trees=24, seed=1)
    marker, killed = tmp_path / "pid", []

    def kill(progress: Any) -> None:
        if not killed and marker.exists() and marker.read_text():  # it has a tree, and sends none
            killed.append(int(marker.read_text()))
            os.kill(killed[0], signal.SIGKILL)

    client.run(hold, str(marker), "")
    try:
        with joblib.parallel_config("dask"):
            forest = RandomForestClassifier(24, random_state=1, callback=kill).fit_source(log, "y")
    finally:
        client.wait_for_workers(2, timeout=60)  # its nanny starts another one
        client.run(release)
    assert killed
    assert killed[0] not in client.run(os.getpid).values()
    assert forest.forest_.to_json() == alone.to_json()


def test_ctrl_c_keeps_the_trees_that_are_done_and_resume_grows_the_others(
    client: Any, log: Path, tmp_path: Path
) -> None:
    model, marker = tmp_path / "model.json", tmp_path / "held"
    line = ["train", str(log), "--target", "y", "--trees", "12", "--holdout", "none"]
    line += ["--checkpoint", str(model), "--dask", client.scheduler.address]
    client.run(hold, str(marker), "go")
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "edgeforest", *line],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as command:
            try:
                wait_for(lambda: command.poll() is not None or (model.exists() and marker.exists()))
                command.send_signal(signal.SIGINT)
                said = command.communicate(timeout=120)[0]
            finally:
                command.kill()
        wait_for(Path(f"{marker}.over").exists)  # the workers were told to stop
    finally:
        client.run(release)
    assert command.returncode == 130, said
    assert "--resume goes on" in said
    assert 0 < len(load(model)) < 12
    assert main([*line, "--resume"]) == 0
    assert load(model).to_json() == train_source(log, "y", n_trees=12).to_json()


def peak(reset: bool) -> int:
    """In a worker: the most memory that it had since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index("VmHWM:") + 1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is read from /proc")
def test_each_worker_stays_within_its_bytes(client: Any, tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    path = tmp_path / "large.npy"
    rows = np.random.default_rng(0).random((600_000, 21), "f4")  # 50 MB
    rows[:, 20] = rows[:, 3] + rows[:, 5] > 1
    np.save(path, rows)
    del rows
    source = open_source(path, names=[*"abcdefghijklmnopqrst", "y"])
    options: dict[str, Any] = {"n_trees": 6, "max_depth": 6, "budget": Budget(bytes=8_000_000)}
    before = client.run(peak, True)
    with joblib.parallel_config("dask"):
        forest = train_source(source, "y", **options)
    after = client.run(peak, False)
    assert forest.to_json() == train_source(source, "y", **options).to_json()
    for name, bytes_before in before.items():
        assert after[name] - bytes_before < 10_000_000  # Dask itself takes some


@pytest.mark.parametrize("backend", ["dask", "threading"])
def test_importance_score_and_tuning_are_those_of_one_process(client: Any, backend: str) -> None:
    X = [[i % 10, i * 7 % 11, i * i % 13] for i in range(400)]
    y = [(row[0] > 4) ^ (row[1] > 8) for row in X]
    forest = RandomForestClassifier(4, random_state=0).fit(X, y)

    def all_of_them() -> list[Any]:
        tuned = tune(RandomForestClassifier(random_state=0), X, y, n_trees=3, budget=90_000)
        scored = estimate(X, y, n_trees=3, budget=40_000).facts()
        scored.pop("seconds")
        shuffled = permutation_importance(forest, X, y, n_repeats=2).importances.tolist()
        return [tuned.parameters, tuned.trials, scored, shuffled]

    alone = all_of_them()
    with joblib.parallel_config(backend, n_jobs=2):
        assert host_cluster.jobs() == 2
        assert all_of_them() == alone


def test_rows_in_memory_are_never_sent(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cluster.Cluster, "work", None)  # it would fail
    table = Table({"a": list(range(300)), "b": [i > 100 for i in range(300)]})
    with joblib.parallel_config("dask"):
        assert len(train_source(table, "b", n_trees=3)) == 3


def test_what_cannot_work_is_refused(client: Any, log: Path, tmp_path: Path) -> None:
    with joblib.parallel_config("dask"), pytest.raises(ValueError, match="limit insertions"):
        train_source(log, "y", budget=Budget(seconds=5))
    path = tmp_path / "log.csv"
    path.write_bytes(log.read_bytes())
    job = Streaming(open_source(path), "y", n_trees=2).pools.job()
    path.write_text(path.read_text().replace("hot", "tepid"))
    with pytest.raises(SourceError, match="another file on a worker"):
        pools.begin_elsewhere(job)


def test_cores_of_this_machine_are_left_to_threads() -> None:
    with joblib.parallel_config("loky", n_jobs=2):
        assert host_cluster.active(None) is None


def test_the_command_line_trains_and_scores_on_a_cluster(
    client: Any, log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    common = ["train", str(log), "--target", "y", "--trees", "5"]
    dask = ["--dask", client.scheduler.address]
    assert not main([*common, "--checkpoint", str(one)])
    alone = [line for line in capfd.readouterr().out.splitlines() if "correct" in line]
    assert not main([*common, *dask, "--out", str(two)])
    assert [line for line in capfd.readouterr().out.splitlines() if "correct" in line] == alone
    assert load(two).to_json() == load(one).to_json()
    assert main([*common, *dask, "--seconds", "9"])


def test_a_scheduler_that_is_not_there_is_one_sentence(
    log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(log), "--target", "y", "--dask", "nonsense://somewhere"])
    said = capfd.readouterr().err.strip()
    assert said.startswith("edgeforest: cannot reach a Dask scheduler at nonsense://somewhere")
    assert "\n" not in said

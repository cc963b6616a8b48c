"""Real filesystems that are full, or lose power while a model is written. Only for root."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_files import NEW, OLD, Watched, as_root, forest, names

import edgeforest
from edgeforest import cli, files, storage
from edgeforest.host import disk

SHUTDOWN = 0x8004587D  # FS_IOC_SHUTDOWN of <linux/fs.h>
WITHOUT_FLUSHING = 2  # not even the journal


@contextlib.contextmanager
def mounted(place: Path, *options: str | Path) -> Iterator[Path]:
    """Mount something, or skip the test with the reason; it is always unmounted."""
    place.mkdir(exist_ok=True)
    command = ["mount", *map(str, options), str(place)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        yield place
    finally:
        gc.collect()  # files that an exception keeps open
        if subprocess.run(["umount", str(place)], capture_output=True).returncode:
            subprocess.run(["umount", "-l", str(place)], check=True)


@as_root
def test_a_disk_that_is_full_keeps_the_old_file(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=64k", "none") as folder:
        path = folder / "model.json"
        files.write(path, [OLD])
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                files.write(path, [NEW] * 9)
            assert names(folder) == ["model.json"]
            assert path.read_text() == OLD
        files.write(path, [NEW])
        assert path.read_text() == NEW


@as_root
def test_the_command_line_keeps_a_forest_that_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("a,b,y\n" + "".join(f"{i % 97},{i % 89},{i * i % 7}\n" for i in range(600)))
    monkeypatch.chdir(tmp_path)
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=16k", "none") as folder:
        out = folder / "model.json"
        files.write(out, ["old"])
        assert cli.main(["train", str(log), "--target", "y", "--out", str(out)]) == 2
        said = capsys.readouterr().err
        assert out.read_text() == "old"
        assert names(folder) == ["model.json"]
    found = re.fullmatch(
        rf"edgeforest: cannot write {out}: no space left on device; the model is in (.*) instead\n",
        said,
    )
    assert found
    assert Path(found[1]).parent == tmp_path
    assert Path(found[1]).stat().st_size > 16_000
    assert len(edgeforest.load(found[1])) > 1


class PowerCut(BaseException):
    """Nothing runs after it."""


class Ext4:
    """An ext4 filesystem in a file, whose power can be cut."""

    # An old filesystem or another one: a rename does not flush the content; no commits by time.
    options = ("-o", "loop,noauto_da_alloc,commit=300")

    def __init__(self, tmp_path: Path) -> None:
        self.image, self.place = tmp_path / "image", tmp_path / "mounted"
        mkfs = shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if mkfs is None:
            pytest.skip("there is no mkfs.ext4")
        with open(self.image, "wb") as stream:
            stream.truncate(8 << 20)
        subprocess.run([mkfs, "-q", "-F", str(self.image)], check=True)

    def on(self) -> contextlib.AbstractContextManager[Path]:
        return mounted(self.place, *self.options, self.image)

    def cut(self) -> None:
        """What is not on the disk now is lost."""
        import fcntl

        number = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(number, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING))
        except OSError as error:
            pytest.skip(f"this kernel cannot shut down a filesystem: {error}")
        finally:
            os.close(number)


def let_the_journal_be_written(folder: Path) -> None:
    """As any other program may do it."""
    number = os.open(folder / "other", os.O_CREAT | os.O_WRONLY)
    os.fsync(number)
    os.close(number)


@as_root
def test_a_power_cut_after_saving_leaves_the_new_model(tmp_path: Path) -> None:
    ext4 = Ext4(tmp_path)
    first, second = forest(1), forest(2)
    with ext4.on() as folder:
        first.save(folder / "saved.json")
        storage.write(first, folder / "checkpoint.json", {"next": 1})
    with ext4.on() as folder:
        second.save(folder / "saved.json")
        second.save(folder / "new.json")
        storage.write(second, folder / "checkpoint.json", {"next": 2})
        let_the_journal_be_written(folder)
        ext4.cut()
    with ext4.on() as folder:
        for name in ("saved.json", "new.json", "checkpoint.json"):
            assert edgeforest.load(folder / name).to_json() == second.to_json()
        assert storage.read(folder / "checkpoint.json")[1] == {"next": 2}


@as_root
def test_without_flushing_a_power_cut_destroys_the_old_and_the_new_file(tmp_path: Path) -> None:
    """It shows that the other tests here can fail."""
    ext4 = Ext4(tmp_path)
    for _ in range(20):  # until nobody else on this machine flushes all disks meanwhile
        with ext4.on() as folder:
            (folder / "model.json").write_text(OLD)
        with ext4.on() as folder:
            (folder / "part").write_text(NEW)
            os.replace(folder / "part", folder / "model.json")
            let_the_journal_be_written(folder)
            ext4.cut()
        with ext4.on() as folder:
            if (folder / "model.json").read_text() == "":
                return
    pytest.fail("it was never empty")


@as_root
def test_a_power_cut_at_any_call_leaves_the_old_model_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    ext4 = Ext4(tmp_path)
    first, second = forest(1), forest(2)
    with ext4.on() as folder:
        first.save(folder / "model.json")
        watched = Watched(-1, lambda: None)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", watched)
            first.save(folder / "model.json")

    def cut() -> None:
        ext4.cut()
        raise PowerCut

    found = []
    places = [(i, False) for i, name in enumerate(watched.calls) if name in ("fsync", "replace")]
    places.append((places[-1][0], True))  # after the last of them
    for at, after in places:
        with ext4.on() as folder, monkeypatch.context() as patch:
            patch.setattr(disk, "os", Watched(at, cut, after))
            with pytest.raises(PowerCut):
                second.save(folder / "model.json")
        with ext4.on() as folder:
            text = edgeforest.load(folder / "model.json").to_json()
            assert text in (first.to_json(), second.to_json())
            found.append(text == second.to_json())
            first.save(folder / "model.json")
            assert names(folder) == ["lost+found", "model.json"], "what the cut left is removed"
    assert not found[0]
    assert found[-1], "the folder is on the disk"
    figure(f"{len(found)} cuts, the new model after {sum(found)}")

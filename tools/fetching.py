"""Steps that get a runtime: running programs, asking apt for packages, keeping what works.

`tools/get_runtimes.py` has the list of runtimes and what is special to each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

RUNTIMES = Path(__file__).resolve().parent.parent / ".runtimes"

# The suite is signed with its predecessor's key too, so an older Debian's keyring also vouches
# for it. Newer releases name the same file .pgp.
DEBIAN_KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
)

LOCAL_TIMEOUT = 120  # seconds, where one would do: nine runtimes may be fetched at once
NETWORK_TIMEOUT = 240
RETRY_PAUSE = 2

# Private state keeps the system's package lists out of it, and the system's preferences and
# default release out of this. Hooks are cleared since they would act on the system's own cache.
# The user is the present one because apt's sandbox user often may not read the project's folder.
# Images of containers tell apt to keep no caches: it would read the lists anew for each command.
APT_CONFIG = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Default-Release "";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{folder}/state";
Dir::State::lists "{folder}/lists";
Dir::Cache "{folder}/cache";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
"""


# For packages of another Debian or another machine: nothing of this one is asked.
APT_ELSEWHERE = """\
#clear APT::Architectures;
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Update::Error-Mode "any";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::status "{folder}/status";
"""


# Runtimes are fetched at the same time: each line begins with the name of the one it is about.
SPEAKER: ContextVar[str] = ContextVar("SPEAKER")


class StepError(Exception):
    """A step failed; the message is one sentence for the person who runs this."""


@dataclass(frozen=True)
class Runtime:
    """One runtime: how to see that it works, how to build it, what to do when that fails."""

    name: str
    version_in: Callable[[Path], str]
    build: Callable[[Path, Path], None]
    advice: str
    needs: tuple[str, ...] = ()  # the runtimes that it is built from
    for_tests: bool = True  # fetched together with all others


def say(text: str) -> None:
    """Print one line at once, since a download may take long."""
    print(f"{SPEAKER.get()}: {text}", flush=True)


def error_line(stderr: str) -> str:
    """Pick the line that tells the reason out of what apt-get, npm or a compiler wrote."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    known = ("E:", "npm error", "npm ERR!")
    marked = [line for line in lines if line.startswith(known) or " error: " in line]
    return (marked or lines[-1:] or ["no message"])[0]


def run(
    command: list[str],
    timeout: float = LOCAL_TIMEOUT,
    cwd: Path | None = None,
    variables: dict[str, str] | None = None,
) -> str:
    """Run a command and return what it printed, or raise StepError with its reason."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            cwd=cwd,
            # Untranslated messages, so that error_line knows them.
            env={**os.environ, "LC_ALL": "C", **(variables or {})},
        )
    except subprocess.TimeoutExpired:
        raise StepError(f"{name} did not finish within {timeout:.0f} seconds") from None
    except OSError as error:
        raise StepError(f"{name} could not be started ({error.strerror})") from error
    if done.returncode != 0:
        raise StepError(f"{name} failed with code {done.returncode}: {error_line(done.stderr)}")
    return done.stdout


def run_online(command: list[str], cwd: Path) -> str:
    """Run a command that uses the network, once more when it fails the first time."""
    try:
        return run(command, NETWORK_TIMEOUT, cwd)
    except StepError as error:
        say(f"{error}; trying once more")
        time.sleep(RETRY_PAUSE)
        return run(command, NETWORK_TIMEOUT, cwd)


def find_tool(name: str) -> str:
    """Return the path of a program, or raise StepError when it is not installed."""
    path = shutil.which(name)
    if path is None:
        raise StepError(f"{name} is not on this machine")
    return path


def write_if_changed(path: Path, text: str) -> None:
    """Write a generated file again when this script has changed since it was made."""
    data = text.encode()
    if not path.is_file() or path.read_bytes() != data:
        path.write_bytes(data)


def debian_mirror() -> str:
    """Ask apt for the address of the main archive that this machine uses."""
    # Without release info, apt tells the addresses even when it has no package lists yet.
    form = "$(COMPONENT) $(RELEASE) $(REPO_URI)"
    listing = run([find_tool("apt-get"), "indextargets", "--no-release-info", "--format", form])
    rows = [line.split(maxsplit=2) for line in listing.splitlines() if line.startswith("main ")]
    # A dash marks the additions to a release: -security, -updates, -backports.
    mirrors = [uri for _, release, uri in rows if "-" not in release and uri[:6] != "cdrom:"]
    if not mirrors:
        raise StepError("apt knows no Debian archive")
    # Vendors' archives stand beside Debian's own, whose path ends in its name by custom.
    return min(mirrors, key=lambda mirror: not mirror.rstrip("/").endswith("/debian"))


def debian_source(kind: str, suite: str) -> str:
    """Return the one line of a private sources.list; the kind is deb or deb-src."""
    keyring = next((path for path in DEBIAN_KEYRINGS if path.is_file()), None)
    # Without Debian's keyring file, apt falls back to the keys that the system trusts.
    signed_by = f"[signed-by={keyring}] " if keyring else ""
    return f"{kind} {signed_by}{debian_mirror()} {suite} main\n"


def apt_elsewhere(folder: Path, suite: str, architecture: str, kind: str = "deb") -> list[str]:
    """Return an apt-get command for another suite of Debian, with fresh lists in folder."""
    (folder / "sources.list").write_text(debian_source(kind, suite), encoding="utf-8")
    (folder / "status").touch()
    say(f"reading the package list of Debian {suite}, {kind} for {architecture}")
    return start_apt(folder, APT_CONFIG + APT_ELSEWHERE, architecture)


def apt_here(folder: Path) -> list[str]:
    """Return an apt-get command for this machine's own suites, with fresh lists in folder."""
    say("reading the package lists of this machine's release")
    return start_apt(folder, APT_CONFIG)


def start_apt(folder: Path, config: str, architecture: str = "") -> list[str]:
    """Lay out private state in folder, read the lists, and return the apt-get command."""
    for name in ("state", "lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    path = folder / "apt.conf"
    path.write_text(config.format(folder=folder, architecture=architecture), encoding="utf-8")
    apt_get = [find_tool("apt-get"), "-q", "-c", str(path)]
    run_online([*apt_get, "update"], folder)
    return apt_get


def with_missing(apt_get: list[str], packages: Iterable[str]) -> list[str]:
    """Return packages of this machine's release, and what they need that is not installed."""
    options = ["--simulate", "--no-install-recommends", "-o", "Debug::NoLocking=true"]
    plan = run([*apt_get, "install", *options, *packages])
    missing = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
    return list(dict.fromkeys([*packages, *missing]))


def download(apt_get: list[str], packages: Iterable[str], folder: Path) -> list[Path]:
    """Download packages into folder and return their paths."""
    names = list(packages)
    say(f"downloading {len(names)} packages")
    run_online([*apt_get, "download", *names], folder)
    return sorted(folder.glob("*.deb"))


def unpack(debs: Iterable[Path], target: Path, leave_out: Iterable[str] = ()) -> None:
    """Unpack packages into target, without the paths that these patterns of tar match."""
    target.mkdir(exist_ok=True)
    tar = [find_tool("tar"), "-x", "-C", str(target), *(f"--exclude={path}" for path in leave_out)]
    for deb in debs:
        packed = [find_tool("dpkg-deb"), "--fsys-tarfile", str(deb)]
        with subprocess.Popen(packed, stdout=subprocess.PIPE) as source:
            done = subprocess.run(
                tar, check=False, stdin=source.stdout, capture_output=True, text=True
            )
        if done.returncode or source.returncode:
            raise StepError(f"{deb.name} could not be unpacked: {error_line(done.stderr)}")


# The folder is found from the wrapper's own place, so that it can be moved or linked to.
PROGRAM_WRAPPER = """\
#!/bin/sh
here=$(dirname -- "$(readlink -f -- "$0")")
export LD_LIBRARY_PATH="$here/lib"
exec "$here/bin/NAME" "$@"
"""


def keep_program(debs: Iterable[Path], scratch: Path, target: Path, program: str) -> None:
    """Unpack a program and its libraries into target; the rest of the packages is left out."""
    say("unpacking")
    unpack(debs, scratch / "unpacked", ["./usr/share"])
    (target / "bin").mkdir()
    (target / "lib").mkdir()
    shutil.copy2(scratch / "unpacked" / program, target / "bin")
    for library in (scratch / "unpacked").glob("**/lib/*-linux-gnu*/*.so*"):
        if not library.is_dir():
            shutil.copy2(library, target / "lib", follow_symlinks=False)
    wrap_program(target, Path(program).name)


def wrap_program(folder: Path, name: str) -> Path:
    """Write the shell script that starts a program with the libraries beside it."""
    wrapper = folder / name
    write_wrapper(wrapper, PROGRAM_WRAPPER.replace("NAME", name))
    return wrapper


def write_wrapper(wrapper: Path, text: str) -> None:
    """Write a shell script that can be run."""
    write_if_changed(wrapper, text)
    if not os.access(wrapper, os.X_OK):
        wrapper.chmod(0o755)


def build_runtime(runtime: Runtime) -> str:
    """Build a runtime beside its place, try it, move it there and return its version."""
    place = RUNTIMES / runtime.name
    RUNTIMES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=RUNTIMES) as making:
        target, scratch = Path(making, "target"), Path(making, "scratch")
        target.mkdir()
        scratch.mkdir()
        runtime.build(target, scratch)
        version = runtime.version_in(target)
        if place.exists():
            shutil.rmtree(place)
        target.rename(place)
    return version


def get_runtime(runtime: Runtime) -> bool:
    """Make sure that a runtime is there and works; say the reason when it cannot be had."""
    SPEAKER.set(runtime.name)
    place = RUNTIMES / runtime.name
    if place.is_dir():
        try:
            say(f"already there, {runtime.version_in(place)}")
            return True
        except (StepError, OSError) as error:
            say(f"there, but not usable ({error})")
    say("fetching")
    try:
        say(f"ready, {build_runtime(runtime)}")
        return True
    except (StepError, OSError) as error:
        say(f"not available, because {error}; {runtime.advice}.")
        return False

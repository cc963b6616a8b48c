"""Work on other machines, by Dask, or by any other backend of joblib.

    active     the cluster of `joblib.parallel_config("dask")`, None without one
    connected  a connection to Dask's scheduler, as a block
    jobs       how many calls joblib's chosen backend makes at once
    each       the results of a function for many arguments, by that backend

joblib and Dask are imported by whoever uses them: not here, unless an address is given.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

PARTS = 6  # pieces of work for each core of a cluster: the last ones end at about the same time
POLL = 0.2  # seconds to wait for a piece before the caller may look at the clock
NAP = (
    0.02  # seconds between two looks at the pieces: Dask's own wait needs a client for the process
)


class Cluster:
    """Cores elsewhere."""

    def __init__(self, backend: Any, n_jobs: int | None) -> None:
        self._client = backend.client
        self.cores: int = max(1, backend.effective_n_jobs(-1 if n_jobs is None else n_jobs))

    def work(self, forget: Callable[[], None]) -> Work:
        """Work to be done there; `forget` is called on each worker at its end."""
        return Work(self._client, self.cores, forget)


class Work:
    """Pieces of work on a cluster: what a worker leaves undone when it dies, another one does."""

    def __init__(self, client: Any, cores: int, forget: Callable[[], None]) -> None:
        self._client, self._forget = client, forget
        self._addresses = sorted(client.nthreads())
        self._waiting: dict[int, Any] = {}  # futures by ticket
        self._done: dict[int, Any] = {}  # results, and futures that have failed
        self._ticket = 0
        self.cores, self.workers = cores, max(1, len(self._addresses))

    def submit(self, function: Callable[..., Any], *given: Any, near: tuple[int, int]) -> int:
        """Have a function called elsewhere; a ticket for its result.

        `near=(k, n)` is the place of its rows among n: what has the same place goes to the same
        workers, as far as these have time for it.
        """
        k, n = near
        some = [address for i, address in enumerate(self._addresses) if i % n == k % self.workers]
        self._ticket += 1
        self._waiting[self._ticket] = self._client.submit(
            function,
            *given,
            pure=False,
            workers=some or None,
            allow_other_workers=bool(some),
            priority=-self._ticket,  # in this order: Dask's own is the reverse for what comes quickly
        )
        return self._ticket

    def is_done(self, ticket: int) -> bool:
        """Whether a result is there; waits a moment for it.

        Whatever else is done is fetched, too: a worker keeps no results that it has no room for.
        """
        if ticket in self._waiting:
            until = time.monotonic() + POLL
            while not any(future.done() for future in self._waiting.values()):
                if time.monotonic() > until:
                    return False
                time.sleep(NAP)
            for one, future in list(self._waiting.items()):
                if future.done():
                    del self._waiting[one]
                    self._done[one] = future.result() if future.status == "finished" else future
        return ticket in self._done

    def result(self, ticket: int) -> Any:
        """The result of a piece of work, once; or its exception."""
        while not self.is_done(ticket):
            pass
        found = self._done.pop(ticket)
        return found.result() if hasattr(found, "exception") else found

    def cancel(self) -> None:
        """Cancel what is not done."""
        self._client.cancel(list(self._waiting.values()), force=True)
        self._waiting, self._done = {}, {}

    def close(self) -> None:
        """Cancel what is not done, and free the memory of the workers."""
        self.cancel()
        self._client.run(self._forget, on_error="ignore")


def active(n_jobs: int | None) -> Cluster | None:
    """The cluster of Dask that joblib was told to use; None without one, or if `n_jobs` is 1.

    >>> active(-1) is None
    True
    """
    joblib = sys.modules.get("joblib")
    if joblib is None or n_jobs == 1:
        return None
    backend, _ = joblib.parallel.get_active_backend()
    if getattr(backend, "client", None) is None:  # not Dask's
        return None
    return Cluster(backend, n_jobs)


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Work inside of this block on the cluster of the Dask scheduler at this address."""
    try:
        joblib, distributed = import_module("joblib"), import_module("distributed")
    except ImportError:
        raise ImportError("Dask is not installed: pip install 'edgeforest[dask]'") from None
    try:
        client = distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ValueError(
            f"cannot reach a Dask scheduler at {address} ({error}); start one with dask scheduler"
        ) from None
    with client, joblib.parallel_config("dask", client=client):
        yield


def jobs() -> int:
    """How many calls the backend of `joblib.parallel_config` makes at once; 1 without one.

    >>> jobs()
    1
    """
    joblib = sys.modules.get("joblib")
    if joblib is None:
        return 1
    backend, n_jobs = joblib.parallel.get_active_backend()
    return int(backend.effective_n_jobs(n_jobs or 1))


def each(
    function: Callable[..., Any], common: Any, arguments: Iterable[tuple[Any, ...]]
) -> Iterator[Any]:
    """The results of `function(common, *given)`, in order: here, or by joblib's chosen backend.

    `common` is sent to each process once, if NumPy is there; so it may be large.

    >>> list(each(pow, 2, [(3,), (4,)]))
    [8, 16]
    """
    if jobs() < 2:
        for given in arguments:
            yield function(common, *given)
        return
    joblib = import_module("joblib")
    packed: Any = pickle.dumps(common, protocol=5)
    if "numpy" in sys.modules:  # backends share an array between calls, but no other object
        packed = sys.modules["numpy"].frombuffer(packed, "u1")
    calls = (joblib.delayed(_call)(function, packed, *given) for given in arguments)
    yield from joblib.Parallel(n_jobs=None, return_as="generator")(calls)


def _call(function: Callable[..., Any], packed: Any, *given: Any) -> Any:
    return function(pickle.loads(packed), *given)

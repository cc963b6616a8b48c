"""Work on other machines, by Dask.

    active     the cluster of `joblib.parallel_config("dask")`, None without one
    connected  a connection to Dask's scheduler, as a block

joblib and Dask are imported by whoever uses them: not here, unless an address is given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

PARTS = 6  # pieces of work for each core of a cluster: the last ones end at about the same time
POLL = 0.2  # seconds to wait for a piece before the caller may look at the clock


class Cluster:
    """Cores elsewhere: `run` has a function done there for many arguments, in order."""

    def __init__(self, backend: Any, n_jobs: int | None) -> None:
        self._client = backend.client
        self.cores: int = max(1, backend.effective_n_jobs(-1 if n_jobs is None else n_jobs))

    def run(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        forget: Callable[[], None],
    ) -> Generator[Any, None, None]:
        """The results, in order; None while the next one is not there yet.

        What a worker leaves undone when it dies is done again by another. Closing the iterator, as
        Ctrl-C does, cancels what was not done; `forget` is called on each worker at the end.
        """
        client, wait = self._client, import_module("distributed").wait
        futures = [client.submit(function, *given, pure=False) for given in arguments]
        try:
            for k, future in enumerate(futures):
                while not future.done():
                    with suppress(TimeoutError):
                        wait(future, timeout=POLL)
                        break
                    yield None
                result = future.result()
                futures[k] = None  # the scheduler may forget it
                yield result
        finally:
            client.cancel([future for future in futures if future is not None], force=True)
            client.run(forget, on_error="ignore")


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

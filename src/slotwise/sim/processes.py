"""Calls made in processes of this machine."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, TypeVar

__all__ = ["in_processes", "processors"]

T = TypeVar("T")


def processors() -> int:
    """Return how many processors this process may use."""
    import joblib

    return int(joblib.cpu_count())


def in_processes(
    function: Callable[..., T], calls: Iterable[tuple[Any, ...]], processes: int, *, ordered: bool = False
) -> Iterator[T]:
    """Call a function with each of several arguments, and yield what it returns as soon as it does.

    Ctrl-C, which a terminal sends to all of them, is for this process alone: it ends the others when the generator is
    closed or an exception leaves it.

    Parameters
    ----------
    function : callable
        Of a module, so that it can be sent to another process.
    calls : iterable of tuple
        Arguments of each call; taken as needed, two or so ahead.
    processes : int
        How many at once; with one, they are made here.
    ordered : bool
        Whether to yield in the order of ``calls``, not of what is finished first.
    """
    import joblib

    chosen: dict[str, Any] = {"backend": "sequential"}
    if processes > 1:
        # Processes are used again by later calls: where this one is now, modules of one's own are found.
        here = {"initializer": os.chdir, "initargs": (os.getcwd(),)}
        chosen = {"backend": "loky", "n_jobs": processes, "inner_max_num_threads": 1, **here}
    with joblib.parallel_config(**chosen):
        runner = joblib.Parallel(
            return_as="generator" if ordered else "generator_unordered", pre_dispatch="n_jobs + 1", batch_size=1
        )
        finished: Generator[T, None, None] | None = None
        try:
            # This hands over the first calls and starts the processes.
            with _interrupts_later():
                finished = runner(joblib.delayed(function)(*arguments) for arguments in calls)
            for one in finished:  # noqa: UP028 (so that nobody but us closes it)
                yield one
        finally:
            if finished is not None:
                with warnings.catch_warnings(action="ignore"):
                    # It tells how many calls are cancelled.
                    finished.close()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Hold back Ctrl-C; what is started meanwhile never hears it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows has no such thing.
        yield
        return
    # Python up to 3.12 forgets what was held back when it starts this one.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

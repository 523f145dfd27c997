"""Playing groups of episodes in several processes, with progress."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any

from plangym_ext.run.progress import ProgressLine
from scoring.cells import Cell

Task = tuple[Cell, tuple[int, ...]]
_said: Any = None


def _begin(said: Any) -> None:
    """Give a new process the queue to say how far it is; Ctrl-C ends it at once."""
    global _said
    _said = said
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # At its end it must not wait for a reader of what it said last.
    said.cancel_join_thread()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end_with_parent() -> None:
    """End as soon as the program is gone, however that came about."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run(cell: Cell, seeds: tuple[int, ...], path: str) -> dict[str, Any]:
    """Play one group in a worker process; its rows with the seconds it took."""
    last = 0.0

    def say(text: str) -> None:
        nonlocal last
        if time.monotonic() - last > 1.0:
            last = time.monotonic()
            _said.put(f"{cell.key} {seeds[0]}: {text}")

    started = time.monotonic()
    module = importlib.import_module(f"scoring.{cell.protocol}")
    rows: dict[str, Any] = module.run(cell, seeds, path, say)
    seconds = round((time.monotonic() - started) / len(seeds), 2)
    return {seed: row | {"seconds": seconds} for seed, row in rows.items()}


def played(
    tasks: list[Task], processes: int, path: str, stop: Callable[[], bool], line: ProgressLine
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Yield what each group came to, in the order in which they end.

    Args:
        tasks: cells with a group of seeds each; begun in this order.
        processes: how many at once.
        path: of the file of levels.
        stop: once True, no group is begun any more.
        line: where progress is shown.
    """
    context = multiprocessing.get_context("spawn")
    said, waiting, done = context.Queue(), list(tasks), 0
    going: dict[Future[Any], Cell] = {}
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=_begin, initargs=(said,)
    ) as pool:
        while waiting or going:
            while waiting and len(going) < processes and not stop():
                cell, seeds = waiting.pop(0)
                going[pool.submit(_run, cell, seeds, path)] = cell
            if not going:
                break
            ended, _ = wait(going, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in ended:
                done += 1
                yield going.pop(future), future.result()
            try:
                text = said.get_nowait()
                while not said.empty():
                    text = said.get_nowait()
                line.update(f"{done} of {len(tasks)} groups; {text}")
            except queue.Empty:
                pass

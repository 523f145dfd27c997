"""Example subprocess function for shared-memory demos: it fills a piped array with 42."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def write_to_piped_array(pipe: Connection) -> None:
    """Receive one array from a pipe and fill its visible part with 42.

    The target of a child process in demonstrations and checks of shared
    memory: it must be importable for the spawn and forkserver start methods.
    """
    array = pipe.recv()
    array[...] = 42

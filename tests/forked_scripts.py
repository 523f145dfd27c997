"""Scripts in interpreters that have imported torch, numba and gymnasium already.

Importing these takes a script four seconds, which dozens of pages and programs would pay. A
server imports them once and forks a child for each script. The child has imported nothing of this
project; it runs the script as `__main__`, in a session of its own, and ends as interpreters do.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: The last three are what torch's optimisers and compiled code import when they are first used.
_IMPORTED = ("numpy", "gymnasium.wrappers", "numba", "torch")
_IMPORTED += ("torch._dynamo", "numba.np.arraymath", "numba.np.npdatetime")
_STREAMS = ("stdin", "stdout", "stderr")


class Finished(NamedTuple):
    """A script that has ended."""

    pid: int
    returncode: int
    stdout: str
    stderr: str


class Started:
    """A script that was started, whose end is to be waited for.

    Attributes:
        pid: of its process, which leads a session.
    """

    def __init__(
        self, server: ScriptServer, job: dict[str, Any], streams: tempfile.TemporaryDirectory[str]
    ) -> None:
        self._server, self._job, self._streams = server, job, streams
        pid = server.ask(job, 300.0)
        assert pid is not None, "the server of scripts does not answer"
        self.pid = pid

    def wait(self, timeout: float = 300.0) -> Finished:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it took too long; it and its session are killed.
        """
        with self._streams:
            returncode = self._server.ask({"wait": self.pid}, timeout)
            if returncode is None:
                os.killpg(self.pid, signal.SIGKILL)
                self._server.answer(60.0)
                raise subprocess.TimeoutExpired(self._job["argv"], timeout)
            paths = self._job["streams"]
            texts = [Path(paths[name]).read_text() for name in ("stdout", "stderr")]
        return Finished(self.pid, returncode, *texts)


class ScriptServer:
    """Runs scripts; a context manager, which ends the server."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # what `select` says of the pipe has to be all there is
            # Read when torch is loaded: small networks are computed by one thread.
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def __enter__(self) -> ScriptServer:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            pipe.close()
        self._process.wait()

    def start(
        self,
        script: Path,
        arguments: Sequence[str] = (),
        *,
        folder: Path,
        stdin: str = "",
        env: dict[str, str] | None = None,
        warnings_are_errors: bool = False,
    ) -> Started:
        """Start a script in a folder."""
        streams = tempfile.TemporaryDirectory()
        paths = {name: str(Path(streams.name) / name) for name in _STREAMS}
        Path(paths["stdin"]).write_text(stdin)
        job = {
            "argv": [str(script), *arguments],
            "folder": str(folder),
            "env": {**os.environ, **(env or {})},
            "warnings_are_errors": warnings_are_errors,
            "streams": paths,
        }
        return Started(self, job, streams)

    def run(self, script: Path, arguments: Sequence[str] = (), **options: Any) -> Finished:
        """Run a script and wait for its end; see `start` and `Started.wait`."""
        timeout = options.pop("timeout", 300.0)
        return self.start(script, arguments, **options).wait(timeout)

    def ask(self, request: dict[str, Any], seconds: float) -> int | None:
        """Send a request to the server; return its answer, as `answer`."""
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        return self.answer(seconds)

    def answer(self, seconds: float) -> int | None:
        """Return the next number from the server; None if it does not come in time."""
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        return int(self._process.stdout.readline()) if ready else None


# In the server -------------------------------------------------------------------------


def _serve() -> dict[str, Any] | None:
    """Fork a child for each job, and wait for those of which the end is asked.

    Returns:
        The job in a child, and None in the server.
    """
    before = {**os.environ}
    for name in _IMPORTED:
        importlib.import_module(name)
    # Some set variables when they are imported, by which others know that they have been.
    added = {name: text for name, text in os.environ.items() if name not in before}
    # Collections in children would write to, and so copy, all that the server has imported.
    gc.freeze()
    # Without a buffer, of which a child would have a copy with the jobs that follow.
    with open(0, "rb", buffering=0, closefd=False) as jobs:
        for line in iter(jobs.readline, b""):
            job = json.loads(line)
            if "wait" in job:
                print(os.waitstatus_to_exitcode(os.waitpid(job["wait"], 0)[1]), flush=True)
            elif (pid := os.fork()) == 0:
                return {**job, "env": {**added, **job["env"]}}
            else:
                print(pid, flush=True)
    return None


def _become(job: dict[str, Any]) -> None:
    """Run the job's script as if this interpreter had been started for it."""
    os.setsid()
    for number, name in enumerate(_STREAMS):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT
        opened = os.open(job["streams"][name], flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["env"])
    tempfile.tempdir = None  # TMPDIR may be another
    if job["warnings_are_errors"]:
        warnings.simplefilter("error")
    sys.argv = job["argv"]
    main = types.ModuleType("__main__")
    main.__file__ = sys.argv[0]
    sys.modules["__main__"] = main
    code = compile(Path(sys.argv[0]).read_text(), sys.argv[0], "exec")
    exec(code, vars(main))


if __name__ == "__main__":
    if (_job := _serve()) is not None:
        _become(_job)

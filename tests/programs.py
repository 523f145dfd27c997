"""Programs that users may run, run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def assert_program_runs(path: Path, folder: Path, **env: str) -> None:
    """Run a program in a folder; it has to succeed and to say something."""
    done = subprocess.run(
        [sys.executable, "-P", str(path)],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()

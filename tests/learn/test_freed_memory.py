"""Memory of a learner's tensors from batch to batch, in processes of their own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

#: Prints how many pages the system lent for 20 tensors of 8 MiB, one after the other, and what
#: was answered.
PROGRAM = """
import resource, sys
import torch
from plangym_ext.learn.freed_memory import keep_freed_memory

kept = keep_freed_memory() if sys.argv[1] == "kept" else None
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
torch.ones(2**21)
before = faults()
for _ in range(20):
    first, second = torch.ones(2**21), torch.ones(2**21)
    del first, second
print(faults() - before, kept)
"""


def lent(kept, **environment):
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, kept],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    pages, answer = done.stdout.split()
    return int(pages), answer


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of the GNU C library")
def test_freed_tensors_are_used_again():
    plain, _ = lent("plain")
    pages, answer = lent("kept")
    assert answer == "True"
    # Two tensors are lent once: 4,096 pages, or fewer where pages are larger.
    assert pages < 6000
    assert pages < plain / 2


def test_what_the_environment_says_holds():
    assert lent("kept", MALLOC_TRIM_THRESHOLD_="131072")[1] == "False"

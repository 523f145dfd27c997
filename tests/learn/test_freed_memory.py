"""Memory of a learner's tensors from batch to batch, in processes of their own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

#: Prints how many pages the system lent for the last 20 of 60 tensors of 40 MiB, one after the
#: other, and what was answered. Arrays of that size it takes back, unless it is told not to.
PROGRAM = """
import resource
import torch
from plangym_ext.learn.repeatable import keep_freed_memory

kept = keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for number in range(60):
    if number == 40:
        before = faults()
    torch.ones(10 * 2**20)
print(faults() - before, kept)
"""


def lent(**environment):
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    pages, answer = done.stdout.split()
    return int(pages), answer


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of the GNU C library")
def test_freed_tensors_are_used_again():
    pages, answer = lent()
    assert answer == "True"
    # 10,240 for each otherwise. The first ones grow the heap until one fits where one was.
    assert pages < 100


def test_what_the_environment_says_holds():
    assert lent(MALLOC_TRIM_THRESHOLD_="131072")[1] == "False"

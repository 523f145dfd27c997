"""With PYTEST_NO_SKIPS set, a test that is skipped fails, unless its reason is listed here.

For environments that install what the default run lacks: a skip there would mean that
something was never tested anywhere.
"""

from __future__ import annotations

import os

import pytest

#: Beginnings of the reasons that no package can remove.
ALLOWED = (
    "there is no GPU",
    "it is installed",  # tests of what happens without a package
    "this configuration",  # a contract test that does not apply to one class
    "no picture for this configuration",
    "a second emulator in one process is refused",
)


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test or a module was skipped, without pytest's prefix."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip that is not allowed into a failure."""
    if not (report.skipped and os.environ.get("PYTEST_NO_SKIPS")):
        return
    reason = reason_of(report)
    if hasattr(report, "wasxfail") or reason.startswith(ALLOWED):
        return
    report.outcome = "failed"
    report.longrepr = f"skipped, where nothing may be skipped: {reason}"

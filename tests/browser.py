"""Chromium without a window: where it is, and what becomes of a page in it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")


def opened(page: Path, *options: str, size: str = "1300,800") -> str:
    """Open a page, and return what the browser prints; skip the test without a browser."""
    if BROWSER is None:
        pytest.skip("no chromium: apt-get install chromium")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={size}"]
    quiet = ["--disable-extensions", "--no-first-run", f"--user-data-dir={page.parent / 'profile'}"]
    run = subprocess.run(
        [*command, *quiet, *options, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return run.stdout


def answer_of(page: Path, milliseconds: int) -> Any:
    """Return the JSON that the page's own script has put into `<pre id="answer">` by then."""
    text = opened(page, f"--virtual-time-budget={milliseconds}", "--dump-dom")
    found = re.search(r'<pre id="answer">(.*?)</pre>', text, re.S)
    assert found, text[-2000:]
    return json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))

"""The reference of the command line is what the program would say."""

from __future__ import annotations

import pytest
from command_reference import PAGE, page

from plangym_ext.run.commands import COMMANDS


@pytest.mark.slow
def test_the_page_is_up_to_date():
    written = PAGE.read_text()
    assert written == page(), "run: python tests/command_reference.py"
    for name in COMMANDS:
        assert f"# {name}\n" in written
    # What argparse and a default say.
    assert "- `--max-steps M` (`1000`): maximum number of moves\n" in written

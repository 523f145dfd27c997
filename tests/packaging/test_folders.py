"""Rule 2 of docs/contributing.md: folders are small enough for their list of files to be read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Most modules of one folder. More than these are several subjects.
MOST = 25


def test_no_folder_has_many_modules():
    modules = [p for top in ("plangym_ext", "planners", "envs") for p in (ROOT / top).rglob("*.py")]
    folders = {path.parent for path in modules}
    assert len(folders) > 40
    found = {f: sum(path.parent == f for path in modules) for f in folders}
    full = {str(f.relative_to(ROOT)): count for f, count in found.items() if count > MOST}
    assert not full, f"more than {MOST} modules: part them into folders of one subject each"

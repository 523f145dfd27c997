"""Rules 1 and 2 of docs/contributing.md: files and folders are small enough to be read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Most modules of one folder. More than these are several subjects.
MOST = 25
#: Most lines of a file, and of those that are longer still: none may grow, no other may join them.
MOST_LINES = 400
LONGER = {
    "plangym_ext/core/row_stepper.py": 409,
    "plangym_ext/states/graph/reader.py": 532,
    "plangym_ext/states/graph/writer.py": 568,
    "plangym_ext/vector/state_backend.py": 476,
    "plangym_ext/vector/sub_envs/env_backend.py": 413,
    "plangym_ext/vector/vector_env.py": 658,
    "planners/trees/soft.py": 416,
    "planners/trees/sts_kernels.py": 406,
}


def product_files() -> list[Path]:
    tops = ("plangym_ext", "planners", "envs")
    return [path for top in tops for path in (ROOT / top).rglob("*.py")]


def test_no_folder_has_many_modules():
    modules = product_files()
    folders = {path.parent for path in modules}
    assert len(folders) > 40
    found = {f: sum(path.parent == f for path in modules) for f in folders}
    full = {str(f.relative_to(ROOT)): count for f, count in found.items() if count > MOST}
    assert not full, f"more than {MOST} modules: part them into folders of one subject each"


def test_no_file_is_long():
    found = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in product_files()}
    long = {name: lines for name, lines in found.items() if lines > MOST_LINES}
    assert long.keys() == LONGER.keys(), "part what is new here, and take off what is short again"
    grown = {name: lines for name, lines in long.items() if lines > LONGER[name]}
    assert not grown, f"longer than {LONGER}"

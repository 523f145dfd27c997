"""Write llms.txt, the list of pages for language models, from the first page of the site.

`python tests/llms.py` writes it again; a test compares them.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = """\
# plangym-ext

> A Python library: steps Gymnasium environments in batches from exactly restorable states,
> plans over such states with numba tree searches, and trains agents with torch. Linux, Python
> 3.11 to 3.13.

- [AGENTS.md](AGENTS.md): the calls, the rules that save errors, and complete scripts. Begin here.
- [README.md](README.md): what it is, three examples, comparison with other libraries.
"""


def text() -> str:
    """Return what the file has to say."""
    before, _, _ = (ROOT / "docs/index.md").read_text(encoding="utf-8").partition("```{toctree}")
    parts = [HEAD]
    for title, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", before, re.M | re.S):
        items = [" ".join(item.split()) for item in re.split(r"\n(?=- )", body.strip())]
        # What the build writes is no file of the checkout.
        items = [item for item in items if "](generated/" not in item]
        links = [re.sub(r"\]\((\w+)\.md\)", r"](docs/\1.md)", item) for item in items]
        parts.append(f"## {title}\n\n" + "\n".join(links) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    (ROOT / "llms.txt").write_text(text(), encoding="utf-8")

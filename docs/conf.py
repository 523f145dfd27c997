import json as _json
import re as _re
import sys as _sys
import tomllib as _tomllib
from importlib.metadata import version as _installed_version
from pathlib import Path as _Path

from myst_parser.parsers.sphinx_ import MystParser as _MystParser
from pygments.lexers.special import TextLexer as _TextLexer
from sphinx.ext.autodoc.mock import mock as _mock
from sphinx.highlighting import lexers as _lexers

_sys.path.insert(0, str(_Path(__file__).parent))
import site_pages as _site_pages

_words = _tomllib.loads(_Path(__file__).with_name("search_words.toml").read_text())

project = "plangym-ext"
author = "The plangym-ext authors"
copyright = "The plangym-ext authors"
release = version = _installed_version("plangym-ext")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "changes"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"plangym-ext {release}"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_search_scorer = str(_Path(__file__).with_name("search_scorer.js"))
html_js_files = ["copy.js"]
html_css_files = ["site.css"]

# The flows of contributing.md, which a test reads, are shown as text.
_lexers["hops"] = _TextLexer()

# What learns is documented without torch and the frameworks, which would be the largest part of
# this environment.
autodoc_mock_imports = ["stable_baselines3", "tianshou", "torch"]
autodoc_member_order = "bysource"
# Plain types in signatures: annotations of options hold their rules, which descriptions would show.
autodoc_typehints = "signature"
# An option a line: planners have thirty.
maximum_signature_line_length = 90


class _NotebookParser(_MystParser):
    """Notebooks as pages: cells and what they print and draw, as they are published."""

    supported = ("notebook",)

    def parse(self, inputstring, document):
        cells = _json.loads(inputstring)["cells"]
        super().parse("\n\n".join(part for cell in cells for part in _shown(cell)), document)


def _shown(cell):
    """Return a cell as parts of a page in Markdown."""
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [text]
    parts = [f"```python\n{text}\n```"]
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            parts.append(f'<img src="data:image/png;base64,{"".join(data["image/png"]).strip()}">')
        elif "text/html" in data:
            parts.append(f"````{{raw}} html\n{''.join(data['text/html'])}\n````")
        elif printed := "".join(output.get("text", data.get("text/plain", ""))).rstrip():
            parts.append(f"```text\n{printed}\n```")
    return parts


def _write_pages(app):
    with _mock(autodoc_mock_imports):
        _site_pages.write(_Path(app.srcdir) / "generated")


def _cut_api(_app, docname, source):
    if docname == "api":
        source[0] = _site_pages.api_index(source[0])


def _add_search_words(_app, docname, source):
    if docname in _words:
        # After the title: the search leads to the place of the words.
        entries = f"```{{index}} {', '.join(f'! {word}' for word in _words[docname])}\n```\n"
        source[0] = _re.sub(r"^(# .*\n)", rf"\1\n{entries}", source[0], count=1)


def setup(app):
    app.connect("source-read", _add_search_words)
    app.connect("builder-inited", _write_pages)
    app.connect("source-read", _cut_api)
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(_NotebookParser)

from importlib.metadata import version as _installed_version

from pygments.lexers.special import TextLexer as _TextLexer
from sphinx.highlighting import lexers as _lexers

project = "plangym-ext"
author = "The plangym-ext authors"
copyright = "The plangym-ext authors"
release = version = _installed_version("plangym-ext")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"plangym-ext {release}"
html_static_path = ["_static"]
html_js_files = ["copy.js"]
html_css_files = ["site.css"]

# The flows of contributing.md, which a test reads, are shown as text.
_lexers["hops"] = _TextLexer()

# What learns is documented without torch and the frameworks, which would be the largest part of
# this environment.
autodoc_mock_imports = ["stable_baselines3", "tianshou", "torch"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"

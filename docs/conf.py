from importlib.metadata import version as _installed_version

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

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"

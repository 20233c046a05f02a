"""The documentation site: Sphinx over the Markdown pages of this folder. `make docs` builds it, strictly and offline.

A broken link, a page that no menu names and a docstring that does not parse are errors. The API reference is made from
the docstrings (docs/api); both faces of a client share one text, which odradek.client.sync_face keeps.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent

project = "Odradek"
author = "The Odradek developers"
project_copyright = author
release = tomllib.loads((_ROOT / "sdk" / "pyproject.toml").read_text())["project"]["version"]
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["examples/README.md"]
nitpicky = False
suppress_warnings: list[str] = []

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

# Docstrings are prose with `names` in backticks; sections are Google's (Args, Returns, Raises).
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = f"Odradek {release}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
copybutton_exclude = ".linenos, .gp"
pygments_style = "friendly"
highlight_language = "text"

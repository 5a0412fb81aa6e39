"""Settings of the documentation; `nox -s docs` builds it with every warning as an error."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from reference_pages import write_pages  # noqa: E402  (the folder is on the path only from here)

project = "calor"
author = "The calor authors"
copyright = "The calor authors"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["README.md"]
html_theme = "furo"
html_title = "calor"

# Docstrings mark code with one pair of backticks, as Markdown does.
default_role = "literal"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"

write_pages(HERE / "reference", HERE.parent)

"""Settings of the documentation; `nox -s docs` builds it with every warning as an error."""

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from reference_pages import draw_example, write_pages  # noqa: E402  (on the path only from here)

project = "calor"
author = "The calor authors"
copyright = "The calor authors"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
# Examples are copied without their prompts and results.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
# Sphinx copies the list of contents for each page, with every name of the reference.
if tags.has("lean"):  # noqa: F821  (Sphinx gives this name)
    extensions.remove("sphinx.ext.viewcode")
    toc_object_entries = False
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["README.md"]
html_theme = "furo"
html_title = "calor"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
# A block that names no language is a command or a text.
highlight_language = "none"

# Attributes that a docstring describes are listed by autodoc already.
napoleon_use_ivar = True

# Docstrings mark code with one pair of backticks, as Markdown does.
default_role = "literal"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
# Signatures name classes by their last names, and core and calor-kernel both have a Device.
suppress_warnings = ["ref.python"]

write_pages(HERE / "api", HERE.parent)
draw_example(HERE / "api" / "graph.svg")

# A piece of prose between marked code and links, in which docstrings write |x| and (*N, C).
PROSE = re.compile(r"(?P<kept>`[^`]*`_{0,2}|:\w+:`[^`]*`)|[*|]")


def escape(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Let stars and bars in a docstring's prose stand for themselves."""
    example = False
    for number, line in enumerate(lines):
        example = line.lstrip().startswith((">>>", "...")) or (example and bool(line.strip()))
        if not example:
            lines[number] = PROSE.sub(lambda m: m["kept"] or f"\\{m[0]}", line)


def setup(app: Any) -> dict[str, bool]:
    # Before napoleon, which turns sections into directives.
    app.connect("autodoc-process-docstring", escape, priority=400)
    # Nothing is kept from page to page, so that two processes can read them.
    return {"parallel_read_safe": True, "parallel_write_safe": True}

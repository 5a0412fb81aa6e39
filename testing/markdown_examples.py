"""A pytest plugin: the Python blocks of Markdown pages run, in the order of the page.

Load it with `-p markdown_examples`. A block of `>>>` lines is checked like a doctest. A block
that is no program is preceded by the comment `<!-- skip: next "the block only shows ..." -->`.
"""

import doctest
from pathlib import Path

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

# Sybil looks at files below the folder of this module unless it is given another one.
pytest_collect_file = Sybil(
    path=str(Path(__file__).parents[1]),
    parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS), SkipParser()],
    patterns=["*.md"],
).pytest()

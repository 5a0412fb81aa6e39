"""A pytest plugin: the Python blocks of Markdown pages run, in the order of the page.

Load it with `-p markdown_examples`. A block of `>>>` lines is checked like a doctest. A block
that only shows something is preceded by the comment `<!-- skip: next "the reason" -->`.
"""

import doctest

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS), SkipParser()],
    patterns=["*.md"],
).pytest()

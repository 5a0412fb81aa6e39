"""``python -m calor_conformance``: the command line."""

import sys

from .command import main

sys.exit(main())

"""Write the table of defaults that the conformance suite compares with, where one was changed.

python tools/defaults_table.py
"""

from __future__ import annotations

import json

from calor_conformance.checks.defaults import MODULES, STORED, current


def text() -> str:
    """Return the table of all modules as it is now."""
    made = {name: current(name) for name in MODULES}
    return json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    STORED.write_text(text(), "utf-8")

"""Rows that are found without an import, and what is said where they are not installed."""

from __future__ import annotations

import subprocess
import sys

FOUND = """
import sys
from calor.ops.base import find
before = "calor_linalg" in sys.modules
print(before, find("cholesky").name)
"""
ABSENT = """
import sys
sys.modules["calor_linalg"] = None
import calor
print(hasattr(calor, "linalg"))
"""


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_row_is_found_without_an_import() -> None:
    assert run(FOUND) == "False cholesky"


def test_what_is_not_installed_is_no_extension() -> None:
    assert run(ABSENT) == "False"

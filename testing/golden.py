"""Texts that programs write, kept in files beside their tests, so that a change of one is seen."""

from __future__ import annotations

import os
from pathlib import Path

RENEW = "CALOR_RENEW_GOLDEN"


def assert_golden(path: Path, text: str) -> None:
    """Raise AssertionError unless a file holds the text; CALOR_RENEW_GOLDEN=1 writes it."""
    if os.environ.get(RENEW):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8", newline="\n")
    held = path.read_text("utf-8") if path.exists() else ""
    assert text == held, f"{path.name} holds another text; set {RENEW}=1 and look at the difference"

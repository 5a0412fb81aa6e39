"""What is imported when: plugins and the metadata of distributions are slow to read."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A package that is None is not found, so that this is core alone wherever it runs.
ASKED = """
import sys
sys.modules["calor_cpu"] = None
import calor
{code}
print([n for n in {names!r} if n in sys.modules])
"""
SLOW = ["pluggy", "importlib.metadata", "argparse"]
# What is done, and which of the slow modules that may import.
ROWS = {
    "pass": [],
    "calor.zeros(3, device='numpy').numpy()": ["pluggy"],
    "calor.zeros(3, device='null').numpy()": ["pluggy"],
    "calor.zeros(3).numpy()": ["pluggy"],
}


@pytest.mark.parametrize("code", ROWS)
def test_core_alone_reads_no_metadata(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALOR_DEVICE", raising=False)
    script = ASKED.format(code=code, names=SLOW)
    command = [sys.executable, "-W", "ignore::UserWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == f"{ROWS[code]}\n"

"""All candidates of a suite's problems are timed, and one that is wrong is told."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import run

BENCHMARKS = Path(run.__file__).parent
CASE = "33x100x77"
# The results of every candidate but the first are other numbers.
WRONG = """
from calor_kernel.runtime.autotune import Trial
results, calls = Trial.results, []

def wrong(trial):
    calls.append(1)
    return [made + (len(calls) > 1) for made in results(trial)]

Trial.results = wrong
"""


def candidates(folder: Path, before: str = "") -> tuple[int, list[dict[str, Any]], str]:
    """Run the program in a process of its own, for a device reads how to tune when it is opened."""
    file = folder / "candidates.json"
    words = ["matmul", "--device", "cpu", "--only", CASE, "--rounds", "2", "--json", str(file)]
    program = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import candidates\n{before}\n"
    program += f"sys.exit(candidates.main({words!r}))"
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert not made.stderr, made.stderr
    return made.returncode, json.loads(file.read_text("utf-8"))["rows"], made.stdout


def test_all_candidates_are_timed_beside_the_first_choice(tmp_path: Path) -> None:
    status, rows, told = candidates(tmp_path)
    assert status == 0
    assert len({row["candidate"] for row in rows}) == len(rows) > 3
    assert rows[0]["ratio"] == 1.0
    assert all(row["seconds"] > 0 and not row["problem"] for row in rows)
    assert told.count(f"matmul {CASE}") == len(rows)


def test_a_candidate_that_is_wrong_is_told(tmp_path: Path) -> None:
    status, (first, *others), _ = candidates(tmp_path, WRONG)
    assert status == 1
    assert not first["problem"]
    assert all("differs from the first" in row["problem"] for row in others)

"""Processes that share a gate measure in turns."""

import multiprocessing
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from harness.gate import in_turn

pytest.importorskip("fcntl")


def _hold(gate: Path, spans: Any) -> None:
    for _ in range(3):
        with in_turn(gate):
            begin = monotonic()
            sleep(0.01)
            spans.put((begin, monotonic()))


def test_spans_of_processes_lie_apart(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    spans = context.Queue()
    running = [context.Process(target=_hold, args=(tmp_path / "gate", spans)) for _ in range(3)]
    for process in running:
        process.start()
    found = sorted(spans.get(timeout=60) for _ in range(9))
    for process in running:
        process.join(60)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(found))


def test_a_gate_opens_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="planned"), in_turn(tmp_path / "gate"):
        raise ValueError("planned")
    with in_turn(tmp_path / "gate"):
        pass


def test_none_is_no_gate() -> None:
    with in_turn(None), in_turn(None):
        pass

"""What ``python -m calor doctor`` says of the processor: what is there, and what to do."""

import os
from pathlib import Path
from typing import Any

import pytest

import calor_cpu.diagnosis as under_test
from calor_cpu.diagnosis import diagnosis
from calor_cpu.target import Target


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CALOR_CPU_TARGET", "CALOR_CPU_THREADS", "CALOR_CACHE"):
        monkeypatch.delenv(name, raising=False)


def test_what_is_there_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path / "not" / "yet"))
    found = dict(diagnosis())
    assert "by llvmlite" in found["LLVM"]
    assert "vectors of" in found["processor"]
    assert found["threads"].startswith(tuple("123456789"))
    assert found["kernels"] == f"kept in {tmp_path / 'not' / 'yet' / 'kernels'}"


def test_a_narrow_processor_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Target("x86_64-unknown-linux-gnu", "nehalem")
    monkeypatch.setattr(under_test, "target_of", lambda: old)
    assert "nehalem (x86_64), vectors of 16 bytes: it has no AVX2" in dict(diagnosis())["processor"]
    monkeypatch.setenv("CALOR_CPU_TARGET", "x86-64")
    assert dict(diagnosis())["processor"].endswith("as CALOR_CPU_TARGET says")


def test_what_is_set_wrongly_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALOR_CPU_THREADS", "many")
    monkeypatch.setenv("CALOR_CPU_TARGET", "pdp-11")
    found = dict(diagnosis())
    assert found["threads"].startswith("CALOR_CPU_THREADS='many' is not a number of threads")
    assert found["processor"].startswith("CALOR_CPU_TARGET='pdp-11' is not a target; write native")


def test_more_threads_than_may_run_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: Any = {0}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: allowed, raising=False)
    monkeypatch.setenv("CALOR_CPU_THREADS", "3")
    assert "this process may use 1: set CALOR_CPU_THREADS" in dict(diagnosis())["threads"]


def test_kernels_that_are_not_kept_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "cannot be written" in dict(diagnosis())["kernels"]
    monkeypatch.setenv("CALOR_CACHE", "0")
    assert dict(diagnosis())["kernels"].startswith("CALOR_CACHE says that none are kept")

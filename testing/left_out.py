"""Tests that need what an interpreter cannot install are skipped: `pytest -p left_out`.

The environment variable `CALOR_LEFT_OUT` names the distributions that are not there, separated by
spaces. A test that fails for want of one of them, as an import or as a device, is skipped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from typing import Any, Final

import pytest

LEFT_OUT: Final = "CALOR_LEFT_OUT"


def wanting(told: str, left_out: str) -> str | None:
    """Return the first of the distributions for want of which something failed.

    >>> wanting("ModuleNotFoundError: No module named 'calor_onnx'", "onnx calor-onnx")
    'calor-onnx'
    >>> wanting('DeviceError: no device "cpu"; installed: numpy', "calor-cpu")
    'calor-cpu'
    >>> wanting("AssertionError: no device", "calor-cpu") is None
    True
    """
    for name in left_out.split():
        module, device = name.replace("-", "_"), name.removeprefix("calor-")
        if re.search(f"No module named '{module}['.]|no device \"{device}\"", told):
            return name
    return None


def _excused(report: Any, place: str) -> Any:
    if report.outcome == "failed":
        name = wanting(str(report.longrepr), os.environ.get(LEFT_OUT, ""))
        if name is not None:
            report.outcome = "skipped"
            report.longrepr = (place, 0, f"Skipped: {name} is not installed by this interpreter")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Skip a file that imports what is left out."""
    return _excused((yield), str(collector.path))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Skip a test that asks for what is left out."""
    return _excused((yield), str(item.path))

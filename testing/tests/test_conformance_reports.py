"""The tool that collects conformance reports, and the page that holds its output."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from calor.errors import FormatError
from calor.plugins.discovery import get_device
from calor_conformance import report, suite
from calor_conformance.outcomes import Result
from calor_conformance.selection import selection

ROOT = Path(__file__).parents[2]
END = "<!-- end -->"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = ROOT / "tools/conformance_reports.py"
    spec = importlib.util.spec_from_file_location("conformance_reports", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    """A report of the profile array in which one check failed and some were not asked."""
    chosen = selection(profile="array", known_ops=(), known_kinds=())
    asked = [c.name for c in chosen.of(suite.checks().values())]
    special = {
        "values/add/int8": ("failed", "wrong"),
        "values/sub/int8": ("impossible", "the device has no int8"),
        "values/mul/int8": ("impossible", "the device has no int8"),
    }
    results = [Result(n, *special.get(n, ("passed", ""))) for n in asked]  # type: ignore[arg-type]
    return report.build(get_device("numpy"), chosen, results, command="calor-conformance ...")


def test_a_report_becomes_a_summary(
    tool: ModuleType, whole: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(whole), "utf-8")
    made = tool.add(path, "https://example.org/report.json", tmp_path / "reports")
    assert made.name == "numpy-array.json"
    assert made.stat().st_size < 20_000
    summary = json.loads(made.read_text("utf-8"))
    assert "results" not in summary
    assert summary["digest"] == whole["digest"]
    assert summary["failed"] == ["values/add/int8"]
    counts = summary["by_dtype"]["int8"]
    assert (counts["failed"], counts["impossible"]) == (1, 2)
    assert summary["skipped"] == [
        {"state": "impossible", "reason": "the device has no int8", "checks": 2}
    ]
    text = tool.markdown(tmp_path / "reports")
    row = next(line for line in text.splitlines() if line.startswith("| `numpy:0` |"))
    assert "failed: " in row
    assert row.endswith(f"| not run | {whole['date'][:10]} |")
    assert "| impossible | the device has no int8 | 2 |" in text
    assert "<https://example.org/report.json>" in text


def test_what_cannot_be_believed_is_refused(tool: ModuleType, whole: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="was changed after it was written"):
        tool.summary({**whole, "seed": 7})
    part = {**whole, "whole": False}
    part["digest"] = report.digest(part)
    with pytest.raises(FormatError, match="a part of its profile, which is no claim"):
        tool.summary(part)


def test_the_command(
    tool: ModuleType,
    whole: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page, path = tmp_path / "conformance-reports.md", tmp_path / "report.json"
    monkeypatch.setattr(tool, "DOCS", tmp_path)
    page.write_text(f"# Reports\n\n{tool.BEGIN}\nold\n{END}\n\n## More\n", "utf-8")
    path.write_text(json.dumps(whole), "utf-8")
    assert tool.main(["add", str(path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'reports/numpy-array.json'}\n"
    text = page.read_text("utf-8")
    assert "### numpy:0, profile array" in text
    assert "old" not in text
    assert text.endswith(f"{END}\n\n## More\n")
    assert tool.main([]) == 0
    assert page.read_text("utf-8") == text
    assert tool.main(["add", str(tmp_path / "nothing.json")]) == 1
    assert "is not a report" in capsys.readouterr().err


def test_the_page_holds_the_tables(tool: ModuleType) -> None:
    text = (tool.DOCS / "conformance-reports.md").read_text("utf-8")
    held = text.partition(tool.BEGIN)[2].partition(END)[0].strip()
    assert held == tool.markdown(tool.DOCS / "reports"), "run python tools/conformance_reports.py"
    assert list((tool.DOCS / "reports").glob("numpy-*.json"))
    assert tool.main(["check"]) == 0, "run python tools/conformance_reports.py"


def test_a_page_that_is_old_is_found(
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "conformance-reports.md"
    monkeypatch.setattr(tool, "DOCS", tmp_path)
    page.write_text(f"{tool.BEGIN_TYPES}\nold\n{END}\n{tool.BEGIN}\n{END}\n", "utf-8")
    assert tool.main(["check"]) == 1
    assert "is not what the reports say" in capsys.readouterr().err
    assert tool.main([]) == 0
    assert tool.main(["check"]) == 0
    assert "| f16 | bf16 | tf32 |" in page.read_text("utf-8")


def one(kind: str, **counts: dict[str, int]) -> dict[str, Any]:
    device = {"name": f"{kind}:0", "description": f"a {kind}"}
    return {"device": device, "date": "2026-01-02T03:04:05Z", "by_dtype": counts}


CELLS: list[tuple[dict[str, dict[str, int]], list[str]]] = [
    ({}, ["not run"] * 7),
    ({"float16": {"passed": 5}}, ["full", *["not run"] * 6]),
    ({"float16": {"passed": 1234, "failed": 1}}, ["partial 1,234 of 1,235", *["not run"] * 6]),
    ({"bfloat16": {"impossible": 3}}, ["not run", "no", *["not run"] * 5]),
    ({"float64": {"not_yet": 2, "impossible": 1}}, [*["not run"] * 4, "no", *["not run"] * 2]),
    ({"float32": {"failed": 2}}, [*["not run"] * 3, "partial 0 of 2", *["not run"] * 3]),
    ({"int8": {"not_run": 2}}, ["not run"] * 7),
    (
        {"float8_e4m3fn": {"passed": 2}, "float8_e5m2": {"passed": 2}},
        [*["not run"] * 5, "storage only", "not run"],
    ),
    (
        {"float8_e4m3fn": {"passed": 2}, "float8_e5m2": {"impossible": 2}},
        [*["not run"] * 5, "storage only, partial 2 of 4", "not run"],
    ),
]


@pytest.mark.parametrize(("counts", "cells"), CELLS)
def test_a_cell_says_what_a_report_does(
    tool: ModuleType, counts: dict[str, dict[str, int]], cells: list[str]
) -> None:
    lines = list(tool.dtype_table([one("acme", **counts)]))
    assert lines[-1] == f"| `acme` | a acme | {' | '.join(cells)} | 2026-01-02 |"
    # Devices without a report have a row all the same, and reports without counts say nothing.
    assert sum("| not run | not run" in line for line in lines[:-1]) == 7
    old = {k: v for k, v in one("cuda").items() if k != "by_dtype"}
    assert list(tool.dtype_table([old]))[2] == "| CUDA | " + "| not run " * 8 + "|"


def test_a_cell_says_where_a_device_declares_to_fall_short(tool: ModuleType) -> None:
    report = one("acme", float32={"passed": 5}, float16={"passed": 5})
    report["device"]["dtypes"] = {"float32": "partial (it flushes)", "float16": "full"}
    line = list(tool.dtype_table([report]))[-1]
    assert line.split(" | ")[2:7] == [
        "full",
        "not run",
        "not run",
        "partial (it flushes)",
        "not run",
    ]

"""The tool that collects conformance reports, and the page that holds its output."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from calor.backends.device import get_device
from calor.errors import FormatError
from calor_conformance import report, suite
from calor_conformance.outcomes import Result
from calor_conformance.selection import selection

ROOT = Path(__file__).parents[2]


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
    page.write_text(f"# Reports\n\n{tool.BEGIN}\nold\n{tool.END}\n\n## More\n", "utf-8")
    path.write_text(json.dumps(whole), "utf-8")
    assert tool.main(["add", str(path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'reports/numpy-array.json'}\n"
    text = page.read_text("utf-8")
    assert "### numpy:0, profile array" in text
    assert "old" not in text
    assert text.endswith(f"{tool.END}\n\n## More\n")
    assert tool.main([]) == 0
    assert page.read_text("utf-8") == text
    assert tool.main(["add", str(tmp_path / "nothing.json")]) == 1
    assert "is no report" in capsys.readouterr().err


def test_the_page_holds_the_tables(tool: ModuleType) -> None:
    text = (tool.DOCS / "conformance-reports.md").read_text("utf-8")
    held = text.partition(tool.BEGIN)[2].partition(tool.END)[0].strip()
    assert held == tool.markdown(tool.DOCS / "reports"), "run python tools/conformance_reports.py"
    assert list((tool.DOCS / "reports").glob("numpy-*.json"))

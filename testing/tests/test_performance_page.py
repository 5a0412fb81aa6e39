"""The tools that write the tables and plots of the performance page, and the page itself."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/performance.md"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))


def tool(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.usefixtures("tools")
def test_the_page_is_what_the_results_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool("performance_page").main(["check"]) == 0, capsys.readouterr().err


@pytest.mark.usefixtures("tools")
def test_the_page_shows_every_table_and_plot() -> None:
    text = PAGE.read_text("utf-8")
    begun = re.findall(r"<!-- begin: python tools/performance_page.py, (\S+) -->", text)
    assert sorted(begun) == sorted(tool("performance_page").ALL)
    shown = re.findall(r"\(images/performance-(\S+)\.svg\)", text)
    assert sorted(shown) == sorted(tool("performance_plots").PLOTS)


@pytest.mark.usefixtures("tools")
def test_the_page_uses_every_ratio_of_the_results() -> None:
    """A result that compares calor with a peer, and that the page leaves out, is an oversight."""
    results = tool("benchmark_results")
    text = PAGE.read_text("utf-8")
    earlier = {*results.names_of("fuzz-")} - {*results.latest("fuzz-")}
    for path in sorted(results.RESULTS.glob("*.json")):
        rows = json.loads(path.read_text("utf-8")).get("rows") or [{}]
        name = path.stem[: -len("-2026-01-01")]
        if (
            "ratio" in rows[0]
            and name not in earlier
            and results.newest(name)["date"] == json.loads(path.read_text())["date"]
        ):
            assert name in text, f"{path.name} is not on the page"


@pytest.mark.usefixtures("tools")
def test_a_stale_page_is_found(tmp_path: Path) -> None:
    page = tool("performance_page")
    (tmp_path / "images").mkdir()
    marked = f"# Speed\n\n<!-- begin: {page.COMMAND}, launches -->\nold\n<!-- end -->\n\nafter\n"
    (tmp_path / "performance.md").write_text(marked, "utf-8")
    stale = page.outdated(tmp_path)
    assert tmp_path / "performance.md" in stale
    made = page.files(tmp_path)[tmp_path / "performance.md"]
    assert "old" not in made
    assert "| calor, a bound plan of 1 kernel |" in made
    assert made.endswith("<!-- end -->\n\nafter\n")


def written(folder: Path, date: str, **document: Any) -> None:
    (folder / f"acme-{date}.json").write_text(json.dumps({"date": date, **document}), "utf-8")


@pytest.mark.usefixtures("tools")
def test_the_newest_result_of_a_name_counts(tmp_path: Path) -> None:
    results = tool("benchmark_results")
    written(tmp_path, "2026-01-02")
    written(tmp_path, "2026-01-10")
    (tmp_path / "acme-beside-2026-02-01.json").write_text("{}", "utf-8")
    assert results.newest("acme", tmp_path)["date"] == "2026-01-10"
    with pytest.raises(FileNotFoundError, match=r"no result tool-DATE\.json"):
        results.newest("tool", tmp_path)


@pytest.mark.usefixtures("tools")
def test_of_drawn_cases_the_seeds_of_the_newest_date_count(tmp_path: Path) -> None:
    results = tool("benchmark_results")
    written(tmp_path, "2026-01-01")
    for seed, date in (("1", "2026-01-02"), ("2", "2026-01-03"), ("3", "2026-01-03")):
        (tmp_path / f"acme-seed-{seed}-{date}.json").write_text("{}", "utf-8")
    (tmp_path / "acme-gpu-seed-9-2026-01-01.json").write_text("{}", "utf-8")
    found = results.latest("acme", tmp_path)
    assert found == ["acme-gpu-seed-9", "acme-seed-2", "acme-seed-3"]


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.234, "1.23 s"),
        (0.0567, "56.7 ms"),
        (4.5e-6, "4.50 µs"),
        (0.000999, "999 µs"),
        (0.5e-6, "0.500 µs"),
    ],
)
def test_times_have_three_digits_and_a_unit(seconds: float, text: str) -> None:
    assert tool("benchmark_results").duration(seconds) == text


@pytest.mark.usefixtures("tools")
def test_a_slow_case_is_bold() -> None:
    tables = tool("performance_tables")
    assert tables.ratio(0.5) == "**0.50**"
    assert tables.ratio(0.95) == "0.95"


@pytest.mark.usefixtures("tools")
def test_a_plot_has_a_dot_for_each_case_and_a_mark_for_each_mean() -> None:
    plot = tool("strip_plot")
    strips = [
        plot.Strip("a & b", {"x": [0.5, 2.0]}),
        plot.Strip("c", {"x": [1.5, 4.0], "y": [1.0]}),
    ]
    drawn = ElementTree.fromstring(plot.svg("a <plot>", strips, means=True))
    tags = [element.tag.rpartition("}")[2] for element in drawn.iter()]
    # Two more dots are the legend's.
    assert tags.count("circle") == 5 + 2
    assert tags.count("rect") == 2 + 1
    words = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert "a & b" in words
    assert "1.00" in words
    dots = [float(e.get("cx", "0")) for e in drawn.iter() if e.get("fill-opacity")]
    one = next(float(e.get("x1", "0")) for e in drawn.iter() if e.get("stroke") == "#555555")
    assert dots[0] < one < dots[1], "a ratio below 1 is left of the line at 1"


def test_the_page_of_limits_stays_short() -> None:
    """Measurements belong to the page of performance; limits answer in two tables and lists."""
    text = (ROOT / "docs/limits.md").read_text("utf-8")
    assert len(text.splitlines()) <= 120
    assert "](performance.md" in text

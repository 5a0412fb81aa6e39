"""The program that times dispatches of plain Vulkan, on any driver."""

import json
import subprocess
from pathlib import Path

import pytest

import vulkan_floor


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if vulkan_floor.lacking():
        pytest.skip("there is no compiler of Vulkan programs; apt-get install libvulkan-dev")
    made = vulkan_floor.build(tmp_path_factory.mktemp("floor"))
    try:
        vulkan_floor.measure(made, "", dispatches=4, runs=1)
    except subprocess.CalledProcessError:
        pytest.skip(
            "there is no wgpu device; apt-get install mesa-vulkan-drivers makes the processor one"
        )
    return made


def test_barriers_order_dispatches(program: Path) -> None:
    name, rows = vulkan_floor.measure(program, "", dispatches=8, runs=2)
    assert name
    ways = {row.way: row for row in rows}
    assert len(ways) == len(rows) == 10
    assert all(row.ns > 0 for row in rows)
    ordered = {way for way, row in ways.items() if row.ordered}
    assert {way for way in ways if "memory" in way or "buffer" in way or "await" in way} <= ordered


def test_a_table_is_printed_and_written(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "floor.json"
    assert vulkan_floor.main(["--dispatches", "4", "--json", str(path)]) == 0
    found = json.loads(path.read_text("utf-8"))
    printed = capsys.readouterr().out
    assert printed.startswith(found["device"])
    assert all(row["way"] in printed for row in found["rows"])


def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(SystemExit):
        vulkan_floor.main([])
    assert "there is no g++, glslangValidator" in capsys.readouterr().err

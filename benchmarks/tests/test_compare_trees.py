"""Two trees are compared case by case, and what differs is told."""

import json
from pathlib import Path
from typing import Any

import pytest

import compare_trees
from harness import report

# Stands for `run.py` of a tree: it writes the times of the cases that are asked for.
RUN = """
import json, sys
from pathlib import Path
times, failures = json.loads((Path(__file__).parent / "times.json").read_text())
words = sys.argv
only = words[words.index("--only") + 1].split(",") if "--only" in words else [""]
rows = [{"case": n, "ours_s": t} for n, t in times.items() if any(text in n for text in only)]
found = {"rows": rows, "failures": failures, "disagreements": []}
Path(words[words.index("--json") + 1]).write_text(json.dumps(found))
with (Path(__file__).parent / "runs.txt").open("a") as runs:
    runs.write(" ".join(only) + "\\n")
"""


def tree(folder: Path, times: dict[str, float], failures: tuple[str, ...] = ()) -> Path:
    """Make a tree whose suite takes these times."""
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "run.py").write_text(RUN)
    (folder / "benchmarks" / "times.json").write_text(json.dumps([times, failures]))
    return folder


def compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Any, after: Any
) -> tuple[int, dict[str, Any]]:
    """Compare two such trees."""
    first, second = tree(tmp_path / "one", *before), tree(tmp_path / "two", *after)
    monkeypatch.setattr(compare_trees, "ROOT", second)
    monkeypatch.setattr(report, "setting", lambda *given: {"command": given[0]})
    file = tmp_path / "result.json"
    words = ["rows", "--before", str(first), "--rounds", "2", "--json", str(file)]
    return compare_trees.main(words), json.loads(file.read_text("utf-8"))


def test_equal_trees_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"a": 1.0, "b": 2.0}
    status, found = compared(tmp_path, monkeypatch, (times,), (times,))
    assert status == 0
    assert found["geometric_mean"] == {"rows": 1.0}
    assert [len(case["before"]) for case in found["cases"]] == [2, 2]


def test_a_slower_case_is_measured_again_alone_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = compared(
        tmp_path, monkeypatch, ({"a": 1.0, "b": 2.0},), ({"a": 1.0, "b": 2.5},)
    )
    assert status == 1
    assert [case["ratio"] for case in found["cases"]] == [1.0, 0.8]
    assert "b: 0.800 (2 s and 2.5 s; runs 0 % apart)" in capsys.readouterr().out
    runs = (tmp_path / "two" / "benchmarks" / "runs.txt").read_text().split("\n")
    assert runs == ["", "", *["b"] * 6, ""]


def test_a_case_whose_name_others_contain_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {"sum 10": 1.0, "sum 100": 1.0, "matmul 8, 8": 1.0}
    later = {"sum 10": 2.0, "sum 100": 1.0, "matmul 8, 8": 2.0}
    compared(tmp_path, monkeypatch, (times,), (later,))
    runs = (tmp_path / "two" / "benchmarks" / "runs.txt").read_text().split("\n")
    assert runs == ["", "", *["sum 10 matmul 8"] * 6, ""]


def test_a_faster_case_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, found = compared(tmp_path, monkeypatch, ({"a": 2.0},), ({"a": 1.0},))
    assert (status, found["geometric_mean"]["rows"]) == (0, 2.0)


def test_a_case_of_one_tree_alone_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, found = compared(tmp_path, monkeypatch, ({"a": 1.0, "b": 1.0},), ({"a": 1.0},))
    assert (status, found["wrong"]) == (1, ["only one tree runs b"])


def test_what_fails_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, found = compared(tmp_path, monkeypatch, ({"a": 1.0},), ({"a": 1.0}, ("c: TypeError",)))
    assert (status, found["wrong"]) == (1, ["after: c: TypeError"])


def test_a_tree_whose_runner_breaks_ends_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one" / "benchmarks").mkdir(parents=True)
    (tmp_path / "one" / "benchmarks" / "run.py").write_text("raise TypeError('no such suite')")
    monkeypatch.setattr(compare_trees, "ROOT", tmp_path / "one")
    with pytest.raises(SystemExit, match=r"wrote nothing:[^$]*TypeError: no such suite"):
        compare_trees.main(["rows", "--before", str(tmp_path / "one")])


def test_this_tree_runs_beside_itself(tmp_path: Path) -> None:
    """The real runner's form is understood; times are not judged."""
    file = tmp_path / "result.json"
    words = ["example", "--before", str(compare_trees.ROOT), "--device", "numpy", "--rounds", "1"]
    compare_trees.main([*words, "--repeats", "1", "--again", "0", "--json", str(file)])
    found = json.loads(file.read_text("utf-8"))
    assert found["cases"]
    assert not found["wrong"]
    assert all(case["before"] and case["after"] for case in found["cases"])
    assert found["command"].startswith("python benchmarks/compare_trees.py example --before")

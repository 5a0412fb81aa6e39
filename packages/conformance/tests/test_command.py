"""The command line and the pytest plugin, as their users call them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from calor_conformance.command import main

FEW = ["--device", "numpy", "--only", "values/add/*", "--only", "memory/figures"]


def test_a_run_prints_verdicts_and_writes_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, page = tmp_path / "r.json", tmp_path / "r.md"
    # A part of a tier leaves checks out, so that the tier is not passed.
    assert main([*FEW, "--json", str(data), "--markdown", str(page)]) == 1
    said = capsys.readouterr().out
    assert "basic: failed" in said
    assert "checks were not run" in said
    report = json.loads(data.read_text())
    assert report["command"].startswith("calor-conformance --device numpy --only")
    assert {r["outcome"] for r in report["results"]} == {"passed"}
    assert "# Conformance of numpy:0" in page.read_text()
    assert main(["verify", str(data)]) == 0
    assert "which is no claim" in capsys.readouterr().out


def test_shards_in_processes_and_merged_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared, alone, merged = (tmp_path / f"{name}.json" for name in ("shared", "alone", "merged"))
    # The processes share the part of the run that they are asked.
    main([*FEW, "--jobs", "2", "--shard", "2/3", "--json", str(shared)])
    main([*FEW, "--shard", "2/3", "--json", str(alone)])
    parts = [str(tmp_path / f"{n}.json") for n in (2, 5)]
    for n, part in zip((2, 5), parts, strict=True):
        main([*FEW, "--shard", f"{n}/6", "--json", part])
    main(["merge", *parts, "--json", str(merged)])
    one, *others = (json.loads(p.read_text()) for p in (shared, alone, merged))
    assert len(one["results"]) > 4
    for other in others:
        assert {r["name"] for r in one["results"]} == {r["name"] for r in other["results"]}
        assert one["tiers"] == other["tiers"]
    assert main(["verify", str(shared)]) == 0


def test_processes_share_the_log_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, first, last = (tmp_path / name for name in ("run.log", "first.json", "last.json"))
    main([*FEW, "--shard", "1/2", "--resume", str(log)])
    _, *lines = log.read_text().splitlines()
    # What the log holds is taken from it; what it lacks is run, by any number of processes, whose
    # log any number goes on with.
    lines[0] = json.dumps(json.loads(lines[0]) | {"detail": "from the log"})
    head = log.read_text().splitlines()[0]
    log.write_text("\n".join([head, *lines]) + "\n")
    main([*FEW, "--jobs", "2", "--resume", str(log), "--json", str(first)])
    main([*FEW, "--resume", str(log), "--json", str(last)])
    one, two = (json.loads(p.read_text())["results"] for p in (first, last))
    assert [r["detail"] for r in one if "detail" in r] == ["from the log"]
    assert one == two
    assert len(log.read_text().splitlines()) == 1 + len(one) > 1 + len(lines)


@pytest.mark.slow
def test_a_check_that_ends_its_process_is_one_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The processes end where int8 is uploaded, as a driver that crashes ends them.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\n"
        "from calor.backends import numpy_backend\n"
        "upload = numpy_backend.NumpyBackend.upload\n"
        "def ending(self, index, array):\n"
        "    if array.dtype == 'int8':\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return upload(self, index, array)\n"
        "numpy_backend.NumpyBackend.upload = ending\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    report = tmp_path / "r.json"
    adds = ["--device", "numpy", "--only", "values/add/*"]
    assert main([*adds, "--jobs", "2", "--json", str(report)]) == 1
    outcomes = {r["name"]: r for r in json.loads(report.read_text())["results"]}
    wrong = {name for name, r in outcomes.items() if r["outcome"] == "failed"}
    assert wrong == {"values/add/int8"}
    assert "SIGKILL" in outcomes["values/add/int8"]["detail"]
    assert len(outcomes) > 10


def test_listing_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "memory/figures" in lines
    assert all(line.startswith(("values/add/", "memory/")) for line in lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--device", "nothing"], 'no device "nothing"'),
        (["--device", "numpy", "--op", "exq"], "there is no op 'exq'"),
        (["verify", "nowhere.json"], "is not a report"),
        (["merge", "nowhere.json"], "is not a report"),
    ],
)
def test_what_cannot_be_carried_out_ends_with_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_a_report_that_lies_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, honest = tmp_path / "r.json", tmp_path / "honest.json"
    main([*FEW, "--json", str(honest)])
    report = json.loads(honest.read_text())
    report["device"]["description"] = "the fastest in the world"
    data.write_text(json.dumps(report))
    capsys.readouterr()
    assert main(["verify", str(data), str(honest)]) == 1
    lie, claim = capsys.readouterr().out.splitlines()
    assert "changed after it was written" in lie
    assert "which is no claim" in claim


PLUGIN = ["--conformance-device", "numpy", "--conformance-only", "values/add/*"]


def test_the_plugin_adds_a_test_for_each_check(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_own():\n    pass\n")
    done = pytester.runpytest_subprocess(*PLUGIN, "--conformance-json", "r.json")
    outcomes = done.parseoutcomes()
    report = json.loads((pytester.path / "r.json").read_text())
    # Its own test, and the one that counts.
    assert outcomes == {"passed": len(report["results"]) + 2}
    assert main(["verify", str(pytester.path / "r.json")]) == 0


def test_a_check_that_is_deselected_is_a_failure(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\n"
        "@pytest.hookimpl(wrapper=True)\n"
        "def pytest_collection_modifyitems(items):\n"
        "    yield\n"
        "    items[:] = [i for i in items if 'float16' not in i.name]\n"
    )
    pytester.makepyfile("def test_own():\n    pass\n")
    done = pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider")
    done.stdout.fnmatch_lines(["*checks of the suite were left out, such as values/add*"])
    assert done.ret == 1


def test_without_the_option_nothing_is_added(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_own():\n    pass\n")
    assert pytester.runpytest_inprocess().parseoutcomes() == {"passed": 1}

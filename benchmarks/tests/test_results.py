"""Each result that is kept says how it was made, by a command that there is."""

import argparse
import itertools
import json
import re
import runpy
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import run
from calor_conformance.command import main as conformance
from harness import runner

BENCHMARKS = Path(run.__file__).parent
ROOT = BENCHMARKS.parent
RESULTS = sorted((BENCHMARKS / "results").glob("*.json"))


class Parsed(Exception):
    """The arguments were taken."""


def split(command: str) -> list[str]:
    """The words of a command without the environment variables that it begins with."""
    variable = re.compile(r"CALOR_[A-Z_]+=")
    return list(itertools.dropwhile(variable.match, shlex.split(command)))


def commands(result: Path) -> list[list[str]]:
    """The commands that a result names, or what the README says of it, word by word."""
    document = json.loads(result.read_text("utf-8"))
    if "figures" in document:
        return [split(f["command"]) for f in document["figures"] if "command" in f]
    if "command" in document:
        return [split(command) for command in document["command"].split(";")]
    lines = [line.strip() for line in (BENCHMARKS / "README.md").read_text("utf-8").splitlines()]
    said = [shlex.split(line) for line in lines if line.startswith("python ")]
    return [words for words in said if f"benchmarks/results/{result.name}" in words]


def program(words: list[str]) -> Callable[[], Any]:
    if words[0] == "calor-conformance":
        return conformance
    if words[0] == "nox":
        return lambda: session(words[2])
    assert words[0] == "python", f"nobody knows what {words[0]} is"
    file = ROOT / words[1]
    assert file.is_file(), f"there is no {words[1]}"
    sys.path.insert(0, str(file.parent))
    return lambda: runpy.run_path(str(file), run_name="__main__")


def session(name: str) -> None:
    """What noxfile.py calls a session is a function of the name."""
    if f"def {name}(session" in (ROOT / "noxfile.py").read_text("utf-8"):
        raise Parsed


@pytest.fixture
def stops_when_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parsed(self: argparse.ArgumentParser, *given: Any) -> Any:
        parse(self, *given)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)


@pytest.mark.usefixtures("stops_when_parsed")
@pytest.mark.parametrize("result", RESULTS, ids=lambda path: path.stem)
def test_the_command_of_a_result_is_one(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = commands(result)
    assert found, "it names no command; write it in the README, on a line of its own"
    for words in found:
        monkeypatch.setattr(sys, "argv", words[1:] if words[0] == "python" else words)
        monkeypatch.setattr(sys, "path", sys.path[:])
        call = program(words)
        with pytest.raises(Parsed):
            call()


@pytest.mark.parametrize("result", RESULTS, ids=lambda path: path.stem)
def test_a_result_of_a_suite_is_written_where_it_is_kept(
    result: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in commands(result):
        if words[1] != "benchmarks/run.py":
            continue
        assert words[words.index("--json") + 1] == f"benchmarks/results/{result.name}"
        # Suites set variables for all that comes after.
        monkeypatch.setenv("CALOR_KEEP", "0")
        options = run.parse(words[2:])
        cases = runner.load_suite(options.suite, options.device, (), options.only)
        rows = json.loads(result.read_text("utf-8"))["rows"]
        assert {row["case"] for row in rows} <= {case.name for case in cases}

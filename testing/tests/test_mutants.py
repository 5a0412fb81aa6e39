"""The tool that plants faults: what it draws, plants in a child, and tells of it."""

import importlib.util
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import mutants
from mutation.drawing import Mutant, drawn, sources
from mutation.planting import Planted, UnplantableError, live_functions, planted
from mutation.reach import Recorder, named, record, stored
from mutation.trial import Ask, Trial, asked, tried

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a child is a fork")

TEXT = '''"""A module."""

import functools


def larger(a: int, b: int) -> int:
    """Return the larger one."""
    if a < b:
        return b
    return a


def counted(values: list[int], *, first: int = 1) -> int:
    total = 0
    for value in values:
        if value in (
            1,
            2,
        ):
            total += first
    return total


def unused(x: int) -> int:
    return x + 1


def outer(n: int) -> object:
    @functools.wraps(larger)
    def inner(x: int) -> int:
        return x - n

    return inner


@(lambda function: lambda x: function(x) - 1)
def wrapped(x: int, y: int = 3) -> int:
    return x


shifted = outer(3)
halves, doubles = [lambda x: x // 2], [lambda x: x * 2]
'''


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ModuleType]]:
    folder = tmp_path_factory.mktemp("tiny")
    path = folder / "tiny_of_mutants.py"
    path.write_text(TEXT, "utf-8")
    spec = importlib.util.spec_from_file_location("tiny_of_mutants", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["tiny_of_mutants"] = module
    yield folder, module
    del sys.modules["tiny_of_mutants"]


def mutant_of(root: Path, after: str, kind: str = "", before: str = "") -> Mutant:
    made = drawn(root, sources(root, ["tiny_of_mutants.py"]), 0)
    wanted = (m for m in made if m.after == after and kind in ("", m.kind))
    return next(m for m in wanted if before in ("", m.before))


@cache
def found(root: Path) -> dict[str, list[FunctionType]]:
    """Look through all objects of the process once: faults are in children alone."""
    return live_functions(root)


def of_calls(calls: dict[str, Callable[[], bool]]) -> Ask:
    def ask(names: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        for name in names:
            yield name, None if calls[name]() else "it is wrong"

    return ask


def trial(
    tiny: tuple[Path, ModuleType], mutant: Mutant, calls: dict[str, Callable[[], bool]]
) -> Trial:
    root, _ = tiny
    change = planted(root, mutant, found(root))
    return tried(mutant, change, list(calls), of_calls(calls), 5.0)


def test_a_check_names_a_fault_and_another_one_does_not(tiny: tuple[Path, ModuleType]) -> None:
    root, module = tiny
    mutant = mutant_of(root, "a > b", "comparison")
    calls = {"equal": lambda: module.larger(2, 2) == 2, "less": lambda: module.larger(1, 2) == 2}
    made = trial(tiny, mutant, calls)
    assert (made.outcome, made.checks, made.detail) == ("named", ("less",), "it is wrong")
    made = trial(tiny, mutant, {"equal": calls["equal"]})
    assert (made.outcome, made.checks) == ("survived", ("equal",))
    # The fault was in the child alone.
    assert module.larger(1, 2) == 2


def test_a_place_that_no_check_comes_to_is_told(tiny: tuple[Path, ModuleType]) -> None:
    root, module = tiny
    mutant = mutant_of(root, "pass", "statement dropped")
    assert mutant.before == "total += first"
    made = trial(tiny, mutant, {"empty": lambda: module.counted([]) == 0})
    assert made.outcome == "unreached"
    made = trial(tiny, mutant, {"one": lambda: module.counted([1]) == 1})
    assert made.outcome == "named"
    assert tried(mutant, Planted(), [], of_calls({}), 1.0).outcome == "untold"


def test_a_default_is_planted(tiny: tuple[Path, ModuleType]) -> None:
    root, module = tiny
    mutant = mutant_of(root, "2", "default", "1")
    given = {"given": lambda: module.counted([1], first=3) == 3}
    assert trial(tiny, mutant, given).outcome == "survived"
    assert trial(tiny, mutant, {"none": lambda: module.counted([1]) == 1}).outcome == "named"


def test_functions_that_tables_and_decorators_hold_get_the_fault(
    tiny: tuple[Path, ModuleType],
) -> None:
    root, module = tiny
    inner = mutant_of(root, "x + n", "operator")
    assert trial(tiny, inner, {"shifted": lambda: module.shifted(5) == 2}).outcome == "named"
    made = mutant_of(root, "x % 2", "operator")
    assert trial(tiny, made, {"half": lambda: module.halves[0](4) == 2}).outcome == "named"
    assert trial(tiny, made, {"double": lambda: module.doubles[0](4) == 8}).outcome == "unreached"


def test_a_function_beside_another_one_has_its_own_name(tiny: tuple[Path, ModuleType]) -> None:
    root, module = tiny
    names = {source.name for source in sources(root, ["tiny_of_mutants.py"])}
    assert {"larger", "outer.<locals>.inner", "<lambda>", "<lambda>.<locals>.<lambda>"} <= names
    assert not any(name.startswith("wrapped.") for name in names)
    made = mutant_of(root, "function(x) + 1", "operator")
    assert trial(tiny, made, {"wrapped": lambda: module.wrapped(5) == 4}).outcome == "named"


def test_an_end_and_a_hang_of_the_child_name_the_fault(tiny: tuple[Path, ModuleType]) -> None:
    root, module = tiny
    mutant = mutant_of(root, "a > b", "comparison")

    def ends() -> bool:
        os._exit(3)

    made = trial(tiny, mutant, {"fine": lambda: module.larger(2, 1) != 0, "ends": ends})
    assert (made.outcome, made.checks, made.detail) == ("named", ("ends",), "the process ends")


def test_mutants_keep_the_lines_and_compile_to_something_else(
    tiny: tuple[Path, ModuleType],
) -> None:
    root, _ = tiny
    made = list(itertools.islice(drawn(root, sources(root, ["tiny_of_mutants.py"]), 3), 25))
    assert len({m.name for m in made}) == 25
    for mutant in made:
        text = mutant.text(root)
        assert text != TEXT
        assert text.count("\n") == TEXT.count("\n"), mutant.name
        assert '"""Return the larger one."""' in text
    again = list(itertools.islice(drawn(root, sources(root, ["tiny_of_mutants.py"]), 3), 25))
    assert made == again


def test_a_function_that_does_not_exist_is_refused(tiny: tuple[Path, ModuleType]) -> None:
    root, _ = tiny
    with pytest.raises(UnplantableError, match="no function that exists"):
        planted(root, mutant_of(root, "a > b", "comparison"), {})


def test_a_record_says_who_enters_what_and_is_continued(tiny: tuple[Path, ModuleType]) -> None:
    root, module = tiny
    path = root / "reach.npz"
    said: list[str] = []
    calls = {
        "a/larger": lambda: module.larger(1, 2) == 2,
        "a/wrong": lambda: module.larger(1, 2) == 1,
        "b/both": lambda: module.counted([module.larger(1, 2)]) == 1,
    }
    recorder = Recorder(root, ["tiny"], stored(path))
    record(recorder, path, ["a/larger", "a/wrong"], lambda name: calls[name](), said.append)
    assert any("a/wrong" in line for line in said)
    recorder = Recorder(root, ["tiny"], stored(path))
    record(recorder, path, calls, lambda name: calls[name](), said.append)
    reach = stored(path)
    assert reach.checks == list(calls)
    larger = named("tiny_of_mutants.py", module.larger.__code__)
    assert larger == "tiny_of_mutants.py::larger"
    assert asked(reach, [larger], 9.0) == ["a/larger", "b/both"]
    assert asked(reach, ["tiny_of_mutants.py::counted"], 9.0) == ["b/both"]
    assert asked(reach, ["tiny_of_mutants.py::unused"], 9.0) == []
    assert asked(reach, [larger], -1.0) == []


def test_the_tool_says_whether_a_check_of_the_suite_names_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, result = tmp_path / "reach.npz", tmp_path / "result.json"
    only = ["--reach", str(path), "--only", "functions/calor_numerics.trapezoid*"]
    mutants.main([*only, "--record"])
    where = ["--function", "*::trapezoid", "--number", "3", "--json", str(result)]
    mutants.main(["plugins/numerics/src/calor_numerics/calculus.py", *only, *where])
    rows = json.loads(result.read_text("utf-8"))
    assert len(rows) == 3
    assert "named" in {row["outcome"] for row in rows}
    (line,) = (t for t in capsys.readouterr().out.splitlines() if t.startswith("all "))
    assert line.split()[1] == "3"
    rows[0]["outcome"] = "survived"
    result.write_text(json.dumps(rows[:1]), "utf-8")
    mutants.main([*only, "--again", str(result), "--json", str(tmp_path / "again.json")])
    (again,) = json.loads((tmp_path / "again.json").read_text("utf-8"))
    assert again["mutant"] == rows[0]["mutant"]


def test_a_default_is_shown_to_the_checks_of_defaults(tmp_path: Path) -> None:
    path, result = tmp_path / "reach.npz", tmp_path / "result.json"
    only = ["--reach", str(path), "--only", "functions/calor_numerics.trapezoid*"]
    mutants.main([*only, "--record"])
    file = mutants.ROOT / "plugins/numerics/src/calor_numerics/calculus.py"
    functions = [s for s in sources(mutants.ROOT, [str(file)]) if s.name == "trapezoid"]
    fault = next(m for m in drawn(mutants.ROOT, functions, 0) if m.default)
    result.write_text(json.dumps([{"mutant": asdict(fault), "outcome": "survived"}]), "utf-8")
    more = ["--only", "functions/defaults-of-*", "--again", str(result), "--json", str(result)]
    mutants.main([*only, *more])
    (row,) = json.loads(result.read_text("utf-8"))
    assert row["outcome"] == "named"
    assert row["checks"] == ["functions/defaults-of-calor_numerics"]

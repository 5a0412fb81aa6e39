"""Which tests are left to full runs: what is chosen, and what a run leaves out."""

import json
from pathlib import Path

import numpy as np
import pytest

import choose_tests
import costs
from calor.dtypes import float32, int64
from calor_interpreter.launch import run_on_lanes
from calor_kernel import language as kl
from calor_kernel.language import Buffer, Scalar
from calor_kernel.library.attention.bias_gradient import sum_parts
from choose_tests import Measured


def test_what_costs_much_and_covers_nothing_alone_is_left_out() -> None:
    tests = [
        Measured("test_a[float32-2]", 9.0, frozenset({"a", "float32"})),
        Measured("test_a[float16-2]", 8.0, frozenset({"a", "float16"})),
        Measured("test_a[float32-3]", 1.0, frozenset({"a", "float32"})),
        Measured("test_b[many]", 5.0, frozenset({"b"})),
        Measured("test_c[cheap]", 0.1, frozenset({"a", "float32"})),
    ]
    # The costliest of float32 goes, and the next one too, as the cheap test covers it.
    assert [test.name for test in choose_tests.choose(tests)] == [
        "test_a[float32-2]",
        "test_a[float32-3]",
    ]


def test_a_test_with_a_namesake_in_a_file_of_its_name_stays() -> None:
    paths = ("p/q/r/test_1.py", "o/q/r/test_1.py", "p/q/s/test_1.py")
    rows = [{"test": f"{path}::test_a", "seconds": 9, "covers": ["a"]} for path in paths]
    tests = choose_tests.read(map(json.dumps, rows))
    assert [test.name for test in tests] == ["", "", "q/s/test_1.py::test_a"]
    assert [test.name for test in choose_tests.choose(tests)] == ["q/s/test_1.py::test_a"]


def test_the_choice_covers_what_all_tests_do() -> None:
    tests = [
        Measured(f"test[{a}-{b}]", 1.0 + a + b / 7, frozenset({f"a={a}", f"b={b}"}))
        for a in range(4)
        for b in range(5)
    ]
    gone = choose_tests.choose(tests)
    kept = [test for test in tests if test not in gone]
    assert set().union(*(t.covers for t in kept)) == set().union(*(t.covers for t in tests))
    assert len(kept) < 9


def test_files_may_move_and_namesakes_are_told_by_their_files() -> None:
    stored = ["test_a[x]", "test_b[y]", "test_gone", "q/r/test_2.py::test_c", "r/test_3.py::test_d"]
    found = costs.left_out(
        ["new/test_1.py::test_a[x]", "p.py::test_b[y]", "q.py::test_b[y]",
         "p/q/r/test_2.py::test_c", "p/q/s/test_2.py::test_c",
         "r/test_3.py::test_d", "r/test_3.py::test_d"], stored
    )  # fmt: skip
    assert found == {"new/test_1.py::test_a[x]", "p/q/r/test_2.py::test_c"}


def test_lines_stand_for_the_forms_of_kernels() -> None:
    covers = ["a/t.py::test", "kernel add form 1 checked", "kernel add on int8 checked"]
    rows = [
        {"test": "a/t.py::test[1]", "seconds": 5, "covers": covers, "lines": {"x.py": "6"}},
        {"test": "a/t.py::test[2]", "seconds": 1, "covers": covers, "lines": {"x.py": "2"}},
        {"test": "a/t.py::test[3]", "seconds": 1, "covers": covers, "lines": {"x.py": "4"}},
    ]
    lines = list(map(json.dumps, rows))
    tests = choose_tests.read(lines)
    assert tests[0].covers == {*covers} - {"kernel add form 1 checked"}
    # Two tests run the lines of the first one in less time.
    assert choose_tests.choose(tests[1:]) == []
    assert [test.name for test in choose_tests.choose(tests)] == ["test[1]"]
    del rows[0]["lines"]
    assert "kernel add form 1 checked" in choose_tests.read([json.dumps(rows[0])])[0].covers


def test_names_of_rows_do_not_count() -> None:
    names = [f"row {n}" for n in range(choose_tests.FEW + 1)]
    rows = [
        {"test": f"t.py::test[{kind}-{n}]", "seconds": 1, "covers": [f"t.py {kind}={value}"]}
        for kind, values in (("name", names), ("dtype", ["int8", "int16"]))
        for n, value in enumerate(values)
    ]
    found = choose_tests.read(map(json.dumps, rows))
    covered = set().union(*(test.covers for test in found))
    assert covered == {"t.py dtype=int8", "t.py dtype=int16"}


def test_a_measurement_of_a_part_keeps_the_choice_of_others(tmp_path: Path) -> None:
    stored, measured = tmp_path / "stored.json", tmp_path / "costs.jsonl"
    stored.write_text(json.dumps({"seconds": {"test_a[1]": 3, "test_other": 2}}))
    rows = [
        {"test": f"t.py::test_a[{n}]", "seconds": n, "covers": ["t.py::test_a"]} for n in (1, 2)
    ]
    measured.write_text("\n".join(map(json.dumps, rows)))
    choose_tests.main([str(measured), "--part"], stored)
    assert json.loads(stored.read_text())["seconds"] == {"test_a[2]": 2, "test_other": 2}
    choose_tests.main([str(measured)], stored)
    assert json.loads(stored.read_text())["seconds"] == {"test_a[2]": 2}


FILE = """
import pytest

@pytest.mark.slow
def test_marked(): pass

@pytest.mark.parametrize("x", [1, 2])
def test_stored(x): pass
"""


@pytest.fixture
def stored(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = pytester.path / "stored.json"
    path.write_text(json.dumps({"seconds": {"test_stored[2]": 3.5}}))
    monkeypatch.setattr(costs, "STORED", path)
    pytester.makepyfile(test_it=FILE)
    pytester.makeini("[pytest]\nmarkers = slow")
    return path


@pytest.mark.parametrize(
    ("options", "passed", "deselected"),
    [
        ((), 1, 2),
        (("--full",), 3, 0),
        (("test_it.py::test_stored[2]",), 1, 0),
        (("--full", "--sample=2"), 2, 1),
    ],
)
def test_a_run_leaves_out_what_is_stored_or_marked(
    pytester: pytest.Pytester, stored: Path, options: tuple[str, ...], passed: int, deselected: int
) -> None:
    result = pytester.runpytest_inprocess(*options, plugins=[costs])
    result.assert_outcomes(passed=passed, deselected=deselected)


def test_a_measurement_is_what_the_choice_reads(pytester: pytest.Pytester, stored: Path) -> None:
    assert stored.exists()
    pytester.runpytest_inprocess("--costs=found.jsonl", plugins=[costs])
    tests = choose_tests.read((pytester.path / "found.jsonl").read_text().splitlines())
    assert [test.name for test in tests] == ["test_stored[1]", "test_stored[2]"]
    # A number is a size, whose value does not count.
    assert tests[1].covers == {"test_it.py::test_stored"}


def test_checked_kernels_are_told_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = costs.Costs(tmp_path / "costs.jsonl")
    measured.watch(monkeypatch)
    floats, size = Buffer(float32), Scalar(int64, nonnegative=True)
    built = sum_parts.build([floats, floats, *[size] * 6], accumulate=float32)
    x, y = np.ones(6, np.float32), np.zeros(2, np.float32)
    for checks in (True, False):
        run_on_lanes(built, (2, 1, 1), [x, y, 2, 1, 2, 3, 2, 1], checks=checks)
    assert {name.split()[-1] for name in measured.kernels} == {"checked", "unchecked"}


@kl.kernel
def copy(x: kl.In, y: kl.InOut, n: kl.Size, *, edge: bool) -> None:
    """Copy elements, with a comparison at the edge."""
    i = kl.absolute_position()
    if edge:
        if i < n:
            y[i] = x[i]
    else:
        y[i] = x[i]


def test_kernels_of_one_name_are_told_by_the_kinds_of_their_operations() -> None:
    floats, size = Buffer(float32), Scalar(int64, nonnegative=True)
    forms = [costs.form(copy.build([floats, floats, size], edge=e)) for e in (False, True, False)]
    assert forms[0] == forms[2] != forms[1]


def test_the_stored_choice_can_be_read() -> None:
    seconds = json.loads(costs.STORED.read_text("utf-8"))["seconds"]
    assert costs.stored_names() == sorted(seconds)
    assert min(seconds.values()) >= choose_tests.LEAST

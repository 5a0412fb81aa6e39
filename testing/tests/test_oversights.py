"""Oversights as faults: where each is drawn, and a call that has another result for it."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mutation.drawing import Mutant, drawn, sources

Call = Callable[..., Any]


def _table_after_an_error(made: Call) -> list[int]:
    table: list[int] = []
    with pytest.raises(ValueError, match="-1"):
        made(table, -1)
    return table


def _keeps_both(made: Call) -> bool:
    known: dict[tuple[int, int], int] = {}
    return made(known, 3, 1) == 7 and known == {(3, 1): 7}


CLEANED = """
def made(table, size):
    try:
        table.append(size)
        if size < 0:
            raise ValueError(size)
    finally:
        table.clear()
"""
# A function, the kind of a fault, its text, and a question that the fault answers wrongly.
ROWS: dict[str, tuple[str, str, str, Callable[[Call], bool]]] = {
    "key": (
        "def made(known, size, scale):\n    key = size, scale\n    return known.get(key)",
        "key part forgotten",
        "None",
        lambda made: made({(3, 1): 7}, 3, 1) == 7,
    ),
    "setdefault": (
        "def made(known, size, scale):\n    return known.setdefault((size, scale), 7)",
        "key part forgotten",
        "None",
        _keeps_both,
    ),
    "count": (
        "def made(size):\n    return size",
        "count of 16 bits",
        "size % 65536",
        lambda made: made(65600) == 65600,
    ),
    "bound": (
        "def made(size):\n    return min(size, 7)",
        "bound forgotten",
        "size",
        lambda made: made(8) == 7,
    ),
    "option": (
        "def made(size, *, scale=1):\n    return size * scale",
        "option ignored",
        "1",
        lambda made: made(3, scale=2) == 6,
    ),
    "none": (
        "def made(size):\n    return 5 if size is None else size",
        "None taken for false",
        "not size",
        lambda made: made(0) == 0,
    ),
    "axis": (
        "def made(axes):\n    return tuple(axes)",
        "axis forgotten",
        "axes[1:]",
        lambda made: made((1, 2)) == (1, 2),
    ),
    "item": (
        "def made(sizes):\n    return [\n        size for size in sizes\n    ]",
        "item left out",
        "list(sizes)[:-1]",
        lambda made: made((1, 2)) == [1, 2],
    ),
    "tile": (
        "def made(size):\n    return -(-size // 4)",
        "rounded down",
        "size // 4",
        lambda made: made(5) == 2,
    ),
    "copy": (
        "def made(table):\n    kept = table.copy()\n    table.clear()\n    return kept",
        "copy forgotten",
        "table",
        lambda made: made([1]) == [1],
    ),
    "written": (
        "def made(table):\n    table = table + [1]\n    return table",
        "written in place",
        "table += [1]",
        lambda made: made(table := [0]) == [0, 1] and table == [0],
    ),
    "error": (CLEANED, "error swallowed", "pass", lambda made: _table_after_an_error(made) == []),
    "cleanup": (
        CLEANED,
        "no cleanup after an error",
        "if True ... if True",
        lambda made: _table_after_an_error(made) == [],
    ),
}


def _called(text: str) -> Call:
    space: dict[str, Any] = {}
    exec(text, space)
    made: Call = space["made"]
    return made


def _right(text: str, asks: Callable[[Call], bool]) -> bool:
    try:
        return asks(_called(text))
    except (AttributeError, KeyError, pytest.fail.Exception):
        return False


@pytest.mark.parametrize("row", ROWS)
def test_an_oversight_is_drawn_and_changes_the_call_that_needs_it(row: str, tmp_path: Path) -> None:
    text, kind, after, asks = ROWS[row]
    (tmp_path / "made.py").write_text(text, "utf-8")
    made = list(itertools.islice(drawn(tmp_path, sources(tmp_path, ["made.py"]), 0), 100))
    found: list[Mutant] = [m for m in made if (m.kind, m.after) == (kind, after)]
    assert found, {(m.kind, m.after) for m in made}
    assert _right(text, asks)
    for mutant in found:
        assert mutant.fits(tmp_path)
        assert mutant.text(tmp_path).count("\n") == text.count("\n")
        assert not _right(mutant.text(tmp_path), asks)


def test_loops_without_an_end_and_of_the_kernel_language_lose_no_item(tmp_path: Path) -> None:
    text = (
        "def made(n):\n"
        "    for i in itertools.count():\n        f(i)\n"
        "    for i in kl.serial(n):\n        f(i)\n"
        "    for i in range(n):\n        f(i)\n"
    )
    (tmp_path / "made.py").write_text(text, "utf-8")
    (source,) = sources(tmp_path, ["made.py"])
    assert "item left out" not in {place.kind for place in source.places}
    assert "range" in {place.kind for place in source.places}

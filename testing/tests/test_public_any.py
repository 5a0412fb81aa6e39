"""Public functions of the kernel library say what they take; Any says nothing."""

from pathlib import Path

import pytest

import public_any

HOUSE = Path(__file__).parents[2]
LIBRARY = "packages/kernel/src/calor_kernel/library", "plugins/cuda/src/calor_cuda/kernels"

MODULE = """
import typing
from typing import Any

def plain(x: int) -> int: ...
def loose(x: Any) -> int: ...
def nested(x: list[tuple[Any, int]]) -> int: ...
def returned(x: int) -> typing.Any: ...
def starred(*x: Any) -> None: ...
def quoted(x: "dict[str, Any]") -> None: ...
def _private(x: Any) -> None: ...

class Open:
    field: Any
    def method(self, x: Any) -> None: ...
    def _method(self, x: Any) -> None: ...

class _Closed:
    def method(self, x: Any) -> None: ...
"""


@pytest.mark.parametrize("folder", LIBRARY)
def test_functions_of_the_library_say_what_they_take(folder: str) -> None:
    found = list(public_any.functions(HOUSE / folder))
    assert found
    loose = [f"{one.module}:{one.line} {one.name}" for one in found if one.any]
    assert not loose, f"take what the function needs instead of Any: {loose}"


def test_any_is_found_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "family").mkdir()
    (tmp_path / "family" / "module.py").write_text(MODULE)
    (tmp_path / "_hidden.py").write_text("def f(x: Any) -> None: ...\n")
    found = {one.name: one.any for one in public_any.functions(tmp_path)}
    assert found == {
        "plain": False,
        "loose": True,
        "nested": True,
        "returned": True,
        "starred": True,
        "quoted": True,
        "Open.method": True,
    }

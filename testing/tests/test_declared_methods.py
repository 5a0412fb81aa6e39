"""The declarations of methods that ops bring are those of the ops."""

import importlib.util
import inspect
from pathlib import Path

import calor
from calor.functions.rows import METHODS

TOOL = Path(__file__).parents[2] / "tools/declared_methods.py"


def test_the_file_is_what_the_tool_writes() -> None:
    spec = importlib.util.spec_from_file_location("declared_methods", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.FILE.read_text("utf-8") == tool.text(METHODS), "run tools/declared_methods.py"


def test_tensors_have_the_functions() -> None:
    assert METHODS
    written = {name: inspect.unwrap(getattr(calor, name)) for name in METHODS}
    assert all(inspect.unwrap(getattr(calor.Tensor, name)) is f for name, f in written.items())

"""The table of operators."""

import pytest

from calor_onnx.registry import Operator, Registry


def made(since: int, name: str = "first", module: str = "somewhere") -> Operator:
    def function() -> None:
        """Stand for an operator's function."""

    function.__qualname__, function.__module__ = name, module
    return Operator("Op", "", since, function)


def test_each_opset_has_its_meaning() -> None:
    table = Registry()
    first, seventh = made(1), made(7)
    table.add(seventh)
    table.add(first)
    found = {version: table.find("", "Op", version) for version in (1, 6, 7, 28)}
    assert found == {1: first, 6: first, 7: seventh, 28: seventh}
    assert table.find("", "Op", 0) is None
    assert table.find("other", "Op", 9) is None


def test_a_function_may_be_defined_again() -> None:
    table = Registry()
    table.add(made(1))
    again = made(1)
    table.add(again)
    assert table.find("", "Op", 1) is again


def test_two_functions_cannot_be_one_operator() -> None:
    table = Registry()
    table.add(made(1))
    with pytest.raises(ValueError, match="Op of opset 1 is defined twice"):
        table.add(made(1, "second"))

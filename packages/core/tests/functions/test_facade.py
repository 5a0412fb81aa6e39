"""What ``calor`` exports: every public name is listed, and the listed ones are there."""

import ast
import importlib.metadata
import inspect

import pytest

import calor
from calor import late


def test_every_public_name_is_listed() -> None:
    public = {
        name
        for name, value in vars(calor).items()
        if not name.startswith("_") and name != "TYPE_CHECKING" and not inspect.ismodule(value)
    }
    # What another distribution brings is among the names once it was asked for.
    brought = {name for name, home in late.LATE.items() if not home.startswith("calor.")}
    assert public - set(calor.__all__) - brought == set()
    assert [name for name in calor.__all__ if not hasattr(calor, name)] == []
    assert len(set(calor.__all__)) == len(calor.__all__)


def test_late_names_are_those_that_type_checkers_read() -> None:
    source = ast.parse(inspect.getsource(late))
    (block,) = (part for part in source.body if isinstance(part, ast.If))
    read = {
        alias.name: part.module
        for part in block.body
        if isinstance(part, ast.ImportFrom)
        for alias in part.names
    }
    # Those that another distribution brings, it names itself.
    assert read.pop("*") == "calor_numerics"
    assert read == {name: home for name, home in late.LATE.items() if home.startswith("calor.")}
    for names, table in ((late.LATE, late.TABLE), (late.RANDOM, late.RANDOM_TABLE)):
        assert len(names) == sum(len(part) for part in table.values())


def test_every_function_is_documented_with_an_example() -> None:
    functions = [getattr(calor, name) for name in calor.__all__]
    wanted = [f for f in functions if inspect.isfunction(f) and "functions" in f.__module__]
    assert [f.__name__ for f in wanted if ">>> " not in (f.__doc__ or "")] == []


def test_the_version_is_that_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(calor), "__version__", "")
    del calor.__version__
    # Reading metadata takes a millisecond, so it is done once.
    monkeypatch.setattr(importlib.metadata, "version", {"calor": "7.8.9"}.pop)
    assert [calor.__version__, calor.__version__] == ["7.8.9", "7.8.9"]


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no 'no_such_name'"):
        calor.no_such_name  # type: ignore[attr-defined]


def test_the_standard_sees_the_devices_that_are_present() -> None:
    assert calor.__array_namespace_info__().devices() == calor.devices()

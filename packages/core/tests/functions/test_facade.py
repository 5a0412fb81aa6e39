"""What ``calor`` exports: every public name is listed, and the listed ones are there."""

import importlib.metadata
import inspect

import pytest

import calor


def test_every_public_name_is_listed() -> None:
    public = {
        name
        for name, value in vars(calor).items()
        if not name.startswith("_") and name != "TYPE_CHECKING" and not inspect.ismodule(value)
    }
    assert public - set(calor.__all__) == set()
    assert [name for name in calor.__all__ if not hasattr(calor, name)] == []
    assert len(set(calor.__all__)) == len(calor.__all__)


def test_every_function_is_documented_with_an_example() -> None:
    functions = [getattr(calor, name) for name in calor.__all__]
    wanted = [f for f in functions if inspect.isfunction(f) and "functions" in f.__module__]
    assert [f.__name__ for f in wanted if ">>> " not in (f.__doc__ or "")] == []


def test_the_version_is_that_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", {"calor": "7.8.9"}.__getitem__)
    assert calor.__version__ == "7.8.9"


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no 'no_such_name'"):
        calor.no_such_name  # type: ignore[attr-defined]


def test_the_standard_sees_the_devices_that_are_present() -> None:
    assert calor.__array_namespace_info__().devices() == calor.devices()

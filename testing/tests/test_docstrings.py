"""The check of public docstrings fails for every section that is missing."""

import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from calor.errors import ShapeError
from calor_nn import Conv2d, Module, functional

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docstrings", ROOT / "tools/docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def complete(x: int) -> int:
    """Return x.

    Parameters
    ----------
    x : int
        A number.

    Returns
    -------
    int
        The same number.

    Raises
    ------
    ValueError
        If `x` is negative.

    Examples
    --------
    >>> complete(1)
    1
    """
    if x < 0:
        raise ShapeError("negative")
    return x


def bare(x: int) -> int:
    """Return x."""
    if x < 0:
        raise ShapeError("negative")
    return x


def yielding() -> Iterator[int]:
    """Count to one."""
    yield 1


def sentence() -> None:
    """returns"""


class Layer:
    """Something with a width."""

    def __init__(self, width: int) -> None:
        if width < 0:
            raise ShapeError("negative")


CASES = [
    (complete, set()),
    (bare, {"PR01", "RT01", "RS01", "EX01"}),
    (yielding, {"YD01", "EX01"}),
    (sentence, {"SS02", "SS03", "SS05", "EX01"}),
]


@pytest.mark.parametrize(("thing", "expected"), CASES)
def test_codes(tool: ModuleType, thing: Any, expected: set[str]) -> None:
    texts = tool.errors(tool.Public(thing.__name__, thing, needs_example=True))
    assert {text.split(": ")[2].split()[0] for text in texts} == expected


def test_a_class_documents_what_its_constructor_raises(tool: ModuleType) -> None:
    texts = tool.errors(tool.Public("Layer", Layer, needs_example=False))
    assert [text.split(": ", 2)[2] for text in texts] == [
        "RS01 ShapeError, raised in Layer.__init__, not under Raises"
    ]


def test_parameters_of_a_class_are_those_of_its_constructor(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11.2 takes an inherited `__new__` for the signature of a class with `__init__`."""
    signature = inspect.signature

    def of_new(thing: Any, **options: Any) -> inspect.Signature:
        return signature(Module.__new__ if isinstance(thing, type) else thing, **options)

    monkeypatch.setattr(inspect, "signature", of_new)
    assert not tool.errors(tool.Public("Conv2d", Conv2d, needs_example=True))


def test_what_helpers_raise_counts(tool: ModuleType) -> None:
    found = tool.raises(inspect.unwrap(functional.conv2d))
    assert found["ShapeError"][1] == "_operands"


def test_public_names(tool: ModuleType) -> None:
    names = {item.name for item in tool.public()}
    expected = {
        "calor.functions.manipulation.reshape",
        "calor.random.distributions.normal",
        "calor.errors.ShapeError",
        "calor_nn.functional.conv.conv2d",
        "calor_nn.conv.Conv2d",
        "calor_nn.module.Module.load_state_dict",
        "calor_train.learner.Learner.fit",
        "calor_linalg.solving.solve",
    }
    assert expected <= names
    assert not [name for name in names if "._" in name.rpartition(".")[2]]

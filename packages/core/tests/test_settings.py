"""Arguments of constructors against their annotations and the ranges of their names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pytest

import calor
from calor.errors import ArgumentError, ArgumentTypeError, CalorError
from calor.settings import (
    ANY,
    COUNT,
    POSITIVE,
    SHARE,
    Range,
    check_constructors,
    kind_of,
)


class Sized(Protocol):
    """Anything with a size."""

    def size(self) -> int: ...


TAKEN = [
    (int, [0, -3, np.int8(4)], [True, 2.5, "2", None, (1,), calor.ones(1)]),
    (float, [0, 2.5, -inf, np.float32(1), np.array(2.0), calor.ones(())], ["1", None, 1j, [1.0]]),
    (bool, [True, False, 0, 1, np.bool_(True)], [2, 0.0, "yes", None, ()]),
    (str, ["", "a"], [1, None, b"a"]),
    (Path, [Path("a")], ["a", 1]),
    (str | Path | None, ["a", Path("a"), None], [1, ()]),
    (Literal["mean", "sum"], ["mean", "sum"], ["median", 0, None]),
    (Literal[1, 2], [1, 2], [True, 1.0, 3]),
    (int | Sequence[int], [3, [1, 2], (), range(3), np.arange(3)], ["12", [1.5], [[1]], None]),
    (Sequence[int | None], [[1, None]], [1, ["a"]]),
    (tuple[float, float], [(0.9, 1), [1, 2]], [(1.0,), (1, 2, 3), 0.9, None]),
    (tuple[int, ...], [(), (1, 2, 3)], [3, ("a",)]),
    (Callable[[int], int], [len, lambda x: x], [3, "f", None]),
    (Mapping[str, int], [{}, {"a": 1}], [[("a", 1)], None]),
    (Iterable[int], [[], {1}, iter([1])], [3, None]),
    (Range, [COUNT], [1, None]),
    (npt.NDArray[np.int64], [np.arange(2), calor.arange(2)], [1, [1], None]),
]


@pytest.mark.parametrize(
    ("annotation", "taken", "refused"), TAKEN, ids=[str(annotation) for annotation, *_ in TAKEN]
)
def test_what_annotations_take(annotation: Any, taken: list[Any], refused: list[Any]) -> None:
    kind = kind_of(annotation)
    assert kind is not None
    for value in taken:
        assert kind.takes(value), value
    for value in refused:
        assert not kind.takes(value), value


@pytest.mark.parametrize(
    "annotation", [Any, object, calor.Tensor, calor.Tensor | None, Sized, int | Sized, "int"]
)
def test_what_annotations_leave_open(annotation: Any) -> None:
    assert kind_of(annotation) is None


def test_ranges() -> None:
    for range_, inside, outside in (
        (COUNT, (1, 9), (0, -1, nan)),
        (POSITIVE, (1e-9, 3, inf), (0, -1, nan)),
        (SHARE, (0, 0.5, 1), (-0.1, 1.1, nan)),
        (Range(0, 1, within=True), (0.5,), (0, 1, nan)),
        (Range(), (-inf, inf), (nan,)),
        (ANY, (nan, inf), ()),
    ):
        assert all(x in range_ for x in inside)
        assert not any(x in range_ for x in outside)
    texts = ["at least 1", "above 0", "within [0, 1]", "between 0 and 1", "a number"]
    found = [str(r) for r in (COUNT, POSITIVE, SHARE, Range(0, 1, within=True), Range())]
    assert found == texts


class Layer:
    """A class with settings."""

    def __init__(self, size: int, rate: float = 0.5, *, mode: Literal["a", "b"] = "a") -> None:
        self.made = size, rate, mode


class Wide(Layer):
    """A class with another range."""


check_constructors([Wide], __name__, {"size": COUNT, "rate": SHARE, "Wide.size": Range(5)})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Layer(0), ArgumentError, "Layer: size must be at least 1, not 0"),
        (lambda: Layer(size=-2), ArgumentError, "Layer: size must be at least 1, not -2"),
        (lambda: Wide(4), ArgumentError, "Wide: size must be at least 5, not 4"),
        (lambda: Layer("3"), ArgumentTypeError, "size must be a whole number, not '3'"),
        (lambda: Layer(3, nan), ArgumentError, r"rate must be within \[0, 1\], not nan"),
        (lambda: Layer(3, rate=None), TypeError, "rate must be a number, not None"),
        (lambda: Layer(3, mode="c"), ArgumentError, 'mode must be "a" or "b", not \'c\''),
        (lambda: Layer(3, mode=calor), ValueError, 'mode must be "a" or "b", not a module'),
        (lambda: Layer(), TypeError, "missing 1 required positional argument: 'size'"),
        (lambda: Layer(3, 0.5, "a"), TypeError, "positional argument"),
        (lambda: Layer(3, sizes=1), TypeError, "unexpected keyword argument 'sizes'"),
    ],
)
def test_errors_name_the_setting(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as told:
        call()
    assert type(told.value) is not ArgumentTypeError or error is not ArgumentError
    assert isinstance(told.value, CalorError) or error is TypeError


def test_right_settings_reach_the_constructor() -> None:
    assert Layer(3, mode="b").made == (3, 0.5, "b")
    assert Wide(5, 1).made == (5, 1, "a")

"""An index in a tensor out of range: the error names the axis and size that NumPy names."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import calor
from calor.config import config
from calor.errors import ElementIndexError
from calor.local import local

BASE = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
ALL = slice(None)
MASK = np.array([[True, False, True], [False, False, True]])

# Arrays stand for tensors; one number of one is out of range.
KEYS: list[Any] = [
    (0, ALL, np.array(9)),
    (0, ALL, np.array([1, 9])),
    (ALL, 1, np.array([[-5]])),
    (1, 1, 1, np.array([5])),
    (..., np.array([9])),
    (0, ..., np.array([9])),
    (None, 0, np.array([3])),
    (0, None, ALL, np.array([4, 0])),
    (slice(1, None), slice(0, 2), np.array([7])),
    (slice(None, None, -1), 2, np.array([7])),
    (np.array([0, 1]), 1, np.array([0, 7])),
    (np.array([0, 1]), ALL, np.array([0, 7])),
    (ALL, np.array([0, 3]), np.array([0, 1])),
    (ALL, ALL, np.array([0, 1]), np.array([-6, 1])),
    (0, ALL, np.array([[0], [1]]), np.array([0, 5])),
    (slice(1, 2), np.array([0, 1]), None, np.array([4, 1])),
    (MASK, np.array([0, 4, 1])),
    (MASK, ALL, np.array([0, 5, 1])),
    (np.array(2), 0),
    (0, np.array(3)),
]


def _of_numpy(key: Any) -> tuple[int, int]:
    with pytest.raises(IndexError) as info:
        BASE[key]
    found = re.search(r"for axis (\d+) with size (\d+)", str(info.value))
    assert found is not None
    return int(found[1]), int(found[2])


def _on_device(key: Any) -> Any:
    def of(k: Any) -> Any:
        return calor.asarray(k) if isinstance(k, np.ndarray) and k.dtype != bool else k

    return tuple(map(of, key))


def _read(x: Any, key: Any) -> Any:
    return x[key]


def _write(x: Any, key: Any) -> Any:
    y = x.copy()
    y[key] = 1.0
    return y


@pytest.fixture(params=["lazy", "eager", "jitted"])
def mode(request: Any) -> Any:
    calor.synchronize()
    config.eager = request.param == "eager"
    for trace in local.traces.values():
        trace.reset()
    yield request.param
    config.eager = False
    for trace in local.traces.values():
        trace.reset()


@pytest.mark.parametrize("use", [_read, _write])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_the_axis_is_that_of_the_tensor(use: Any, mode: str, key: Any) -> None:
    axis, size = _of_numpy(key)
    x, places = calor.asarray(BASE), _on_device(key)
    run = calor.jit(lambda x: use(x, places)) if mode == "jitted" else lambda x: use(x, places)
    with pytest.raises(ElementIndexError) as info:
        run(x).numpy()
    assert (info.value.axis, info.value.size) == (axis, size)
    said = rf"^index -?\d+ is out of range for axis {axis} of size {size};"
    assert re.search(said, str(info.value))


def test_places_that_disagree_name_the_axis_of_the_op() -> None:
    @calor.jit
    def several(x: Any, y: Any, far: Any) -> Any:
        first = x[0, :, far].sum()
        return first + y[:, far].sum()

    x, y = calor.asarray(BASE), calor.ones((2, 4))
    with pytest.raises(ElementIndexError, match=r"axis 1 of size 4; .*one of: .*, .*") as info:
        several(x, y, calor.asarray([9])).numpy()
    assert info.value.axis == 1

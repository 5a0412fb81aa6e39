"""Does the last cube of a row join its parts to the bits of a launch that joins them?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float32, float64
from calor_interpreter.device import MANY_UNITS
from calor_kernel.library.reduce import launches, program_launch

from .test_joined_rows import WIDE, _run


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    """Divide rows that are short enough for lanes, and hold only shorter ones in registers."""
    monkeypatch.setattr(launches, "_LONGEST", 1 << 6)
    monkeypatch.setattr(program_launch, "_WHOLE", 1 << 13)
    monkeypatch.setattr(program_launch, "_LEAST", 1 << 12)
    monkeypatch.setattr(program_launch, "_ENOUGH_TEAMS", 24)


def _whole(x):
    return calor.sum(x * x)


def _two(x):
    """Two reductions of a row, joined and then combined, and one that other work reads."""
    total = calor.sum(x, axis=-1)
    return total * 0.5 + calor.max(x, axis=-1), calor.abs(total)


def _scaled(x, y):
    """A mean that is multiplied by a number of each row."""
    return calor.mean(x, axis=-1) * y


def _channels(x):
    return calor.sum(x, axis=(0, 2)), calor.sum(x * x, axis=(0, 2))


# The function, and the shapes of its operands.
CASES = {
    "whole": (_whole, [(90, 101)]),
    "rows": (_two, [(3, 4000)]),
    "an odd row": (_two, [(1, 9001)]),
    "numbers of rows": (_scaled, [(3, 4000), (3,)]),
    "several axes": (_channels, [(64, 3, 60)]),
}


def _made(case, dtype):
    function, shapes = CASES[case]
    rng = np.random.default_rng(0)
    with calor.device("numpy"):
        graph = calor.trace(function, *(calor.zeros(s, dtype=dtype) for s in shapes))
    return graph, [rng.normal(size=s).astype(dtype.numpy) for s in shapes]


@pytest.mark.parametrize("dtype", [float32, bfloat16, float64], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_same_bits_in_one_launch(case, dtype):
    graph, arrays = _made(case, dtype)
    for info in (MANY_UNITS, WIDE) if dtype is float32 else (MANY_UNITS,):
        apart, names = _run(graph, arrays, info)
        joined, fewer = _run(graph, arrays, replace(info, launch_ns=1700))
        assert [a.tobytes() for a in joined] == [b.tobytes() for b in apart]
        assert len(fewer) == len(names) - 1, (names, fewer)
        assert "reduce_rows_joined" in fewer


def test_devices_that_cannot_count_cubes_have_a_launch_that_joins():
    """So has one whose launches are cheap."""
    graph, arrays = _made("whole", float32)
    for lacking in ("atomics", "forward_progress"):
        info = replace(MANY_UNITS, launch_ns=1700, features=MANY_UNITS.features - {lacking})
        _, names = _run(graph, arrays, info)
        assert names == ["reduce_rows"] * 2

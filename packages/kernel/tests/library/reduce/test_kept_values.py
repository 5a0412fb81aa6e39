"""Does a later pass read expensive values, and what is made of them, with the same bits?"""

import numpy as np
import pytest

import calor
from calor.dtypes import float32, float64
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser, row_fuser
from calor_kernel.runtime.backend import KernelBackend


def total(x):
    return calor.sum(x, axis=1, keepdims=True)


def itself(x, y):
    """An expensive value is read by a later pass."""
    high = calor.tanh(x)
    return high * total(high)


def scaled(x, y):
    """A later pass reads a product with an expensive value."""
    part = calor.tanh(x) * y
    return part + total(part * x)


def twice(x, y):
    """A later pass reads two values made of an expensive one."""
    high = calor.tanh(x)
    part, other = high * y, high + y
    return part * total(part) - other * total(other)


def thrice(x, y):
    """A pass reads what the one before made of kept values."""
    part = calor.tanh(x) * y
    moved = part - total(part)
    return moved * total(moved * moved) + y


def cheap(x, y):
    """Nothing is expensive."""
    part = x * y
    return part + total(part)


def two(x, y):
    """Two expensive values, of which a result of long rows has room for one."""
    first, second = calor.tanh(x) * y, calor.exp(x) - y
    return first * total(first) + second * total(second)


# What is kept, by the op that makes it.
KEPT = {
    itself: ["tanh"],
    scaled: ["mul"],
    twice: ["tanh"],
    thrice: ["mul"],
    cheap: [],
    two: ["mul", "sub"],
}


def run(function, arrays, info, monkeypatch, recomputed=False):
    """Return a result, and the steps whose values the program keeps."""
    with calor.device("numpy"):
        graph = calor.trace(function, *map(calor.asarray, arrays))
    kept: list[str] = []
    chosen = row_fuser._with_kept

    def noted(program):
        made = program if recomputed else chosen(program)
        kept.extend(made.step(n).op for n in made.kept)
        return made

    with monkeypatch.context() as patched:
        patched.setattr(row_fuser, "_with_kept", noted)
        fusers = RowFuser(), ElementwiseFuser()
        backend = KernelBackend("lanes", lambda i: LanesDevice(info), fusers=fusers)
        made = backend.compile(0, graph)
        buffers = made([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    return np.array(backend.download(0, buffers[0], graph.output_specs[0])), kept


# Rows that are shorter than a vector, and that memory of a unit, or a result alone, has room for.
@pytest.mark.parametrize("shape", [(9, 5), (3, 77), (2, 4500)])
@pytest.mark.parametrize("function", KEPT)
def test_kept_values_have_the_bits_of_recomputed_ones(function, shape, monkeypatch):
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
    found, kept = run(function, arrays, ONE_UNIT, monkeypatch)
    plain, none = run(function, arrays, ONE_UNIT, monkeypatch, recomputed=True)
    assert kept == KEPT[function]
    assert not none
    assert found.tobytes() == plain.tobytes()


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one", "units"])
def test_results(info, dtype, monkeypatch):
    rng = np.random.default_rng(8)
    x, y = (rng.standard_normal((4, 300)).astype(dtype.numpy) for _ in range(2))
    found, _ = run(thrice, [x, y], info, monkeypatch)
    part = np.tanh(x.astype(np.float64)) * y
    moved = part - part.sum(1, keepdims=True)
    wanted = moved * (moved * moved).sum(1, keepdims=True) + y
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert error < (1e-5 if dtype is float32 else 1e-12)

"""Memory that is lent at any address: kernels that want another one do not get it as it is.

A vector instruction that wants aligned memory ends the process where it does not get it, so another
process computes, and tells what it was at. Arrays start at each place behind an aligned address and
are long enough for vectors, threads and rows; ops of each kind read them and write to them.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import as_dtype, float32
from calor.errors import DeviceError

from .base import Array, Check, Place

CONTRACT: Final = "a tensor in memory that was lent gives the same numbers at any address"
_SECONDS: Final = 120
_DRAWN: Final = 16
_KINDS: Final = ("float32", "int32", "float64", "int8", "float16")
# Addresses are told from the start of such a block.
_BLOCK: Final = 128
Rng = np.random.Generator


def _written(t: Any) -> Any:
    t += 1
    return t


def _added(a: Array) -> Array:
    a += 1
    return a


# Functions of a matrix of small whole numbers, whose results are exact, and the same in NumPy. The
# last one may write to the lent memory.
_KERNELS: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Array], Any]]]] = {
    "elementwise": (lambda t: t * 2 + t, lambda a: a * 2 + a),
    "a jitted step": (calor.jit(lambda t: calor.abs(t) + t * t), lambda a: np.abs(a) + a * a),
    "a sum of rows": (lambda t: calor.sum(t, axis=1), lambda a: a.sum(1, a.dtype)),
    "a sum of columns": (lambda t: calor.sum(t, axis=0), lambda a: a.sum(0, a.dtype)),
    "a maximum": (calor.max, np.max),
    "a product": (lambda t: t @ t.T, lambda a: a @ a.T),
    "a cumulative sum": (
        lambda t: calor.cumulative_sum(t, axis=1), lambda a: np.cumsum(a, 1, a.dtype)
    ),
    "a sort": (lambda t: calor.sort(t, axis=1), lambda a: np.sort(a, 1)),
    "a transpose": (lambda t: calor.permute_dims(t, (1, 0)) * 1, lambda a: a.T),
    "a part": (lambda t: t[1:, 1:] * 1, lambda a: a[1:, 1:]),
    "a cast": (lambda t: t.astype("float32"), lambda a: a.astype("float32")),
    "rows": (lambda t: calor.take(t, calor.asarray([1, 0]), axis=0), lambda a: a[[1, 0]]),
    "in place": (_written, _added),
}  # fmt: skip


def _lent(rng: Rng, kind: str) -> tuple[Array, int]:
    """Return an array, and how far from the start of a block it is."""
    rows, columns = (int(n) for n in rng.choice((2, 7, 16, 33, 65), 2))
    count, size = rows * columns, np.dtype(kind).itemsize
    raw = np.zeros(count * size + 2 * _BLOCK, np.uint8)
    places = _BLOCK // size
    far = (int(rng.integers(places)) if rng.random() < 0.7 else 1) * size
    start = -int(raw.ctypes.data) % _BLOCK + far
    made = raw[start : start + count * size].view(kind).reshape(rows, columns)
    made[...] = rng.integers(-2, 3, made.shape)
    return made, far


def _turn(rng: Rng, kinds: list[str]) -> None:
    kind = kinds[int(rng.integers(len(kinds)))]
    array, far = _lent(rng, kind)
    take = (calor.from_dlpack, calor.asarray)[int(rng.integers(2))]
    tensor = take(array, copy=False)
    for name, (kernel, meaning) in _KERNELS.items():
        want = np.asarray(meaning(array.copy()))
        what = f"{name} of {kind}{list(array.shape)} at {far} bytes behind {_BLOCK}"
        # What ends the process is told by what was written last.
        print(what, file=sys.stderr, flush=True)
        got = kernel(tensor).numpy()
        assert np.array_equal(got, want), f"{what}: {got.tolist()}, not {want.tolist()}"


def main(name: str, seed: str) -> None:
    """Compute with memory that is lent.

    Parameters
    ----------
    name : str
        The device.
    seed : str
        The seed of the check.
    """
    device = calor.device(name)
    kinds = [k for k in _KINDS if all(device.info.supports(op, as_dtype(k)) for op in
             ("add", "mul", "sum", "max", "dot_general", "cumsum", "sort", "abs"))]  # fmt: skip
    with calor.device(device):
        for number in range(_DRAWN):
            _turn(np.random.default_rng([int(seed), 577, number]), kinds)


def _run(place: Place) -> None:
    name = place.plain.name
    try:
        calor.device(name)
    except DeviceError:
        # A device that is in no registry cannot be asked for in another process.
        return
    if place.plain.info.feature("host_views").level != "full":
        return
    code = f"from {__name__} import main; main(*__import__('sys').argv[1:])"
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", code, name, str(place.seed)], capture_output=True, check=False,
        text=True, timeout=_SECONDS, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    last = (done.stderr.strip().splitlines() or [""])[-1]
    assert done.returncode == 0, f"a process ends with {done.returncode}: {last[:600]}"


def lent_addresses() -> Iterator[Check]:
    """Yield the check of memory at any address."""
    yield Check(
        kind="transfers",
        subject="lent-addresses",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _turn),
        dtypes=(float32,),
        features=("host_views",),
        looks=True,
    )

"""Copies of views: every kernel on devices of one unit and of many, against NumPy."""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import as_dtype, uint8, uint32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Output, Request, View
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.ir.types import Buffer
from calor_kernel.library.copying import lower_copy


def run(view, base, info):
    """Copy a view of a flat array; return what is there and the names of the kernels."""
    device = LanesDevice(info)
    known = spec(view.shape, view.dtype)
    (work,) = lower_copy(Request("copy", {}, (view,), (known,), info))
    handles = [device.memory.alloc(max(n, 64)) for n in (base.nbytes, known.nbytes)]
    device.memory.copy_in(handles[0], 0, base)
    for launch in work.launches:
        kernel = launch.build.kernel(info.features)
        image = device.toolchain.compile(device.toolchain.source(kernel), kernel.name)
        arguments = [
            Slot(int(isinstance(a, Output)), a.offset * declared.dtype.itemsize)
            if isinstance(declared, Buffer)
            else a
            for a, declared in zip(launch.arguments, launch.build.signature, strict=True)
        ]
        step = Step(device.queue.load(image, kernel), launch.cubes, tuple(arguments))
        device.queue.run(device.queue.record([step], 2), handles)
    found = np.empty(view.shape, view.dtype.numpy)
    device.memory.copy_out(handles[1], 0, found)
    return found, [la.label for la in work.launches]


ROWS = {
    "flat": ((70,), (1,), 3, "copy_dense", "copy_dense"),
    "long": ((40_000,), (1,), 0, "copy_dense", "copy_dense"),
    "one": ((), (), 5, "copy_dense", "copy_dense"),
    "fill": ((3, 30), (0, 0), 2, "copy_dense", "copy_dense"),
    "rows": ((5, 37), (50, 1), 1, "copy_rows", "copy_vectors"),
    "repeated rows": ((3, 37), (0, 1), 1, "copy_rows", "copy_vectors"),
    "repeated elements": ((5, 37), (1, 0), 1, "copy_rows", "copy_vectors"),
    "steps": ((5, 20), (50, 2), 1, "copy_rows", "copy_vectors"),
    "backwards": ((40,), (-1,), 39, "copy_rows", "copy_vectors"),
    "small transposed": ((3, 5), (1, 3), 0, "copy_rows", "copy_vectors"),
    "transposed": ((37, 50), (1, 37), 0, "copy_transposed", "copy_tiles"),
    "blocks": (
        (2, 40, 3, 33),
        (5000, 1, 1600, 45),
        7,
        "copy_transposed",
        "copy_tiles",
    ),
    "transposed backwards": ((33, 35), (1, -40), 1600, "copy_transposed", "copy_tiles"),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(
    ("dtype", "info"),
    [("float32", ONE_UNIT), ("float32", MANY_UNITS), ("uint8", ONE_UNIT), ("float64", ONE_UNIT),
     ("bfloat16", MANY_UNITS)],
    ids=lambda v: getattr(v, "description", v)[:12],
)  # fmt: skip
def test_views(name, dtype, info):
    shape, strides, offset, one, many = ROWS[name]
    kind = as_dtype(dtype)
    base = np.frombuffer(np.random.default_rng(0).bytes(40_100 * kind.itemsize), kind.numpy)
    steps = [s * kind.itemsize for s in strides]
    want = np.lib.stride_tricks.as_strided(base[offset:], shape, steps)
    found, labels = run(View(shape, strides, kind, offset), base, info)
    assert found.tobytes() == want.tobytes()
    if dtype == "float32":
        assert labels == [one if info is ONE_UNIT else many]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_wide_elements_in_parts(dtype):
    narrow = replace(ONE_UNIT, dtypes=frozenset((uint8, uint32)))
    kind = as_dtype(dtype)
    base = np.frombuffer(np.random.default_rng(1).bytes(100 * kind.itemsize), kind.numpy)
    view = View((4, 5), (1, 7), kind, 3)
    want = np.lib.stride_tricks.as_strided(base[3:], (4, 5), (kind.itemsize, 7 * kind.itemsize))
    for info in (ONE_UNIT, narrow):
        found, _ = run(view, base, info)
        assert found.tobytes() == want.tobytes()


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((2, 3, 4), (12, 4, 1), ((24,), (1,))),
        ((2, 3, 4), (0, 0, 0), ((24,), (0,))),
        ((2, 3, 4), (12, -4, 1), ((2, 3, 4), (12, -4, 1))),
        ((4, 3), (-3, -1), ((12,), (-1,))),
        ((1, 1), (5, 5), ((), ())),
    ],
)
def test_axes_are_merged(shape, strides, expected):
    sizes, (merged,) = coalesced(shape, strides)
    assert (sizes, merged) == expected

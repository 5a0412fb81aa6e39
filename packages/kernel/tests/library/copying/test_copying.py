"""Copies of views: every kernel on devices of one unit and of many, against NumPy."""

from dataclasses import replace
from math import prod
from random import Random

import numpy as np
import pytest

from calor.dtypes import as_dtype, uint8, uint32
from calor.ops.movement import pad
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Output, Request, View
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.ir.types import Buffer
from calor_kernel.library.copying import lower_copy
from calor_kernel.library.indexing.regions import lower_concat, lower_pad


def run(view, base, info):
    """Copy a view of a flat array; return what is there and the names of the kernels."""
    request = Request("copy", {}, (view,), (spec(view.shape, view.dtype),), info)
    return perform(lower_copy, request, [base])


def perform(lower, request, bases):
    """Do a request on flat arrays; return its result and the names of the kernels."""
    device, (known,), info = LanesDevice(request.info), request.outputs, request.info
    (work,) = lower(request)
    sizes = [known.nbytes, *(base.nbytes for base in bases)]
    handles = [device.memory.alloc(max(n, 64)) for n in sizes]
    for handle, base in zip(handles[1:], bases, strict=True):
        device.memory.copy_in(handle, 0, base)
    for launch in work.launches:
        kernel = launch.build.kernel(info.features)
        image = device.toolchain.compile(device.toolchain.source(kernel), kernel.name)
        arguments = [
            Slot(0 if isinstance(a, Output) else 1 + a.number, a.offset * declared.dtype.itemsize)
            if isinstance(declared, Buffer)
            else a
            for a, declared in zip(launch.arguments, launch.build.signature, strict=True)
        ]
        step = Step(device.queue.load(image, kernel), launch.cubes, tuple(arguments))
        device.queue.run(device.queue.record([step], len(handles)), handles)
    found = np.empty(known.shape, known.dtype.numpy)
    device.memory.copy_out(handles[0], 0, found)
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
    "small transposed": ((3, 5), (1, 3), 0, "copy_rows", "copy_interleaved"),
    "lines apart": ((4, 3, 50), (150, 1, 3), 4, "copy_rows", "copy_interleaved"),
    "lines of pixels": (
        (3, 5, 4, 33, 4),
        (2640, 33, 660, 1, 165),
        8,
        "copy_rows",
        "copy_interleaved",
    ),
    "many positions": ((4200, 2), (1, 4200), 0, "copy_rows", "copy_interleaved"),
    "transposed": ((37, 50), (1, 37), 0, "copy_transposed", "copy_tiles"),
    "few columns": ((300, 9), (1, 301), 2, "copy_transposed", "copy_tiles"),
    "few rows": ((9, 300), (1, 10), 2, "copy_transposed", "copy_tiles"),
    "planes": ((9, 7, 6), (42, 1, 7), 3, "copy_transposed", "copy_interleaved"),
    "blocks": (
        (2, 40, 3, 33),
        (5000, 1, 1600, 45),
        7,
        "copy_transposed",
        "copy_tiles",
    ),
    "small planes": ((9, 14, 12), (170, 1, 14), 3, "copy_transposed", "copy_vectors"),
    "planes of lines apart": ((9, 14, 12), (420, 1, 35), 3, "copy_transposed", "copy_tiles"),
    "several tiles": ((130, 97), (1, 131), 5, "copy_transposed", "copy_tiles"),
    "transposed backwards": ((33, 35), (1, -40), 1600, "copy_transposed", "copy_tiles"),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(
    ("dtype", "info"),
    [("float32", ONE_UNIT), ("float32", MANY_UNITS), ("uint8", ONE_UNIT), ("float64", ONE_UNIT),
     ("bfloat16", MANY_UNITS), ("uint8", MANY_UNITS)],
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


def drawn(choose, kind):
    """Return a random view, and the flat array and the NumPy view that it is of."""
    rank = choose.randint(1, 5)
    sizes = [choose.choice((1, 2, 3, 4, 7, 8, 16, 33) if rank < 4 else (1, 2, 3, 5, 8))
             for _ in range(rank)]  # fmt: skip
    base = np.frombuffer(np.random.default_rng(0).bytes(prod(sizes) * kind.itemsize), kind.numpy)
    array = base.reshape(sizes).transpose(choose.sample(range(rank), rank))
    for axis in range(rank):
        step = choose.choice((1, 1, 1, -1, 2))
        array = array[(slice(None),) * axis + (slice(choose.choice((0, 0, 1)), None, step),)]
        if array.shape[axis] == 1:
            wide = choose.choice((1, 5, 16))
            array = np.broadcast_to(
                array[(slice(None),) * axis + (slice(0, 1),)],
                (*array.shape[:axis], wide, *array.shape[axis + 1 :]),
            )
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    strides = tuple(s // kind.itemsize for s in array.strides)
    return View(array.shape, strides, kind, start // kind.itemsize), base, array


DRAWN = [("float32", 0), ("uint8", 1), ("bfloat16", 2), ("float64", 3), ("complex128", 4)]


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one unit", "many units"])
@pytest.mark.parametrize(("dtype", "seed"), DRAWN)
def test_random_views_and_pads(dtype, seed, info):
    choose, kind = Random(seed), as_dtype(dtype)
    value = np.frombuffer(np.random.default_rng(1).bytes(kind.itemsize), kind.numpy)
    for _ in range(12):
        view, base, array = drawn(choose, kind)
        if not array.size:
            continue
        found, _ = run(view, base, info)
        assert found.tobytes() == np.ascontiguousarray(array).tobytes(), view
        low, high, interior = (
            tuple(choose.choice(few) for _ in view.shape)
            for few in ((0, 0, 1, 8), (0, 0, 3), (0, 0, 0, 1, 2))
        )
        rule = {"low": low, "high": high, "interior": interior}
        want = pad.reference(array, value[0], **rule)
        request = Request("pad", rule, (view, View((), (), kind)), (spec(want.shape, kind),), info)
        found, _ = perform(lower_pad, request, [base, value])
        assert found.tobytes() == want.tobytes(), (view, rule)


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one unit", "many units"])
@pytest.mark.parametrize(("dtype", "seed"), DRAWN)
def test_random_joins(dtype, seed, info):
    choose, kind = Random(seed), as_dtype(dtype)
    for count in (2, 3, 11):
        shape = [choose.choice((1, 2, 3, 8, 16)) for _ in range(choose.randint(1, 4))]
        axis = choose.randrange(len(shape))
        views, bases, arrays = [], [], []
        for number in range(count):
            own = [*shape]
            own[axis] = choose.choice((0, 1, 3, 8, 16))
            order = choose.sample(range(len(own)), len(own))
            room = [own[i] for i in order]
            data = np.random.default_rng(number).bytes((prod(room) + 1) * kind.itemsize)
            base = np.frombuffer(data, kind.numpy)
            begin = choose.choice((0, 0, 1))
            array = base[begin : begin + prod(room)].reshape(room).transpose(np.argsort(order))
            if choose.random() < 0.3 and array.size:
                array = np.broadcast_to(array[tuple(slice(0, 1) for _ in own)], own)
            strides = tuple(s // kind.itemsize for s in array.strides)
            views.append(View(tuple(own), strides, kind, begin))
            bases.append(base)
            arrays.append(array)
        want = np.concatenate(arrays, axis)
        request = Request("concat", {"axis": axis}, tuple(views), (spec(want.shape, kind),), info)
        if not want.size:
            continue
        found, labels = perform(lower_concat, request, bases)
        assert found.tobytes() == want.tobytes(), (views, axis)
        assert len(labels) <= count


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

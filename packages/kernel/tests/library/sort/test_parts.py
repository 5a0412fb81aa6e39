"""Are values alone, and the first few elements, those of the whole sort?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import ALL
from calor.graph.graph import Builder
from calor.ops.base import table
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.sort import lowering, partial_sort, radix_select_launch
from calor_kernel.library.sort.networks import pairs_of_network
from calor_kernel.runtime.backend import KernelBackend

from .test_sort import TYPES, elements

_DTYPES = {t.numpy: t for t in ALL}


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))


def sorted_part(backend, x, axis, descending, count, which):
    """Return what a graph makes that reads a part of a sort's results."""
    builder = Builder()
    number = builder.input(spec(x.shape, _DTYPES[x.dtype]))
    attributes = {"axis": axis, "descending": descending}
    made = builder.add(table()["sort"], [number], attributes)
    outputs = [made[i] for i in which]
    if count is not None:
        stops = tuple(count if i == axis else n for i, n in enumerate(x.shape))
        said = {"starts": (0,) * x.ndim, "stops": stops, "steps": (1,) * x.ndim}
        outputs = [builder.add(table()["slice"], [o], said)[0] for o in outputs]
    graph = builder.build(outputs)
    results = backend.compile(0, graph)([backend.upload(0, x)])
    return [
        np.array(backend.download(0, b, s))
        for b, s in zip(results, graph.output_specs, strict=True)
    ]


def check(backend, x, axis=-1, descending=False, count=None, which=(0,)):
    axis %= x.ndim
    found = sorted_part(backend, x, axis, descending, count, which)
    with np.errstate(all="ignore"):
        wanted = table()["sort"].reference(x, axis=axis, descending=descending)
    front = (slice(None),) * axis + (slice(count),)
    # The reference's values, bit for bit.
    whole = (np.take_along_axis(x, wanted[1], axis), wanted[1])
    for number, array in zip(which, found, strict=True):
        assert array.tobytes() == np.ascontiguousarray(whole[number][front]).tobytes()


@pytest.mark.parametrize("dtype", TYPES)
def test_values(backend, monkeypatch, dtype):
    monkeypatch.setattr(lowering, "_SHORT", 8)
    descending = np.dtype(dtype).itemsize % 4 == 0
    check(backend, elements((3, 40), dtype), 1, descending)


def test_what_is_sorted_whole():
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    check(backend, elements((3, 40), np.float32), 1)
    backend = KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))
    check(backend, elements((2, 37, 3), np.float32), 1)


@pytest.mark.parametrize("n", [0, 1, 33, 100, 257, 9000])
def test_lengths(backend, n):
    check(backend, elements((n,), np.float32))
    check(backend, elements((n,), np.int64))


# Processors with compression of vectors, and without.
FRONTS = {"compressed": ONE_UNIT, "one by one": replace(ONE_UNIT, features=frozenset())}


@pytest.fixture(scope="module", params=FRONTS)
def finding(request):
    info = FRONTS[request.param]
    return KernelBackend("lanes", lambda index: LanesDevice(info))


@pytest.mark.parametrize("dtype", [t for t in TYPES if np.dtype(t).itemsize <= 4])
def test_fronts(finding, dtype):
    check(finding, elements((3, 300), dtype), 1, True, 20, (0, 1))


def test_fronts_of_all_elements(backend):
    check(backend, elements((3, 300), np.float32), 1, True, 300, (0, 1))


@pytest.mark.parametrize("which", [(0,), (1,)])
def test_fronts_in_parts(finding, monkeypatch, which):
    monkeypatch.setattr(partial_sort, "_PART", 400)
    check(finding, elements((2, 1500), np.float32), 1, False, 3, which)


@pytest.mark.parametrize("order", ["rising", "falling", "equal", "all NaN"])
def test_fronts_of_orders(finding, order):
    n = 2000
    x = {
        "rising": np.arange(n),
        "falling": -np.arange(n),
        "equal": np.zeros(n),
        "all NaN": np.full(n, np.nan),
    }[order].astype(np.float32)
    check(finding, x, 0, False, 100, (0, 1))
    check(finding, x, 0, True, 1, (0, 1))


SELECTING = {
    "planes": MANY_UNITS,
    "little memory": replace(MANY_UNITS, shared_bytes=6 << 10),
    "few units": replace(MANY_UNITS, max_units=64, planes=(32,)),
}


@pytest.fixture(scope="module", params=SELECTING)
def selecting(request):
    info = SELECTING[request.param]
    return KernelBackend("lanes", lambda index: LanesDevice(info))


@pytest.fixture(scope="module")
def planes():
    return KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))


@pytest.mark.parametrize("dtype", [t for t in TYPES if np.dtype(t).kind != "c"])
def test_selected(planes, dtype):
    check(planes, elements((2, 300), dtype), 1, np.dtype(dtype).itemsize > 1, 20, (0, 1))


@pytest.mark.parametrize("n", [2, 65, 1500])
def test_selected_of_lengths(selecting, n):
    for count in (1, min(n - 1, 200)):
        check(selecting, elements((2, n), np.float32), 1, False, count, (1,))


@pytest.mark.parametrize("which", [(0,), (0, 1)])
def test_selected_in_parts(selecting, monkeypatch, which):
    monkeypatch.setattr(radix_select_launch, "_PART", 64)
    check(selecting, elements((2, 3000), np.float32), 1, False, 30, which)


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("order", ["rising", "falling", "equal", "all NaN", "of two"])
def test_selected_of_orders(selecting, monkeypatch, order, parted):
    if parted:
        monkeypatch.setattr(radix_select_launch, "_PART", 300)
    n = 3000
    x = {
        "rising": np.arange(n),
        "falling": -np.arange(n),
        "equal": np.zeros(n),
        "all NaN": np.full(n, np.nan),
        "of two": np.arange(n) % 2,
    }[order].astype(np.float32)
    check(selecting, x, 0, False, 100, (0, 1))
    check(selecting, x, 0, True, 1, (0, 1))


def test_more_than_a_cube_holds_are_sorted_whole():
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS, checks=False))
    check(backend, elements((1, 5000), np.float32), 1, False, 1500, (0, 1))


ORDERS = {
    "rising": np.arange(700),
    "falling": np.arange(700)[::-1],
    "equal": np.full(700, 7),
    "of two": np.arange(700) % 2,
    "mostly the least": np.where(np.arange(700) % 7, 0, np.arange(700)),
    "mostly the greatest": np.where(np.arange(700) % 7, 2**32 - 1, np.arange(700)),
    "far apart": 2 ** (np.arange(700) % 32),
}


@pytest.mark.parametrize("order", ORDERS)
def test_orders(backend, order):
    check(backend, ORDERS[order].astype(np.uint32))


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_networks_sort_every_sequence_of_bits(n):
    bits = np.array([[i >> j & 1 for i in range(1 << n)] for j in range(n)])
    for a, b in pairs_of_network(n):
        bits[[a, b]] = np.sort(bits[[a, b]], axis=0)
    assert (np.diff(bits, axis=0) >= 0).all()

"""Are random bits those of the reference, on every shape of machine, across carries?"""

import numpy as np
import pytest

import calor
from calor.dtypes import as_dtype, bfloat16, float16, float32, float64, uint32
from calor.ops.base import find
from calor.reference.random import random_bits
from calor.specs import spec
from calor_interpreter.device import LanesDevice
from calor_kernel.contract.work import Request, View
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.random import lower_random_bits
from calor_kernel.runtime.backend import KernelBackend

from ..elementwise.running import MACHINES, execute

COUNTERS = [
    (0, 0, 0, 0),
    (0xFFFFFFFE, 0, 7, 0),
    (0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFF, 3),
    (0xFFFFFFFF,) * 4,
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("counter", COUNTERS)
def test_bits(counter, bits, machine):
    info, run = MACHINES[machine]
    key = np.array([17, 0xFFFFFFFF], np.uint32)
    words = np.array(counter, np.uint32)
    shape = (3, 7, 11)
    made = random_bits(key, words, shape=shape, bits=bits)
    attributes = {"shape": shape, "bits": bits}
    output = spec(shape, as_dtype(made.dtype))
    views = (View.dense(spec((2,), uint32)), View.dense(spec((4,), uint32)))
    (work,) = lower_random_bits(Request("random_bits", attributes, views, (output,), info))
    (found,) = execute(work, [key, words], [output], run)
    np.testing.assert_array_equal(found, made)


def _bits(key, shape, width=32):
    return calor.random.bits(shape, width=width, key=key)


def _dropped(key, x):
    return calor.where(calor.random.bernoulli(x.shape, 0.7, key=key), x * 2.0, 0.0)


# What is computed of a key and of x, its shape, and how often bits are drawn inside a chain.
CHAINS = {
    "dropout": (_dropped, (3, 7, 11), 1),
    "one value": (_dropped, (1,), 1),
    "whole cubes": (_dropped, (2, 1024), 1),
    "reshaped": (lambda k, x: x * _bits(k, (77,)).reshape(7, 11).astype(x.dtype), (7, 11), 0),
    "16 bits": (lambda k, x: x * _bits(k, x.shape, 16).astype(x.dtype), (5, 9), 1),
    "8 bits": (lambda k, x: x * _bits(k, x.shape, 8).astype(x.dtype), (5, 9), 1),
    "two masks": (lambda k, x: _dropped(k, _dropped(k + 1, x)), (5, 9), 1),
    "not dense": (lambda k, x: _dropped(k, x.T), (6, 10), 0),
    "bits that are read again": (
        lambda k, x: (x * _bits(k, x.shape).astype(x.dtype), _bits(k, x.shape) + 1),
        (5, 9),
        0,
    ),
    "bits that are a result": (
        lambda k, x: (lambda b: (b, x * b.astype(x.dtype)))(_bits(k, x.shape)),
        (5, 9),
        0,
    ),
    "bits of all columns": (
        lambda k, x: x * _bits(k, (5, 1)).astype(x.dtype),
        (5, 9),
        0,
    ),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("chain", "dtype"),
    [(chain, float32) for chain in CHAINS]
    + [("dropout", dtype) for dtype in (float16, bfloat16, float64)],
)
def test_bits_inside_a_chain(machine, chain, dtype, monkeypatch):
    """A chain that draws its bits gives the numbers of bits in memory."""
    function, shape, count = CHAINS[chain]
    with calor.device("numpy"):
        key, x = calor.zeros((2,), dtype=uint32), calor.zeros(shape, dtype=dtype)
        graph = calor.trace(function, key, x)
    rng = np.random.default_rng(1)
    arrays = [np.array([5, 9], np.uint32), rng.standard_normal(shape).astype(dtype.numpy)]
    found = []
    for fusers in ((ElementwiseFuser(),), ()):
        names, made = _run(graph, arrays, fusers, MACHINES[machine][0], monkeypatch)
        assert names.count("elementwise_random") == (count if fusers else 0)
        found.append(made)
    for fused, plain in zip(*found, strict=True):
        assert fused.tobytes() == plain.tobytes()


def _run(graph, arrays, fusers, info, monkeypatch):
    """Return the names of the kernels that ran, and the results."""
    names = []
    device = LanesDevice(info)
    load = type(device.queue).load
    monkeypatch.setattr(
        type(device.queue), "load", lambda self, i, k: (names.append(k.name), load(self, i, k))[1]
    )
    backend = KernelBackend("lanes", lambda i: device, fusers=fusers)
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, a) for a in arrays])
    monkeypatch.undo()
    pairs = zip(made, graph.output_specs, strict=True)
    return names, [np.array(backend.download(0, b, s)) for b, s in pairs]


@pytest.mark.parametrize("fusers", [(), (ElementwiseFuser(),)], ids=["alone", "fused"])
def test_a_key_and_a_counter_may_begin_inside_other_arrays(fusers, monkeypatch):
    """Keys that were split lie in one array; each begins at its row."""
    keys = np.array([[1, 2], [3, 4], [5, 9]], np.uint32)
    counters = np.array([7, 0xFFFFFFFF, 1, 2, 3, 4], np.uint32)
    draw = find("random_bits")

    def drawn(k, c, x):
        bits = draw(k, c, shape=(5, 9), bits=32)
        return x * bits.astype(x.dtype)

    with calor.device("numpy"):
        x = calor.zeros((5, 9), dtype=float32)
        given = calor.asarray(keys), calor.asarray(counters), x
        graph = calor.trace(lambda k, c, x: drawn(k[2], c[1:5], x), *given)
        plain = drawn(calor.asarray(keys[2]), calor.asarray(counters[1:5]), x + 1).numpy()
    ones = np.ones((5, 9), np.float32)
    _, (made,) = _run(graph, [keys, counters, ones], fusers, next(iter(MACHINES.values()))[0],
                      monkeypatch)  # fmt: skip
    assert made.tobytes() == plain.tobytes()

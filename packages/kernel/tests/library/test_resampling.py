"""Is a resampled array the weighted sum that its tables say, whole or padded, on every machine?"""

import numpy as np
import pytest

import calor
from calor.graph.decompose import decompose
from calor.nn import functional
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

# The shape of images, the new sizes, and the mode.
ROWS = [
    ((2, 3, 5), (10,), "linear"),
    ((1, 2, 7, 4), (3, 9), "bilinear"),
    ((1, 2, 3, 4), (6, 4), "bilinear"),
    ((2, 1, 4, 5), (9, 7), "bicubic"),
    ((1, 2, 1, 1), (5, 12), "bilinear"),
    ((1, 1, 3, 2, 4), (5, 4, 3), "trilinear"),
    ((1, 2, 40, 2), (3, 33), "bilinear"),
    ((2, 1, 2), (37,), "linear"),
    ((1, 2, 3, 4), (7, 9), "nearest"),
    ((2, 1, 9, 4), (4, 8), "nearest"),
    ((2, 1, 2), (45,), "nearest"),
    ((1, 1, 3, 2, 4), (4, 5, 3), "nearest"),
]


def matrix(old, size, mode):
    """Return what a result along an axis takes of each element, as torch defines it."""
    made = np.zeros((size, old))
    for i in range(size):
        if mode == "nearest":
            made[i, i * old // size] = 1
            continue
        at = (i + 0.5) * old / size - 0.5
        if mode != "bicubic":
            at = max(at, 0.0)
        first = int(np.floor(at))
        t = at - first
        shares = [(0, 1 - t), (1, t)]
        if mode == "bicubic":
            near = [((-0.75 + 2) * d - (-0.75 + 3)) * d * d + 1 for d in (t, 1 - t)]
            far = [((-0.75 * d + 3.75) * d - 6) * d + 3 for d in (t + 1, 2 - t)]
            shares = [(-1, far[0]), (0, near[0]), (1, near[1]), (2, far[1])]
        for offset, share in shares:
            made[i, min(max(first + offset, 0), old - 1)] += share
    return made if size != old else np.eye(old)


def of_picks(graph):
    """Return the numbers of the nodes that no device has as one launch."""
    return frozenset(n for n, node in enumerate(graph.nodes) if node.op.name == "nn.pick")


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one-unit", "many-units"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_resizing_and_its_gradient(info, dtype, row):
    shape, sizes, mode = row
    given = (*shape[:2], *sizes)

    def both(x, g):
        y, pull = calor.vjp(lambda x: functional.interpolate(x, sizes, mode=mode), x)
        return [y, *pull(g)]

    with calor.device("numpy"):
        zeros = [calor.zeros(s, dtype=dtype) for s in (shape, given)]
        graph = calor.trace(both, *zeros)
    assert "nn.resample" in {node.op.name for node in graph.nodes}
    graph = decompose(graph, of_picks(graph))
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(s).astype(dtype) for s in (shape, given)]
    backend = KernelBackend("lanes", lambda index: LanesDevice(info), fusers=())
    made = backend.compile(0, graph)([backend.upload(0, a) for a in arrays])
    found = [
        np.array(backend.download(0, b, s)) for b, s in zip(made, graph.output_specs, strict=True)
    ]
    wanted, back = arrays[0].astype(np.float64), arrays[1].astype(np.float64)
    for axis, (old, size) in enumerate(zip(shape[2:], sizes, strict=True), 2):
        a = matrix(old, size, mode)
        wanted = np.moveaxis(np.tensordot(a, wanted, (1, axis)), 0, axis)
        back = np.moveaxis(np.tensordot(a.T, back, (1, axis)), 0, axis)
    digits = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-13}[dtype]
    for x, y in zip(found, (wanted, back), strict=True):
        assert np.abs(x - y).max() <= digits * max(np.abs(y).max(), 1)


def test_infinite_gradients_stay_where_they_are():
    """The entries that fill a row of the gradient's tables multiply nothing."""
    with calor.device("numpy"):
        x, g = calor.zeros((1, 1, 4)), np.zeros((1, 1, 8), np.float32)
        g[0, 0, 0] = np.inf
        _, pull = calor.vjp(lambda x: functional.interpolate(x, 8, mode="linear"), x)
        (made,) = pull(calor.asarray(g))
        assert np.isfinite(made.numpy()[0, 0, 1:]).all()


def test_picked_elements_keep_their_bits():
    bits = np.array([0x80000000, 0x00000001, 0x7F800000, 0xFF7FFFFF], np.uint32)
    with calor.device("numpy"):
        x = calor.asarray(bits.view(np.float32).reshape(1, 1, 4))
        made = functional.interpolate(x, 9, mode="nearest").numpy()
        np.testing.assert_array_equal(made.view(np.uint32)[0, 0], bits[np.arange(9) * 4 // 9])
        whole = functional.interpolate(calor.asarray([[[1, 2, 3]]]), 4, mode="nearest")
    assert whole.dtype is calor.int64
    assert whole.tolist() == [[[1, 1, 2, 3]]]

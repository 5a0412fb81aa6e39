"""What movement does to a view is what it does to an array."""

import numpy as np
import pytest

import calor
from calor.dtypes import as_dtype
from calor.ops.base import find, signature
from calor.specs import spec
from calor_kernel.contract.movement import reshaped_strides, view_of
from calor_kernel.contract.work import View

MOVES = {
    "permute": lambda rng, shape: {"axes": tuple(map(int, rng.permutation(len(shape))))},
    "flip": lambda rng, shape: {"axes": tuple(i for i in range(len(shape)) if rng.random() < 0.5)},
    "expand": lambda rng, shape: {
        "shape": (2, *(3 if n == 1 and rng.random() < 0.5 else n for n in shape))
    },
    "slice": lambda rng, shape: _slice(rng, shape),
    "reshape": lambda rng, shape: {"shape": _regrouped(rng, shape)},
}


def _slice(rng, shape):
    starts, stops, steps = [], [], []
    for n in shape:
        step = int(rng.choice([-2, -1, 1, 2]))
        ends = sorted(int(rng.integers(0, n + 1)) for _ in range(2)) if n else [0, 0]
        if step > 0:
            starts.append(ends[0])
            stops.append(ends[1])
        else:
            starts.append(max(ends[1] - 1, 0))
            stops.append(max(min(ends[0] - 1, starts[-1]), -1) if n else 0)
        steps.append(step)
    return {"starts": tuple(starts), "stops": tuple(stops), "steps": tuple(steps)}


def _regrouped(rng, shape):
    sizes = [n for n in shape if n != 1]
    if len(sizes) > 1 and rng.random() < 0.6:
        i = int(rng.integers(0, len(sizes) - 1))
        sizes[i : i + 2] = [sizes[i] * sizes[i + 1]]
    if sizes and sizes[0] % 2 == 0 and sizes[0]:
        sizes[0:1] = [2, sizes[0] // 2]
    return (*sizes, 1) if rng.random() < 0.3 else tuple(sizes)


def _elements(view, base):
    """Read a view's elements one by one."""
    found = np.zeros(view.shape, view.dtype.numpy)
    flat = base.reshape(-1).view(view.dtype.numpy)
    for index in np.ndindex(*view.shape):
        found[index] = flat[
            view.offset + sum(i * s for i, s in zip(index, view.strides, strict=True))
        ]
    return found


@pytest.mark.parametrize("seed", range(60))
def test_chains_of_movement(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
    base = np.arange(np.prod(shape)).reshape(shape)
    want, view = base, View.dense(spec(shape, calor.int64))
    for _ in range(6):
        name = str(rng.choice(list(MOVES)))
        attributes = MOVES[name](rng, want.shape)
        row = find(name)
        result = signature(row, (spec(want.shape, calor.int64),), attributes).outputs[0]
        moved = view_of(name, view, attributes, result)
        reference = row.reference(want, **attributes)
        if moved is None:
            # NumPy copies here too: this array has the view's very strides.
            strides = [s * base.itemsize for s in view.strides]
            lent = np.lib.stride_tricks.as_strided(np.zeros(1, np.int64), view.shape, strides)
            assert name == "reshape"
            with pytest.raises(ValueError, match="reshape|incompatible|copy"):
                np.reshape(lent, result.shape, copy=False)
            continue
        assert moved.shape == reference.shape
        assert (_elements(moved, base) == reference).all()
        want, view = reference, moved
        if want.size > 400:
            break


@pytest.mark.parametrize(
    ("shape", "strides", "wanted", "expected"),
    [
        ((4, 6), (6, 1), (24,), (1,)),
        ((4, 6), (1, 4), (24,), None),
        ((4, 6), (12, 2), (2, 2, 3, 2), (24, 12, 4, 2)),
        ((2, 3), (0, 0), (6,), (0,)),
        ((2, 3), (0, 1), (6,), None),
        ((), (), (1, 1), (1, 1)),
        ((1, 1), (7, 9), (), ()),
        ((3, 0), (5, 5), (0, 2), (2, 1)),
        ((6,), (-1,), (2, 3), (-3, -1)),
    ],
)
def test_reshaped_strides(shape, strides, wanted, expected):
    assert reshaped_strides(shape, strides, wanted) == expected


@pytest.mark.parametrize(
    ("op", "dtype", "attributes"),
    [
        ("real", "complex64", {}),
        ("imag", "complex128", {}),
        ("conj", "float32", {}),
        ("cast", "int32", {"dtype": calor.int32}),
        ("bitcast", "float32", {"dtype": calor.int32}),
        ("bitcast", "float64", {"dtype": calor.int16}),
        ("bitcast", "bool", {"dtype": calor.uint8}),
        ("stop_gradient", "float32", {}),
    ],
)
def test_same_bits_of_a_transposed_slice(op, dtype, attributes):
    rng = np.random.default_rng(0)
    kind = as_dtype(dtype).numpy
    base = np.frombuffer(rng.bytes(24 * kind.itemsize), kind)
    if dtype == "bool":
        base = base.view(np.uint8) > 100
    view = View((3, 4), (1, 3), as_dtype(dtype), 6)
    row = find(op)
    result = signature(row, (spec((3, 4), view.dtype),), attributes).outputs[0]
    moved = view_of(op, view, attributes, result)
    given = base[6:18].reshape(4, 3).T
    reference = given if op == "stop_gradient" else row.reference(given, **attributes)
    assert moved is not None
    assert moved.dtype is result.dtype
    assert _elements(moved, base).tobytes() == np.ascontiguousarray(reference).tobytes()


@pytest.mark.parametrize(
    ("strides", "offset", "wide"),
    [
        ((4, 1), 0, True),
        ((8, 1), 4, True),
        ((4, 1), 1, False),
        ((6, 1), 0, False),
        ((1, 4), 0, False),
    ],
)
def test_bitcast_to_wider_elements(strides, offset, wide):
    view = View((2, 4), strides, calor.uint8, offset)
    moved = view_of("bitcast", view, {}, spec((2,), calor.float32))
    assert (moved is not None) == wide
    if moved is not None:
        base = np.arange(32, dtype=np.uint8)
        assert (_elements(moved, base).view(np.uint8) == _elements(view, base).reshape(-1)).all()


@pytest.mark.parametrize("stride", [3, 5, 8])
def test_bits_of_one_line_whatever_its_stride(stride):
    # Dense as it is, no copy of it would be a view where it is none.
    view = View((1, 4), (stride, 1), calor.uint8, 4)
    assert view.is_dense
    moved = view_of("bitcast", view, {}, spec((1,), calor.float32))
    base = np.arange(16, dtype=np.uint8)
    assert (_elements(moved, base).view(np.uint8) == base[4:8]).all()


def test_bytes_as_bool_are_no_view():
    view = View((2,), (1,), calor.uint8)
    assert view_of("bitcast", view, {}, spec((2,), calor.bool)) is None

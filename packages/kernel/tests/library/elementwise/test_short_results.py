"""Results whose elements share words of memory: units of large cubes write whole words of them."""

import numpy as np
import pytest

from calor.dtypes import as_dtype
from calor.ops.base import table
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS
from calor_kernel.library.elementwise import Expression, lower_expression

from ..copying.test_copying import run as copy
from .running import base_of, run_expression, view_of

# A shape of results, whether the operand is its transpose, and whether a unit writes one value.
FORMS = {
    "flat": ((40, 36), False, False),
    "odd flat": ((5, 7), False, True),
    "tiles": ((40, 36), True, False),
    "odd tiles": ((40, 35), True, True),
    "narrow tiles": ((300, 12), True, False),
    "planes": ((3, 40, 36), True, False),
}


def _launch(source, to):
    shape, dtype = source.shape, as_dtype(source.dtype)
    expression = Expression.of("cast", [dtype], to, {"dtype": to})
    view = view_of(source, base_of(source))
    (work, *_) = lower_expression(expression, [view], [spec(shape, to)], MANY_UNITS)
    return expression, work.launches[0]


def _stores(kernel):
    """Return the lanes and the masks of what a kernel writes to global memory."""
    found = [o for o in kernel.body.walk() if o.name == "store" and o.memory.space == "global"]
    return {(o.operands[1].type.width, len(o.operands) > 2) for o in found}


@pytest.mark.parametrize("name", ["float16", "bfloat16", "uint8", "bool"])
@pytest.mark.parametrize("form", FORMS)
def test_casts(form, name):
    shape, turned, alone = FORMS[form]
    numbers = np.random.default_rng(0).uniform(0, 9, shape).astype(np.float32)
    source = np.ascontiguousarray(numbers.swapaxes(-1, -2)).swapaxes(-1, -2) if turned else numbers
    to = as_dtype(name)
    expression, launch = _launch(source, to)
    (made,) = run_expression(expression, [source], "many-units")
    np.testing.assert_array_equal(made, table()["cast"].reference(source, dtype=to))
    assert (launch.label == "elementwise.tiles") == turned
    stores = _stores(launch.build.kernel(MANY_UNITS.features))
    if alone:
        assert (1, False) in stores or any(masked for _, masked in stores)
    else:
        assert all(not masked and width * to.itemsize % 4 == 0 for width, masked in stores)


@pytest.mark.parametrize(("count", "name"), [(4096, "int32"), (1 << 31, "int64")])
def test_positions_of_flat_values_have_32_bits_where_they_fit(count, name):
    view = view_of(np.broadcast_to(np.float32(1), (count,)), np.ones(1, np.float32))
    view = type(view)((count,), (1,), view.dtype, 0)
    expression = Expression.of("exp", [view.dtype], view.dtype)
    (work, *_) = lower_expression(expression, [view], [spec((count,), view.dtype)], MANY_UNITS)
    (launch,) = work.launches
    assert launch.label == "elementwise.flat"
    assert launch.build.index.name == name


@pytest.mark.parametrize(
    ("shape", "start", "width"),
    [((40, 36), 0, 2), ((40, 35), 0, 1), ((2, 40, 36), 0, 2), ((40, 36), 3, 2)],
)
def test_transposed_copies(shape, start, width):
    """Two elements of 16 bits are written at once, however the source begins."""
    rows, columns = shape[-2:]
    base = np.arange(start + int(np.prod(shape)), dtype=np.uint16)
    strides = (*([rows * columns] if len(shape) > 2 else []), 1, rows)
    view = view_of(base, base)
    view = type(view)(shape, strides, view.dtype, start)
    made, labels = copy(view, base, MANY_UNITS)
    turned = base[start:].reshape(*shape[:-2], columns, rows).swapaxes(-1, -2)
    np.testing.assert_array_equal(made, turned)
    assert labels == ["copy_tiles"]
    launch = _transposing(view)
    assert _stores(launch.build.kernel(MANY_UNITS.features)) == {(width, False)}


def _transposing(view):
    from calor_kernel.contract.work import Request
    from calor_kernel.library.copying import lower_copy

    request = Request("copy", {}, (view,), (spec(view.shape, view.dtype),), MANY_UNITS)
    (work,) = lower_copy(request)
    return work.launches[0]

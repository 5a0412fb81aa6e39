"""Late readers of a value read its copy in another order, if that waits as well."""

import itertools

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from calor.dtypes import float32
from calor.specs import spec
from calor_kernel.contract.work import Refusal, View, Work, row_major
from calor_kernel.planning.duplicates import moved_view, without_duplicates
from calor_kernel.planning.values import Piece, Task, Value

SIZES = [(2, 3, 4), (1, 5, 2), (4, 1, 1), (7,), (3, 3, 3)]


def seen(memory, view):
    strides = [s * memory.itemsize for s in view.strides]
    return as_strided(memory[view.offset :], view.shape, strides)


def ordered(shape, order):
    strides = row_major(shape)
    return View(tuple(shape[a] for a in order), tuple(strides[a] for a in order), float32)


@pytest.mark.parametrize("shape", SIZES)
def test_a_moved_view_has_the_same_elements(shape):
    memory = np.arange(np.prod(shape), dtype=np.float32)
    for copied, order in itertools.product(itertools.permutations(range(len(shape))), repeat=2):
        source, view = ordered(shape, copied), ordered(shape, order)
        copy = np.ascontiguousarray(seen(memory, source)).ravel()
        moved = moved_view(view, source)
        assert moved is not None
        np.testing.assert_array_equal(seen(copy, moved), seen(memory, view))


@pytest.mark.parametrize(
    ("view", "copied"),
    [
        (View((3, 2), (2, 1), float32), View((2, 2), (1, 2), float32)),  # a part is copied
        (View((6,), (1,), float32), View((2, 3), (1, 2), float32)),  # axes are joined
        (View((2, 3), (3, 1), float32, 1), View((3, 2), (1, 3), float32)),  # an offset
        (View((2, 3), (3, 1), float32), View((3, 2), (0, 3), float32)),  # a broadcast
    ],
)
def test_other_views_are_left(view, copied):
    assert moved_view(view, copied) is None


class Families:
    """Stands for the families: all take strided views, or none does."""

    def __init__(self, takes):
        self.takes = takes

    def dense(self, op, number):
        return False

    def ask(self, op, attributes, views, results, deterministic):
        dense = all(v.is_dense for v in views)
        return (Work((), variant="strided"),) if self.takes or dense else Refusal("strided")


@pytest.mark.parametrize(
    ("takes", "copy_waits", "distance", "expected"),
    [
        (True, True, 40, True),
        (False, True, 40, False),  # a reader refuses the view
        (True, False, 40, False),  # the copy would have to wait
        (True, True, 4, False),  # nothing is gained
    ],
)
def test_the_copy_is_read_where_it_waits_anyway(takes, copy_waits, distance, expected):
    big = spec((64, 1024), float32)
    given, first, copied = (Piece("input" if i == 0 else "made", big.nbytes) for i in range(3))
    turned = View((1024, 64), (1, 1024), float32)
    whole, copy = View.dense(big), View.dense(spec((1024, 64), float32))

    def task(op, reads, piece):
        return Task(op, (), tuple(Value(*r) for r in reads), (piece,), results=(big,))

    tasks = [
        task("make", [(given, whole)], first),
        task("copy", [(first, turned)], copied),
    ]
    for _ in range(distance):
        early = [(copied, copy)] if len(tasks) == 2 else []
        tasks.append(task("other", early, Piece("made", big.nbytes)))
    out = Piece("made", big.nbytes)
    tasks.append(task("late", [(first, whole)], out))
    if copy_waits:
        tasks.append(task("later", [(copied, copy)], Piece("made", big.nbytes)))
    made = without_duplicates(tasks, [out], Families(takes), False)
    late = made[2 + distance]
    assert (late.inputs[0].piece is copied) is expected
    if expected:
        assert late.works[0].variant == "strided"
        assert late.inputs[0].view == View((64, 1024), (1, 64), float32)

"""Accesses to memory: masks, gathers, alignment, atomics, what a kernel has of its own."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from calor.dtypes import DType, bool_, float32, float64, int32, int64, uint8, uint32
from calor.errors import CompileError
from calor_cpu.testing import run
from calor_cpu.toolchain import LlvmToolchain
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import (
    cube_position,
    fence,
    kernel,
    modulo,
    private,
    quotient,
    select,
    shared,
)

from .needs import TARGETS, x86
from .operations import COMPUTED, STORED

N = Scalar(int64, nonnegative=True)


def sample(dtype: DType, count: int) -> np.ndarray[Any, Any]:
    """Return an array with different neighbours."""
    return (np.arange(count) * 7 % 5 - (2 if dtype.kind in ("int", "float") else 0)).astype(
        dtype.numpy
    )


@kernel
def masked_copy(x, y, n, *, width):
    at = cube_position(0) * width
    mask = at + at.builder.constant(tuple(range(width)), int64) < n if width > 1 else at < n
    y.store(at, x.load(at, width, mask=mask, other=1), mask=mask)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_lanes_without_a_mask_are_not_touched(dtype: DType, width: int, target: str) -> None:
    x, y = sample(dtype, 13), np.zeros(16, dtype.numpy)
    y[13:] = 1
    built = masked_copy.build([Buffer(dtype, writable=False), Buffer(dtype), N], width=width)
    run(built, 16 // width, [x, y, 13], target=target)
    np.testing.assert_array_equal(y[:13], x)
    np.testing.assert_array_equal(y[13:], np.ones(3, dtype.numpy))


def test_whole_vectors_are_stored_whole_where_masks_are_slow() -> None:
    """Targets with masks in registers of their own have one store; others have two and a branch."""
    built = masked_copy.build([Buffer(float32, writable=False), Buffer(float32), N], width=8)
    for target, whole in (("x86-64-v3", 1), ("x86-64-v4", 0), ("x86-64", 1)):
        text = LlvmToolchain(f"x86_64-unknown-linux-gnu:{target}").source(built)
        assert len(re.findall(r"store <8 x float>", text)) == whole
        assert len(re.findall(r"call void @llvm\.masked\.store", text)) == 1


@kernel
def other_lanes(x, y, n):
    at = cube_position(0) * 4
    mask = at + at.builder.constant((0, 1, 2, 3), int64) < n
    y.store(at, x.load(at, 4, mask=mask, other=3))


def test_lanes_without_a_mask_are_the_other_value() -> None:
    x, y = np.arange(6, dtype=np.int32), np.zeros(8, np.int32)
    run(other_lanes.build([Buffer(int32), Buffer(int32), N]), 2, [x, y, 6])
    assert y.tolist() == [0, 1, 2, 3, 4, 5, 3, 3]


@kernel
def permuted(x, places, y, *, width, places_dtype):
    at = cube_position(0) * width
    where = places.load(at, width).to(places_dtype)
    y.store(where, x.load(where) + x.load(at, width))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("index", [int32, int64, uint8, uint32], ids=str)
@pytest.mark.parametrize("dtype", [t for t in COMPUTED if t.kind != "bool"], ids=str)
def test_vectors_of_indices_gather_and_scatter(dtype: DType, index: DType, target: str) -> None:
    x, y = sample(dtype, 240), np.zeros(240, dtype.numpy)
    places = np.random.default_rng(0).permutation(240).astype(np.int32)
    built = permuted.build(
        [Buffer(dtype, writable=False), Buffer(int32), Buffer(dtype)], width=8, places_dtype=index
    )
    run(built, 30, [x, places, y], target=target)
    wanted = np.zeros_like(y)
    wanted[places] = x[places] + x
    np.testing.assert_array_equal(y, wanted)


@kernel
def masked_scatter(places, y, n):
    at = cube_position(0) * 4
    place = places.load(at, 4)
    y.store(place, place.to(float32), mask=place < n)


def test_a_masked_scatter_writes_only_where_its_mask_is() -> None:
    y = np.full(16, -1, np.float32)
    run(masked_scatter.build([Buffer(int64), Buffer(float32), N]), 2, [np.arange(0, 16, 2), y, 8])
    assert y.tolist() == [0, -1, 2, -1, 4, -1, 6, *[-1] * 9]


@kernel
def own_memory(x, y):
    here = shared(8, float32)
    mine = private(8, bool_)
    at = cube_position(0) * 8
    for i in range(8):
        here[7 - i] = x[at + i]
        mine[i] = x[at + i] > 0.0
    for i in range(8):
        place = modulo(at + i, 8)
        y[at + i] = select(mine[place], here[place], -1.0)


def test_a_kernel_has_memory_of_its_own() -> None:
    x, y = sample(float32, 32), np.zeros(32, np.float32)
    run(own_memory.build([Buffer(float32), Buffer(float32)]), 4, [x, y])
    flipped = x.reshape(4, 8)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(y, np.where(x > 0, flipped, -1))


@kernel
def too_much(x):
    here = shared(1 << 20, float64)
    here[0] = 1.0
    x[0] = here[0]


def test_memory_beyond_a_stack_is_refused() -> None:
    with pytest.raises(
        CompileError, match=r"needs 8388608 bytes of shared and private memory.*scratch"
    ):
        LlvmToolchain().source(too_much.build([Buffer(float64)]))


@kernel
def changes(x, old, given, other, *, kind, space):
    i = cube_position(0)
    where = x if space == "global" else shared(1, x.dtype)
    if space != "global":
        where[0] = x[0]
    extra = (given[i], other[i]) if kind == "compare" else (given[i],)
    old[i] = where.atomic(kind, 0, *extra, order="acq_rel")
    if space != "global":
        x[0] = where[0]


KINDS = ("add", "min", "max", "and", "or", "xor", "exchange", "compare")
FOLDS = {
    "add": lambda a, b, c: a + b,
    "min": lambda a, b, c: min(a, b),
    "max": lambda a, b, c: max(a, b),
    "and": lambda a, b, c: a & b,
    "or": lambda a, b, c: a | b,
    "xor": lambda a, b, c: a ^ b,
    "exchange": lambda a, b, c: b,
    "compare": lambda a, b, c: c if a == b else a,
}


ATOMICS = [
    pytest.param(kind, dtype, id=f"{kind}-{dtype}")
    for kind in KINDS
    for dtype in COMPUTED
    if dtype.itemsize >= 4 and not (dtype.kind == "float" and kind in ("and", "or", "xor"))
]


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("kind", "dtype"), ATOMICS)
def test_atomics_change_an_element_and_return_what_it_was(
    kind: str, dtype: DType, space: str
) -> None:
    x = np.array([3], dtype.numpy)
    given, other = (np.array(v, dtype.numpy) for v in ([5, 2, 6, 3, 2], [9, 6, 8, 7, 1]))
    old = np.zeros(5, dtype.numpy)
    built = changes.build([Buffer(dtype)] * 4, kind=kind, space=space)
    run(built, 5, [x, old, given, other])
    now, before = 3, []
    for a, b in zip(given.tolist(), other.tolist(), strict=True):
        before.append(now)
        if dtype.kind != "float":
            a, b = int(a), int(b)
        now = FOLDS[kind](now, a, b)
    assert old.tolist() == before
    assert x[0] == now


@kernel
def extreme(x, y):
    y[0] = x.atomic("max", 0, y[0])


def test_the_atomic_maximum_keeps_nan() -> None:
    x, y = np.array([np.nan], np.float32), np.array([2], np.float32)
    run(extreme.build([Buffer(float32)] * 2), 1, [x, y])
    assert np.isnan(x[0])


@kernel
def ordered(x, y):
    i = cube_position(0)
    y.store(i, x.load(i, order="acquire", scope="device"), order="release", scope="device")
    fence("device")
    fence("cube", "relaxed")
    x.prefetch(i + 1, write=True, locality=0)


def test_ordered_accesses_fences_and_prefetches() -> None:
    x, y = sample(float32, 9), np.zeros(8, np.float32)
    run(ordered.build([Buffer(float32)] * 2), 8, [x, y])
    np.testing.assert_array_equal(y, x[:8])


@kernel
def streamed(x, y):
    at = cube_position(0) * 16
    y.store(at, x.load(at, 16, align=64), align=64, nontemporal=True)


@x86
def test_nontemporal_stores_of_aligned_vectors_pass_by_the_caches() -> None:
    tools = LlvmToolchain("x86-64-v3")
    source = tools.source(streamed.build([Buffer(float32, writable=False), Buffer(float32)]))
    assert re.search(r"store <16 x float> .*, align 64, !nontemporal", source)
    assert re.search(r"load <16 x float>.*align 64, !invariant.load", source)
    assert "vmovntps" in tools.assembly(source, "streamed")


@kernel
def divided(a, b, q, r, *, width):
    i = cube_position(0) * width
    x, y = a.load(i, width), b.load(i, width)
    q.store(i, quotient(x, y))
    r.store(i, modulo(x, y))


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("dtype", [t for t in COMPUTED if t.kind in ("int", "uint")], ids=str)
def test_division_never_traps(dtype: DType, width: int) -> None:
    info = np.iinfo(dtype.numpy)
    a = np.array([info.min, info.max, info.min, 7], dtype.numpy)
    b = np.array([info.max if info.min == 0 else -1, 0, 0, 2], dtype.numpy)
    q, r = np.zeros_like(a), np.zeros_like(a)
    run(divided.build([Buffer(dtype)] * 4, width=width), 4 // width, [a, b, q, r])
    assert (q[0], r[0]) == ((0, 0) if info.min == 0 else (info.min, 0))
    assert (q[3], r[3]) == (3, 1)

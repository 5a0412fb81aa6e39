"""What indices divide by, through loops and branches, as the accesses say it."""

import pytest

from calor.dtypes import float32, int64
from calor_interpreter.verify import verify
from calor_kernel.ir.passes import optimize
from calor_kernel.ir.passes.align import align
from calor_kernel.ir.passes.rewriting import on_copy
from calor_kernel.language import Buffer, Scalar, cube_position, helper, kernel, shared


@helper
def stepped(y, n, m):
    i = 0
    while i < n:
        y.store(i, y.load(i, 8))
        i += 8


@helper
def stepped_unevenly(y, n, m):
    i = 0
    while i < n:
        y.store(i, y.load(i, 8))
        i += 6


@helper
def moved_along(y, n, m):
    place = m
    for _ in range(n):
        y.store(place, y.load(place, 4))
        place = place + m


@helper
def moved_in_two_loops(y, n, m):
    row = 16
    for _ in range(n):
        place = row
        for j in range(0, n, 4):
            y.store(place + j, y.load(place + j, 4))
            place = place + 8
        row = row + place


@helper
def late(y, n, m):
    """What divides less comes in a round later."""
    a, b = 16, 16
    for _ in range(n):
        y.store(a, y.load(a, 8))
        a, b = b, b + 2


@helper
def chosen(y, n, m):
    if n > 1:
        place = m * 2
    else:
        place = m + 12
    y.store(place, y.load(place, 8))


@helper
def counted(y, n, m):
    for i in range(m, n, 12):
        y.store(i, y.load(i, 4))


@helper
def unknown(y, n, m):
    y.store(n, y.load(n, 4))


@helper
def scaled(y, n, m):
    at = cube_position() * 64 - (n << 5)
    y.store(at, y.load(at, 16))


# A body over y, aligned to 64 bytes, with n any number and m a multiple of 4; and the bytes.
BODIES = {
    stepped: 32,
    stepped_unevenly: 8,
    moved_along: 16,
    moved_in_two_loops: 16,
    late: 8,
    chosen: 16,
    counted: 16,
    unknown: 0,
    scaled: 64,
}


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("run", [on_copy(align), optimize], ids=lambda f: f.__name__)
def test_alignments(body, run) -> None:
    @kernel
    def k(y, n, m):
        body(y, n, m)

    sizes = [Scalar(int64), Scalar(int64, divisible=4)]
    made = verify(run(k.build([Buffer(float32, align=64), *sizes])))
    found = [o.attributes.get("align", 0) for o in made.body.walk() if o.name in ("load", "store")]
    assert found == [BODIES[body]] * 2
    other = verify(run(k.build([Buffer(float32), *sizes])))
    assert not any("align" in o.attributes for o in other.body.walk())


def test_single_elements_gathers_and_own_memory_say_nothing() -> None:
    @kernel
    def k(y):
        s = shared(64, float32)
        y[0] = y[8]
        s.store(8, y.load(y.load(0, 4).to(int64), 4))

    made = optimize(k.build([Buffer(float32, align=64)]))
    aligned = [o.attributes.get("align") for o in made.body.walk() if o.memory is not None]
    assert aligned == [None, None, 64, None, None]

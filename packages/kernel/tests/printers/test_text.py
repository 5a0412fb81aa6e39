"""How kernels look as text: golden files, names, the order of effects, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from calor.dtypes import bfloat16, bool_, float16, float32, float64, int8, int32, int64, uint8
from calor.errors import CompileError
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.ops import OPS
from calor_kernel.language import (
    Buffer,
    Scalar,
    absolute_position,
    barrier,
    kernel,
    loop_range,
    sqrt,
    unit_position,
)
from calor_kernel.printers import Dialect, PlainC, print_kernel
from calor_kernel.printers.c import KernelPrinter
from golden import assert_golden
from kernel_cases import (
    atomics_case,
    cube_sum_case,
    effects_case,
    flow_case,
    masks_case,
    parts_case,
    positions_case,
    selection_case,
    sheet_case,
    vector_case,
)
from kernel_products import dots_case, planes_case, product_case

GOLDEN = Path(__file__).parent / "golden"
F, N = Buffer(float32), Scalar(int64, nonnegative=True)


def body(built: Kernel, dialect: Dialect | None = None) -> list[str]:
    """Return the lines of a kernel's body as C, without indentation."""
    text = print_kernel(built, dialect or PlainC())
    inside = text.partition(f"static void {built.name}_cube(")[2].partition("{\n")[2]
    return [line.strip() for line in inside.partition("\n}\n")[0].splitlines()]


@pytest.mark.parametrize("case", [flow_case(), product_case()], ids=lambda case: case.name)
def test_a_golden_file(case: Any) -> None:
    assert_golden(GOLDEN / f"{case.name}.c", print_kernel(case.kernel, PlainC()))


@kernel
def swap(x: Any, y: Any) -> None:
    a = x[0]
    x[0] = y[0]
    y[0] = a


@kernel
def late(x: Any, y: Any) -> None:
    a = x[0]
    b = y[0] * 2.0
    y[1] = 3.0
    y[2] = a + b


def test_a_load_stays_before_the_next_store() -> None:
    assert body(swap.build([F, F])) == ["float x_ = x[0];", "x[0] = y[0];", "y[0] = x_;"]


def test_a_load_of_what_nobody_writes_moves_to_its_use() -> None:
    got = body(late.build([Buffer(float32, writable=False), F]))
    assert got == ["float t1 = y[0] * 2.0f;", "y[1] = 3.0f;", "y[2] = x[0] + t1;"]


@kernel
def ahead(x: Any, y: Any, n: Any) -> None:
    a = x[0]
    total = x[1] * 0.0
    for i in range(n):
        total = total + y[i]
    y[0] = a + total


def test_a_load_stays_before_the_loop_that_it_precedes() -> None:
    got = body(ahead.build([Buffer(float32, writable=False), F, Scalar(int64)]))
    assert "float x_ = x[0];" in got[: [line[:3] for line in got].index("for")]


@kernel
def branched(x: Any, y: Any, n: Any) -> None:
    far = x[n]
    if n > 3:
        for i in loop_range(n):
            y[i] = 1.0
    y[n] = far


def test_a_load_before_a_branch_with_a_loop_is_seen_behind_it() -> None:
    text = body(branched.build([Buffer(float32, writable=False), F, N]))
    assert text[0].startswith("float x_ = x[")
    assert text[1].startswith("if (")
    assert text[-1].endswith("= x_;")


@kernel
def picked(x: Any, at: Any) -> None:
    a = x[at[0]]
    at[0] = 5
    b = x[at[0]]
    at[1] = (a + b).to(int64)


def test_a_load_stays_where_its_index_is_read() -> None:
    got = body(picked.build([Buffer(float32, writable=False), Buffer(int64)]))
    assert got[:2] == ["float x_ = x[at[0]];", "at[0] = 5;"]


@kernel
def fibonacci(x: Any, n: Any) -> None:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    x[0] = a


def test_carried_values_change_all_at_once() -> None:
    got = body(fibonacci.build([Buffer(int64), N]))
    assert got[2:] == [
        "for (int64_t i = 0; i < n; i++) {",
        "int64_t b_next = (int64_t)((uint64_t)a + b);",
        "a = b;",
        "b = b_next;",
        "}",
        "x[0] = a;",
    ]


@kernel
def named(float: Any, index: Any, t: Any, n: Any) -> None:
    i = absolute_position()
    if i < n:
        t[i] = float[i] + index[i]


def test_no_name_is_a_word_of_the_language() -> None:
    text = print_kernel(named.build([F, F, F, N]), PlainC())
    assert "float *float_1, float *index_1, float *t1, int64_t n" in text


def test_a_kernel_may_be_called_like_a_word_of_the_language() -> None:
    @kernel
    def double(x: Any) -> None:
        x[0] = x[0] * 2.0

    assert "void double_(const int64_t *slots" in print_kernel(double.build([F]), PlainC())


@kernel
def unrolled(x: Any, n: Any) -> None:
    for i in loop_range(n, unroll=4):
        x[i] = 0.0


def test_a_loop_asks_for_unrolling() -> None:
    assert body(unrolled.build([F, N]))[0] == "#pragma GCC unroll 4"


@kernel
def arithmetic(y: Any, a: Any, b: Any, *, function: Any) -> None:
    y[0] = function(a, b)


def expression(dtype: Any, function: Any, dialect: Dialect | None = None) -> str:
    """Return how a function of two scalars is written."""
    signature: list[Any] = [Buffer(dtype), Scalar(dtype), Scalar(dtype)]
    (line,) = body(arithmetic.build(signature, function=function), dialect)
    return line.removeprefix("y[0] = ").removesuffix(";")


EXPRESSIONS = [
    (float32, "a - (b - a)", lambda a, b: a - (b - a)),
    (float32, "a - b - a", lambda a, b: a - b - a),
    (float32, "-(a * b)", lambda a, b: -(a * b)),
    (float32, "a * 0x1.99999ap-4f", lambda a, b: a * 0.1),
    (float32, "a * 0.25f", lambda a, b: a * 0.25),
    (float32, "a + INFINITY", lambda a, b: a + float("inf")),
    (float32, "a * -INFINITY", lambda a, b: a * float("-inf")),
    (float32, "a * 0x1p-126f", lambda a, b: a * 2.0**-126),
    (float32, "sqrtf(a * b)", lambda a, b: sqrt(a * b)),
    (float64, "sqrt(a) + 0x1.999999999999ap-4", lambda a, b: sqrt(a) + 0.1),
    (int32, "(int32_t)((uint32_t)a * b + a)", lambda a, b: a * b + a),
    (int32, "(a ^ b) & 15", lambda a, b: (a ^ b) & 15),
    (int32, "a & (-2147483647 - 1)", lambda a, b: a & -(2**31)),
    (int32, "(int32_t)((uint32_t)a << b)", lambda a, b: a << b),
    (int64, "(int64_t)((uint64_t)a + 4)", lambda a, b: a + 4),
    (int64, "(int64_t)-(uint64_t)a", lambda a, b: -a),
    (uint8, "(uint8_t)(a * b)", lambda a, b: a * b),
]


@pytest.mark.parametrize(
    ("dtype", "text", "function"), EXPRESSIONS, ids=[e[1] for e in EXPRESSIONS]
)
def test_an_expression(dtype: Any, text: str, function: Any) -> None:
    assert expression(dtype, function) == text


class Fused(PlainC):
    """C for a processor that has a fused multiply-add."""

    fast_fma = True


CONTRACTED = [
    ("fmaf(a, b, a)", lambda a, b: a * b + a),
    ("fmaf(a, b, -a)", lambda a, b: a * b - a),
    ("fmaf(-a, b, a)", lambda a, b: a - a * b),
    ("a * b", lambda a, b: a * b),
    ("a * b * a", lambda a, b: a * b * a),
]


@pytest.mark.parametrize(("text", "function"), CONTRACTED, ids=[c[0] for c in CONTRACTED])
def test_a_product_is_contracted_into_a_sum_where_that_is_fast(text: str, function: Any) -> None:
    assert expression(float32, function, Fused()) == text
    assert "fma" not in expression(float32, function)


@kernel
def meeting(x: Any) -> None:
    x[unit_position()] = 1.0
    barrier()


@kernel
def halves(x: Any, y: Any) -> None:
    y[0] = x[0] * x[1]


REFUSED = [
    (halves, [Buffer(float16)] * 2, (1, 1, 1), "C has no arithmetic of float16"),
    (halves, [Buffer(bfloat16)] * 2, (1, 1, 1), "C has no arithmetic of bfloat16"),
    (meeting, [F], (4, 1, 1), "C has no barriers of a cube"),
]


@pytest.mark.parametrize(
    ("function", "signature", "cube", "message"), REFUSED, ids=[r[3] for r in REFUSED]
)
def test_what_a_language_lacks_is_refused_with_the_line(
    function: Any, signature: Any, cube: Any, message: str
) -> None:
    with pytest.raises(CompileError, match=rf"test_text.py:\d+: {message}"):
        print_kernel(function.build(signature, cube=cube), PlainC())


def test_cubes_of_many_units_have_no_place_in_plain_c() -> None:
    with pytest.raises(CompileError, match="C has no"):
        print_kernel(cube_sum_case(8).kernel, PlainC())


# Instructions of devices that have them: their dialects print them.
OF_DIALECTS = {
    "arrive",
    "await_launches",
    "copy_tensor",
    "load_matrix",
    "mbarrier_arrive",
    "mbarrier_expect",
    "mbarrier_init",
    "mbarrier_wait",
    "mma",
    "mma_async",
    "mma_result",
    "store_tensor",
    "tile_product",
}


def test_every_operation_is_tried_or_left_to_dialects() -> None:
    cases = [flow_case(), masks_case(2), product_case(), atomics_case(int32), effects_case(2)]
    cases += [planes_case(int32, 4), parts_case(4), dots_case(int8, int32, 2), cube_sum_case(4)]
    cases += [positions_case((2, 1, 1)), selection_case(2)]
    cases += [sheet_case(t, 2) for t in (float32, int32, uint8)]
    cases += [vector_case(float32, 4), vector_case(bool_, 4)]
    tried = {o.name for case in cases for o in case.kernel.body.walk()}
    # These are tried below, and by the devices that have planes or pointers.
    tried |= {"print", "assert", "plane_position", "select_memory"}
    assert OF_DIALECTS.isdisjoint(tried)
    assert tried | OF_DIALECTS == set(OPS)


def test_prints_and_assertions_are_of_debug_builds() -> None:
    @kernel
    def told(x: Any) -> None:
        print("x:", x[0])
        assert x[0] > 0.0, "no number"

    assert "printf" not in print_kernel(told.build([F]), PlainC())
    text = "\n".join(body(told.build([F], features=frozenset(("debug",)))))
    assert 'printf("x: %.9g\\n", (double)x_);' in text
    assert "no number" in text


ONE_LANE = [
    ("a", "shuffle", 2, {"lanes": (0,)}),
    ("b", "shuffle", 2, {"lanes": (1,)}),
    ("b", "insert", 2, {"lane": 0}),
    ("a", "extract", 1, {"lane": 0}),
    ("a", "pack", 1, {}),
    ("a", "splat", 1, {}),
    ("a", "vreduce", 1, {"kind": "add"}),
]


@pytest.mark.parametrize(("text", "name", "count", "said"), ONE_LANE, ids=[r[1] for r in ONE_LANE])
def test_a_scalar_is_a_vector_of_one_lane(text: str, name: str, count: int, said: Any) -> None:
    @kernel
    def moved(y: Any, a: Any, b: Any) -> None:
        y[0] = y.builder.emit(name, [a, b][:count], (a.type,), said)[0]

    signature: list[Any] = [F, Scalar(float32), Scalar(float32)]
    assert f"y[0] = {text};" in KernelPrinter(moved.build(signature), PlainC()).text()


@kernel
def short_names(x: Any, y: Any, a: Any, b: Any, c: Any) -> None:
    i = absolute_position()
    if (i >= a) & (i < b) & (i >= c) & (i + a < b) & (i + b >= c):
        y[i] = x[i]


@kernel
def long_names(
    x: Any, y: Any, windows_across_start: Any, windows_across_size: Any, windows_down_start: Any
) -> None:
    i = absolute_position()
    a, b, c = windows_across_start, windows_across_size, windows_down_start
    if (i >= a) & (i < b) & (i >= c) & (i + a < b) & (i + b >= c):
        y[i] = x[i]


def test_long_names_do_not_split_expressions() -> None:
    short, long = (
        body(one.build([Buffer(float32, writable=False), F, N, N, N]))
        for one in (short_names, long_names)
    )
    assert any("windows_across_size" in line and len(line) > 100 for line in long)
    assert len(long) == len(short)

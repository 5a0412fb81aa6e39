"""Cubes of many units run on the processor, and what cannot go on says why."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calor_host_shim import compiler
from calor_host_shim.metal import ImitatedMetal, Options, Size

pytestmark = pytest.mark.skipif(
    compiler.compiler() is None, reason="there is no C++ compiler for Linux"
)

HEAD = """#include <metal_stdlib>
using namespace metal;
struct Arguments { alignas(8) device float *y; };
kernel void k(
    constant Arguments &arguments [[buffer(0)]],
    uint3 cube [[threadgroup_position_in_grid]],
    uint3 unit [[thread_position_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint plane [[simdgroup_index_in_threadgroup]]) {
  device float *y = arguments.y + 96 * cube.x;
"""
BOTH = "mem_flags::mem_device | mem_flags::mem_threadgroup"


def ran(body: str, cubes: int = 1, units: tuple[int, int, int] = (96, 1, 1)) -> Any:
    """Return what a kernel leaves in 96 floats a cube, or raise what it fails of."""
    device = ImitatedMetal().MTLCopyAllDevices()[0]
    library, error = device.newLibraryWithSource_options_error_(HEAD + body, Options(), None)
    if library is None:
        raise SyntaxError(str(error))
    y = np.zeros(96 * cubes, np.float32)
    arguments = int(y.ctypes.data).to_bytes(8, "little")
    why = library.program.run(arguments, tuple(Size(cubes, 1, 1)), units, 32)
    if why is not None:
        raise RuntimeError(why)
    return y


def meeting() -> None:
    """Values go around a cube through its memory and through its planes."""
    body = f"""
  alignas(16) threadgroup float box[96];
  for (int i = 0; i < 3; i++) {{
    box[unit.x] = 1000 * plane + lane;
    threadgroup_barrier({BOTH});
    y[unit.x] = box[(unit.x + 32) % 96] + simd_shuffle_xor((float)lane, 1);
    threadgroup_barrier({BOTH});
  }}
}}
"""
    i = np.arange(96)
    want = (1000 * ((i // 32 + 1) % 3) + i % 32 + (i % 32 ^ 1)).astype(np.float32)
    assert (ran(body, 2) == np.tile(want, 2)).all()


def test_units_meet() -> None:
    meeting()


def test_units_meet_where_the_runtime_has_no_switch_of_its_own() -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]; from calor_host_shim import compiler; "
        "compiler.RUNTIME = (*compiler.RUNTIME, '-DCALOR_UCONTEXT=1'); "
        "import test_units; test_units.meeting(); print('met')"
    )
    paths = [path for path in (*sys.path, __file__.rpartition("/")[0]) if path]
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True)
    assert done.stdout == "met\n", done.stderr


def test_a_plane_may_be_cut_short() -> None:
    y = ran("  y[unit.x + 40 * unit.y] = simd_max(unit.x + 40 * unit.y);\n}\n", 1, (40, 2, 1))
    assert y[:80].tolist() == [31.0] * 32 + [63.0] * 32 + [79.0] * 16


FAILURES = [
    (
        f"  if (lane < 9) threadgroup_barrier({BOTH});\n}}\n",
        "27 of 96 units wait at threadgroup_barrier for units that do not come",
    ),
    (
        "  y[unit.x] = lane < 3 ? simd_shuffle(lane, 1) : simd_shuffle_up(lane, 1);\n}\n",
        "units of a plane meet at simd_shuffle and at simd_shuffle_up",
    ),
    (
        f"  if (plane) simd_shuffle(lane, 1);\n  if (lane) threadgroup_barrier({BOTH});\n}}\n",
        "93 of 96 units wait at threadgroup_barrier",
    ),
]


@pytest.mark.parametrize(("body", "message"), FAILURES, ids=["barrier", "shuffles", "both"])
def test_units_that_do_not_meet_are_told(body: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        ran(body)
    assert ran("  y[unit.x] = unit.x;\n}\n").tolist() == list(range(96))


def test_shared_memory_has_no_zeros_to_begin_with() -> None:
    body = "  alignas(16) threadgroup uint box[96];\n  y[unit.x] = box[unit.x] == 0xa5a5a5a5;\n"
    assert (ran(f"{body}  box[unit.x] = 7;\n}}\n", 2) == 1).all()


def test_there_is_no_double() -> None:
    with pytest.raises(SyntaxError, match="there_is_no_double_in_metal"):
        ran("  y[0] = (double)1.0f;\n}\n")


@pytest.mark.parametrize(
    ("name", "type"), [("half", np.float16), ("bfloat", ml_dtypes.bfloat16)], ids=["half", "bfloat"]
)
def test_halves_round_to_nearest_even(name: str, type: Callable[..., Any]) -> None:
    dtype = np.dtype(type)
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 96 * 600, np.uint64).astype(np.uint32)
    bits[: 96 * 500 : 2] &= 0xFFFF8000  # ties
    y = bits.view(np.float32).copy()
    with np.errstate(all="ignore"):
        want = y.astype(dtype).astype(np.float32)
    body = f"  y[unit.x] = ({name})y[unit.x];\n}}\n"
    device = ImitatedMetal().MTLCopyAllDevices()[0]
    library, _ = device.newLibraryWithSource_options_error_(HEAD + body, Options(), None)
    assert library is not None
    library.program.run(int(y.ctypes.data).to_bytes(8, "little"), (600, 1, 1), (96, 1, 1), 32)
    np.testing.assert_array_equal(y, want)


def test_memory_of_a_form_that_is_not_known_is_refused() -> None:
    with pytest.raises(SyntaxError, match="declared in a form that is not known"):
        ran("  threadgroup float box[96];\n}\n")

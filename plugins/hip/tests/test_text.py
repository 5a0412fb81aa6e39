"""Kernels as HIP C++: golden files, what is refused, and what clang makes of the text."""

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calor.dtypes import DType, float32, float64, int32, int64, uint64
from calor.errors import CompileError
from calor_hip.dialect import HipCpp
from calor_hip.matrices import MATRICES
from calor_hip.toolchain import HipToolchain
from calor_kernel.language import (
    Buffer,
    fence,
    fragment,
    kernel,
    mma,
    plane_ballot,
    plane_reduce,
    plane_shuffle,
    shared,
    sqrt,
    unit_position,
)
from calor_kernel.language.matrices import SHAPES
from calor_kernel.printers import print_kernel
from device_runs import run
from golden import assert_golden
from kernel_cases import Case, assert_alike
from kernel_products import planes_case
from text_cases import kept_cases

GOLDEN = Path(__file__).parent / "golden"
F = Buffer(float32)
WAVES = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32}


@kept_cases(64)
def test_a_golden_file(case: Any) -> None:
    assert_golden(GOLDEN / f"{case.name}.hip", print_kernel(case.kernel, HipCpp(64)))


@kernel
def product_of_fragments(a: Any, b: Any, c: Any, *, shape: Any) -> None:
    total = fragment(shape, "c").load(c, (shape.n, 1))
    for p in range(0, 2 * shape.k, shape.k):
        left = fragment(shape, "a").load(a.at(p), (2 * shape.k, 1))
        mma(left, fragment(shape, "b").load(b.at(p * shape.n), (shape.n, 1)), total)
    total.keep(lambda row, column: column <= row)
    total.store(c, (shape.n, 1))


def fragments_case(name: str) -> Case:
    """Return the case of a product by an instruction; small numbers are exact in any order."""
    shape = SHAPES[name]
    read = Buffer(shape.a_dtype, writable=False)
    built = product_of_fragments.build(
        [read, read, Buffer(float32)],
        cube=(shape.lanes, 1, 1),
        plane=shape.lanes,
        features=frozenset({"matrix"}),
        shape=shape,
    )
    rng = np.random.default_rng(5)
    sizes = (shape.m * 2 * shape.k, 2 * shape.k * shape.n)
    a, b = (rng.integers(-7, 8, n).astype(shape.a_dtype.numpy) for n in sizes)
    c = rng.integers(-7, 8, shape.m * shape.n).astype(np.float32)
    return Case(f"fragments-{name}", built, (1, 1, 1), (a, b, c))


INSTRUCTIONS = [(p, name) for p in WAVES for name in sorted(MATRICES[p])]


@pytest.mark.parametrize("name", sorted(set().union(*(MATRICES[p] for p in WAVES))))
def test_products_of_fragments(cdna: Any, rdna: Any, name: str) -> None:
    case = fragments_case(name)
    got, want = case.fresh(), case.expected()
    run(cdna if SHAPES[name].lanes == 64 else rdna, case.kernel, case.cubes, got)
    assert_alike(got[2], want[2], name)


def assembly(image: bytes, folder: Path) -> str:
    """Return what a code object's instructions are."""
    path = folder / "made.co"
    path.write_bytes(image)
    command = ["llvm-objdump-22", "-d", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("processor", "name"), INSTRUCTIONS)
def test_instructions_of_matrices(clang: str, tmp_path: Path, processor: str, name: str) -> None:
    toolchain = HipToolchain(processor, WAVES[processor], clang=clang)
    made = fragments_case(name).kernel
    text = assembly(toolchain.compile(toolchain.source(made), made.name), tmp_path)
    kind, size, dtype = name.split("_")
    found = set(re.findall(rf"v_{kind}_f32_{size}_?(\w+)", text))
    assert {f.removesuffix("_1k") for f in found} == {
        {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}[dtype]
    }


@kernel
def meetings(x: Any, y: Any, z: Any, w: Any) -> None:
    i = unit_position()
    box = shared(256, float32)
    box[i] = x[i]
    box.atomic("max", 0, x[i])
    fence("device")
    total = plane_reduce("add", sqrt(x[i])) + plane_shuffle(x[i], 1, "down") / x[i]
    y[i] = plane_ballot(total > 0.0).to(uint64)
    w.atomic("add", 0, y[i])
    z.atomic("add", i, total)


def meeting(plane: int) -> Any:
    signature = [F, Buffer(uint64), F, Buffer(uint64)]
    return meetings.build(signature, cube=(256, 1, 1), plane=plane)


@pytest.mark.parametrize("processor", WAVES)
def test_units_that_meet(clang: str, tmp_path: Path, processor: str) -> None:
    wave = WAVES[processor]
    toolchain = HipToolchain(processor, wave, clang=clang)
    text = assembly(toolchain.compile(toolchain.source(meeting(wave)), "meetings"), tmp_path)
    assert "ds_bpermute_b32" in text
    assert "global_atomic_add" in text
    # An instruction adds floats only where it keeps numbers below the smallest normal one.
    assert ("global_atomic_add_f32" in text) == (processor != "gfx90a")
    assert "s_swappc" not in text, "a function is called"


@pytest.mark.parametrize(
    ("wave", "texts"),
    [
        (64, ("mbcnt_hi(", "ballot_w64(", "shuffle_xor((float)x, 32)", "+ n < 64 ?")),
        (32, ("mbcnt_lo(~0u, 0u);", "ballot_w32(", "shuffle_xor((float)x, 16)", "+ n < 32 ?")),
    ],
)
def test_waves(wave: int, texts: tuple[str, ...]) -> None:
    printed = print_kernel(meeting(wave), HipCpp(wave))
    assert [text for text in texts if text not in printed] == []
    with pytest.raises(CompileError, match=f"planes of {wave} where waves are of {96 - wave}"):
        print_kernel(meeting(wave), HipCpp(96 - wave))


@kernel
def much_shared(x: Any) -> None:
    box = shared(20_000, float32)
    box[unit_position()] = x[0]
    x[unit_position()] = box[1]


@kernel
def printing(x: Any) -> None:
    print(x[0])


REFUSED = [
    (much_shared, {"cube": (8, 1, 1)}, "80000 bytes of shared memory"),
    (printing, {"features": frozenset({"debug"})}, "HIP C\\+\\+ has no prints"),
]


@pytest.mark.parametrize(("function", "how", "message"), REFUSED, ids=["shared", "print"])
def test_what_there_is_not_is_refused(function: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        print_kernel(function.build([F], **how), HipCpp(64))


def test_clang_says_what_it_does_not_take(clang: str) -> None:
    toolchain = HipToolchain("gfx942", clang=clang)
    with pytest.raises(CompileError, match="(?s)clang refuses kernel 'k'.*nothing_known"):
        toolchain.compile("void k() { nothing_known = 1; }", "k")


@pytest.mark.parametrize("dtype", [int32, int64, float32, float64], ids=str)
def test_clang_takes_planes_of_every_type(clang: str, dtype: DType) -> None:
    made = planes_case(dtype, 64).kernel
    toolchain = HipToolchain("gfx90a", 64, clang=clang)
    assert toolchain.compile(toolchain.source(made), made.name)[:4] == b"\x7fELF"

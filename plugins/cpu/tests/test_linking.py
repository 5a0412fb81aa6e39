"""Object files linked without LLVM, and a process that does not load it."""

import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from calor_cpu import linking
from calor_cpu.elf import LinkedObject, Object, Unlinkable, links_here
from calor_cpu.linking import link
from calor_cpu.target import native
from calor_cpu.toolchain import LlvmToolchain

pytestmark = pytest.mark.skipif(not links_here(), reason="the machine is no x86-64 with Linux")

TEXT = """
@table = internal constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
@counter = internal global i64 40
@place = internal global ptr @counter
@zeros = internal global [8 x i64] zeroinitializer
declare double @cos(double)
declare i64 @added(i64, i64)
define i64 @prime(i64 %i) {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @counted() {
  %p = load ptr, ptr @place
  %old = load i64, ptr %p
  %z = load i64, ptr @zeros
  %new = add i64 %old, %z
  %next = add i64 %new, 1
  store i64 %next, ptr %p
  ret i64 %next
}
define double @halved(double %x) {
  %y = call double @cos(double %x)
  %z = fmul double %y, 5.0e-01
  ret double %z
}
define i64 @twice(i64 %x) {
  %one = call i64 @added(i64 %x, i64 1)
  %two = call i64 @added(i64 %one, i64 %x)
  ret i64 %two
}
define ptr @whose() {
  ret ptr @added
}
"""
NUMBER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
ADDED = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(lambda a, b: a + b)


def address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def image() -> bytes:
    return LlvmToolchain(native()).compile(TEXT, "parts")


@pytest.mark.parametrize("by", ["calor", "llvm"])
def test_code_reaches_its_data_and_what_is_outside(image: bytes, by: str) -> None:
    cos = linking.symbol_address("cos")
    symbols = {"added": address(ADDED), "cos": cos}
    names = ("prime", "counted", "halved", "twice", "whose")
    made = LinkedObject(image, symbols.__getitem__) if by == "calor" else None
    library = made or linking._by_llvm(image, names, symbols)
    prime, twice = NUMBER(library["prime"]), NUMBER(library["twice"])
    assert [prime(i) for i in range(4)] == [3, 5, 7, 11]
    counted = ctypes.CFUNCTYPE(ctypes.c_int64)(library["counted"])
    assert [counted() for _ in range(3)] == [41, 42, 43]
    halved = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(library["halved"])
    assert halved(0.0) == 0.5
    assert twice(10) == 21
    assert ctypes.CFUNCTYPE(ctypes.c_void_p)(library["whose"])() == address(ADDED)


def test_a_symbol_without_an_address_is_named(image: bytes) -> None:
    with pytest.raises(RuntimeError, match="added"):
        link(image, ("twice",))


def test_what_is_no_object_for_this_machine_is_left_to_llvm(image: bytes) -> None:
    with pytest.raises(Unlinkable, match="64 bits"):
        Object(b"MZ" + image[2:])
    with pytest.raises(Unlinkable, match="x86-64"):
        Object(image[:18] + b"\xb7\x00" + image[20:])  # aarch64
    with pytest.raises(RuntimeError):
        link(image[:18] + b"\xb7\x00" + image[20:], ("prime",))


def test_memory_is_freed_with_the_library(image: bytes) -> None:
    def mapped() -> int:
        return len(Path("/proc/self/maps").read_text("ascii").splitlines())

    symbols = {"added": address(ADDED), "cos": linking.symbol_address("cos")}
    first = LinkedObject(image, symbols.__getitem__)
    before = mapped()
    many = [LinkedObject(image, symbols.__getitem__) for _ in range(50)]
    assert many[-1]["prime"] != first["prime"]
    del many
    gc.collect()
    assert mapped() <= before + 4


def test_a_process_with_known_kernels_does_not_load_llvm(tmp_path: Path) -> None:
    program = (
        "import sys, calor\n"
        "x = calor.asarray([1.0, 2.0, 3.0], device='cpu')\n"
        "print((calor.exp(x) * 2).sum().item() > 0, 'llvmlite' in sys.modules)\n"
    )
    environment = {"CALOR_CACHE_DIR": str(tmp_path), "CALOR_COMPILE_WORKERS": "0"}
    found = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert found == [["True", "True"], ["True", "False"]]

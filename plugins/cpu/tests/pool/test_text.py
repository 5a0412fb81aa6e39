"""The native text: one for every system and processor that it claims to run on."""

import time

import pytest

from calor_cpu.pool.native import load
from calor_cpu.pool.structures import LINE, PoolState
from calor_cpu.pool.system import system
from calor_cpu.pool.text import text
from calor_cpu.toolchain import LlvmToolchain


@pytest.mark.parametrize(
    ("name", "machine", "target", "sleeps"),
    [
        ("linux", "x86_64", "x86_64-unknown-linux-gnu:x86-64", "@syscall(i64 202"),
        ("linux", "aarch64", "aarch64-unknown-linux-gnu:generic", "@syscall(i64 98"),
        ("linux", "riscv64", "riscv64-unknown-linux-gnu:generic-rv64", "@syscall(i64 98"),
        ("linux", "ppc64le", "powerpc64le-unknown-linux-gnu:ppc64le", "@pthread_cond_wait"),
        ("darwin", "arm64", "arm64-apple-darwin:generic", "@pthread_cond_wait"),
        ("darwin", "x86_64", "x86_64-apple-darwin:x86-64", "@pthread_cond_wait"),
        ("win32", "AMD64", "x86_64-pc-windows-msvc:x86-64", "@WaitOnAddress"),
        ("win32", "ARM64", "aarch64-pc-windows-msvc:generic", "@WaitOnAddress"),
        ("freebsd14", "amd64", "x86_64-unknown-freebsd:x86-64", "@pthread_cond_wait"),
    ],
)
def test_it_compiles_for_every_system(name, machine, target, sleeps):
    source = text(system(name, machine))
    assert sleeps in source
    assert len(LlvmToolchain(target).compile(source, "pool")) > 2000


def test_windows_links_what_it_declares():
    chosen = system("win32", "AMD64")
    declared = {
        line.split("@")[1].split("(")[0] for line in chosen.text.splitlines() if "declare" in line
    }
    assert set(chosen.symbols) == {name for name in declared if not name.startswith("llvm.")}


@pytest.mark.parametrize("field", ["ticket", "pending", "signal", "lock", "threads", "mutex"])
def test_what_different_threads_write_lies_apart(field):
    assert getattr(PoolState, field).offset % LINE == 0


def test_the_runtime_is_loaded_once():
    def never(_):
        raise AssertionError

    assert load() is load(never)


def test_the_clock_counts_nanoseconds():
    native = load()
    outer = time.perf_counter_ns()
    inner = native.now()
    time.sleep(0.01)
    inner = native.now() - inner
    outer = time.perf_counter_ns() - outer
    assert 9_000_000 < inner < outer + 1_000_000

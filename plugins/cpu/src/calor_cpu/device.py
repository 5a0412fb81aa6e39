"""The CPU as a device: one device for all cores that the process may use.

Requirements: opening it starts no thread, and compiles nothing but the pool's runtime, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor.errors import DeviceError
from calor_cpu.host import describe
from calor_cpu.memory import CpuMemory
from calor_cpu.pool import Pool
from calor_cpu.queue import CpuQueue
from calor_cpu.target import Target
from calor_cpu.toolchain import LlvmToolchain, compile_once
from calor_kernel.device.calls import NativeCall
from calor_kernel.device.protocol import Device


class CpuDevice(Device):
    """This machine's processor.

    ``target`` is as CALOR_CPU_TARGET, ``threads`` as CALOR_CPU_THREADS; None reads the variables.
    """

    toolchain: LlvmToolchain
    queue: CpuQueue

    def __init__(self, target: Target | str | None = None, *, threads: int | None = None) -> None:
        self.toolchain = LlvmToolchain(target)
        if not self.toolchain.processor.runs:
            raise DeviceError(
                f"code for {self.toolchain.processor} does not run on this machine; compile for it "
                f"with LlvmToolchain, and open the device with target='native'"
            )
        self.info = describe(self.toolchain.processor)
        self.memory = CpuMemory()
        self.queue = CpuQueue(Pool(threads, compile=compile_once))

    def caller(self, call: NativeCall, keep: object) -> Callable[..., Any] | None:
        """Return the built-in function of a bound call."""
        from calor_cpu.calls import caller

        return caller(call, self.queue.pool, keep)

    def finalizer(self, kind: type, pools: type) -> Any | None:
        """Return the built-in method that frees memory."""
        from calor_cpu.calls import finalizer

        return finalizer(kind, pools)

    def close(self) -> None:
        """Stop the pool's threads."""
        self.queue.pool.close()

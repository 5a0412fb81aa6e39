"""Devices that are only described: kernels are planned and printed for them, and none runs.

Requirements: no driver, compiler or processor of the kind is needed, and every machine describes
the same devices; sizes may exceed the host's memory, so a piece of memory is a number; an image is
two digests of its kernel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.device.protocol import Device, Memory, Queue, Step, Toolchain
from calor_kernel.ir.nodes import Block, Kernel
from imitated_cuda import H200

# A processor with AVX-512, VNNI and bfloat16 products, beside what x86-64-v4 has.
_PROCESSOR = ("avx512vnni", "avx512bf16", "avx512vbmi")
_TILES = ("amx-tile", "amx-bf16", "amx-int8")
# Devices for which cases have the sizes of processors.
PROCESSORS = ("avx2", "cpu", "xeon")
_MI300X = {
    "name": "MI300X, described",
    "gcnArchName": "gfx942",
    "warpSize": 64,
    "multiProcessorCount": 304,
    "l2CacheSize": 4 << 20,
    "totalGlobalMem": 192 << 30,
    "maxThreadsDim": (1024, 1024, 1024),
    "maxThreadsPerBlock": 1024,
    "maxGridSize": (2**31 - 1, 65536, 65536),
    "sharedMemPerBlock": 64 << 10,
}


@dataclass(frozen=True, slots=True)
class Printed:
    """A kernel as the census keeps it.

    ``text``: a digest of the printed text. ``form``: a digest of the operations without names and
    source lines, so that it stays when only variables, kernels or files are renamed.
    """

    name: str
    text: str
    form: str
    cube: tuple[int, int, int]
    plane: int
    shared: int


class Describing(Toolchain):
    """A toolchain that prints by another one, and whose images are not compiled."""

    def __init__(self, printing: Toolchain) -> None:
        self.printing = printing
        self.target = f"described {printing.target}"
        self._forms: dict[str, str] = {}

    def source(self, kernel: Kernel) -> str:
        """Return the text that the device's own toolchain prints."""
        form = form_of(kernel)
        text = self.printing.source(kernel)
        self._forms[text] = form
        return text

    def compile(self, source: str, name: str) -> bytes:
        """Return the two digests."""
        return f"{digest(source)} {self._forms[source]}".encode()


class NoMemory(Memory):
    """Memory that holds nothing: what is read is zero."""

    def __init__(self) -> None:
        self._pieces = count(1)

    def alloc(self, nbytes: int) -> int:
        """Return the number of a piece."""
        return next(self._pieces)

    def free(self, handle: int) -> None:
        """Forget a piece."""

    def copy_in(self, handle: int, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Forget an array."""

    def copy_out(self, handle: int, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Return zeros."""
        array[...] = np.zeros((), array.dtype)

    def copy(self, target: int, at: int, source: int, offset: int, nbytes: int) -> None:
        """Copy nothing."""


class NoQueue(Queue):
    """A queue that runs nothing."""

    def load(self, image: bytes, kernel: Kernel | Any) -> Printed:
        """Return what the census keeps of a kernel."""
        text, form = image.decode().split()
        cube = tuple(kernel.cube)
        return Printed(kernel.name, text, form, cube, kernel.plane, kernel.shared_bytes)

    def record(self, steps: Sequence[Step], slots: int) -> Sequence[Step]:
        """Return the launches."""
        return steps

    def run(self, recorded: Any, handles: Sequence[Any]) -> None:
        """Run nothing."""

    def synchronize(self) -> None:
        """Return at once."""

    def seconds(self, recorded: Any, handles: Sequence[Any]) -> list[float]:
        """Return a microsecond for each launch."""
        return [1e-6] * len(recorded)


class DescribedDevice(Device):
    """A device of a description and a toolchain that prints."""

    def __init__(self, info: DeviceInfo, toolchain: Toolchain) -> None:
        self.info = info
        self.memory = NoMemory()
        self.toolchain = Describing(toolchain)
        self.queue = NoQueue()


def digest(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def form_of(kernel: Kernel) -> str:
    """Return a digest of a kernel's operations, in which values have numbers and no names."""
    numbers: dict[Any, int] = {}

    def number(thing: Any) -> int:
        return numbers.setdefault(thing, len(numbers))

    names: dict[str, int] = {}
    for parameter in kernel.parameters:
        held = parameter.memory if parameter.value is None else parameter.value
        names[parameter.name] = number(held)

    def plain(given: Any) -> Any:
        if isinstance(given, str):
            return names.get(given, given)
        if isinstance(given, tuple | list):
            return [plain(one) for one in given]
        return repr(given)

    def attributes(given: Any) -> Any:
        return sorted((name, plain(value)) for name, value in given.items())

    def values(given: Any) -> Any:
        facts = [(number(v), v.type, v.known, v.nonnegative, v.divisible) for v in given]
        return [tuple(map(str, fact)) for fact in facts]

    def block(given: Block) -> Iterator[Any]:
        yield "arguments", values(given.arguments)
        for one in given.operations:
            memory = None if one.memory is None else number(one.memory)
            yield one.name, values(one.operands), values(one.results), memory
            yield attributes(one.attributes)
            for region in one.regions:
                yield from block(region)
        yield "yields", values(given.yields)

    head = [repr(p.declared) for p in kernel.parameters]
    memories = [(number(m), m.space, str(m.type), m.size, m.align) for m in kernel.memories]
    parts = [head, memories, attributes(kernel.attributes), kernel.cube, kernel.plane]
    return digest("\n".join(map(repr, [*parts, *block(kernel.body)])))


def cuda() -> DescribedDevice:
    """Return an NVIDIA H200."""
    from calor_cuda.cuda_cpp import CudaCpp
    from calor_cuda.description import describe

    native = {"library": "CuPy", "driver": 13000, "runtime": 13000, "target": "sm_90a"}
    info = describe({**H200, "totalGlobalMem": 141 << 30}, native)
    return DescribedDevice(info, _printing(CudaCpp(), "sm_90a"))


def a100() -> DescribedDevice:
    """Return an NVIDIA A100: matrix instructions of planes, and no TMA."""
    from calor_cuda.cuda_cpp import CudaCpp
    from calor_cuda.description import describe

    native = {"library": "CuPy", "driver": 13000, "runtime": 13000, "target": "sm_80"}
    given = {"major": 8, "name": b"NVIDIA A100, described", "multiProcessorCount": 108}
    given |= {"sharedMemPerBlockOptin": 163 << 10, "l2CacheSize": 40 << 20}
    info = describe({**H200, **given, "totalGlobalMem": 80 << 30}, native)
    return DescribedDevice(info, _printing(CudaCpp(), "sm_80"))


def opencl() -> DescribedDevice:
    """Return an NVIDIA H200 as its OpenCL driver describes it."""
    import pyopencl

    from calor_opencl.description import describe, language

    config = pyopencl.device_fp_config
    device = SimpleNamespace(
        name="NVIDIA H200, described",
        platform=SimpleNamespace(name="NVIDIA CUDA"),
        single_fp_config=config.FMA | config.CORRECTLY_ROUNDED_DIVIDE_SQRT,
        extensions="cl_khr_fp64 cl_khr_int64_base_atomics cl_khr_int64_extended_atomics "
        "cl_nv_device_attribute_query",
        opencl_c_version="OpenCL C 1.2",
        max_work_group_size=1024,
        max_work_item_sizes=(1024, 1024, 64),
        preferred_vector_width_float=1,
        local_mem_size=48 << 10,
        max_compute_units=132,
        global_mem_cache_size=(132 * 256) << 10,
        global_mem_size=141 << 30,
        max_mem_alloc_size=141 << 28,
        mem_base_addr_align=4096,
        max_parameter_size=4352,
        version="OpenCL 3.0 CUDA",
        driver_version="580",
        compute_capability_major_nv=9,
    )
    dialect, _ = language(device, "ptx")
    return DescribedDevice(describe(device, dialect), _printing(dialect, "opencl"))


def wgpu() -> DescribedDevice:
    """Return an NVIDIA H200 as its Vulkan driver describes it."""
    from calor_wgpu.description import describe
    from calor_wgpu.probes.last_cache import with_last_cache
    from calor_wgpu.toolchain import WgpuToolchain
    from calor_wgpu.wgsl import WGSL

    info: dict[str, Any] = {"device": "NVIDIA H200, described", "backend_type": "Vulkan"}
    info |= {"adapter_type": "DiscreteGPU", "description": "580", "vendor_id": 0x10DE}
    limits = {
        **{f"max-compute-workgroup-size-{axis}": 1024 for axis in "xy"},
        "max-compute-workgroup-size-z": 64,
        "max-compute-invocations-per-workgroup": 1024,
        "max-storage-buffer-binding-size": 2**32 - 1,
        "max-buffer-size": 2**50,
        "min-storage-buffer-offset-alignment": 32,
    }
    dialect = WGSL(
        buffers=1 << 19, shared_bytes=48 << 10, diverges=True, coherent=True, runs_on=True
    )
    device = SimpleNamespace(limits=limits, adapter=SimpleNamespace(info=info), features=set())
    described = replace(describe(device, dialect), cores=128, native={})
    return DescribedDevice(with_last_cache(described, info), WgpuToolchain(dialect, "wgpu"))


def hip() -> DescribedDevice:
    """Return an AMD Instinct MI300X."""
    from calor_hip.description import describe
    from calor_hip.dialect import HipCpp

    return DescribedDevice(describe(_MI300X, {"driver": 70000000}), _printing(HipCpp(64), "gfx942"))


def metal() -> DescribedDevice:
    """Return an Apple M-series GPU."""
    from calor_metal.device import describe
    from calor_metal.toolchain import MetalToolchain

    most = SimpleNamespace(width=1024, height=1024, depth=1024)
    device = SimpleNamespace(
        name=lambda: "Apple GPU, described",
        maxThreadsPerThreadgroup=lambda: most,
        maxThreadgroupMemoryLength=lambda: 32 << 10,
        recommendedMaxWorkingSetSize=lambda: 16 << 30,
        maxBufferLength=lambda: 8 << 30,
        registryID=lambda: 0,
    )
    return DescribedDevice(describe(device), MetalToolchain("metal"))


def cpu() -> DescribedDevice:
    """Return a processor of x86-64 with AVX-512 and two cores."""
    return _processor("a processor with AVX-512, described", _PROCESSOR)


def xeon() -> DescribedDevice:
    """Return a processor with AVX-512 and tile registers (AMX), as Intel's Xeons have."""
    return _processor("a processor with AMX, described", (*_PROCESSOR, *_TILES))


def avx2() -> DescribedDevice:
    """Return a processor of x86-64 with AVX2 alone: half the registers, half as wide."""
    return _processor("a processor with AVX2, described", (), "x86-64-v3")


def _processor(description: str, flags: Sequence[str], level: str = "x86-64-v4") -> DescribedDevice:
    from calor_cpu.host import describe
    from calor_cpu.target import target_of
    from calor_cpu.toolchain import LlvmToolchain

    known = target_of(f"x86_64-unknown-linux-gnu:{level}")
    target = replace(known, flags=known.flags | frozenset(flags))
    info = replace(
        describe(target),
        description=description,
        cores=2,
        caches=(48 << 10, 1 << 20),
        memory_bytes=64 << 30,
        native={"shared_cache": 32 << 20, "vector_registers": target.vector_registers},
    )
    return DescribedDevice(info, LlvmToolchain(target))


DEVICES: dict[str, Callable[[], DescribedDevice]] = {
    "a100": a100,
    "avx2": avx2,
    "cpu": cpu,
    "cuda": cuda,
    "hip": hip,
    "metal": metal,
    "opencl": opencl,
    "wgpu": wgpu,
    "xeon": xeon,
}


def _printing(dialect: Any, target: str) -> Toolchain:
    """Return a toolchain that prints a dialect of C."""
    from calor_kernel.device.printing import PrintingToolchain

    class Printing(PrintingToolchain):
        def compile(self, source: str, name: str) -> bytes:
            raise NotImplementedError("a described device compiles nothing")

    made = Printing()
    made.dialect, made.target = dialect, target
    return made

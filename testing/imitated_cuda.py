"""A driver without a GPU: memory of the host, and launches that run on lanes.

Requirements: it takes the calls that calor-cuda makes of CuPy, with their argument types, and
reads arguments from the same places that the driver reads them; a kernel is found by its function's
number, since nothing here runs machine code. What it does not know it refuses, as an unknown
attribute. ``Fake.limit`` is how much memory there is, and ``Fake.fails`` the code with which the
next call fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from bisect import bisect_right
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from calor.dtypes import bfloat16, float16
from calor.local import local
from calor.random import default_generator
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.program import Program

H200 = {
    "name": b"NVIDIA H200, imitated",
    "major": 9,
    "minor": 0,
    "maxThreadsDim": (1024, 1024, 64),
    "maxThreadsPerBlock": 1024,
    "warpSize": 32,
    "sharedMemPerBlockOptin": 227 << 10,
    "multiProcessorCount": 132,
    "l2CacheSize": 60 << 20,
    "maxGridSize": (2**31 - 1, 65535, 65535),
    "totalGlobalMem": 8 << 30,
}


class CudaError(RuntimeError):
    """An error as CuPy raises it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"cudaError{status}")
        self.status = status


@contextlib.contextmanager
def imitated_driver(patch: Any) -> Iterator[Fake]:
    """Put the imitated driver in CuPy's place for a while; nothing of it outlasts the context."""
    # A stored kernel, or one of another process, is an image without a body for lanes to run.
    patch.setenv("CALOR_CACHE", "0")
    patch.setenv("CALOR_COMPILE_WORKERS", "0")
    # The state of the generator is on the device that draws first.
    patch.setattr(default_generator, "key", None)
    patch.setattr(default_generator, "counter", None)
    made = Fake()
    made.install(patch)
    known = set(local.traces)
    yield made
    # Nobody waits for an imitated GPU that was lost.
    for device in set(local.traces) - known:
        del local.traces[device]


class Fake:
    """The state of the driver, and its two modules."""

    def __init__(self) -> None:
        self.devices = [H200]
        self.current = 0
        # Pairs of GPUs that are not connected, and those whose memory was opened: (owner, other).
        self.apart: set[tuple[int, int]] = set()
        self.open: set[tuple[int, int]] = set()
        self.limit = 8 << 30
        self.fails = 0
        self.calls: list[str] = []
        # Copies between GPUs, and what orders them.
        self.log: list[str] = []
        self.sources: list[str] = []
        self.starts: list[int] = []
        self.pieces: dict[int, np.ndarray[Any, Any]] = {}
        # Page-locked memory of the host.
        self.locked: dict[int, np.ndarray[Any, Any]] = {}
        self.kernels: dict[int, Any] = {}
        self.programs: dict[int, Program] = {}
        self.graphs: list[list[Any]] = []
        self.held: dict[Any, Any] = {}
        # The events of graphs that were created, and the order in which they were recorded last.
        self.created = self.turns = 0
        self.times: dict[int, int] = {}
        # The nodes of graphs that are cooperative launches.
        self.cooperative: set[Any] = set()
        # The conditions of loops by their handles, and the modules of what sets them.
        self.conditions: dict[int, int] = {}
        self.setters: set[int] = set()
        # The graph that takes the launches of a stream while they are captured.
        self.capturing: int | None = None
        self.runtime = self._module("runtime")
        self.driver = self._module("driver")
        for name, value in {
            "streamNonBlocking": 1,
            "streamCaptureModeRelaxed": 2,
            "eventDisableTiming": 2,
            "cudaMemPoolAttrReleaseThreshold": 4,
            "memcpyHostToDevice": 1,
            "memcpyDeviceToHost": 2,
            "memcpyDeviceToDevice": 3,
        }.items():
            setattr(self.runtime, name, value)
        self.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # type: ignore[attr-defined]

    def _module(self, kind: str) -> ModuleType:
        made = ModuleType(f"cupy_backends.cuda.api.{kind}")
        for name in dir(self):
            if name.startswith(f"{kind}_"):
                setattr(made, name.removeprefix(f"{kind}_"), self._call(getattr(self, name)))
        return made

    def _call(self, function: Any) -> Any:
        name = function.__name__.partition("_")[2]

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if self.fails:
                code, self.fails = self.fails, 0
                raise CudaError(code)
            return function(*arguments)

        return call

    def install(self, patch: Any) -> None:
        """Put the modules in CuPy's place, and keep the kernels of images that are loaded."""
        from calor_cuda import toolchain
        from calor_cupy.driver import launches

        api = ModuleType("cupy_backends.cuda.api")
        api.runtime, api.driver = self.runtime, self.driver  # type: ignore[attr-defined]
        names = {"cupy_backends": ModuleType("c"), "cupy_backends.cuda": ModuleType("c")}
        for name, module in {**names, "cupy_backends.cuda.api": api}.items():
            patch.setitem(sys.modules, name, module)
        load = launches.load

        def loaded(driver: Any, image: bytes, kernel: Any, name: str, most: int) -> Any:
            assert name.encode() in image
            function = load(driver, image, kernel, name, most)
            self.kernels[function.function] = kernel
            return function

        patch.setattr("calor_cupy.driver.device.load", loaded)
        compiled = toolchain.CudaToolchain.compile

        def kept(chain: Any, source: str, name: str) -> bytes:
            self.sources.append(source)
            return compiled(chain, source, name)

        patch.setattr(toolchain.CudaToolchain, "compile", kept)
        for name in (
            n
            for n in dir(self)
            if n.startswith(("cuCtx", "cuEvent", "cuGraph", "cuMem", "cuTensor"))
        ):
            patch.setattr(f"cuda.bindings.driver.{name}", getattr(self, name))

    # The runtime.
    def runtime_getDeviceCount(self) -> int:
        if not self.devices:
            raise CudaError(35)
        return len(self.devices)

    def runtime_getDeviceProperties(self, number: int) -> Any:
        return self.devices[number]

    def runtime_driverGetVersion(self) -> int:
        return 13000

    runtime_runtimeGetVersion = runtime_driverGetVersion

    def runtime_setDevice(self, number: int) -> None:
        assert number < len(self.devices)
        self.current = number

    # A stream and a pool have the number of their device in them.
    def runtime_streamCreateWithFlags(self, flags: int) -> int:
        return 77 + self.current

    def runtime_streamSynchronize(self, stream: int) -> None:
        assert stream == 77 + self.current
        self._not_captured()

    def _not_captured(self) -> None:
        """Fail as the driver does with what a capture does not take."""
        if self.capturing is not None:
            raise CudaError(900)

    def runtime_streamBeginCapture(self, stream: int, mode: int) -> None:
        assert (stream, mode, self.capturing) == (77 + self.current, 2, None)
        self.capturing = self.cuGraphCreate(0)[1]

    def runtime_streamEndCapture(self, stream: int) -> int:
        assert stream == 77 + self.current
        assert self.capturing is not None
        made, self.capturing = self.capturing, None
        return made

    def runtime_graphInstantiate(self, graph: int) -> int:
        return graph

    def runtime_graphDestroy(self, graph: int) -> None:
        assert graph < len(self.graphs)

    runtime_graphExecDestroy = runtime_graphDestroy

    def runtime_deviceGetDefaultMemPool(self, number: int) -> int:
        return 5 + number

    def runtime_memPoolSetAttribute(self, pool: int, attribute: int, value: int) -> None:
        assert (pool, attribute) == (5 + self.current, 4)

    def runtime_memPoolTrimTo(self, pool: int, size: int) -> None:
        assert size == 0
        assert 5 <= pool < 5 + len(self.devices)

    def runtime_deviceCanAccessPeer(self, number: int, other: int) -> int:
        return int((other, number) not in self.apart)

    def cuMemPoolSetAccess(self, pool: Any, said: list[Any], count: int) -> Any:
        (one,) = said
        assert count == 1
        self.open.add((int(pool) - 5, int(one.location.id)))
        return (0,)

    def runtime_mallocAsync(self, size: int, stream: int) -> int:
        if size + sum(p.nbytes for p in self.pieces.values()) > self.limit:
            raise CudaError(2)
        raw = np.full(size + 256, 0xFF, np.uint8)
        start = -raw.ctypes.data % 256
        address = raw.ctypes.data + start
        self.pieces[address] = raw[start : start + size]
        self.starts = sorted(self.pieces)
        return address

    def runtime_freeAsync(self, address: int, stream: int) -> None:
        del self.pieces[address]
        self.starts = sorted(self.pieces)

    def runtime_hostAlloc(self, size: int, flags: int) -> int:
        assert flags == 1
        raw = np.full(size, 0xFF, np.uint8)
        self.locked[raw.ctypes.data] = raw
        return raw.ctypes.data

    def runtime_freeHost(self, address: int) -> None:
        del self.locked[address]

    def runtime_memcpyAsync(self, to: int, of: int, size: int, kind: int, stream: int) -> None:
        if kind != 3:
            self._not_captured()
        elif self.capturing is not None:
            self.graphs[self.capturing].append(("copy", to, of, size, kind, stream))
            return
        # What the device holds is within a piece.
        for address in [a for a, at in ((to, (1, 3)), (of, (2, 3))) if kind in at]:
            assert self.memory(address).nbytes >= size
        ctypes.memmove(to, of, size)

    def runtime_memcpyPeerAsync(
        self, to: int, target: int, of: int, source: int, size: int, stream: int
    ) -> None:
        assert self.current == target != source
        assert stream == 77 + target
        assert min(self.memory(to).nbytes, self.memory(of).nbytes) >= size
        ctypes.memmove(to, of, size)
        self.log.append(f"copy {source} to {target}")

    def runtime_eventCreate(self) -> int:
        return 9

    def runtime_eventCreateWithFlags(self, flags: int) -> int:
        assert flags == 2
        return 90 + self.current

    def runtime_eventRecord(self, event: int, stream: int) -> None:
        # An event belongs to the device of its stream; the current one may be another.
        number = stream - 77
        assert event in (9, 90 + number)
        if event != 9:
            self.log.append(f"record {number}")

    def runtime_streamWaitEvent(self, stream: int, event: int) -> None:
        self.log.append(f"{stream - 77} waits for {event - 90}")

    def runtime_eventSynchronize(self, event: int) -> None:
        assert event == 9

    def runtime_eventElapsedTime(self, a: int, b: int) -> float:
        return 0.25

    def runtime_eventDestroy(self, event: int) -> None:
        assert event == 9 or 0 <= event - 90 < len(self.devices)

    def runtime_graphLaunch(self, graph: int, stream: int) -> None:
        for number, (node, *said) in enumerate(self.graphs[graph]):
            if node == "event":
                self.turns += 1
                self.times[said[0]] = self.turns
                continue
            if node == "while":
                condition, body = said
                while self.conditions[condition]:
                    self.runtime_graphLaunch(body, stream)
                continue
            if node == "copy":
                self.runtime_memcpyAsync(*said)
            elif (graph, number) in self.cooperative:
                self.driver_launchCooperativeKernel(node, *said[:-1])
            else:
                self.driver_launchKernel(node, *said)

    # Graphs, by cuda-bindings: lists of launches, whose arguments are read when they are told.
    def cuGraphCreate(self, flags: int) -> Any:
        self.graphs.append([])
        return 0, len(self.graphs) - 1

    def cuGraphAddKernelNode(self, graph: Any, after: list[Any], count: int, said: Any) -> Any:
        graph = int(graph)
        # A launch without a dependency here has one by cuGraphAddDependencies.
        assert len(after) == count <= min(len(self.graphs[graph]), 1)
        self.graphs[graph].append(())
        node = (graph, len(self.graphs[graph]) - 1)
        self.cuGraphExecKernelNodeSetParams(graph, node, said)
        return 0, node

    def cuGraphKernelNodeSetAttribute(self, node: Any, name: Any, value: Any) -> Any:
        from cuda.bindings import driver

        # The package takes the attributes of nodes alone, not those of launches.
        assert isinstance(value, driver.CUkernelNodeAttrValue)
        assert isinstance(name, driver.CUkernelNodeAttrID)
        assert (name.name, value.cooperative) == ("CU_LAUNCH_ATTRIBUTE_COOPERATIVE", 1)
        self.cooperative.add(node)
        return (0,)

    def cuGraphAddDependencies(
        self, graph: int, before: list[Any], after: list[Any], edges: list[Any], count: int
    ) -> Any:
        assert len(before) == len(after) == len(edges) == count == 1
        assert (before[0][0], after[0][0]) == (graph, graph)
        assert before[0][1] + 1 == after[0][1]
        assert self.cooperative.isdisjoint((*before, *after))
        assert (edges[0].from_port, edges[0].type) == (1, 1)
        self.calls.append("cuGraphAddDependencies")
        return (0,)

    # Events of graphs: each is a quarter of a millisecond after the one before it.
    def cuEventCreate(self, flags: int) -> Any:
        assert flags == 0
        self.created += 1
        return 0, self.created

    def cuEventDestroy(self, event: int) -> Any:
        self.times.pop(event, None)
        return (0,)

    def cuEventElapsedTime(self, first: int, second: int) -> Any:
        return 0, 0.25 * (self.times[second] - self.times[first])

    def cuGraphAddEventRecordNode(
        self, graph: int, after: list[Any], count: int, event: int
    ) -> Any:
        assert len(after) == count == min(len(self.graphs[graph]), 1)
        self.graphs[graph].append(("event", event))
        return 0, (graph, len(self.graphs[graph]) - 1)

    def cuGraphInstantiate(self, graph: int, flags: int) -> Any:
        return 0, graph

    # Conditional nodes: a handle belongs to one graph and one node, and its graph is filled later.
    def cuCtxGetCurrent(self) -> Any:
        return 0, 500 + self.current

    def cuGraphConditionalHandleCreate(
        self, graph: int, context: int, default: int, flags: int
    ) -> Any:
        assert (context, default, flags) == (500 + self.current, 0, 0)
        assert graph < len(self.graphs)
        handle = 6000 + len(self.conditions)
        self.conditions[handle] = 0
        return 0, handle

    def cuGraphAddNode(
        self, graph: int, after: list[Any], edges: None, count: int, said: Any
    ) -> Any:
        assert edges is None
        assert count == len(after) == 1
        told = said.conditional
        assert (said.type.name, told.type.name, told.size) == (
            "CU_GRAPH_NODE_TYPE_CONDITIONAL",
            "CU_GRAPH_COND_TYPE_WHILE",
            1,
        )
        assert int(told.ctx) == 500 + self.current
        assert int(told.handle) in self.conditions
        assert after[0] == (graph, len(self.graphs[graph]) - 1)
        _, body = self.cuGraphCreate(0)
        # The driver writes the address of an array of its own: after a handle, a kind and a count.
        self.held[body, "graphs"] = array = (ctypes.c_uint64 * 1)(body)
        (ctypes.c_uint64 * 3).from_address(told.getPtr())[2] = ctypes.addressof(array)
        self.graphs[graph].append(("while", int(told.handle), body))
        self.calls.append("cuGraphAddNode")
        return 0, (graph, len(self.graphs[graph]) - 1)

    def cuGraphExecKernelNodeSetParams(self, graph: int, node: Any, said: Any) -> Any:
        function = int(said.func)
        if function in self.setters:
            self._hold_setter(node, function, said)
            return (0,)
        count = len(self.kernels[function].parameters)
        # The arguments are copied, as the driver copies them, and the descriptors after them.
        maps = len(self.kernels[function].attributes.get("maps", ()))
        pointers = (ctypes.c_void_p * (count + maps)).from_address(said.kernelParams)
        cells = [ctypes.c_uint64.from_address(int(p or 0)).value for p in pointers[:count]]
        words = [(ctypes.c_uint64 * 16).from_address(int(p or 0)) for p in pointers[count:]]
        held = (ctypes.c_uint64 * max(count + 16 * maps, 1))(*cells, *(w for m in words for w in m))
        first = ctypes.addressof(held)
        starts = [*range(count), *(count + 16 * i for i in range(maps))]
        places = (ctypes.c_void_p * max(count + maps, 1))(*(first + 8 * i for i in starts))
        self.held[node] = held, places
        grid = said.gridDimX, said.gridDimY, said.gridDimZ
        block = said.blockDimX, said.blockDimY, said.blockDimZ
        rest = said.sharedMemBytes, 77 + self.current, ctypes.addressof(places), 0
        self.graphs[node[0]][node[1]] = (function, *grid, *block, *rest)
        self.calls.append("cuGraphExecKernelNodeSetParams")
        return (0,)

    def _hold_setter(self, node: Any, function: int, said: Any) -> None:
        """Copy the arguments of the kernel that sets a condition."""
        pointers = (ctypes.c_void_p * 5).from_address(said.kernelParams)
        kinds = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int, ctypes.c_int)
        given = [
            int(kind.from_address(int(p or 0)).value)
            for kind, p in zip(kinds, pointers, strict=True)
        ]
        assert (said.gridDimX, said.blockDimX, said.sharedMemBytes) == (1, 1, 0)
        self.graphs[node[0]][node[1]] = (function, *given)

    def _set_condition(self, handle: int, flag: int, words: int, count: int, apart: int) -> None:
        """Do what the kernel does that sets the condition of a loop."""
        ended = any(self.memory(words)[4 * i * apart :][:4].any() for i in range(count))
        self.conditions[handle] = int(self.memory(flag)[0] != 0 and not ended)

    def cuGraphExecDestroy(self, graph: int) -> Any:
        return (0,)

    cuGraphDestroy = cuGraphExecDestroy

    # Descriptors of tensors: lanes read the arguments that they are made of, which must agree.
    def cuTensorMapEncodeTiled(
        self, kind: Any, rank: int, address: int, sizes: list[Any], strides: list[Any],
        box: list[Any], steps: list[Any], interleave: Any, swizzle: Any, promotion: Any, fill: Any,
    ) -> Any:  # fmt: skip
        nbytes = {"UINT8": 1, "FLOAT16": 2, "BFLOAT16": 2, "FLOAT32": 4, "TFLOAT32": 4, "INT32": 4}
        item = nbytes[kind.name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_")]
        row = {"NONE": 1 << 20, "128B": 128}[swizzle.name.removeprefix("CU_TENSOR_MAP_SWIZZLE_")]
        assert address % 16 == 0
        assert len(sizes) == len(box) == len(steps) == rank == len(strides) + 1
        assert all(0 < int(n) < 2**32 for n in sizes)
        assert all(0 < int(n) < 2**40 and int(n) % 16 == 0 for n in strides)
        assert all(0 < int(n) <= 256 for n in box)
        assert {int(n) for n in steps} == {1}
        assert int(box[0]) * item % 16 == 0
        assert int(box[0]) * item <= row
        numbers = [address, *map(int, sizes), *map(int, strides)]
        words = (ctypes.c_uint64 * 16)(*numbers)
        self.calls.append("cuTensorMapEncodeTiled")
        return 0, SimpleNamespace(getPtr=lambda: ctypes.addressof(words))

    def check_maps(self, kernel: Any, parameters: int) -> None:
        """Compare a launch's descriptors with the arguments that they are of."""
        names = {p.name: i for i, p in enumerate(kernel.parameters)}
        maps = kernel.attributes.get("maps", ())
        pointers = (ctypes.c_void_p * (len(names) + len(maps))).from_address(parameters)

        def cell(name: int | str) -> int:
            if isinstance(name, int):
                return name
            width = kernel.parameters[names[name]].declared.dtype.itemsize
            kind = ctypes.c_uint64 if width == 8 else ctypes.c_uint32
            return int(kind.from_address(int(pointers[names[name]] or 0)).value)

        for place, (name, sizes, strides, *_) in zip(pointers[len(names) :], maps, strict=True):
            item = kernel.parameters[names[name]].declared.dtype.itemsize
            address = ctypes.c_uint64.from_address(int(pointers[names[name]] or 0)).value
            steps = [cell(s) * item for s in strides[-2::-1]]
            wanted = [address, *map(cell, sizes[::-1]), *steps]
            assert list((ctypes.c_uint64 * len(wanted)).from_address(int(place or 0))) == wanted

    def _captured(self, graph: int, function: int, said: tuple[int, ...]) -> None:
        """Add a launch to the graph that is captured."""
        names = ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ")
        *shape, shared, _, parameters, _ = said
        sizes = dict(zip(names, shape, strict=True))
        told = SimpleNamespace(
            func=function, sharedMemBytes=shared, kernelParams=parameters, **sizes
        )
        after = self.graphs[graph][-1:]
        self.cuGraphAddKernelNode(graph, after, len(after), told)

    # The driver.
    def driver_moduleLoadData(self, image: bytes) -> int:
        assert image[1:4] == b"ELF"
        if b"cudaGraphSetConditional" in image:
            self.setters.add(900)
            return 900
        return 1000 + len(self.kernels)

    def driver_moduleGetFunction(self, module: int, name: str) -> int:
        return module

    def driver_funcSetAttribute(self, function: int, attribute: int, value: int) -> None:
        assert attribute == 8
        assert 48 << 10 < value <= H200["sharedMemPerBlockOptin"]  # type: ignore[operator]

    def driver_launchCooperativeKernel(self, function: int, *said: int) -> None:
        if said[0] * said[1] * said[2] > self.devices[self.current]["multiProcessorCount"]:  # type: ignore[operator]
            raise CudaError(720)
        self.driver_launchKernel(function, *said, 0, together=True)

    def driver_launchKernel(self, function: int, *said: int, together: bool = False) -> None:
        if function in self.setters:
            self._set_condition(*said)
            return
        # Cubes that wait for each other start together.
        assert together == bool(self.kernels[function].attributes.get("together"))
        if self.capturing is not None:
            self._captured(self.capturing, function, said)
            if together:
                self.cooperative.add((self.capturing, len(self.graphs[self.capturing]) - 1))
            return
        self.log.append(f"launch on {self.current}")
        *shape, shared, stream, parameters, extra = said
        kernel = self.kernels[function]
        assert (tuple(shape[3:]), stream, extra) == (kernel.cube, 77 + self.current, 0)
        assert shared == (kernel.shared_bytes if kernel.shared_bytes > 48 << 10 else 0)
        pointers = (ctypes.c_void_p * len(kernel.parameters)).from_address(parameters)
        given: list[Any] = []
        for place, parameter in zip(pointers, kernel.parameters, strict=True):
            dtype = parameter.declared.dtype
            if parameter.memory is not None:
                address = ctypes.c_uint64.from_address(int(place or 0)).value
                start = self.start(address)
                piece, first = self.pieces[start], (address - start) // dtype.itemsize
                assert start + first * dtype.itemsize == address
                whole = piece[: piece.nbytes // dtype.itemsize * dtype.itemsize]
                given.append((whole.view(dtype.numpy), first))
                continue
            raw = (ctypes.c_uint8 * dtype.itemsize).from_address(int(place or 0))
            held = np.frombuffer(bytes(raw), dtype.numpy)[0]
            given.append(float(held) if dtype in (float16, bfloat16) else held.item())
        self.check_maps(kernel, parameters)
        if function not in self.programs:
            self.programs[function] = Program(kernel)
        x, y, z, *_ = shape
        run_on_lanes(self.programs[function], (x, y, z), given)

    def start(self, address: int) -> int:
        """Return where the piece of memory begins that an address is in."""
        return self.starts[bisect_right(self.starts, address) - 1]

    def memory(self, address: int) -> np.ndarray[Any, Any]:
        """Return the bytes from an address to the end of its piece."""
        start = self.start(address)
        piece = self.pieces[start][address - start :]
        assert piece.nbytes, f"{address:x} is in no piece of memory"
        return piece

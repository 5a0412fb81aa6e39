"""A device of wgpu keeps the device contract, and tensors are computed on it."""

import pickle
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from calor.dtypes import float32, int8, int64
from calor.errors import CompileError, DeviceError, DeviceLostError, OutOfMemoryError
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.language import Buffer, Scalar, absolute_position, kernel
from calor_wgpu._bindings import APART, READ_ONLY, Pipelines
from calor_wgpu.probes import cores
from device_contract import built
from device_runs import run


@pytest.mark.parametrize(("start", "nbytes"), [(0, 3), (1, 2), (2, 6), (3, 9), (4, 8), (5, 0)])
def test_bytes_are_copied_from_and_to_any_place(device: Any, start: int, nbytes: int) -> None:
    memory = device.memory
    source, target = memory.alloc(64), memory.alloc(64)
    memory.copy_in(source, 0, np.arange(64, dtype=np.uint8))
    memory.copy_in(target, 0, np.full(64, 200, np.uint8))
    memory.copy_in(source, start, np.arange(100, 100 + nbytes, dtype=np.uint8))
    memory.copy(target, 7, source, start, nbytes)
    memory.copy(target, 32, target, 4, 12)
    got = [np.empty(64, np.uint8) for _ in range(2)]
    memory.copy_out(source, 0, got[0])
    memory.copy_out(target, 0, got[1])
    expected = np.arange(64, dtype=np.uint8)
    expected[start : start + nbytes] = np.arange(100, 100 + nbytes)
    copied = np.full(64, 200, np.uint8)
    copied[7 : 7 + nbytes] = expected[start : start + nbytes]
    copied[32:44] = copied[4:16]
    assert got[0].tolist() == expected.tolist()
    assert got[1].tolist() == copied.tolist()


@pytest.mark.parametrize(("at", "start"), [(0, 64), (64, 0), (8, 0), (0, 8)])
def test_a_copy_within_a_buffer_goes_through_little_memory(
    device: Any, at: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calor_wgpu._bindings._BETWEEN", 16)
    memory = device.memory
    monkeypatch.setattr(memory.stream, "_room", None)
    piece, data = memory.alloc(128), np.arange(128, dtype=np.uint8)
    memory.copy_in(piece, 0, data)
    memory.copy(piece, at, piece, start, 40)
    got = np.empty(128, np.uint8)
    memory.copy_out(piece, 0, got)
    expected = data.copy()
    expected[at : at + 40] = data[start : start + 40]
    assert got.tolist() == expected.tolist()
    apart = abs(at - start) >= 40
    assert (memory.stream._room.size if memory.stream._room else 0) == (16 if apart else 0)
    memory.free(piece)


def test_buffers_are_bound_for_reading_where_nothing_writes_them(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @kernel
    def doubled(x: Any, y: Any, n: Any) -> None:
        i = absolute_position()
        if i < n:
            y[i] = x[i] * 2.0

    read, written = Buffer(float32, writable=False), Buffer(float32)
    made = doubled.build([read, written, Scalar(int64)], cube=(64, 1, 1))
    function = device.queue.load(device.toolchain.compile(
        device.toolchain.source(made), made.name), made)  # fmt: skip
    kinds = []
    of = Pipelines.of

    def seen(self: Pipelines, shown: Any) -> Any:
        found = of(self, shown)
        kinds.append(next(k for k, p in self._made.items() if p is found))
        return found

    monkeypatch.setattr(Pipelines, "of", seen)
    memory, n = device.memory, APART // 4 + 64
    data = np.arange(n, dtype=np.float32)
    whole = memory.alloc(8 * n)
    halves = [memory.part(whole, 0, 4 * n), memory.part(whole, 4 * n, 4 * n)]
    for source, target, count in (
        (memory.alloc(4 * n), memory.alloc(4 * n), n),
        (*halves, n),
        (memory.alloc(256), memory.alloc(256), 64),
    ):
        memory.copy_in(source, 0, data[:count])
        step = Step(function, (-(-count // 64), 1, 1), (Slot(0), Slot(1), count))
        device.queue.run(device.queue.record([step], 2), [source, target])
        got = np.empty(count, np.float32)
        memory.copy_out(target, 0, got)
        assert np.array_equal(got, 2 * data[:count])
    # Large and in other buffers; in one buffer; small.
    assert kinds == [{0}, set(), set()]


@pytest.mark.parametrize(("read", "some"), [(3, {0, 1}), (12, set())])
def test_of_many_buffers_all_are_bound_for_reading_or_none(read: int, some: set[int]) -> None:
    signature = [*[Buffer(float32, writable=False)] * read, Buffer(float32)]
    text = "".join(READ_ONLY.format(i + 1) for i in range(read))
    made = Pipelines(cast(Any, SimpleNamespace(trouble=None)), 0, text, cast(Any, SimpleNamespace(
        name="k", parameters=[SimpleNamespace(declared=one) for one in signature])))  # fmt: skip
    buffers = [object() for _ in range(read + 1)]
    assert made.apart([(one, 0, APART) for one in buffers]) == set(range(read))
    # The last operand is a part of the result's buffer.
    buffers[read - 1] = buffers[read]
    assert made.apart([(one, 0, APART) for one in buffers]) == some


def test_the_driver_compiles_kernels_side_by_side(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipelines of two launches wait for each other, and each kernel has one."""
    images = []
    for factor in (2.0, 3.0):

        @kernel
        def times(x: Any, y: Any, *, factor: float) -> None:
            y[absolute_position()] = x[absolute_position()] * factor

        signature = [Buffer(float32, writable=False), Buffer(float32)]
        made = times.build(signature, cube=(64, 1, 1), factor=factor)
        images.append((device.toolchain.compile(device.toolchain.source(made), made.name), made))
    both, make = threading.Barrier(2), Pipelines._make

    def together(self: Pipelines, read: frozenset[int]) -> Any:
        both.wait(timeout=60)
        return make(self, read)

    monkeypatch.setattr(Pipelines, "_make", together)
    functions = [device.queue.load(*one) for one in images]
    memory, n = device.memory, APART // 4 + 64
    pieces = [memory.alloc(4 * n) for _ in range(3)]
    memory.copy_in(pieces[0], 0, np.ones(n, np.float32))
    steps = [Step(f, (n // 64, 1, 1), (Slot(0), Slot(i + 1))) for i, f in enumerate(functions)]
    device.queue.run(device.queue.record(steps, 3), pieces)
    got = np.empty(n, np.float32)
    for piece, factor in zip(pieces[1:], (2, 3), strict=True):
        memory.copy_out(piece, 0, got)
        assert (got == factor).all()
    assert [len(f.pipelines._made) for f in functions] == [1, 1]


def test_more_cubes_than_a_dispatch_has_along_an_axis(device: Any) -> None:
    @kernel
    def counted(x: Any, n: Any) -> None:
        i = absolute_position()
        if i < n:
            x[i] = (i % 100).to(int8)

    n = 70000
    x = np.zeros(n, np.int8)
    made = counted.build([Buffer(int8), Scalar(int64, nonnegative=True)], cube=(1, 1, 1))
    run(device, made, (n, 1, 1), [x, n])
    assert np.array_equal(x, np.arange(n) % 100)


def test_neighbours_in_a_word_are_written_at_once(device: Any) -> None:
    @kernel
    def strewn(x: Any, n: Any) -> None:
        i = absolute_position()
        if i < n:
            x[i * 7 % n] = (i % 100).to(int8)

    n = 10000
    x = np.zeros(n, np.int8)
    made = strewn.build([Buffer(int8), Scalar(int64, nonnegative=True)], cube=(64, 1, 1))
    run(device, made, (-(-n // 64), 1, 1), [x, n])
    expected = np.zeros(n, np.int8)
    expected[np.arange(n) * 7 % n] = np.arange(n) % 100
    assert np.array_equal(x, expected)


def test_a_piece_above_what_is_bound_at_once(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.queue, "most", 1024)
    memory, queue, n = device.memory, device.queue, 2048
    made = built()
    function = queue.load(device.toolchain.source(made).encode(), made)
    large, small = memory.alloc(4 * n), memory.alloc(256)
    memory.copy_in(large, 0, np.arange(n, dtype=np.float32))
    for start in (0, 100, 517, n - 64):
        step = Step(function, (8, 1, 1), (Slot(0, 4 * start), Slot(1), 64, 2.0))
        queue.run(queue.record([step], 2), [large, small])
        got = np.empty(64, np.float32)
        memory.copy_out(small, 0, got)
        assert got.tolist() == [2.0 * i for i in range(start, start + 64)]


@kernel
def copied(x: Any, y: Any, n: Any) -> None:
    """Copy four numbers at once, and the rest one by one."""
    i = absolute_position() * 4
    if i + 4 <= n:
        y.store(i, x.load(i, 4))
    else:
        for k in range(4):
            if i + k < n:
                y[i + k] = x[i + k]


def of_vectors() -> Any:
    signature = [Buffer(float32, writable=False, align=16), Buffer(float32, align=16)]
    return copied.build([*signature, Scalar(int64, nonnegative=True)], cube=(64, 1, 1))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 17])
def test_vectors_are_read_in_parts_of_any_size(device: Any, n: int) -> None:
    """A part has the bytes of its value, such as a row of a stack, and wgpu binds whole vectors."""
    memory, queue, made, at = device.memory, device.queue, of_vectors(), device.info.align
    text = device.toolchain.source(made)
    assert text.count("array<vec4<f32>>") == 2
    wholes = [memory.alloc(at + 4 * n) for _ in range(2)]
    parts = [memory.part(whole, at, 4 * n) for whole in wholes]
    memory.copy_in(parts[0], 0, np.arange(1, n + 1, dtype=np.float32))
    step = Step(queue.load(text.encode(), made), (1, 1, 1), (Slot(0), Slot(1), n))
    queue.run(queue.record([step], 2), parts)
    got = np.empty(n, np.float32)
    memory.copy_out(parts[1], 0, got)
    assert got.tolist() == list(range(1, n + 1))
    for whole in wholes:
        memory.free(whole)


def test_a_binding_below_a_vector_is_refused_where_it_is_bound(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, queue, made = device.memory, device.queue, of_vectors()
    function = queue.load(device.toolchain.source(made).encode(), made)
    pieces = [memory.alloc(64) for _ in range(2)]
    recorded = queue.record([Step(function, (1, 1, 1), (Slot(0), Slot(1), 2))], 2)
    with monkeypatch.context() as patch:
        patch.setattr("calor_wgpu.queue.windows", lambda *_: [(p, 0, 8) for p in pieces])
        with pytest.raises(DeviceError, match="binding buffers of kernel copied: "):
            queue.run(recorded, pieces)
    # Nothing that waits is lost.
    queue.run(recorded, pieces)
    queue.synchronize()


def test_results_that_take_turns_bind_nothing(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, queue, made = device.memory, device.queue, built()
    function = queue.load(device.toolchain.source(made).encode(), made)
    recorded = queue.record([Step(function, (2, 1, 1), (Slot(0), Slot(1), 16, 2.0))], 2)
    x, *results = (memory.alloc(256) for _ in range(3))
    memory.copy_in(x, 0, np.arange(16, dtype=np.float32))
    for result in results:
        queue.run(recorded, [x, result])
    monkeypatch.setattr("calor_wgpu.queue.bind", None)
    for result in results * 3:
        queue.run(recorded, [x, result])
        # A part that is equal is bound already.
        queue.run(recorded, [x, memory.part(result, 0, result.nbytes) or result])
    for result in results:
        got = np.empty(16, np.float32)
        memory.copy_out(result, 0, got)
        assert got.tolist() == list(range(0, 32, 2))


def test_who_waits_sleeps_until_the_device_is_done(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calor_wgpu import _bindings

    stream, asked = _bindings.Stream(device.queue.stream.device, limited=False), []
    poll = _bindings.native.libf.wgpuDevicePoll
    told = type("Told", (), {"__getattr__": lambda self, name: getattr(_real, name)})()
    _real = _bindings.native.libf

    def polled(opened: Any, wait: Any, last: Any) -> Any:
        # Another thread of the binding polls for itself.
        if threading.get_ident() == own:
            asked.append(wait)
        return poll(opened, wait, last)

    own, told.wgpuDevicePoll = threading.get_ident(), polled
    monkeypatch.setattr(_bindings.native, "libf", told)
    stream.wait()
    # What a poll that does not wait says is no answer.
    assert asked == [True]


def test_units_add_to_one_number(device: Any) -> None:
    @kernel
    def summed(x: Any, y: Any, n: Any) -> None:
        i = absolute_position()
        if i < n:
            y.atomic("add", i % 3, x[i])

    x, y = np.arange(1000, dtype=np.float32), np.zeros(3, np.float32)
    size = Scalar(int64, nonnegative=True)
    made = summed.build([Buffer(float32), Buffer(float32), size], cube=(64, 1, 1))
    run(device, made, (16, 1, 1), [x, y, 1000])
    assert y.tolist() == [float(x[k::3].sum()) for k in range(3)]


def test_a_toolchain_is_pickled_and_its_image_is_the_text(device: Any) -> None:
    made, toolchain = built(), pickle.loads(pickle.dumps(device.toolchain))
    source = toolchain.source(made)
    assert toolchain.compile(source, made.name).decode() == source


def test_more_cubes_than_a_device_dispatches_are_refused(device: Any) -> None:
    function = device.queue.load(device.toolchain.source(built()).encode(), built())
    with pytest.raises(DeviceError, match="exceeds the device's maximum"):
        device.queue.record([Step(function, (1, 70000, 1), (Slot(0), Slot(1), 8, 1.0))], 2)


@pytest.mark.parametrize(
    ("failure", "error", "word"),
    [
        ("GPUOutOfMemoryError", OutOfMemoryError, "out of memory: copying"),
        ("GPUValidationError", DeviceError, "copying: a failure"),
        ("GPUInternalError", DeviceLostError, "is lost"),
    ],
)
def test_errors_of_wgpu_become_errors(failure: str, error: type[Exception], word: str) -> None:
    wgpu = pytest.importorskip("wgpu")
    from calor_wgpu._bindings import typed

    said = "the device is lost" if error is DeviceLostError else "a failure"
    with pytest.raises(error, match=word) as caught, typed("copying"):
        raise getattr(wgpu, failure)(said)
    assert type(caught.value) is error


class Failing:
    """A device, its queue, an encoder, a pass and the library below, one call of which fails."""

    def __init__(self, fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error = pytest.importorskip("wgpu").GPUValidationError
        self.fails = fails
        self.calls: list[str] = []
        self.queue = self.lib = self.libf = self
        self.ffi = SimpleNamespace(new=lambda kind: [None], NULL=None)
        self._internal = None
        monkeypatch.setattr("calor_wgpu._bindings.native", self)

    def _called(self, name: str, *given: Any, **options: Any) -> "Failing":
        self.calls.append(name)
        if name == self.fails:
            raise self.error(name)
        return self

    def __getattr__(self, name: str) -> Any:
        return partial(self._called, name)


@pytest.mark.parametrize(
    "fails", ["wgpuComputePassEncoderEnd", "wgpuCommandEncoderFinish", "wgpuQueueSubmit"]
)
def test_what_was_not_computed_is_not_read(fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Failing(fails, monkeypatch)
    from calor_wgpu._bindings import Dispatch, Pipeline, Stream, typed

    stream = Stream(made, limited=False)
    for name in ("first", "second", "first"):
        one = Dispatch.of(Pipeline(made, made, name), made, (1, 1, 1))
        stream.commands().dispatch([one])
    told = f"running kernels first, second: {fails}"
    with pytest.raises(DeviceError, match=told) as caught, typed("reading 4 bytes"):
        stream.submit()
    assert type(caught.value) is DeviceError
    made.calls.clear()
    lost = rf"the device \(kernels first, second\) was not computed: {fails}"
    for use in (stream.submit, stream.commands, stream.wait, partial(stream.read, None, 0, 4)):
        with pytest.raises(DeviceLostError, match=lost):
            use()
    assert not made.calls


def test_a_pass_repeats_no_setting_that_is_in_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not within a list either, nor from one list to the next."""
    made, other = Failing("", monkeypatch), Failing("", monkeypatch)
    from calor_wgpu._bindings import Commands, Dispatch, Pipeline

    first, second = (Pipeline(made, made, name) for name in ("first", "second"))
    ran: list[Pipeline] = []
    commands = Commands(made, ran)
    lists = [(first, made), (first, made)], [(first, made), (first, other), (second, other)]
    for some in lists:
        commands.dispatch([Dispatch.of(*one, (1, 2, 3)) for one in some])
    called = [name.removeprefix("wgpuComputePassEncoder") for name in other.calls]
    run = "DispatchWorkgroups"
    again = ["SetBindGroup", run, "SetPipeline", run]
    assert called == ["SetPipeline", "SetBindGroup", run, run, run, *again]
    assert ran == [first, second]


def test_an_encoder_that_cannot_be_made_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Failing("create_command_encoder", monkeypatch)
    from calor_wgpu._bindings import Stream

    stream = Stream(made, limited=False)
    with pytest.raises(Exception, match="create_command_encoder"):
        stream.commands()
    made.fails = ""
    stream.commands()
    stream.submit()
    assert made.calls[-3:-1] == ["wgpuCommandEncoderFinish", "wgpuQueueSubmit"]


def test_timing_that_fails_leaves_the_stream(device: Any) -> None:
    from calor_wgpu._bindings import timed

    stream = device.memory.stream

    def fails(commands: Any) -> None:
        raise ValueError("no launch")

    with stream.lock, pytest.raises(ValueError, match="no launch"):
        timed(stream, fails)
    piece, got = device.memory.alloc(64), np.empty(16, np.float32)
    device.memory.copy_in(piece, 0, np.arange(16, dtype=np.float32))
    device.memory.copy(piece, 0, piece, 32, 32)
    device.memory.copy_out(piece, 0, got)
    assert got[:8].tolist() == list(range(8, 16))
    device.memory.free(piece)


def test_a_kernel_that_takes_more_than_there_is_is_refused(device: Any) -> None:
    from calor_wgpu._bindings import pipeline

    text = "@compute @workgroup_size(65535) fn main() {}"
    with pytest.raises(CompileError, match="wgpu refuses kernel 'wide'"):
        pipeline(device.toolchain.number, text, "wide", 0)


def test_there_is_no_device_beyond_the_last(device: Any) -> None:
    from calor_wgpu.device import WgpuDevice

    with pytest.raises(DeviceError, match="there is no wgpu device 99; the drivers list"):
        WgpuDevice(99)


def test_what_the_device_says_of_itself(device: Any) -> None:
    info = device.info
    assert info.has("atomics")
    assert info.has("barrier")
    assert info.has("planes") == (info.planes != (1,))
    assert info.align % 64 == 0
    assert float32 in info.dtypes
    assert (int64 in info.dtypes) == device.toolchain.dialect.wide
    assert device.toolchain.target.startswith("wgpu ")


def test_the_kernel_that_counts_cores(device: Any) -> None:
    units = min(device.info.max_units, 1024)
    y = np.zeros(3 * units, np.float32)
    run(device, cores.built(units), (3, 1, 1), [y, 50, 1.0001])
    expected = np.arange(15, 15 + y.size, dtype=np.float32)
    for _ in range(50):
        expected *= np.float32(1.0001)
    assert y.tolist() == expected.tolist()


def test_cores_are_counted_on_a_device(
    device: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {"_UNITS": 64, "_TURNS": 16, "_FEW": 4, "_MOST": 8}.items():
        monkeypatch.setattr(cores, name, value)
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path))
    found = cores.with_cores(device)
    # What times these are says nothing here.
    assert found.cores in {device.info.cores, *cores.STEPS}
    assert replace(found, cores=device.info.cores) == device.info


@pytest.mark.parametrize(
    ("kind", "clock", "counted"),
    [("DiscreteGPU", True, True), ("DiscreteGPU", False, False), ("CPU", True, False)],
)
def test_cores_of_a_gpu_with_a_clock_are_counted(
    device: Any, kind: str, clock: bool, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calor_wgpu import device as opening

    opened = device.memory.stream.device
    features = {*opened.features} - {"timestamp-query"} | ({"timestamp-query"} if clock else set())
    info = {**opened.adapter.info, "adapter_type": kind}
    monkeypatch.setattr(opened.adapter, "_adapter_info", info)
    monkeypatch.setattr(opened, "_features", features)
    monkeypatch.setattr(opening, "with_cores", lambda made: replace(made.info, cores=77))
    assert (opening.WgpuDevice(0).info.cores == 77) == counted

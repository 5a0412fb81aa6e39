"""What is left after a plan has failed: live tensors, other outputs, and errors that say where."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device
from calor.backends.numpy_backend import NumpyBackend
from calor.config import config
from calor.errors import (
    DeviceError,
    DeviceLostError,
    ElementIndexError,
    OutOfMemoryError,
    UnsupportedError,
)

BIG = (1000, 1000)


@pytest.fixture
def device() -> Device:
    """A reference device of this test's own."""
    return Device(NumpyBackend(), 0)


@pytest.fixture
def debug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "debug", True)


def limit(device: Device) -> None:
    """Leave room for 1 MB beside what lives; an array of shape BIG needs four."""
    device.backend.set_memory_limit(0, device.memory.in_use + 1_000_000)


def vector(device: Device) -> calor.Tensor:
    return calor.asarray(np.arange(1000, dtype=np.float32), device=device)


def test_only_what_does_not_fit_is_poisoned(device: Device) -> None:
    x = vector(device)
    limit(device)
    small = x + 1
    large = calor.exp(calor.expand_dims(x, 0) + calor.expand_dims(x, 1))
    also_small = x * 2
    with pytest.raises(OutOfMemoryError, match=r"needs \d\.\d MiB, but .* of its limit"):
        large.numpy()
    assert small.tolist()[:2] == [1, 2]
    assert also_small.tolist()[:2] == [0, 2]
    assert x.tolist()[:2] == [0, 1]


def test_the_error_stays_with_its_value_and_names_the_op(device: Device) -> None:
    x = vector(device)
    limit(device)
    large = calor.expand_dims(x, 0) * calor.expand_dims(x, 1)
    for _ in range(2):
        with pytest.raises(OutOfMemoryError) as caught:
            large.numpy()
        assert caught.value.op == "mul"
        assert "in op 'mul'" in str(caught.value)
    with pytest.raises(OutOfMemoryError, match="in op 'mul'"):
        (large + 1).numpy()


class Late(NumpyBackend):
    """Tells that a read failed at a look at its result, if the graph has no other result."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[int, tuple[Any, ElementIndexError]] = {}

    def compile(self, index: int, graph: Any) -> Any:
        run = super().compile(index, graph)

        def late(inputs: Any, into: Any = None) -> Any:
            try:
                return run(inputs, into)
            except ElementIndexError as error:
                if len(graph.outputs) > 1:
                    raise
                (known,) = graph.output_specs
                made = self.upload(index, np.zeros(known.shape, known.dtype.numpy))
                self.failed[id(made)] = made, error.with_traceback(None)
                return [made]

        return late

    def download(self, index: int, buffer: Any, spec: Any) -> Any:
        if id(buffer) in self.failed:
            raise self.failed[id(buffer)][1]
        return super().download(index, buffer, spec)


def test_what_was_computed_alone_and_fails_at_a_look_names_its_line() -> None:
    device = Device(Late(), 0)
    x = vector(device)
    fine = x + 1
    lost = x[calor.asarray([0, 2000], device=device)] * 2
    assert fine.tolist()[0] == 1
    with pytest.raises(
        ElementIndexError,
        match=r"index 2000 .* of x\[\.\.\.\]; recorded at .*test_recover\.py:\d+$",
    ):
        lost.numpy()


def test_reading_another_output_first_raises_nothing(device: Device) -> None:
    x = vector(device)
    limit(device)
    large = calor.expand_dims(x, 0) * calor.expand_dims(x, 1)
    assert (x + 1).tolist()[0] == 1
    with pytest.raises(OutOfMemoryError):
        large.numpy()


def test_the_device_works_on_when_there_is_room_again(device: Device) -> None:
    x = vector(device)
    limit(device)
    before = device.memory.in_use
    large = calor.expand_dims(x, 0) * calor.expand_dims(x, 1)
    with pytest.raises(OutOfMemoryError):
        large.numpy()
    assert device.memory.in_use == before
    device.backend.set_memory_limit(0, None)
    assert (calor.expand_dims(x, 0) * calor.expand_dims(x, 1)).shape == BIG
    assert (x + 1).sum().item() == 500_500


def test_two_failures_keep_their_own_errors(device: Device) -> None:
    x = vector(device)
    i = calor.asarray([5000], device=device)
    limit(device)
    picked = x[i]
    large = calor.expand_dims(x, 0) * calor.expand_dims(x, 1)
    fine = x + 1
    with pytest.raises(ElementIndexError):
        picked.numpy()
    with pytest.raises(OutOfMemoryError):
        large.numpy()
    assert fine.tolist()[0] == 1


def test_debug_names_the_line_that_asked_for_too_much(device: Device, debug: None) -> None:
    x = vector(device)
    limit(device)
    y = x + 1
    large = calor.expand_dims(y, 0) * calor.expand_dims(y, 1)  # this line
    total = large.sum()
    with pytest.raises(OutOfMemoryError) as caught:
        total.item()
    assert_line(caught.value)


def test_debug_names_the_line_of_the_op_that_failed(device: Device, debug: None) -> None:
    x = vector(device)
    y = x + 1
    picked = y[calor.asarray([5000], device=device)]  # this line, the second
    z = picked * 2
    with pytest.raises(ElementIndexError) as caught:
        z.numpy()
    assert_line(caught.value, 1)


def test_without_debug_no_line_is_kept(device: Device) -> None:
    x = vector(device)
    limit(device)
    with pytest.raises(OutOfMemoryError) as caught:
        (calor.expand_dims(x, 0) * calor.expand_dims(x, 1)).numpy()
    assert caught.value.line is None
    assert "recorded at" not in str(caught.value)


def assert_line(error: DeviceError, which: int = 0) -> None:
    with open(__file__, encoding="utf-8") as file:
        marked = [n for n, text in enumerate(file, 1) if "# this " + "line" in text]
    assert error.line is not None
    assert f"{__file__}:{marked[which]}" in error.line
    assert "recorded at" in str(error)


def test_a_refusal_poisons_what_needs_it_alone() -> None:
    class NoTanh(NumpyBackend):
        name = "npu"

        def table(self, index: int):  # type: ignore[no-untyped-def]
            return {n: f for n, f in super().table(index).items() if n != "tanh"}

    x = vector(Device(NoTanh(), 0))
    fine, refused = x + 1, calor.tanh(x)
    assert fine.tolist()[0] == 1
    with pytest.raises(UnsupportedError, match="tanh: not in the device's op table"):
        refused.numpy()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What dies here dies by its last reference."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_a_failure_keeps_no_memory(device: Device) -> None:
    x = vector(device)
    limit(device)
    before = device.memory.in_use

    def fail() -> Any:
        others = [x + n for n in range(100)]
        large = calor.exp(calor.expand_dims(x, 0) + calor.expand_dims(others[1], 1))
        for _ in range(2):
            with pytest.raises(OutOfMemoryError):
                large.numpy()
        return large

    large = fail()
    # The one that failed is still held, and holds nothing that it was to be computed from.
    assert device.memory.in_use == before
    with pytest.raises(OutOfMemoryError):
        large.numpy()


def test_looks_at_what_failed_gather_no_frames(device: Device) -> None:
    x = vector(device)
    limit(device)
    large = calor.expand_dims(x, 0) * calor.expand_dims(x, 1)
    depths, errors = [], []
    for _ in range(3):
        with pytest.raises(OutOfMemoryError) as caught:
            large.numpy()
        depths.append(len(caught.traceback))
        errors.append(caught.value)
    assert depths[1] == depths[2]
    assert len({str(e) for e in errors}) == 1
    assert errors[0] is not errors[1]


class Clumsy(NumpyBackend):
    """A backend with a defect in one op."""

    def table(self, index: int) -> dict[str, Any]:
        return {**super().table(index), "exp": self.confused}

    def confused(self, x: Any) -> Any:
        raise KeyError("no such kernel")


def test_a_defect_of_a_backend_shows_its_lines() -> None:
    y = calor.exp(vector(Device(Clumsy(), 0)))
    with pytest.raises(DeviceError, match="failed: KeyError: 'no such kernel'; in op 'exp'") as e:
        y.numpy()
    assert isinstance(e.value.__cause__, KeyError)
    (note,) = e.value.__cause__.__notes__
    assert "in confused" in note
    assert 'raise KeyError("no such kernel")' in note


class Lost(Clumsy):
    """A device that is lost at the first exp, and answers nothing from then on."""

    lost = False

    def confused(self, x: Any) -> Any:
        self.lost = True
        raise DeviceLostError("the device stopped answering")

    def reserve(self, index: int, nbytes: int) -> None:
        if self.lost:
            raise DeviceLostError("the device was lost before")
        super().reserve(index, nbytes)


def test_a_lost_device_is_not_asked_again_and_the_op_is_named() -> None:
    x = vector(Device(Lost(), 0))
    one, lost, other = x + 1, calor.exp(x), x + 2
    for tensor in (one, lost, other):
        with pytest.raises(DeviceLostError, match="stopped answering; in op 'exp'"):
            tensor.numpy()
    with pytest.raises(DeviceLostError, match="was lost before"):
        (x + 3).numpy()


class OddError(RuntimeError):
    """An error that cannot be made from its arguments alone."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Odd(Clumsy):
    """A backend whose errors are its own."""

    def failure(self, error: Exception, op: str) -> Exception:
        return OddError(1, 2)


def test_an_error_that_cannot_be_copied_is_raised_itself() -> None:
    y = calor.exp(vector(Device(Odd(), 0)))
    for _ in range(2):
        with pytest.raises(OddError, match="1 and 2"):
            y.numpy()

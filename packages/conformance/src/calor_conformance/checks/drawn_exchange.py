"""Drawn exchange: tensors that others lend, borrow, copy and keep, in any order, beside NumPy.

A tensor's memory may be an array of somebody else, and others may hold views of it: by the array
protocol, by buffers, by DLPack as consumers of 1.0 and of before ask for it. After each action what
others hold has the numbers that it had, no write to the one reaches the other, and when all is
dropped the arrays that were adopted are free, and nothing is in use that was not before.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import inspect
import io
import pickle
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import ALL, DType, bool_, float64
from calor.errors import ExchangeError, UnsupportedError

from ..collecting import quick_collections
from .base import Array, Check, Place
from .capsules import OWN, Borrowed, Lender
from .memory import in_use

CONTRACT: Final = "what others lend and hold keeps its numbers, and is free when it is dropped"
_ACTIONS, _MOST, _HISTORIES = 50, 6, 8
_SHAPES: Final = ((), (1,), (0,), (7,), (3, 4), (2, 0, 3), (4, 1, 2), (65,), (1500,), (9, 130))
Rng = np.random.Generator


def _numbers(rng: Rng, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return numbers that every way through a device keeps."""
    if dtype is bool_:
        return np.asarray(rng.random(shape) < 0.5)
    made = rng.integers(0, 8, shape) - (4 if dtype.kind != "uint" else 0)
    return np.asarray(made).astype(dtype.numpy)


def _bits(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def _in_a_thread(work: Callable[[], Any]) -> Any:
    """Return what a function returns in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def _stored(x: Any) -> Any:
    stream = io.BytesIO()
    calor.save([x, {"again": x}], stream)
    stream.seek(0)
    first, rest = calor.load(stream)
    assert first is rest["again"], "one tensor is read as two"
    return first


# Ways to a tensor of its own with the same numbers.
_COPIES: Final[dict[str, Callable[[Any], Any]]] = {
    "copy": lambda x: x.copy(), "clone": lambda x: x.clone(), "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy, "detach": lambda x: x.detach(),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)), "save": _stored,
    "asarray": lambda x: calor.asarray(x, copy=True),
    "from_dlpack": lambda x: calor.from_dlpack(x, copy=True),
    "from_dlpack here": lambda x: calor.from_dlpack(x, device=x.device, copy=True),
    "astype": lambda x: calor.astype(x, x.dtype), "array": lambda x: calor.asarray(x.numpy()),
    "there": lambda x: x.to("numpy").copy().to(x.device),
    "state": lambda x: calor.asarray(np.asarray(x), dtype=x.dtype),
}  # fmt: skip


class _Exchange:
    """Tensors with what they should be, and what others hold of them or lent to them."""

    def __init__(self, place: Place, rng: Rng) -> None:
        self.place, self.rng = place, rng
        info = place.plain.info
        self.kinds = [d for d in ALL if info.dtypes.get(d)]
        self.shares = info.feature("host_views").level == "full"
        self.exports = info.feature("dlpack").level == "full"
        self.host = place.plain.backend.dlpack_device(place.plain.index)[0] == 1
        self.tensors: list[list[Any]] = []
        # Arrays that others hold, with their bits, and what keeps them alive.
        self.held: list[tuple[str, Any, bytes]] = []
        self.lent: list[weakref.ref[Any]] = []
        self.names: list[str] = []
        # Whether memory was adopted that may not be written to, or that NumPy takes so.
        self.frozen = False

    def told(self) -> str:
        return f"after {', '.join(self.names)}"

    def pick(self) -> list[Any]:
        return self.tensors[int(self.rng.integers(len(self.tensors)))]

    def add(self, tensor: Any, want: Array) -> None:
        self.tensors.append([tensor, want])

    def fresh(self) -> Array:
        dtype = self.kinds[int(self.rng.integers(len(self.kinds)))]
        return _numbers(self.rng, dtype, _SHAPES[int(self.rng.integers(len(_SHAPES)))])

    def laid(self, array: Array) -> Array:
        """Return an array of the same numbers that lies otherwise in memory."""
        form = int(self.rng.integers(5)) if array.ndim else 0
        if form == 1:
            return np.ascontiguousarray(array[::-1])[::-1]
        if form == 2:
            return np.asfortranarray(array)
        if form == 3:
            return np.repeat(array, 2, axis=-1)[..., ::2]
        if form == 4:
            made = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
            made[...] = array
            return made
        return array.copy()

    # What a user does.

    def upload(self) -> None:
        array = self.laid(self.fresh())
        want = np.array(array)
        if self.rng.random() < 0.3:
            array.flags.writeable = False
        self.add(calor.asarray(array), want)
        if array.flags.writeable:
            array[...] = np.zeros((), array.dtype)

    def adopt(self) -> None:
        """Share memory that suits, refuse what does not, and leave it as it is."""
        array = self.laid(self.fresh())
        want = np.array(array)
        if self.rng.random() < 0.3:
            array.flags.writeable = False
        by_dlpack = bool(self.rng.integers(2))
        fits = self.shares and array.flags.c_contiguous
        old = by_dlpack and array.flags.writeable and bool(self.rng.integers(2))
        given = Lender(array, old=old) if by_dlpack else array
        take = calor.from_dlpack if by_dlpack else calor.asarray
        try:
            tensor = take(given, copy=False)
        except (ValueError, UnsupportedError):
            # A device may refuse memory at an address that it cannot use.
            odd = array.ctypes.data % array.dtype.itemsize or not array.size
            assert not fits or odd, f"memory that suits is refused, {self.told()}"
            return
        assert fits, f"memory that does not suit is shared, {self.told()}"
        if array.size and array.ctypes.data % array.dtype.itemsize == 0:
            shared = np.shares_memory(tensor.numpy(), array)
            assert shared, f"copy=False copies {array.dtype}{array.shape}, {self.told()}"
        self.frozen |= by_dlpack or not array.flags.writeable
        self.add(tensor, want)
        self.held.append(("an array that was adopted", array, _bits(want)))
        self.lent.append(weakref.ref(array))

    def take(self) -> None:
        """Take an array of another library, which writes to it at once."""
        array = self.laid(self.fresh())
        want, dtype = np.array(array), calor.dtypes.as_dtype(array.dtype)
        lender = Lender(array, old=bool(self.rng.integers(2)))
        ways: tuple[Callable[[], Any], ...] = (
            lambda: calor.from_dlpack(lender), lambda: calor.from_dlpack(lender, copy=True),
            lambda: calor.asarray(lender), lambda: calor.asarray(lender, dtype=dtype),
        )  # fmt: skip
        tensor = ways[int(self.rng.integers(4))]()
        assert tensor.dtype is dtype, f"{dtype.name} is taken as {tensor.dtype.name}"
        array[...] = np.zeros((), array.dtype)
        self.add(tensor, want)

    def read(self) -> None:
        """Read as an array that nobody can write to."""
        x, want = self.pick()
        ways: dict[str, Callable[[], Any]] = {
            "numpy()": x.numpy, "np.asarray": lambda: np.asarray(x),
            "__array__": lambda: x.__array__(), "no copy": lambda: x.__array__(copy=False),
        }  # fmt: skip
        if self.exports and self.host and x.dtype.name not in OWN:
            ways["np.from_dlpack"] = lambda: np.from_dlpack(x)
        name = str(self.rng.choice(list(ways)))
        if name == "no copy" and not self.shares:
            _refused(ways[name], (ValueError,), "cannot share")
            return
        work = ways[name]
        found = _in_a_thread(work) if self.rng.random() < 0.2 else work()
        self.same(found, want, name)
        assert not found.flags.writeable, f"{name} can be written to, {self.told()}"
        self.held.append((f"an array of {name}", found, _bits(want)))

    def copy_out(self) -> None:
        """Read as an array of one's own, and write to it."""
        x, want = self.pick()
        other = np.dtype(np.float64 if x.dtype is not float64 else np.float32)
        if x.dtype.is_complex:
            other = np.dtype(np.complex128 if x.dtype.itemsize == 8 else np.complex64)
        ways: dict[str, Callable[[], Any]] = {
            "numpy(copy=True)": lambda: x.numpy(copy=True), "np.array": lambda: np.array(x),
            "copy": lambda: x.__array__(copy=True), "dtype": lambda: np.asarray(x, other),
            "bytes": lambda: np.frombuffer(bytearray(x.tobytes()), want.dtype).reshape(want.shape),
        }  # fmt: skip
        name = str(self.rng.choice(list(ways)))
        found = ways[name]()
        self.same(found, want.astype(other) if name == "dtype" else want, name)
        assert found.flags.writeable, f"{name} cannot be written to, {self.told()}"
        found[...] = np.ones((), found.dtype)
        self.same(x.numpy(), want, f"a tensor whose copy by {name} was written to")
        _refused(lambda: x.__array__(other, copy=False), (ValueError,), "share")

    def export(self) -> None:
        """Borrow by DLPack, as consumers of 1.0 and of before do, and give back."""
        if not (self.exports and self.host):
            return
        x, want = self.pick()
        version = (None, (0, 8), (1, 0), (1, 7))[int(self.rng.integers(4))]
        wanted = (None, True, False)[int(self.rng.integers(3))]
        options: dict[str, Any] = {} if version is None else {"max_version": version}
        if wanted is not None or self.rng.random() < 0.3:
            options["copy"] = wanted
        if self.rng.random() < 0.3:
            options["dl_device"] = x.__dlpack_device__()
        if self.rng.random() < 0.2:
            _refused(partial(x.__dlpack__, dl_device=(2, 0)), (ExchangeError,), "(2, 0)")
        told = f"a capsule of {x.dtype.name}{list(want.shape)} by {options}"
        old = version is None or version[0] < 1
        try:
            borrowed = Borrowed(x.__dlpack__(**options))
        except ExchangeError as error:
            # Memory that was lent read-only is not for a consumer that knows no such memory, and
            # NumPy lends its own types alone.
            if old and wanted is False and (self.frozen or x.dtype.name in OWN):
                return
            raise AssertionError(f"{told} is refused: {error}, {self.told()}") from error
        assert borrowed.versioned is not old, f"{told} is of another protocol"
        assert borrowed.dtype is x.dtype, f"{told} says {borrowed.dtype}"
        self.same(borrowed.array, want, told)
        own = wanted is True or (old and wanted is None)
        if not old:
            assert borrowed.read_only is not own, f"{told}: read-only is {borrowed.read_only}"
        if want.size and self.shares:
            # Whether it is the tensor's memory.
            there = np.shares_memory(borrowed.array, x.numpy())
            assert there is not own, f"{told} {'shares' if own else 'copies'} memory"
        if own:
            borrowed.array[...] = np.ones((), want.dtype)
            self.same(x.numpy(), want, f"a tensor after a write to {told}")
            borrowed.give_back()
            return
        self.held.append((told, borrowed, _bits(want)))

    def lend_buffer(self) -> None:
        x, want = self.pick()
        if not self.shares:
            _refused(lambda: x.__buffer__(0), (BufferError,), "numpy()")
            return
        _refused(lambda: x.__buffer__(1), (BufferError,), "numpy(copy=True)")
        if x.dtype.name in OWN:
            return
        view = x.__buffer__(0)
        assert view.readonly, f"a buffer can be written to, {self.told()}"
        told = view.shape, view.nbytes, view.itemsize
        assert told == (want.shape, want.nbytes, want.itemsize), f"a buffer says {told}"
        self.held.append(("a buffer", np.asarray(view), _bits(want)))
        if want.size:
            pointer = np.ctypeslib.as_array(
                (ctypes.c_uint8 * want.nbytes).from_address(x.ctypes.data)
            )
            assert pointer.tobytes() == want.tobytes(), f"x.ctypes, {self.told()}"

    def copy(self) -> None:
        x, want = self.pick()
        name = str(self.rng.choice(list(_COPIES)))
        if name == "pickle" and self.place.device is not self.place.plain:
            # The proxy that checks the protocol is no device of that name.
            return
        made = _COPIES[name](x)
        assert made is not x, f"{name} gives the tensor itself"
        assert (made.dtype, made.shape, made.device) == (x.dtype, x.shape, x.device), name
        self.add(made, want.copy())

    def write(self) -> None:
        """Write to the whole, a part, or by an operator; nobody else sees it."""
        x, want = cell = self.pick()
        want = want.copy()
        kind = int(self.rng.integers(4))
        value = _numbers(self.rng, x.dtype, ())
        arithmetic = x.dtype.kind not in ("bool", "storage") and x.dtype.itemsize > 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == 0 and arithmetic:
                one = x * 0 + 1
                x += one
                want = np.asarray(want + np.ones((), want.dtype)).astype(want.dtype)
            elif kind == 1 and want.ndim and x.dtype.kind != "storage":
                first, last = sorted(int(n) for n in self.rng.integers(0, want.shape[0] + 1, 2))
                x[first:last] = calor.asarray(value)
                want[first:last] = value
            elif kind == 2 and x.dtype.kind != "storage":
                other = _numbers(self.rng, x.dtype, want.shape)
                x[...] = calor.asarray(other)
                want[...] = other
            else:
                return
        if np.abs(want.astype(np.complex128)).max(initial=0) > 50:
            x[...] = calor.asarray(np.zeros_like(want))
            want[...] = 0
        cell[1] = want

    def settle(self) -> None:
        calor.eval([x for x, _ in self.tensors])

    def drop(self) -> None:
        if len(self.tensors) > 1:
            del self.tensors[int(self.rng.integers(len(self.tensors)))]

    def give_back(self) -> None:
        if self.held:
            self.held.pop(int(self.rng.integers(len(self.held))))

    def pass_on(self) -> None:
        """The last holder of a tensor may be another thread."""
        if len(self.tensors) > 1:
            cell = self.tensors.pop(int(self.rng.integers(len(self.tensors))))
            thread = threading.Thread(target=cell.clear)
            del cell
            thread.start()
            thread.join()

    def same(self, got: Any, want: Array, what: str) -> None:
        told = f"{what} of {want.dtype}{list(want.shape)}"
        assert got.shape == want.shape, f"{told} has shape {got.shape}, {self.told()}"
        assert got.dtype == want.dtype, f"{told} is {got.dtype}, {self.told()}"
        assert _bits(got) == _bits(want), f"{told} is {got}, not {want}, {self.told()}"

    def verify(self, every: bool) -> None:
        for what, array, bits in self.held:
            now = array.array if isinstance(array, Borrowed) else array
            assert _bits(now) == bits, f"{what} became {now}, {self.told()}"
        if every:
            for x, want in self.tensors:
                self.same(x.numpy(), want, "a tensor")

    def go(self) -> None:
        every = [
            self.upload, self.adopt, self.adopt, self.take, self.read, self.read, self.copy_out,
            self.export, self.export, self.lend_buffer, self.copy, self.copy, self.write,
            self.write, self.settle, self.drop, self.drop, self.give_back, self.pass_on,
        ]  # fmt: skip
        self.upload()
        for turn in range(_ACTIONS):
            action = every[int(self.rng.integers(len(every)))]
            self.names.append(action.__name__)
            action()
            while len(self.tensors) > _MOST:
                self.drop()
            if not self.tensors:
                self.upload()
            self.verify(turn % 5 == 4)
        self.verify(True)
        self.tensors.clear()
        self.verify(False)
        self.held.clear()
        gc.collect()
        calor.synchronize(self.place.device)
        left = sum(ref() is not None for ref in self.lent)
        assert not left, f"{left} adopted arrays are not let go, {self.told()}"


def _refused(work: Callable[[], Any], kinds: tuple[type[Exception], ...], says: str) -> None:
    """Require that a function raises an error that says what to do."""
    found: Exception | None = None
    try:
        work()
    except Exception as error:
        found = error
    assert isinstance(found, kinds), f"{found!r} is no {kinds[0].__name__}"
    assert says in str(found), f"the error does not say {says!r}: {found}"


def _run(place: Place) -> None:
    with quick_collections(), np.errstate(all="ignore"):
        for number in range(_HISTORIES):
            # The first time, programs are planned, which may keep memory.
            for _ in range(2):
                before = in_use(place)
                history = _Exchange(place, np.random.default_rng([place.seed, 71, number]))
                history.go()
                told = history.told()
                del history
            after = in_use(place)
            assert after <= before, f"{after - before} bytes stay in use {told}"


def drawn_exchange() -> Iterator[Check]:
    """Yield the check of histories of exchange."""
    yield Check(
        kind="transfers",
        subject="drawn-exchange",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Exchange),
        looks=True,
    )

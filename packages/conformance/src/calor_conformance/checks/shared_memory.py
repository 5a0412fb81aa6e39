"""Memory that several hold: every way to compute with a tensor sees each write to it, once.

A weight and an input may lie in arrays of somebody else, host arrays may be lent of them, and
programs keep what they prepared: bound tensors, buffers of captures, packed or cast weights. The
histories write by everything that may write (the owner of the memory through one of his views, the
tensor, host arrays that come back, a loader, an optimizer, another thread) and call afterwards each
kind of program; NumPy tells what it computes. What was computed before keeps its numbers.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, float32, float64, int32
from calor.errors import CalorError
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "each way to compute with a tensor sees every write to it, whoever wrote"
_HISTORIES, _ACTIONS, _OFTEN, _LENT = 9, 16, 40, 3
_NN, _TRAIN = "calor_nn", "calor_train"
Rng = np.random.Generator
Reader = Callable[[Any], Any]


def _product(w: Any, x: Any) -> Any:
    return x @ w + w[0]


def _turned(w: Any, x: Any) -> Any:
    return w.mT @ x.mT - w[:, :1]


def _twice(w: Any, x: Any) -> Any:
    return x * 2 + x @ (w + w)


_FORMS: Final = (_product, _turned, _twice)


def _meaning(form: Any, w: Array, x: Array) -> Array:
    if form is _turned:
        return np.asarray(w.T @ x.T - w[:, :1])
    return np.asarray(x @ w + w[0] if form is _product else x * 2 + x @ (w + w))


class _Held(Stateful):
    """An object with a tensor, as a module has it."""

    def __init__(self, w: Any) -> None:
        self.w = w


def _step(held: _Held, by: Any) -> None:
    held.w += by


def _readers(form: Any, cell: _Weight) -> dict[str, Reader]:
    """Return the ways to compute a form with a weight: each is made once and called often."""
    w, lent = cell.held.w, cell.owner
    others = [calor.ones((2,), dtype=w.dtype) for _ in range(9)]
    jitted = calor.jit(form)
    closed, bound = calor.jit(lambda x: form(w, x)), jitted.bind(w)
    many = calor.jit(lambda every, x: form(every[4], x) * every[-1][0]).bind(
        [*others[:4], w, *others[4:]]
    )
    held = calor.jit(lambda held, x: form(held.w, x))
    by_object = held.bind(cell.held)
    nested = calor.jit(lambda part, x: form(part["w"][0], x)).bind({"w": (w, 1)})
    zero = calor.zeros((), dtype=w.dtype)
    made: dict[str, Reader] = {
        "at once": partial(form, w), "jitted": partial(jitted, w), "closed": closed,
        "bound": bound, "bound of many": many, "bound object": by_object,
        "object": partial(held, cell.held), "bound in a dict": nested,
        "checkpoint": lambda x: calor.checkpoint(form)(w, x),
        "vmap": lambda x: calor.vmap(partial(form, w))(x[None])[0],
        "loop": lambda x: calor.fori_loop(0, 2, lambda i, y: y * 0 + form(w, x), form(w, x) * 0),
        "cond": lambda x: calor.cond(
            (zero == 0), lambda t: form(w, t), lambda t: form(w, t) * 0, x
        ),
        "of a copy": lambda x: form(w.copy(), x),
        "of an array": lambda x: form(calor.asarray(w.numpy()), x),
    }  # fmt: skip
    if w.dtype.kind == "float":
        wide = calor.jit(lambda w, x: form(w.astype(float64), x).astype(w.dtype))
        made["cast"] = partial(wide, w)
        made["bound cast"] = wide.bind(w)
    if lent is not None:
        # A host array is read at each call.
        made["bound array"] = jitted.bind(lent)
        made["jitted of an array"] = lambda x: jitted(lent, x)
    return made


class _Weight:
    """A tensor that may lie in somebody's memory, what it should be, and who holds arrays of it."""

    def __init__(self, place: Place, rng: Rng, dtype: DType, shape: tuple[int, ...]) -> None:
        self.rng, self.dtype, self.shape = rng, dtype, shape
        self.owner: Array | None = None
        # What the owner writes through: the whole of which the tensor may be a part.
        self.whole: Array | None = None
        self.want = self.numbers()
        self.held = _Held(self.made(place))
        # Host arrays by group: those of one group are of one memory, lent after one write.
        self.lent: list[tuple[Array, Array, list[Array], int]] = []
        self.writes = 0
        self.step = calor.jit(_step)

    def numbers(self) -> Array:
        return np.asarray(self.rng.integers(-2, 3, self.shape), self.dtype.numpy)

    def made(self, place: Place) -> Any:
        """Return the tensor: of its own memory, or of an array of somebody."""
        shares = place.plain.info.feature("host_views").level == "full"
        if not shares or self.rng.random() < 0.3:
            return calor.asarray(self.want)
        rows = int(self.rng.integers(0, 3))
        whole = np.zeros((self.shape[0] + rows, *self.shape[1:]), self.dtype.numpy)
        owner = whole[rows:]
        owner[...] = self.want
        take = (calor.asarray, calor.from_dlpack)[int(self.rng.integers(2))]
        try:
            tensor = take(owner, copy=False)
        except (ValueError, CalorError):
            # An address that the device cannot use.
            return calor.asarray(self.want)
        if np.shares_memory(tensor.numpy(), owner):
            self.owner, self.whole = owner, whole
        return tensor

    def taken(self) -> None:
        """The tensor was written to: its memory is no longer the owner's."""
        self.owner = self.whole = None
        self.writes += 1

    # Who may write.

    def by_owner(self) -> bool:
        """The owner writes through one of his views."""
        if self.owner is None or self.whole is None:
            return False
        new = self.numbers()
        start = self.whole.shape[0] - self.shape[0]
        kind = int(self.rng.integers(6))
        k = int(self.rng.integers(self.shape[0]))
        if kind == 0:
            self.owner[...] = new
        elif kind == 1:
            self.owner[k] = new[k]
        elif kind == 2:
            self.whole.reshape(-1)[start * self.shape[1] :] = new.reshape(-1)
        elif kind == 3:
            self.whole.T[:, start:] = new.T
        elif kind == 4:
            self.owner.data.cast("B")[:] = new.tobytes()
        else:
            np.negative(self.owner, out=self.owner)
        self.want = self.owner.copy()
        return True

    def by_tensor(self) -> bool:
        """The tensor is written to, whole or in part; the owner's memory stays as it is."""
        before = None if self.owner is None else self.owner.copy()
        w, new = self.held.w, self.numbers()
        kind = int(self.rng.integers(4))
        k = int(self.rng.integers(self.shape[0]))
        want = self.want.copy()
        with calor.no_grad():
            if kind == 0:
                w[...] = calor.asarray(new)
                want[...] = new
            elif kind == 1:
                w[k] = calor.asarray(new[k])
                want[k] = new[k]
            elif kind == 2:
                w += calor.asarray(new - self.want)
                want = new
            else:
                w *= -1
                want = -want
        if before is not None and self.owner is not None:
            same = (self.owner == before).all()
            assert same, f"a write to a tensor ({kind}) reaches the array that it was made of"
        self.want = want
        self.taken()
        return True

    def by_step(self) -> bool:
        """A compiled step writes to the tensor; the second one where the first one wrote."""
        before = None if self.owner is None else self.owner.copy()
        w, new, views = self.held.w, self.numbers(), []
        for by in (new - self.want, new * 0 + 1, new * 0 - 1):
            held = (w.numpy, w.copy, w.detach)[int(self.rng.integers(3))]()
            views.append((held, w.numpy(copy=True)))
            self.step(self.held, calor.asarray(by))
        assert self.held.w is w, "a step that writes in place leaves another tensor"
        for view, numbers in views:
            same = (np.asarray(view) == numbers).all()
            assert same, f"a step writes to what was taken before: {view} was {numbers}"
        if before is not None and self.owner is not None:
            same = (self.owner == before).all()
            assert same, "a step writes to the array that its tensor was made of"
        self.want = new
        self.taken()
        return True

    def lend(self) -> bool:
        """A host array that C code may write to; as long as it lives, all others are the same."""
        if len(self.lent) >= _LENT:
            return False
        with calor.shared_views():
            array = np.asarray(self.held.w)
        assert array.flags.writeable, "a lent array cannot be written to"
        for first, _, group, writes in self.lent:
            together = np.shares_memory(first, array)
            assert together is (writes == self.writes), (
                f"two arrays of one tensor {'share' if together else 'do not share'} memory, and "
                f"{self.writes - writes} writes to the tensor are between them"
            )
            if together:
                group.append(array)
                return True
        same = (array == self.want).all()
        assert same, f"a lent array is {array.tolist()}, not {self.want.tolist()}"
        self.lent.append((array, self.want.copy(), [array], self.writes))
        return True

    def write_lent(self) -> bool:
        """One of the arrays is written to; its tensor has the numbers when all are gone."""
        if not self.lent:
            return False
        _, _, group, _ = self.lent[int(self.rng.integers(len(self.lent)))]
        array, k = group[int(self.rng.integers(len(group)))], int(self.rng.integers(self.shape[0]))
        array[k] = self.numbers()[k]
        for other in group:
            assert (other == array).all(), "two arrays that are lent of one tensor differ"
        return False

    def come_back(self) -> bool:
        """All arrays of one memory go, in any order; what changed is the tensor's."""
        if not self.lent:
            return False
        first, before, group, _ = self.lent.pop(int(self.rng.integers(len(self.lent))))
        # Compared as bits: 0.0 for -0.0 is a change.
        bits = f"u{first.itemsize}"
        changed = first.view(bits) != before.view(bits)
        if changed.any():
            self.want = np.where(changed, first, self.want)
            self.taken()
        del first
        while group:
            del group[int(self.rng.integers(len(group)))]
        return True

    def by_loader(self) -> bool:
        """A state is loaded into a module that holds the tensor."""
        if find_spec(_NN) is None or self.dtype.kind != "float":
            return False
        nn, new = import_module(_NN), self.numbers()
        module = nn.Module()
        module.register_buffer("w", self.held.w)
        given = {"w": new if self.rng.random() < 0.5 else calor.asarray(new)}
        if isinstance(given["w"], np.ndarray):
            nn.from_torch_state_dict(module, given)
            # Who lends the numbers to a loader has them back.
            new, given["w"][...] = new.copy(), 0
        else:
            module.load_state_dict(given)
            with calor.no_grad():
                given["w"] *= 0
        assert module.w is self.held.w, "a loader puts another tensor into its place"
        self.want = new
        self.taken()
        return True

    def by_optimizer(self) -> bool:
        """A step of gradient descent, which is one in whole numbers."""
        if find_spec(_TRAIN) is None or self.dtype.kind != "float":
            return False
        w, new = self.held.w, self.numbers()
        w.requires_grad = True
        optimizer = import_module(_TRAIN).SGD([w], lr=1.0)
        w.grad = calor.asarray(self.want - new)
        optimizer.step()
        w.grad = None
        w.requires_grad = False
        assert self.held.w is w, "an optimizer puts another tensor into its place"
        self.want = new
        self.taken()
        return True


_WAYS: Final = ("by_owner", "by_owner", "by_tensor", "by_step", "lend", "lend",
                "write_lent", "write_lent", "come_back", "by_loader", "by_optimizer")  # fmt: skip


class _History:
    """A weight and an input with the programs that compute with both."""

    def __init__(self, place: Place, rng: Rng) -> None:
        self.place, self.rng = place, rng
        kinds = [d for d in (float32, float64, int32) if place.plain.info.dtypes.get(d)]
        dtype = kinds[int(rng.integers(len(kinds)))]
        side = int(rng.choice((1, 2, 3, 9, 20)))
        self.weight = _Weight(place, rng, dtype, (side, side))
        self.input = _Weight(place, rng, dtype, (int(rng.choice((1, 2, 5))), side))
        self.form = _FORMS[int(rng.integers(len(_FORMS)))]
        every = _readers(self.form, self.weight)
        # Where few programs hold the weight, a step may write to its memory.
        names = rng.permutation(list(every))[: int(rng.choice((1, 4, len(every))))]
        self.readers = {str(name): every[str(name)] for name in names}
        self.names: list[str] = []
        self.kept: list[tuple[str, Any, Array]] = []

    def told(self) -> str:
        side = f"{self.weight.dtype.name}{list(self.weight.shape)}"
        return f"{self.form.__name__[1:]} of {side} after {', '.join(self.names)}"

    def call(self, name: str, turns: int = 1) -> None:
        if "array" in name and name != "of an array" and self.weight.owner is None:
            # The owner's array is no longer what the tensor is.
            return
        want = _meaning(self.form, self.weight.want, self.input.want)
        for turn in range(turns):
            made = self.readers[name](self.input.held.w)
            got = made.numpy()
            assert got.shape == want.shape, f"{name}: {got.shape}, {self.told()}"
            same = (got == want).all()
            assert same, f"{name} gives {got.tolist()}, not {want.tolist()}, {self.told()}, {turn}"
        self.kept.append((name, made, want))

    def ask(self, count: int) -> None:
        for name in self.rng.permutation(list(self.readers))[:count]:
            self.call(str(name))

    def hold(self, cell: _Weight) -> None:
        """A view from outside keeps its numbers, unless the owner of the memory writes."""
        if cell.owner is None:
            self.kept.append(("numpy()", cell.held.w.numpy(), cell.want.copy()))

    def act(self) -> None:
        which = "input" if self.rng.random() < 0.3 else "weight"
        cell: _Weight = getattr(self, which)
        name = str(self.rng.choice(_WAYS))
        self.names.append(f"{name} of the {which}")
        work = getattr(cell, name)
        self.hold(cell)
        if (
            name in ("by_owner", "by_tensor", "by_step", "write_lent", "come_back")
            and self.rng.random() < 0.3
        ):
            _in_a_thread(self.place, work)
            self.names[-1] += " in a thread"
        else:
            work()

    def verify(self) -> None:
        for cell in (self.weight, self.input):
            got = cell.held.w.numpy()
            assert (got == cell.want).all(), f"{got.tolist()}, not {cell.want}, {self.told()}"
        for name, made, want in self.kept[-20:]:
            same = (np.asarray(made) == want).all()
            assert same, f"what {name} gave earlier became {made.tolist()}, {self.told()}"

    def go(self) -> None:
        for name in self.readers:
            self.call(name)
        # So often that a device may compile the call.
        for name in ("bound", "bound object", "closed"):
            if name in self.readers and self.rng.random() < 0.5:
                self.call(name, _OFTEN)
        for _ in range(_ACTIONS):
            self.act()
            self.ask(4)
        for cell in (self.weight, self.input):
            while cell.lent:
                cell.come_back()
        self.names.append("all came back")
        for name in self.readers:
            self.call(name)
        self.verify()


def _in_a_thread(place: Place, work: Callable[[], Any]) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            with calor.device(place.device):
                work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def _run(place: Place) -> None:
    for number in range(_HISTORIES):
        _History(place, np.random.default_rng([place.seed, 131, number])).go()


def shared_memory() -> Iterator[Check]:
    """Yield the check of histories of memory that several hold."""
    yield Check(
        kind="state",
        subject="drawn-shared-memory",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_Weight) + inspect.getsource(_History),
        dtypes=(float32,),
        looks=True,
    )

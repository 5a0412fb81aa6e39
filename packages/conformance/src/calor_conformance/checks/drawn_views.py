"""Drawn views: writes through parts of parts of tensors, shared as in NumPy, refused, or warned of.

What a view sees is the same part of the places of its root, so the model of any tree of views is
one array of numbers, and an array of places for each view.
"""

from __future__ import annotations

import gc
import inspect
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int32, int64
from calor.errors import CalorError, ViewError, ViewWarning

from .base import Array, Check, Place
from .user_programs import FILE, line, of_user

SHARED: Final = "in shared_views every view of a tensor sees each write, as in NumPy"
TOLD: Final = (
    "a write that does not reach the tensor of a view is told, with the line and a way that does"
)
_ACTIONS, _MOST, _TREES, _WRITES = 30, 6, 4, 50
Rng = np.random.Generator
Way = Callable[[Any], Any]


def _key(rng: Rng, shape: tuple[int, ...], full: bool = False) -> Any:
    """Return a basic key: integers, slices of any step, None and Ellipsis."""
    items: list[Any] = []
    for n in shape:
        kind = int(rng.integers(5))
        first, last = (int(i) for i in rng.integers(-n - 1, n + 2, 2))
        if kind == 0 and n:
            items.append(int(rng.integers(-n, n)))
        elif kind == 1:
            items.append(slice(None))
        elif kind == 2:
            items.append(slice(None, None, int(rng.choice([-1, 2, -2]))))
        else:
            items.append(slice(first, last))
    while items and not full and rng.random() < 0.3:
        items.pop()
    if rng.random() < 0.15:
        items.insert(int(rng.integers(len(items) + 1)), None)
    if rng.random() < 0.15:
        items.append(Ellipsis)
    return items[0] if len(items) == 1 else tuple(items)


def _sizes(rng: Rng, count: int) -> tuple[int, ...]:
    fits = [d for d in range(1, count + 1) if count % d == 0]
    first = int(rng.choice(fits)) if fits else 1
    return (first, count // first) if count else (0, 2)


def _views(rng: Rng, shape: tuple[int, ...]) -> dict[str, tuple[Way, Way]]:
    """Return ways to a view, of a tensor and of an array."""
    rank, count = len(shape), int(np.prod(shape))
    order = tuple(int(k) for k in rng.permutation(rank))
    key, sizes = _key(rng, shape), _sizes(rng, count)
    axis = int(rng.integers(-rank, rank)) if rank else 0
    ways: dict[str, tuple[Way, Way]] = {
        "index": (lambda x: x[key], lambda a: a[key]),
        "reshape": (lambda x: x.reshape(sizes), lambda a: a.reshape(sizes)),
        "flatten": (lambda x: x.flatten(), lambda a: a.reshape(-1)),
        "permute_dims": (lambda x: x.permute_dims(order), lambda a: a.transpose(order)),
        "expand_dims": (lambda x: x.expand_dims(0), lambda a: a[None]),
        "squeeze": (lambda x: x.expand_dims(-1).squeeze(-1), lambda a: a),
    }
    if rank >= 2:
        ways |= {
            "mT": (lambda x: x.mT, lambda a: a.swapaxes(-1, -2)),
            "moveaxis": (lambda x: x.moveaxis(axis, 0), lambda a: np.moveaxis(a, axis, 0)),
            "swapaxes": (lambda x: x.swapaxes(axis, 0), lambda a: a.swapaxes(axis, 0)),
        }
    if rank and shape[axis] > 1:
        cut = shape[axis] // 2
        parts = [cut, shape[axis] - cut]
        ways["split"] = (
            lambda x: calor.split(x, parts, axis=axis)[1],
            lambda a: np.split(a, [cut], axis)[1],
        )
    return ways


class _Tree:
    """Views of roots: which places of which numbers each is."""

    def __init__(self, rng: Rng, kind: Any) -> None:
        self.rng, self.kind = rng, kind
        self.numbers: list[Array] = []
        self.views: list[tuple[Any, int, Array]] = []
        self.names: list[str] = []

    def told(self) -> str:
        return f"after {', '.join(self.names)}"

    def value(self, shape: tuple[int, ...] = ()) -> Array:
        return np.asarray(self.rng.integers(-50, 50, shape)).astype(self.kind)

    def pick(self) -> tuple[Any, int, Array]:
        return self.views[int(self.rng.integers(len(self.views)))]

    def root(self) -> None:
        shape = tuple(int(n) for n in self.rng.integers(1, 5, int(self.rng.integers(1, 4))))
        numbers = self.value(shape)
        tensor = calor.asarray(numbers) * 1 if self.rng.random() < 0.5 else calor.asarray(numbers)
        self.views.append((tensor, len(self.numbers), np.arange(numbers.size).reshape(shape)))
        self.numbers.append(numbers.reshape(-1).copy())

    def view(self) -> None:
        x, number, places = self.pick()
        ways = _views(self.rng, places.shape)
        name = str(self.rng.choice(list(ways)))
        run, meaning = ways[name]
        seen = meaning(places)
        if not np.ndim(seen) or not places.size:
            return
        self.names[-1] = name
        self.views.append((run(x), number, np.asarray(seen)))

    def write(self) -> None:
        x, number, places = self.pick()
        numbers = self.numbers[number]
        match int(self.rng.integers(4)):
            case 0:
                made = self.value(places.shape)
                x[...] = calor.asarray(made)
                numbers[places] = made
            case 1:
                key, made = _key(self.rng, places.shape), self.value()
                x[key] = calor.asarray(made)
                numbers[places[key]] = made
            case 2:
                x += 3
                numbers[places] += np.asarray(3, self.kind)
            case _:
                key = _key(self.rng, places.shape)
                x[key] *= -1
                numbers[places[key]] *= np.asarray(-1, self.kind)

    def lend(self) -> None:
        """A function of NumPy writes to arrays of two views."""
        x, number, places = self.pick()
        array = np.asarray(x)
        if not array.size:
            return
        before, again, own = array.copy(), np.asarray(x), np.array(x)
        own[...] = 99
        key, made = _key(self.rng, places.shape), self.value()
        array[key] = made
        assert (again == array).all(), f"two arrays of one tensor differ, {self.told()}"
        if self.rng.random() < 0.5:
            # What is written meanwhile stays, but for what the function wrote.
            self.write()
        after = array.copy()
        del array, again
        gc.collect()
        wrote = after != before
        self.numbers[number][places[wrote]] = after[wrote]

    def part(self) -> None:
        """What is copied shares no more."""
        x, number, places = self.pick()
        made = x.copy() if self.rng.random() < 0.5 else x + 0
        made += 5
        assert (made.numpy() == self.numbers[number][places] + 5).all(), f"a copy, {self.told()}"

    def outside(self) -> None:
        """Views stay views when the context has ended."""
        before = calor.local.local.views
        with calor.strict_views():
            self.write()
        assert calor.local.local.views is before, "strict_views leaves its mode"

    def drop(self) -> None:
        if len(self.views) > 1:
            del self.views[int(self.rng.integers(len(self.views)))]

    def verify(self) -> None:
        for x, number, places in self.views:
            want, got = self.numbers[number][places], x.numpy()
            assert got.shape == want.shape, f"a view is {got.shape}, not {want.shape}"
            assert (got == want).all(), f"a view holds {got}, not {want}, {self.told()}"

    def go(self) -> None:
        every = [self.root, self.view, self.view, self.view, self.write, self.write, self.write,
                 self.lend, self.part, self.outside, self.drop]  # fmt: skip
        self.root()
        for _ in range(_ACTIONS):
            action = every[int(self.rng.integers(len(every)))]
            self.names.append(action.__name__)
            action()
            while len(self.views) > _MOST:
                self.drop()
            self.verify()


def _shared(place: Place) -> None:
    for number in range(_TREES):
        rng = np.random.default_rng([place.seed, 31, number])
        kind = (np.float32, np.int32)[int(rng.integers(2))]
        with calor.shared_views():
            tree = _Tree(rng, kind)
            tree.go()
        # What shared keeps sharing; what is made now does not.
        tree.write()
        tree.verify()
        _alone(rng)
    _in_threads(np.random.default_rng([place.seed, 32]))


def _alone(rng: Rng) -> None:
    numbers = rng.integers(-9, 9, (3, 4)).astype(np.float32)
    x = calor.asarray(numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = x[1]
        row += 1
        turned = x.mT
        turned[0] = 7
    assert (x.numpy() == numbers).all(), "outside of shared_views a view is written through"


def _in_threads(rng: Rng) -> None:
    """Threads that write to rows of one tensor."""
    count = 4
    numbers = rng.integers(-9, 9, (count, 6)).astype(np.float32)
    with calor.shared_views():
        x = calor.asarray(numbers)
        rows = [x[k] for k in range(count)]

    def work(number: int) -> None:
        for _ in range(5):
            rows[number][::2] = rows[number][::2] + 1

    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers[:, ::2] += 5
    assert (x.numpy() == numbers).all(), f"writes of threads to rows: {x}, not {numbers}"


def _part(key: Any, x: Any) -> Any:
    return x[key]


def _plain(rng: Rng, shape: tuple[int, ...], parts: bool = False) -> Any:
    """Return a key of numbers and whole axes, or of parts of these, for which there is one key."""
    items = []
    for n in shape:
        first = int(rng.integers(n))
        some = [first - n * int(rng.integers(2)), slice(first, n) if parts else slice(None)]
        items.append(some[int(rng.integers(2))])
    return tuple(items) if len(items) > 1 else items[0]


# Programs of one write to a view "y" of "x", on line 2; the tensor may not know of it.
_PROGRAMS: Final = {
    "y += c": "y += c", "y *= c": "y *= c", "y[...] = c": "y[...] = c", "y[key] = c": "y[key] = c",
}  # fmt: skip


def _told(place: Place) -> None:
    for turn in range(_WRITES):
        rng = np.random.default_rng([place.seed, 33, turn])
        shape = tuple(int(n) for n in rng.integers(2, 5, int(rng.integers(1, 4))))
        numbers = rng.integers(-9, 9, shape).astype(np.float32)
        ways = _views(rng, shape)
        plain = _plain(rng, shape)
        ways["plain"] = (partial(_part, plain), partial(_part, plain))
        name = str(rng.choice(["plain", "plain", "index", "reshape", "permute_dims"]))
        run, meaning = ways[name]
        seen = meaning(numbers.copy())
        if not np.ndim(seen) or not seen.size:
            continue
        key = _plain(rng, seen.shape, parts=True) if name == "plain" else _key(rng, seen.shape)
        for source in _PROGRAMS.values():
            _one_write(run, numbers, seen, key, source, f"{name}, {source}, key {key}")
    _nothing_to_tell(np.random.default_rng([place.seed, 34]))


def _one_write(run: Way, numbers: Array, seen: Array, key: Any, source: str, what: str) -> None:
    want = {"y": seen.copy(), "key": key, "c": np.float32(3)}
    exec(source, want)
    program = f"\n{source}\n"
    # Warned of once.
    x = calor.asarray(numbers)
    y = run(x)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        of_user(program, y=y, key=key, c=3.0)
        of_user(program, y=run(x).copy(), key=key, c=3.0)
    assert (x.numpy() == numbers).all(), f"{what}: the tensor was changed"
    assert (y.numpy() == want["y"]).all(), f"{what}: the view is {y}, not {want['y']}"
    assert [w.category for w in heard] == [ViewWarning], f"{what}: {[str(w) for w in heard]}"
    assert (heard[0].filename, heard[0].lineno) == (FILE, 2), f"{what}: at {heard[0].filename}"
    message = str(heard[0].message)
    _follow(message, numbers, seen, key, source, want["y"], what)
    # Refused as often as it is tried, and nothing is changed.
    y = run(x)
    for _ in range(2):
        try:
            with calor.strict_views():
                of_user(program, y=y, key=key, c=3.0)
        except ViewError as error:
            said = str(error)
        else:
            raise AssertionError(f"{what}: strict_views let it pass")
        assert said == f"{line(2)}: {message}", f"{what}: {said}"
        assert (y.numpy() == seen).all(), f"{what}: what was refused was written"


def _follow(
    message: str, numbers: Array, seen: Array, key: Any, source: str, want: Array, what: str
) -> None:
    """Do what a warning says: the view that it names, and the write that it advises."""
    told = re.search(r"a write to x(.*?) does not change x", message)
    assert told is not None, f"{what}: {message}"
    words = told.group(1).replace(".permute_dims(", ".transpose(")
    found = eval(f"x{words}", {"x": numbers})
    assert found.shape == seen.shape, f"{what}: {message}"
    assert (found == seen).all(), f"{what}: {message}"
    assert f"begin with x{told.group(1)}.copy()" in message, f"{what}: {message}"
    assert "calor.shared_views()" in message, f"{what}: {message}"
    advice = re.search(r"write x(\[[^]]*\]) (=|\+=) …", message)
    if what.startswith("plain"):
        signs = "=" if "[" in source else "+="
        assert advice is not None, f"{what}: {message}"
        assert advice.group(2) == signs or "..." in source, f"{what}: {message}"
    if advice is None:
        return
    place, sign = advice.groups()
    if "i" in place:
        return
    # The advised write changes what the one through the view would, of the tensor.
    space: dict[str, Any] = {"x": np.zeros(numbers.shape), "v": np.zeros(seen.shape)}
    exec(f"x{place} = 1", space)
    marks = np.arange(numbers.size).reshape(numbers.shape)
    touched = eval(f"x{words}", {"x": marks})
    wrote = touched[key] if sign == "=" and "key" in source else touched
    if sign == "=" and "key" not in source:
        wrote = touched[...]
    hit = sorted(marks[space["x"] == 1].reshape(-1).tolist())
    assert hit == sorted(np.unique(wrote).tolist()), f"{what}: {message}"


def _nothing_to_tell(rng: Rng) -> None:
    """Writes that lose nothing are not told: to parts by key, of copies, and of what has died."""
    numbers = rng.integers(-9, 9, (3, 4)).astype(np.float32)
    k = int(rng.integers(3))
    for source, want in (
        ("x[k] += 1", numbers + np.eye(3, dtype=np.float32)[k][:, None]),
        ("x[k, 1:] *= 2", np.where((np.arange(3)[:, None] == k) & (np.arange(4) > 0),
                                   numbers * 2, numbers)),
        ("y = x[k].copy()\ny += 1", numbers), ("y = x[[k]]\ny += 1", numbers),
        ("y = x[k, 0]\ny += 1", numbers), ("y = x[k] + 0\ny[0] = 1", numbers),
        ("x = x[k]\nx += 1", numbers[k] + 1), ("x = x.reshape(-1)\nx[0] = 5", None),
    ):  # fmt: skip
        for mode in (calor.strict_views, None):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    # The program alone holds the tensor.
                    whole = f"x = make()\n{source}"
                    with nullcontext() if mode is None else mode():
                        made = of_user(whole, make=partial(calor.asarray, numbers), k=k)["x"]
            except (CalorError, ViewWarning) as error:
                raise AssertionError(f"{source!r} loses nothing, and is told: {error}") from error
            if want is not None:
                assert (made.numpy() == want).all(), f"{source!r} gives {made}, not {want}"
    # The part in between has died, the root has not.
    x = calor.asarray(numbers)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        of_user("x[0:2][k % 2][1] = 5", x=x, k=k)
    assert len(heard) == 1, f"x[0:2][k][1] = 5 is told {len(heard)} times"
    assert "index that tensor itself" in str(heard[0].message), str(heard[0].message)


def drawn_views() -> Iterator[Check]:
    """Yield a check of views that share, and one of those that do not."""
    for subject, contract, run in (("shared", SHARED, _shared), ("told", TOLD, _told)):
        yield Check(
            kind="state",
            subject=f"drawn-views-{subject}",
            tier="full",
            contract=contract,
            run=run,
            text=partial(inspect.getsource, run),
            dtypes=(float32, int32, int64),
            looks=True,
        )

"""Requests of several clients for one model: each gets what a call of the model with it gives.

Models are drawn in NumPy: inputs of any type and number, axes of fixed and of open sizes, outputs
whose rows are their own, and outputs whose rows depend on others. Requests of any number of rows
and sizes come at once, or while the model runs. Some make the model fail, some have nobody who
waits, some are too many. What the model is run with are rows that somebody sent.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import prod
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from calor import dtypes
from calor.errors import CalorError, DeviceError, OutOfMemoryError, ShapeError

from .base import Array, Check, Place

CONTRACT: Final = "requests that a server joins get what each gets alone, in their order"
PACKAGE: Final = "calor_http"
_MODELS, _REQUESTS = 8, 9
# Longer than any run here; the server waits so long for what never comes.
_PATIENCE, _NEVER = 20.0, 600.0
_TYPES: Final = {
    "BOOL": dtypes.bool_, "UINT8": dtypes.uint8, "UINT16": dtypes.uint16, "UINT32": dtypes.uint32,
    "UINT64": dtypes.uint64, "INT8": dtypes.int8, "INT16": dtypes.int16, "INT32": dtypes.int32,
    "INT64": dtypes.int64, "FP16": dtypes.float16, "BF16": dtypes.bfloat16, "FP32": dtypes.float32,
    "FP64": dtypes.float64,
}  # fmt: skip
# What a request's first number makes of a run, and the status that its sender gets.
_FAILURES: Final[dict[int, tuple[type[Exception], int]]] = {
    101: (ShapeError, 400), 102: (OutOfMemoryError, 503), 103: (DeviceError, 500),
    104: (ValueError, 500), 105: (MemoryError, 503),
}  # fmt: skip
Rng = np.random.Generator
Feed = Mapping[str, Array]


def _flat(x: Array) -> Array:
    """Return numbers as whole ones, each row as a line."""
    return x.astype(np.int64).reshape(len(x), prod(x.shape[1:]))


# What gives each row by itself, from all inputs.
_OF_ROWS: Final[dict[str, Callable[[list[Array]], Array]]] = {
    "same": lambda xs: xs[0],
    "last": lambda xs: xs[-1],
    "sums": lambda xs: _flat(xs[0]).sum(1),
    "columns": lambda xs: np.full(len(xs[0]), _flat(xs[-1]).shape[1], np.int64),
    "sorted": lambda xs: np.sort(_flat(xs[0]), 1),
    "beside": lambda xs: np.concatenate([_flat(x) for x in xs], 1),
    "product": lambda xs: _flat(xs[0]).sum(1) * _flat(xs[-1]).sum(1),
    "unequal": lambda xs: _flat(xs[0]).max(1, initial=0) != _flat(xs[-1]).min(1, initial=9),
}
# What depends on the rows beside a row, or has none for each.
_OF_ALL: Final[dict[str, Callable[[list[Array]], Array]]] = {
    "centred": lambda xs: _flat(xs[0]) - _flat(xs[0]).sum(0),
    "flipped": lambda xs: xs[-1][::-1],
    "running": lambda xs: np.cumsum(_flat(xs[0]), 0),
    "lifted": lambda xs: _flat(xs[0]) + _flat(xs[0]).max(initial=0),
    "counted": lambda xs: np.full(len(xs[0]), len(xs[0]), np.int64),
    "ranked": lambda xs: np.argsort(np.argsort(_flat(xs[0]).sum(1), kind="stable")),
    "numbered": lambda xs: np.arange(len(xs[0])),
    "added": lambda xs: _flat(xs[0]).sum(0),
    "most": lambda xs: np.asarray(_flat(xs[0]).max(initial=0)),
    "twice": lambda xs: np.repeat(xs[0], 2, 0),
}


@dataclass
class _Model:
    """A model that notes the rows of each run, and refuses rows that nobody sent."""

    inputs: tuple[Any, ...]
    names: tuple[str, ...]
    seconds: float
    platform: str = "numpy"
    outputs: tuple[Any, ...] = ()
    sent: set[bytes] = field(default_factory=set)
    ran: list[int] = field(default_factory=list)
    asked: bool = False
    most: int = 1000
    may_run: threading.Event = field(default_factory=threading.Event)
    inside: int = 0

    def of(self, feed: Feed) -> list[Array]:
        """Return the outputs."""
        arrays = [feed[port.name] for port in self.inputs]
        made = [{**_OF_ROWS, **_OF_ALL}[name](arrays) for name in self.names]
        return [np.array(y) for y in made]

    def run(self, feed: Feed) -> Sequence[Array]:
        """Return the outputs, or fail as a row wants it."""
        self.inside += 1
        assert self.inside == 1, "two runs of a model overlap"
        try:
            self.may_run.wait(_PATIENCE)
            time.sleep(self.seconds)
            if self.asked:
                self._look(feed)
            return self.of(feed)
        finally:
            self.inside -= 1

    def _look(self, feed: Feed) -> None:
        self.ran.append(next(len(x) if x.ndim else 0 for x in feed.values()))
        for row in rows_of(feed):
            if row not in self.sent:
                raise ValueError("a row is computed that nobody sent")
        failing = failure_in(feed)
        if failing:
            raise _FAILURES[failing][0](f"rows that fail by {failing}")
        if self.ran[-1] > self.most:
            raise OutOfMemoryError(f"{self.ran[-1]} rows are too many at once")


def rows_of(feed: Feed) -> list[bytes]:
    """Return the bytes of each row of all inputs together; of the whole where rows differ."""
    arrays = [np.ascontiguousarray(x) for x in feed.values()]
    if len({x.shape[:1] for x in arrays}) > 1:
        return [b"|".join(x.tobytes() for x in arrays)]
    return [b"|".join(x[n].tobytes() for x in arrays) for n in range(len(arrays[0]))]


def failure_in(feed: Feed) -> int:
    """Return what makes a run fail; 0 if nothing does."""
    for x in feed.values():
        for number in _FAILURES:
            if (x.astype(np.int64) == number).any():
                return number
    return 0


def model_of(rng: Rng) -> _Model:
    """Draw a model."""
    programs = import_module("calor_http.model.programs")
    kinds = [str(k) for k in rng.choice(list(_TYPES), int(rng.integers(1, 4)))]
    inputs = tuple(
        programs.Port(f"x{n}", _TYPES[k].numpy, k, ("rows", *_trailing(rng)))
        for n, k in enumerate(kinds)
    )
    names = [str(n) for n in rng.choice(list(_OF_ROWS), int(rng.integers(1, 4)), replace=False)]
    if rng.random() < 0.4:
        names.insert(int(rng.integers(len(names) + 1)), str(rng.choice(list(_OF_ALL))))
    slow = float(rng.choice([0.0, 1e-3]))
    model = _Model(inputs, tuple(names), slow)
    # What is declared of outputs has open sizes, also where there are no rows.
    examples = model.of(feed_of(rng, model, 2))
    model.outputs = tuple(
        programs.Port(n, y.dtype, "", ("rows", *[None] * (y.ndim - 1)) if y.ndim else (None,))
        for n, y in zip(names, examples, strict=True)
    )
    model.may_run.set()
    return model


def _trailing(rng: Rng) -> list[int | str]:
    """Draw the sizes behind rows: fixed ones, and open ones."""
    return [
        int(rng.integers(1, 4)) if rng.random() < 0.5 else f"open{n}"
        for n in range(int(rng.integers(0, 3)))
    ]


def feed_of(rng: Rng, model: _Model, rows: int, failing: int = 0) -> dict[str, Array]:
    """Draw a request of so many rows; the sizes that are open are few, so that some agree."""
    opened = int(rng.integers(1, 3))
    made: dict[str, Array] = {}
    for port in model.inputs:
        shape = [rows, *[n if isinstance(n, int) else opened for n in port.shape[1:]]]
        most = 2 if port.dtype.kind == "b" else 100
        made[port.name] = rng.integers(0, most, shape).astype(port.dtype)
    if failing:
        able = [x for x in made.values() if x.dtype.kind != "b" and x.size]
        for x in able[:1]:
            x.reshape(-1)[int(rng.integers(x.size))] = failing
    return made


@dataclass
class _Request:
    feed: dict[str, Array]
    sender: Any
    gone: bool = False
    answers: list[tuple[Any, Any]] = field(default_factory=list)
    came_in: list[threading.Thread] = field(default_factory=list)

    @property
    def told(self) -> str:
        """The request in a few words."""
        return ", ".join(f"{x.dtype}{list(x.shape)}" for x in self.feed.values())


def _requests(rng: Rng, model: _Model) -> list[_Request]:
    senders = [SimpleNamespace(alive=True) for _ in range(4)]
    made = []
    for _ in range(_REQUESTS):
        rows = int(rng.choice([0, 1, 1, 2, 3, 4, 11], p=[0.06, 0.3, 0.2, 0.15, 0.12, 0.1, 0.07]))
        failing = int(rng.choice(list(_FAILURES))) if rng.random() < 0.2 else 0
        feed = feed_of(rng, model, rows, failing)
        if rng.random() < 0.1 and len(feed) > 1:
            # Inputs whose numbers of rows differ can only be run as they are.
            first = next(iter(feed))
            feed[first] = np.concatenate([feed[first], feed[first][:1]])
        gone = bool(rng.random() < 0.1)
        sender = SimpleNamespace(alive=False) if gone else senders[int(rng.integers(4))]
        made.append(_Request(feed, sender, gone))
    return made


def _batcher(model: _Model, most: int, delay: float, queue: int) -> Any:
    return import_module("calor_http.model.batching").Batcher(model, most, delay, queue)


def _submit(batcher: Any, request: _Request, ended: asyncio.Queue[int]) -> None:
    """Ask a batcher; a refusal is an answer, too."""
    batching = import_module("calor_http.model.batching")

    def done(results: Any, error: Any) -> None:
        request.answers.append((results, error))
        request.came_in.append(threading.current_thread())
        ended.put_nowait(1)

    try:
        batcher.submit(batching.Job(request.feed, done, request.sender))
    except import_module("calor_http.model.errors").Refused as error:
        done(None, error)


async def _answered(ended: asyncio.Queue[int], count: int, told: str) -> None:
    for n in range(count):
        try:
            await asyncio.wait_for(ended.get(), _PATIENCE)
        except TimeoutError:
            raise AssertionError(f"{told}: {count - n} of {count} requests get no answer") from None


def _sizes(rng: Rng, most: int) -> dict[int, float]:
    """Draw numbers of rows that are compiled, and what they cost; more rows cost less each."""
    among = [n for n in range(2, most + 1) if rng.random() < 0.5]
    return {n: 1.0 + float(rng.uniform(0.05, 0.6)) * (n - 1) for n in (1, *among)}


class _Log(logging.Handler):
    """Keeps what a server writes down of runs that failed."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the error of a record."""
        self.errors.append(record.exc_info and record.exc_info[1])

    def __enter__(self) -> _Log:
        logging.getLogger(PACKAGE).addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logging.getLogger(PACKAGE).removeHandler(self)


async def _together(rng: Rng, log: _Log) -> None:
    """Requests that come at once, and while others run."""
    model = model_of(rng)
    most = int(rng.choice([1, 2, 3, 8]))
    batcher = _batcher(model, most, float(rng.choice([0.0, 2e-3])), 100)
    ended: asyncio.Queue[int] = asyncio.Queue()
    try:
        await batcher.warm()
        of_all = [name for name in model.names if name in _OF_ALL]
        assert not (of_all and batcher.joining.most > 1), f"rows of {of_all} are joined"
        alone = most > 1 and not of_all and batcher.joining.most < 2
        assert not alone, f"rows of {model.names} are not joined: {batcher.joining.reason}"
        if batcher.joining.most > 1:
            sizes = _sizes(rng, most)
            batcher.joining = import_module("calor_http.model.joining").Joining(sizes)
            # More rows than some number of those that are compiled fail.
            model.most = int(rng.choice([*sizes, 1000]))
        requests = _requests(rng, model)
        model.sent = {row for r in requests for row in rows_of(r.feed)}
        model.asked = True
        if model.seconds:
            # The first one begins; others are there when it is done.
            model.may_run.clear()
        for n, request in enumerate(requests):
            _submit(batcher, request, ended)
            if not n or rng.random() < 0.3:
                await asyncio.sleep(0)
        model.may_run.set()
        told = f"{'/'.join(model.names)} by {dict(batcher.joining.seconds)}"
        await _answered(ended, len(requests), told)
        for request in requests:
            _judge(model, request, told)
        _written(log, [r for r in requests if not r.gone and _rows(r) <= model.most], told)
        joins = batcher.joining.most > 0
        wide = [n for n in model.ran if n > max(batcher.joining.most, _largest(requests, joins))]
        assert not wide, f"{told}: a run of {wide[:1]} rows"
    finally:
        model.may_run.set()
        batcher.close()


def _rows(request: _Request) -> int:
    return max(len(x) for x in request.feed.values())


def _largest(requests: Sequence[_Request], joins: bool) -> int:
    """Return the most rows that a request has which is never joined, or cut."""
    odd = [r for r in requests if not joins or len({x.shape[:1] for x in r.feed.values()}) > 1]
    return max((len(next(iter(r.feed.values()))) for r in odd), default=0)


def _written(log: _Log, requests: Sequence[_Request], told: str) -> None:
    """Compare what a log has with the failures that nobody is to blame for who sent them."""
    failures = [f for r in requests for f in [failure_in(r.feed)] if f]
    for kind in {_FAILURES[f][0] for f in failures if _FAILURES[f][1] >= 500}:
        there = any(type(error) is kind for error in log.errors)
        assert there, f"{told}: the log has nothing of {kind.__name__}"
    wrong = [e for e in log.errors if isinstance(e, ShapeError)]
    assert not wrong, f"{told}: the log has {wrong[:1]}, which the sender is told"
    log.errors.clear()


def _judge(model: _Model, request: _Request, told: str) -> None:
    """Compare the answer of a request with the model's for it alone."""
    where = f"{told}: the request {request.told}"
    assert len(request.answers) == 1, f"{where} is answered {len(request.answers)} times"
    assert request.came_in[0] is threading.current_thread(), f"{where} is answered elsewhere"
    results, error = request.answers[0]
    if request.gone:
        # It may have run before anybody looked.
        assert error is None or error.status == 503, f"{where} of nobody: {error}"
        return
    if _rows(request) > model.most:
        # Whether it fails depends on the parts in which it is run.
        return
    failing = failure_in(request.feed)
    if failing:
        assert error is not None, f"{where} succeeds, and alone it fails by {failing}"
        assert error.status == _FAILURES[failing][1], f"{where} has status {error.status}"
        said = not issubclass(_FAILURES[failing][0], CalorError) or str(failing) in str(error)
        assert said, f"{where} is told {error}"
        return
    want = _alone(model, request.feed)
    if want is None:
        assert error is not None, f"{where} succeeds, and alone it fails"
        return
    assert error is None, f"{where} fails: {error}"
    assert len(results) == len(want), f"{where} has {len(results)} outputs"
    for name, got, right in zip(model.names, results, want, strict=True):
        same = got.dtype == right.dtype and got.shape == right.shape
        same = same and got.tobytes() == right.tobytes()
        assert same, f"{where}, {name}: {got.tolist()}, alone {right.tolist()}"


def _alone(model: _Model, feed: Feed) -> list[Array] | None:
    """Return what a request gets alone; None where its inputs fit no row by row program."""
    try:
        return model.of(feed)
    except ValueError:
        return None


async def _waiting(rng: Rng) -> None:
    """How long requests wait, how many may, and what becomes of them at the end."""
    model = _Model(*_plain())
    model.may_run.set()
    queue = int(rng.integers(2, 5))
    batcher = _batcher(model, 8, _NEVER, queue)
    ended: asyncio.Queue[int] = asyncio.Queue()
    await batcher.warm()
    assert batcher.joining.most > 1, f"rows of their own are not joined: {batcher.joining.reason}"
    one = SimpleNamespace(alive=True)
    for _ in range(3):
        # Who asks again and again has nobody beside it.
        asked = _Request(feed_of(rng, model, 1), one)
        _submit(batcher, asked, ended)
        await _answered(ended, 1, "a client that is alone waits for others")
        _judge(model, asked, "alone")
    model.may_run.clear()
    crowd = [_Request(feed_of(rng, model, 1), SimpleNamespace(alive=True)) for _ in range(9)]
    crowd[2].sender.alive, crowd[2].gone = False, True
    _submit(batcher, crowd[0], ended)
    await asyncio.sleep(0.02)
    model.asked, model.sent = True, {row for r in crowd for row in rows_of(r.feed)}
    for request in crowd[1:]:
        _submit(batcher, request, ended)
    refused = [r for r in crowd if r.answers and r.answers[0][1] is not None]
    assert refused == crowd[1 + queue :], f"{len(refused)} are refused beside {queue} that wait"
    assert all(r.answers[0][1].status == 429 for r in refused), "the status of too many"
    model.may_run.set()
    await _answered(ended, len(crowd), "a crowd")
    for request in crowd[: 1 + queue]:
        _judge(model, request, "a crowd")
    error = crowd[2].answers[0][1]
    assert error is not None, "who is gone is answered"
    assert error.status == 503, f"who is gone gets {error}"
    batcher.close()


async def _delayed(rng: Rng) -> None:
    """What waits for others is run after the delay, and refused where the server ends."""
    for ends in (False, True):
        model = _Model(*_plain())
        model.may_run.set()
        batcher = _batcher(model, 8, _NEVER if ends else 0.05, 100)
        ended: asyncio.Queue[int] = asyncio.Queue()
        await batcher.warm()
        crowd = [_Request(feed_of(rng, model, 1), SimpleNamespace(alive=True)) for _ in range(6)]
        for request in crowd[:4]:
            _submit(batcher, request, ended)
        await _answered(ended, 4, "four clients at once")
        start = time.perf_counter()
        for request in crowd[4:]:
            _submit(batcher, request, ended)
        if ends:
            await asyncio.sleep(0.01)
            batcher.close()
        await _answered(ended, 2, "two of four clients")
        for request in crowd[: 4 if ends else 6]:
            _judge(model, request, "a crowd that shrinks")
        if ends:
            status = [r.answers[0][1] and r.answers[0][1].status for r in crowd[4:]]
            assert status == [503, 503], f"a server that ends answers {status}"
            continue
        waited = time.perf_counter() - start
        assert waited >= 0.04, f"two of four clients are run after {waited:.3f} s, not 0.05 s"
        assert model.ran[-1:] != [1] or not model.asked, f"runs of {model.ran} rows"
        batcher.close()


def _plain() -> tuple[Any, ...]:
    """Return the arguments of a model whose runs are handed to the worker."""
    programs = import_module("calor_http.model.programs")
    known = programs.Port("x", np.dtype(np.int64), "INT64", ("rows", 2))
    sums = programs.Port("sums", np.dtype(np.int64), "INT64", ("rows",))
    return (known,), ("sums",), 1e-3, "numpy", (sums,)


def _run_together(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 941])
    with _Log() as log:
        for _ in range(_MODELS):
            asyncio.run(_together(rng, log))


def _run_waiting(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 942])
    asyncio.run(_waiting(rng))
    asyncio.run(_delayed(rng))


_RUNS: Final = {"joined": _run_together, "waiting": _run_waiting}
_DRAWN: Final[dict[str, Callable[..., Any]]] = {"joined": _together, "waiting": _waiting}


def joined_requests() -> Iterator[Check]:
    """Yield the checks, if calor-http is installed."""
    if find_spec(PACKAGE) is None:
        return
    for subject, run in _RUNS.items():
        yield Check(
            kind="models",
            subject=f"requests-{subject}",
            tier="compiled",
            contract=CONTRACT,
            run=run,
            text=partial(inspect.getsource, _DRAWN[subject]),
            looks=True,
        )

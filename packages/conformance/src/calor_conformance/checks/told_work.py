"""What is told of work and devices: profiles, tables of devices, sizes of memory, and dtypes.

Events are drawn and their sums made here again; a program's profile has its ops, once each, within
its time. Tables have their cells below their headers, and say what the device declares.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

import calor
from calor import doctor
from calor.__main__ import main
from calor.backends.capabilities import NOT_YET, impossible
from calor.backends.capabilities import partial as partially
from calor.backends.device import Device
from calor.backends.events import Event
from calor.backends.protocol import FEATURES, FULL, Info
from calor.dtypes import ALL, float32
from calor.errors import ArgumentError, CalorError, UnsupportedError
from calor.profiling import Profile, Sample
from calor.units import bytes_of, bytes_text

from ..strict.backend import strict_of
from .base import Check, Place
from .routed_programs import PACKAGE as ROUTER
from .routed_programs import router

CONTRACT: Final = "what is told of work and of devices is what was done and what they declare"
_TURNS: Final = 8
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
Rng = np.random.Generator


def _cells(line: str, starts: list[int]) -> list[str]:
    return [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]


def _events(rng: Rng) -> list[Event]:
    made, now = [], 0.0
    for _ in range(int(rng.integers(0, 12))):
        now += float(rng.uniform(1e-5, 1e-3))
        seconds = float(rng.uniform(1e-6, 1e-3))
        made.append(Event(
            str(rng.choice(["add", "dot_general", "a long name of an op"])),
            str(rng.choice(["", "tile=4", "lanes"])), now, seconds,
            int(rng.integers(0, 10**6)), int(rng.integers(0, 10**7)), (2, 3, int(rng.integers(9))),
            ("add", "mul"), ("float32[2]",), float(rng.choice([0.0, seconds / 4])),
        ))  # fmt: skip
    return made


def _sums(place: Place, rng: Rng) -> None:
    """The table, the timeline and the trace of drawn events."""
    found = Profile(place.plain)
    found.events = _events(rng)
    found.memory = [
        Sample(n * 1e-3, int(b))
        for n, b in enumerate(rng.integers(0, 1 << 24, rng.integers(0, 30)))
    ]
    total = sum(e.seconds for e in found.events)
    peak = max((s.in_use for s in found.memory), default=0)
    assert found.seconds == total, f"{found.seconds} s, not {total}"
    assert found.peak_bytes == peak, f"{found.peak_bytes} bytes at most, not {peak}"
    groups: dict[tuple[str, str], list[Event]] = {}
    for e in found.events:
        groups.setdefault((e.op, e.blueprint), []).append(e)
    order = sorted(groups, key=lambda k: -sum(e.seconds for e in groups[k]))
    rows = int(rng.integers(1, 5)) if rng.random() < 0.5 else 40
    head, *lines, last = found.table(rows).splitlines()
    assert head.split() == [
        "op",
        "blueprint",
        "calls",
        "ms",
        "share",
        "GB/s",
        "GFLOP/s",
        "of",
        "ceiling",
    ], head
    assert len(lines) == min(rows, len(order)), f"{len(lines)} rows of {len(order)}, {rows} asked"
    for line, key in zip(lines, order, strict=False):
        some = groups[key]
        took, least = sum(e.seconds for e in some), sum(e.least for e in some)
        want = [
            *" ".join(key).split(), str(len(some)), f"{took * 1e3:.3f}", f"{took / total:.1%}",
            f"{sum(e.nbytes for e in some) / took / 1e9:.1f}",
            f"{sum(e.flops for e in some) / took / 1e9:.1f}",
            f"{least / took:.0%}" if least else "-",
        ]  # fmt: skip
        assert line.split() == want, f"a row is {line.split()}, not {want}"
    want_last = f"{len(found.events)} launches, {total * 1e3:.3f} ms, at most {bytes_text(peak)}"
    assert last == f"{want_last} in use", f"{last!r}, not {want_last}"
    _timeline(found, peak, rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        found.chrome_trace(path)
        trace = json.loads(path.read_text("utf-8"))["traceEvents"]
    works = [t for t in trace if t["ph"] == "X"]
    assert len(works) == len(found.events), f"{len(works)} of {len(found.events)} in the trace"
    for made, e in zip(works, found.events, strict=True):
        told = made["name"], made["ts"], made["dur"], made["args"]["bytes"], made["args"]["flops"]
        wants = e.op, e.start * 1e6, e.seconds * 1e6, e.nbytes, e.flops
        assert told == wants, f"in the trace {told}, not {wants}"
        assert made["args"]["of ceiling"] == round(e.least / e.seconds, 3), made
        assert made["cat"] == (e.blueprint or "op"), made
    counts = [t["args"]["bytes in use"] for t in trace if t["ph"] == "C"]
    assert counts == [s.in_use for s in found.memory], f"memory {counts} in the trace"


def _timeline(found: Profile, peak: int, rng: Rng) -> None:
    rows = int(rng.integers(1, 25))
    lines = found.memory_timeline(rows).splitlines()
    assert len(lines) <= rows, f"{len(lines)} rows, at most {rows} were asked"
    size = -(-len(found.memory) // rows) or 1
    spans = [found.memory[a : a + size] for a in range(0, len(found.memory), size)]
    assert len(lines) == len(spans), f"{len(lines)} rows of {len(spans)} spans"
    for line, span in zip(lines, spans, strict=True):
        most = max(span, key=lambda s: s.in_use)
        want = f"{most.seconds * 1e3:10.3f} ms  {bytes_text(most.in_use):>10}"
        bar = "█" * round(most.in_use / (peak or 1) * 40)
        assert line == f"{want}  {bar}".rstrip(), f"a row is {line!r}, not {want!r}"


def _profiled(place: Place, rng: Rng) -> None:
    """A profile of a program on the device has its work within its time."""
    _profiled_on(place, place.device, rng)


def _named_twice(place: Place, rng: Rng) -> None:
    """A router tells of each piece of work once, also of a member that has two names."""
    if find_spec(ROUTER) is None:
        return
    other = strict_of(place.plain) if place.device == place.plain else place.device
    with calor.device(router([place.plain, other])) as device:
        _profiled_on(place, device, rng)


def _profiled_on(place: Place, device: Device, rng: Rng) -> None:
    size = int(rng.integers(8, 33))
    x = calor.asarray(rng.random((size, size)).astype(np.float32))

    def program(x: calor.Tensor) -> calor.Tensor:
        return calor.tanh(x @ x) + calor.sum(x, axis=0)

    # What is compiled and measured once is no work of the program.
    calor.eval(program(x))
    began = perf_counter()
    try:
        with calor.profile(device) as found:
            y = program(x)
            calor.eval(y)
            refused = False
            try:
                with calor.profile(device):
                    pass
            except ArgumentError:
                refused = True
            assert refused, "two profiles of a device are active"
    except UnsupportedError:
        # A device that cannot tell times says so when the context is entered.
        return
    took = perf_counter() - began
    assert found.events, "no work was recorded"
    assert 0 < found.seconds <= took, f"{found.seconds} s of work within {took} s"
    for event in found.events:
        assert 0 <= event.start <= took, f"{event} begins outside of {took} s"
        assert event.start + event.seconds <= took, f"{event} ends after {took} s"
    told = Counter((event.op, event.start) for event in found.events)
    assert max(told.values()) == 1, f"work is told twice: {found.events}"
    assert found.peak_bytes >= y.nbytes, f"{found.peak_bytes} bytes at most"
    if place.interpreted:
        ops = Counter(e.op for e in found.events)
        wants = Counter(n.op.name for n in calor.trace(program, x).nodes)
        assert ops == wants, f"the ops {ops}, not {wants}"
    count = len(found.events)
    calor.eval(calor.exp(x))
    assert len(found.events) == count, "work after the profile is recorded"


def _raised(place: Place, rng: Rng) -> None:
    """A profile that an error leaves is over."""
    try:
        with contextlib.suppress(KeyError), calor.profile(place.device):
            raise KeyError
    except UnsupportedError:
        return
    with calor.profile(place.device):
        pass


def _sizes(place: Place, rng: Rng) -> None:
    """Texts of bytes, there and back."""
    count = int(2.0 ** rng.uniform(0, 50))
    text = bytes_text(count)
    number, unit = text.split()
    place_of = _UNITS.index(unit)
    assert abs(float(number) - count / 1024**place_of) <= 0.051, f"{count} bytes are {text}"
    assert float(number) <= 1024 or unit == "TiB", text
    assert abs(bytes_of(text, "n") - count) <= 0.06 * 1024**place_of, f"{text} is not {count}"
    whole = int(rng.integers(0, 999))
    for at, prefix in enumerate(("", "k", "M", "G", "t")):
        for binary in ("", "i"):
            for tail in ("B", "b", ""):
                want = whole * (1024 if binary else 1000) ** at
                if binary and not prefix:
                    continue
                written = f" {whole} {prefix}{binary}{tail} "
                got = bytes_of(written, "n")
                assert got == want, f"{written!r} is {got} bytes, not {want}"
    assert bytes_of(whole, "n") == whole, f"{whole} bytes are others"
    for wrong in ("", "x", "-3", "3 pB", "1.2.3 k", -1, 1.5, True, None):
        told = ""
        try:
            bytes_of(wrong, "limit")  # type: ignore[arg-type]
        except ArgumentError as error:
            told = str(error)
        assert told.startswith("limit is a number of bytes"), f"{wrong!r} is taken: {told}"


def _tables(place: Place, rng: Rng) -> None:
    """Cells of tables stand below their headers."""
    rows = [["x" * int(n) for n in rng.integers(0, 12, 3)] for _ in range(int(rng.integers(0, 6)))]
    header = ["first", "second", "third"]
    head, *lines = doctor.table(rows, header).splitlines()
    starts = [head.index(name) for name in header]
    for line, row in zip(lines, rows, strict=True):
        assert _cells(line, starts) == row, f"{line!r} is not {row} at {starts}"
        assert line == line.rstrip(), "spaces follow the last cell"


def _features(place: Place, rng: Rng) -> None:
    """The command tells each feature of a device with its state and meaning."""
    info = place.plain.info
    text = doctor.features_text(place.plain)
    if place.plain.name == "numpy:0":
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = main(["devices", "--features", "numpy"])
        assert (status, out.getvalue()) == (0, text + "\n"), f"the command says {out.getvalue()}"
    head, *lines = text.splitlines()
    starts = [head.index(name) for name in ("feature", "state", "meaning")]
    for line, name in zip(lines, FEATURES, strict=True):
        want = [name, str(info.feature(name)), FEATURES[name]]
        assert _cells(line, starts) == want, f"{line!r} is not {want}"


def _variables(place: Place, rng: Rng) -> None:
    """The doctor tells variables with their meanings, and near names of wrong ones."""
    names = [str(n) for n in rng.choice(list(doctor.VARIABLES), 2, replace=False)]
    wrong, other = names[0][:-1], f"{doctor.OWN.upper()}_QUITE_OTHER"
    given = {wrong: "3", other: "1", "NOT_OF_CALOR": "1"}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        rows = {name: (value, said) for name, value, said in doctor._variables()}
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    stranger = "not read by calor itself"
    assert rows[wrong] == ("3", f"{stranger}; {names[0]}?"), f"{wrong}: {rows[wrong]}"
    assert rows[other] == ("1", stranger), f"{other}: {rows[other]}"
    assert "NOT_OF_CALOR" not in rows, "a variable of others is told"
    assert list(rows) == sorted(rows), f"variables in the order {list(rows)}"
    for name, (value, said) in rows.items():
        known = doctor.VARIABLES.get(name)
        assert known is None or (os.environ[name], known) == (value, said), f"{name}: {said}"


def _dtypes(place: Place, rng: Rng) -> None:
    """The dtypes of a device in few words, and those of the array API."""
    states = {t: FULL if rng.random() < rng.choice([0.2, 0.8, 1.0]) else impossible("no")
              for t in ALL}  # fmt: skip
    there = [t.name for t, state in states.items() if state]
    missing = [t.name for t, state in states.items() if not state]
    told = doctor._dtypes(_Told(Info("told", states, {})))  # type: ignore[arg-type]
    if not missing:
        want = f"all {len(there)}"
    elif len(missing) < len(there):
        want = f"all but {', '.join(missing)}"
    else:
        want = ", ".join(there)
    assert told == want, f"{told!r}, not {want!r}"
    for state, words in ((FULL, "full"), (partially("some"), "partial"), (NOT_YET, "not"),
                         (impossible("never"), "impossible")):  # fmt: skip
        assert str(state).startswith(words), f"{state} is told of {words}"
        assert state.reason in str(state), f"{state} without its reason"
    space = calor.__array_namespace_info__()
    assert space.default_device() is calor.device(place.device), "another default device"
    kinds = {
        "bool": "bool", "signed integer": "int", "unsigned integer": "uint",
        "real floating": "float", "complex floating": "complex",
    }  # fmt: skip
    every = space.dtypes(device=place.plain)
    for kind, tail in kinds.items():
        found = space.dtypes(device=place.plain, kind=kind)
        wants = {n: d for n, d in every.items() if d.kind == tail}
        assert found == wants, f"of kind {kind}: {list(found)}, not {list(wants)}"
    pair = tuple(str(k) for k in rng.permutation(list(kinds))[:2])
    both = space.dtypes(device=place.plain, kind=pair)
    assert set(both) == {n for n, d in every.items() if d.kind in [kinds[k] for k in pair]}, pair
    for name, dtype in every.items():
        assert dtype.name == name, f"{name} is {dtype}"
        assert place.plain.info.dtypes.get(dtype), f"the device has no {name}"
    defaults = space.default_dtypes()
    made = {
        "real floating": calor.ones(1) + 0.5,
        "integral": calor.arange(2),
        "complex floating": calor.asarray([1j]),
        "indexing": calor.argmax(calor.arange(2)),
    }
    for kind, tensor in made.items():
        with contextlib.suppress(CalorError):
            assert tensor.dtype is defaults[kind], f"{kind}: {tensor.dtype}, not {defaults[kind]}"


class _Told:
    """A device that has nothing but an info."""

    def __init__(self, info: Info) -> None:
        self.info = info


_SUBJECTS: Final[dict[str, tuple[Callable[[Place, Rng], None], int]]] = {
    "sums": (_sums, _TURNS), "profile": (_profiled, 2),
    "profile-of-two-names": (_named_twice, 1), "raised": (_raised, 1),
    "sizes": (_sizes, _TURNS), "tables": (_tables, _TURNS), "features": (_features, 1),
    "variables": (_variables, _TURNS), "dtypes": (_dtypes, _TURNS),
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    run, turns = _SUBJECTS[name]
    for turn in range(turns):
        run(place, np.random.default_rng([place.seed, 961, turn, *name.encode()]))


def told_work() -> Iterator[Check]:
    """Yield a check of each thing that is told."""
    for name, (run, _) in _SUBJECTS.items():
        yield Check(
            kind="features",
            subject=f"told-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, run),
            dtypes=(float32,) if name in ("profile", "raised", "profile-of-two-names") else (),
            looks=True,
        )

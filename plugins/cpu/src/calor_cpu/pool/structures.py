"""The memory that Python and the native code share: pool, plan, records, and the status of a run.

Requirements: one description serves both sides, so the native text takes its offsets from these
structures; what different threads write lies on different cache lines (two lines apart, as
processors fetch lines in pairs), and what a worker reads to begin a job lies on one.
"""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_byte, c_double, c_int32, c_int64, c_uint64, c_void_p
from enum import IntEnum

LINE = 128
PROCESSORS = 1024  # of which a mask tells


class PoolState(Structure):
    """A pool. ``ticket``: the job's number, the first of the grains left, and how many these are.

    ``function``, ``args``, ``cubes``, ``size`` (cubes a grain) and ``most`` (grains a
    chunk) describe the job. ``pending`` counts grains that are not finished, ``joining`` says
    that the caller sleeps until none is. Workers sleep on ``signal``; ``sleepers`` counts them.
    ``lock`` is held by the caller whose job it is, ``running`` counts runs without the
    interpreter's lock. ``spin`` is how many nanoseconds a thread looks for work before it
    sleeps. ``stop`` sends the workers home, ``cancel`` ends every run at its next record,
    ``hold`` makes runs keep the interpreter's lock. ``home`` is the processor of the last
    caller, counted from 1; off it the workers are kept whose numbers are the ``near`` first of
    ``ids``, on the other processors of the mask ``allowed``.
    """

    _fields_ = (
        ("ticket", c_uint64),
        ("function", c_void_p),
        ("args", c_void_p),
        ("cubes", c_int64),
        ("size", c_int64),
        ("most", c_int64),
        ("_job", c_byte * (LINE - 48)),
        ("pending", c_int32),
        ("joining", c_int32),
        ("_pending", c_byte * (LINE - 8)),
        ("signal", c_int32),
        ("sleepers", c_int32),
        ("_signal", c_byte * (LINE - 8)),
        ("lock", c_int32),
        ("running", c_int32),
        ("home", c_int32),
        ("_lock", c_byte * (LINE - 12)),
        ("threads", c_int64),
        ("spin", c_int64),
        ("stop", c_int32),
        ("started", c_int32),
        ("cancel", c_int32),
        ("hold", c_int32),
        ("ids", c_void_p),
        ("near", c_int64),
        ("_config", c_byte * (LINE - 48)),
        ("allowed", c_uint64 * (PROCESSORS // 64)),
        # POSIX has no size for these; the largest known is 64 bytes.
        ("mutex", c_byte * LINE),
        ("condition", c_byte * LINE),
    )


class RecordState(Structure):
    """A launch: ``function(args, begin, end)`` over the cubes, ``grain`` cubes a chunk.

    A grain of 0 keeps all cubes in the calling thread.
    """

    _fields_ = (
        ("function", c_void_p),
        ("args", c_void_p),
        ("cubes", c_int64),
        ("grain", c_int64),
    )


class RelocationState(Structure):
    """What a run writes before its records: ``*(i64*)slot = bases[number] + offset``."""

    _fields_ = (("slot", c_void_p), ("number", c_int64), ("offset", c_int64))


class PlanState(Structure):
    """A plan. ``busy`` is set while it runs, ``error`` is the word that kernels set to fail.

    ``parallel``: whether a record is worth more than one thread. ``release``: whether the
    interpreter's lock is given up while it runs. ``bases`` has room for ``slots`` addresses.
    ``owner`` and ``resume`` are Python objects that the plan does not own:
    ``resume(owner, status, addresses)`` is called when a run does not end well.
    """

    _fields_ = (
        ("pool", c_void_p),
        ("records", c_void_p),
        ("count", c_int64),
        ("relocations", c_void_p),
        ("relocation_count", c_int64),
        ("bases", c_void_p),
        ("slots", c_int64),
        ("owner", c_void_p),
        ("resume", c_void_p),
        ("parallel", c_int32),
        ("release", c_int32),
        ("busy", c_int32),
        ("error", c_int32),
    )


class KindState(Structure):
    """Launches that are divided alike: where among the values cubes, operations and bytes are.

    ``times`` is how many there are. ``count`` and ``grain`` are what comes of it each time.
    """

    _fields_ = (
        ("x", c_int64),
        ("y", c_int64),
        ("z", c_int64),
        ("flops", c_int64),
        ("nbytes", c_int64),
        ("times", c_int64),
        ("count", c_int64),
        ("grain", c_int64),
    )


class FormState(Structure):
    """What plans are filled from that differ in numbers alone.

    ``values`` has room for ``given`` numbers, which constants follow. ``pointers`` are the words of
    a plan that hold places in it; ``moves`` are pairs of a word and the number in it. ``launches``
    has the number of a kind for each. ``call`` defines the built-in function of a plan. ``flops``
    and ``nbytes`` are what a core does in a second, ``near_nbytes`` where it is ``near`` at most;
    ``chunk`` and ``keep`` are the seconds of a chunk and of a run that keeps Python's lock.
    """

    _fields_ = (
        ("values", c_void_p),
        ("given", c_int64),
        ("pointers", c_void_p),
        ("pointer_count", c_int64),
        ("moves", c_void_p),
        ("move_count", c_int64),
        ("kinds", c_void_p),
        ("kind_count", c_int64),
        ("launches", c_void_p),
        ("launch_count", c_int64),
        ("call", c_void_p),
        ("flops", c_double),
        ("nbytes", c_double),
        ("near", c_double),
        ("near_nbytes", c_double),
        ("chunk", c_double),
        ("keep", c_double),
    )


class Status(IntEnum):
    """How a run ended: the low byte of what it returns.

    After FAILED the next three bytes are the record's number, the upper half is the kernel's code.
    START: nothing ran, as the workers are not started. BUSY: nothing ran, as another thread runs
    the plan. SIGNAL: a signal's handler raised, and the exception is set. COUNT: nothing ran, as
    the number of addresses is wrong.
    """

    DONE = 0
    START = 1
    BUSY = 2
    FAILED = 3
    CANCELLED = 4
    SIGNAL = 5
    COUNT = 6


def offsets() -> dict[str, int]:
    """Return what the native text knows: ``pool_ticket`` and the like, in bytes, and statuses."""
    named: dict[str, type[Structure]] = {
        "pool": PoolState,
        "record": RecordState,
        "move": RelocationState,
        "plan": PlanState,
        "kind": KindState,
        "form": FormState,
    }
    known = {
        f"{name}_{field}": getattr(structure, field).offset
        for name, structure in named.items()
        for field, *_ in structure._fields_
        if not field.startswith("_")
    }
    known |= {f"sizeof_{name}": ctypes.sizeof(structure) for name, structure in named.items()}
    return known | {status.name: int(status) for status in Status}

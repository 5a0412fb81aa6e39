"""The memory that Python and the native code share: pool, plan, records, and the status of a run.

Requirements: one description serves both sides, so the native text takes its offsets from these
structures. Data written by different threads lie on different cache lines (two lines apart, because
processors fetch pairs of lines); the data that a worker reads to begin a job lie on one.
"""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_byte, c_double, c_int32, c_int64, c_uint64, c_void_p
from enum import IntEnum

LINE = 128
PROCESSORS = 1024  # the largest number of processors in a mask


class PoolState(Structure):
    """A pool. ``ticket`` is the job's number, the first remaining grain, and the number of them.

    ``function``, ``args``, ``cubes``, ``size`` (cubes in a grain) and ``most`` (grains in a chunk)
    describe the job. ``pending`` counts unfinished grains; ``joining`` says that the caller sleeps
    until it is 0. Workers sleep on ``signal``; ``sleepers`` counts them. The caller of the job
    holds ``lock``; ``running`` counts runs without the interpreter's lock. ``spin`` is the polling
    time in nanoseconds. ``stop`` ends the workers, ``cancel`` ends every run at its next record,
    ``hold`` makes runs keep the interpreter's lock. ``home`` is the last caller's processor,
    counted from 1. The first ``near`` workers of ``ids`` are kept off it, on the other processors
    of the mask ``allowed``.
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
        # POSIX does not define their size; the largest known is 64 bytes.
        ("mutex", c_byte * LINE),
        ("condition", c_byte * LINE),
    )


class RecordState(Structure):
    """A launch: ``function(args, begin, end)`` over the cubes, in chunks of ``grain`` cubes.

    A grain of 0 keeps all cubes in the calling thread. ``loop``, unless 0, is the loop that ends
    with this launch.
    """

    _fields_ = (
        ("function", c_void_p),
        ("args", c_void_p),
        ("cubes", c_int64),
        ("grain", c_int64),
        ("loop", c_void_p),
    )


class LoopState(Structure):
    """Launches that run ``times`` times: the ``back`` launches that end with the loop's own.

    Before each time but the first, all ``shifts`` are applied. ``left`` counts the times that are
    left while a plan runs.
    """

    _fields_ = (
        ("left", c_int64),
        ("times", c_int64),
        ("back", c_int64),
        ("shifts", c_void_p),
        ("shift_count", c_int64),
    )


class ShiftState(Structure):
    """An address that moves in a loop: ``*(i64*)slot += even``, and every second time ``odd``."""

    _fields_ = (("slot", c_void_p), ("even", c_int64), ("odd", c_int64))


class RelocationState(Structure):
    """An address that a run stores before its records: ``*(i64*)slot = bases[number] + offset``."""

    _fields_ = (("slot", c_void_p), ("number", c_int64), ("offset", c_int64))


class PlanState(Structure):
    """A plan. ``busy`` is set while it runs; ``error`` is the word that kernels set to fail.

    ``parallel``: a record is worth more than one thread. ``release``: the run releases the
    interpreter's lock. ``bases`` has room for ``slots`` addresses. ``loops`` are those of the
    records. ``owner`` and ``resume`` are
    borrowed Python objects: ``resume(owner, status, addresses)`` is called if a run does not
    succeed.
    """

    _fields_ = (
        ("pool", c_void_p),
        ("records", c_void_p),
        ("count", c_int64),
        ("relocations", c_void_p),
        ("relocation_count", c_int64),
        ("bases", c_void_p),
        ("slots", c_int64),
        ("loops", c_void_p),
        ("loop_count", c_int64),
        ("owner", c_void_p),
        ("resume", c_void_p),
        ("parallel", c_int32),
        ("release", c_int32),
        ("busy", c_int32),
        ("error", c_int32),
    )


class KindState(Structure):
    """Launches that are divided alike: indices of their cubes, operations and bytes in the values.

    ``times`` is their number. ``count`` and ``grain`` are computed at each use.
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
    """The template of plans that differ in numbers only.

    ``values`` has room for ``given`` numbers, followed by constants. ``pointers`` are the words of
    a plan that hold offsets in it; ``moves`` are pairs of a word and the number in it. ``launches``
    has the kind of each launch. ``call`` defines a plan's built-in function. ``flops`` and
    ``nbytes`` are a core's rates per second; ``near_nbytes`` applies to at most ``near`` bytes.
    ``shared`` is the shortest duration of a launch that threads share, ``chunk`` that of a chunk,
    ``keep`` that of a run that keeps Python's lock, in seconds.
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
        ("shared", c_double),
        ("chunk", c_double),
        ("keep", c_double),
    )


class Status(IntEnum):
    """The end of a run: the low byte of its result.

    After FAILED the next three bytes are the record's number, and the upper half is the kernel's
    code. START: nothing ran, because the workers are not started. BUSY: nothing ran, because
    another thread runs the plan. SIGNAL: a signal handler raised, and the exception is set. COUNT:
    nothing ran, because the number of addresses is wrong.
    """

    DONE = 0
    START = 1
    BUSY = 2
    FAILED = 3
    CANCELLED = 4
    SIGNAL = 5
    COUNT = 6


def offsets() -> dict[str, int]:
    """Return the constants of the native text: offsets in bytes, and statuses."""
    named: dict[str, type[Structure]] = {
        "pool": PoolState,
        "record": RecordState,
        "loop": LoopState,
        "shift": ShiftState,
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

"""Plans that differ from a known plan in numbers only: its words are copied and some are replaced.

Requirements: every new size of a program takes this path, so it costs a few microseconds for a plan
and nanoseconds for a number, in native code. Launches with equal figures of work are divided alike.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_int64, c_uint64
from itertools import count
from typing import Any, Final

from calor_cpu.pool import KEEP_S, RESUME, Block, Explain, Layout, Plan, Pool, Runner
from calor_cpu.pool.structures import FormState, KindState
from calor_kernel.device.protocol import Slot, Step, Varying

_MASK: Final = 2**64 - 1
# The fields of FormState that say how launches are divided.
_RATES: Final = ("flops", "nbytes", "near", "near_nbytes", "shared", "chunk")


class Form:
    """Launches whose numbers are given at each use.

    ``rates`` are the values of FormState that divide launches: operations and bytes per second, the
    bytes of a core's caches and their rate, and the seconds of a shared launch and of a chunk.
    """

    def __init__(
        self,
        pool: Pool,
        layout: Layout,
        steps: Sequence[Step],
        slots: int,
        rates: tuple[float, float, float, float, float, float],
    ) -> None:
        self.pool = pool
        self.slots = slots
        self._records = [layout.record(i) for i in range(layout.count)]
        known = layout.copied(RESUME)
        self._words = bytes(known.words)
        self._type: Callable[[bytes], Any] = type(known.words).from_buffer_copy
        self._pointers = layout.pointers
        # Pairs of a word and the index of its number.
        moves: list[int] = []
        # Launches with equal cubes and work form a kind: its number, and the count of launches.
        kinds: dict[tuple[Any, ...], int] = {}
        times: list[int] = []
        kind_of: list[int] = []
        for i, (step, at) in enumerate(zip(steps, layout.arguments, strict=True)):
            given: tuple[Any, ...] = (*step.arguments, *step.cubes)
            for j, argument in enumerate(given):
                word, number = at + j, argument
                if isinstance(argument, Slot):
                    word, number = layout.moves[i, j], argument.offset
                if isinstance(number, Varying):
                    moves += (word, number.place)
            shifts: Sequence[tuple[Any, Any]] = step.moves
            repeated: Any = None if step.loop is None else step.loop[1]
            for j, (even, odd) in enumerate(shifts):
                place = layout.shifts.get((i, j))
                for word, number in () if place is None else ((place, even), (place + 1, odd)):
                    if isinstance(number, Varying):
                        moves += (word, number.place)
            if isinstance(repeated, Varying):
                moves += (layout.times[i], repeated.place)
            kind = kinds.setdefault((*step.cubes, step.flops, step.nbytes), len(kinds))
            if kind == len(times):
                times.append(0)
            times[kind] += 1
            kind_of.append(kind)
        # The figures as indices of the values, in which constants follow the given numbers.
        flat = [n for figures in kinds for n in figures]
        varying = [n.place for n in flat if isinstance(n, Varying)]
        first = max((*varying, *moves[1::2]), default=-1) + 1
        constants = [n for n in flat if not isinstance(n, Varying)]
        following = count(first)
        places = iter([n.place if isinstance(n, Varying) else next(following) for n in flat])
        values = (c_uint64 * (first + len(constants)))()
        values[first:] = [n & _MASK for n in constants]
        figured = [KindState(*figures) for figures in zip(*(places,) * 5, times, strict=True)]
        arrays: tuple[ctypes.Array[Any], ...] = (
            values,
            (c_int64 * len(layout.pointers))(*layout.pointers.tolist()),
            (c_int64 * len(moves))(*moves),
            (KindState * len(figured))(*figured),
            (c_int64 * len(kind_of))(*kind_of),
        )
        state = FormState()
        state.given = first
        names = ("values", "pointers", "moves", "kinds", "launches")
        for name, array in zip(names, arrays, strict=True):
            setattr(state, name, ctypes.addressof(array))
        state.pointer_count, state.move_count = len(layout.pointers), len(moves) // 2
        state.kind_count, state.launch_count = len(figured), len(kind_of)
        state.call = pool.native.call
        for field, rate in zip(_RATES, rates, strict=True):
            setattr(state, field, rate)
        state.keep = KEEP_S
        self._fill = pool.native.filler(ctypes.addressof(state), (state, arrays))

    def plan(
        self, numbers: Sequence[int], functions: Mapping[int, int], keep: object, explain: Explain
    ) -> Plan:
        """Return the plan for some numbers.

        ``functions`` are the addresses of changed functions by launch.
        """
        block = Block(self._type(self._words), self._pointers)
        for number, address in functions.items():
            block.words[self._records[number]] = address
        runner = Runner(self.pool, self.slots, block, keep, explain)
        return Plan.of(runner, self._fill(block.address, runner, *numbers))

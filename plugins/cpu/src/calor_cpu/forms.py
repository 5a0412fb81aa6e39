"""Plans that differ from a known one in numbers alone: its words are copied, and some replaced.

Requirements: this is on the way of every size that a program meets, so it costs some microseconds a
plan and nanoseconds a number; launches with the same figures of work are divided alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from calor_cpu.pool import Layout, is_long
from calor_kernel.runtime.device import Slot, Step, Varying

_CUBES: Final = 2
_GRAIN: Final = 3
Share = Callable[[int, int, int], tuple[int, float | None]]
Figures = tuple[tuple[Any, Any, Any], Any, Any]


class Form:
    """Launches whose numbers are given each time.

    ``share`` gives a launch's grain and estimated seconds of its cubes, operations and bytes.
    """

    def __init__(self, layout: Layout, steps: Sequence[Step], share: Share) -> None:
        self._layout = layout
        self._share = share
        self._records = [layout.record(i) for i in range(layout.count)]
        # Words that are numbers of the list, and which.
        words: list[int] = []
        numbers: list[int] = []
        # The same of numbers that follow the list: cubes and grain of each kind of figures.
        self._figures: dict[Figures, int] = {}
        self._kinds: list[int] = []
        figured: list[int] = []
        order: list[int] = []
        for i, (step, at) in enumerate(zip(steps, layout.arguments, strict=True)):
            given: tuple[Any, ...] = (*step.arguments, *step.cubes)
            for j, argument in enumerate(given):
                word, number = at + j, argument
                if isinstance(argument, Slot):
                    word, number = layout.moves[i, j], argument.offset
                if isinstance(number, Varying):
                    words.append(word)
                    numbers.append(number.place)
            kind = self._figures.setdefault(
                (step.cubes, step.flops, step.nbytes), len(self._figures)
            )
            self._kinds.append(kind)
            record = self._records[i]
            figured += [record + _CUBES, record + _GRAIN]
            order += [2 * kind, 2 * kind + 1]
        self._words = np.array(words, np.int64)
        self._numbers = np.array(numbers, np.int64)
        self._figured = np.array(figured, np.int64)
        self._order = np.array(order, np.int64)
        self._times = np.bincount(self._kinds, minlength=len(self._figures)).tolist()

    def layout(self, numbers: Sequence[int], functions: Mapping[int, int]) -> Layout:
        """Return the layout for some numbers.

        ``functions``: the addresses of those that are others than before, by launch.
        """
        words = self._layout.words.copy()
        words[self._words] = np.array(numbers, np.uint64)[self._numbers]
        figures: list[int] = []
        total: float | None = 0.0
        parallel = False
        for (cubes, flops, nbytes), times in zip(self._figures, self._times, strict=True):
            x, y, z = [n if type(n) is int else numbers[n.place] for n in cubes]
            count = x * y * z
            grain, seconds = self._share(
                count,
                flops if type(flops) is int else numbers[flops.place],
                nbytes if type(nbytes) is int else numbers[nbytes.place],
            )
            figures += (count, grain)
            parallel = parallel or 0 < grain < count
            total = None if total is None or seconds is None else total + times * seconds
        words[self._figured] = np.array(figures, np.uint64)[self._order]
        for number, address in functions.items():
            words[self._records[number]] = address
        return self._layout.with_words(words, parallel=parallel, release=is_long(total))

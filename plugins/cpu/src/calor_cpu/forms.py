"""Plans that differ from a known one in numbers alone: its words are copied, and some replaced.

Requirements: this is on the way of every size that a program meets, so it costs some microseconds a
plan and nanoseconds a number; launches with the same figures of work are divided alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from operator import itemgetter, mul
from typing import Any, Final

import numpy as np

from calor_cpu.pool import Layout, is_long
from calor_kernel.runtime.device import Slot, Step, Varying

_CUBES: Final = 2
_GRAIN: Final = 3
Getter = Callable[[Sequence[int]], tuple[int, ...]]
Shares = Callable[[Iterable[tuple[int, int, int]]], tuple[list[int], list[float]]]


def getter(places: Sequence[int]) -> Getter:
    """Return what takes the items at some places; there are several, or none."""
    found: Getter = itemgetter(*places) if places else lambda items: ()
    return found


class Form:
    """Launches whose numbers are given each time.

    ``shares`` gives the grains of launches and their seconds, of cubes, operations and bytes.
    """

    def __init__(self, layout: Layout, steps: Sequence[Step], shares: Shares) -> None:
        self._layout = layout
        self._shares = shares
        self._records = [layout.record(i) for i in range(layout.count)]
        # Words that are numbers of the list, and which.
        words: list[int] = []
        numbers: list[int] = []
        # Launches with the same cubes and work are of one kind: its number, and how many there are.
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
                    words.append(word)
                    numbers.append(number.place)
            kind = kinds.setdefault((*step.cubes, step.flops, step.nbytes), len(kinds))
            if kind == len(times):
                times.append(0)
            times[kind] += 1
            kind_of.append(kind)
        self._words = np.array(words, np.int64)
        self._numbers = np.array(numbers, np.int64)
        # The cubes of all kinds come first, then the grains.
        self._figured = np.array(
            [record + word for word in (_CUBES, _GRAIN) for record in self._records], np.int64
        )
        self._order = np.array([*kind_of, *(k + len(kinds) for k in kind_of)], np.int64)
        self._times = times
        # The figures as places in the list of numbers, which constants follow.
        flat = [n for figures in kinds for n in figures]
        varying = [n.place for n in flat if isinstance(n, Varying)]
        self._count = max((*varying, *numbers), default=-1) + 1
        self._constants = tuple(n for n in flat if not isinstance(n, Varying))
        following = count(self._count)
        self._figures = getter(
            [n.place if isinstance(n, Varying) else next(following) for n in flat]
        )

    def layout(self, numbers: Sequence[int], functions: Mapping[int, int]) -> Layout:
        """Return the layout for some numbers.

        ``functions``: the addresses of those that are others than before, by launch.
        """
        words = self._layout.words.copy()
        words[self._words] = np.array(numbers, np.uint64)[self._numbers]
        figures = iter(self._figures((*numbers[: self._count], *self._constants)))
        kinds = [
            (x * y * z, flops, nbytes)
            for x, y, z, flops, nbytes in zip(*(figures,) * 5, strict=True)
        ]
        grains, times = self._shares(kinds)
        counts = [kind[0] for kind in kinds]
        parallel = any(0 < g < n for g, n in zip(grains, counts, strict=True))
        total = sum(map(mul, times, self._times))
        words[self._figured] = np.array(counts + grains, np.uint64)[self._order]
        for number, address in functions.items():
            words[self._records[number]] = address
        return self._layout.with_words(words, parallel=parallel, release=is_long(total))

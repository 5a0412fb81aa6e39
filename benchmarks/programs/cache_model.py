"""The bytes that a core's caches take from the level behind them, for lines in their order.

Requirements: caches keep what was used last, in sets, as processors nearly do. What a processor
fetches before it is asked for is the same bytes earlier, and counts alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from programs.instructions import Touched

LINE = 64


@dataclass
class Cache:
    """A cache of some bytes in ``ways``; ``taken``: the lines that were not in it."""

    nbytes: int
    ways: int
    taken: int = 0
    sets: list[dict[int, None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sets = [{} for _ in range(max(1, self.nbytes // (LINE * self.ways)))]

    def has(self, line: int) -> bool:
        """Return whether a line is there; it is afterwards, as the one used last."""
        lines = self.sets[line % len(self.sets)]
        if line in lines:
            lines[line] = lines.pop(line)
            return True
        self.taken += 1
        lines[line] = None
        if len(lines) > self.ways:
            del lines[next(iter(lines))]
        return False


@dataclass(frozen=True)
class Traffic:
    """Bytes that the first cache takes from the second one, and that from behind it."""

    first: int
    second: int


class Caches:
    """The private caches of a core, which steps fill."""

    # The ways of usual sizes of a first cache; a second cache has about sixteen.
    _WAYS = ((48 << 10, 12), (32 << 10, 8), (64 << 10, 4))

    def __init__(self, nbytes: Sequence[int]) -> None:
        first = nbytes[0]
        second = nbytes[1] if len(nbytes) > 1 else 16 * first
        self.near = Cache(first, dict(self._WAYS).get(first, 8))
        self.far = Cache(second, 16 if second >= 1 << 20 and not second % (16 * LINE) else 8)

    def run(self, touched: Touched) -> Traffic:
        """Return the traffic of lines, after those of earlier calls."""
        near, far = self.near, self.far
        before = near.taken, far.taken
        for line, asks in zip(touched.lines.tolist(), touched.asks.tolist(), strict=True):
            # Kernels ask for lines into the second cache.
            if asks or not near.has(line):
                far.has(line)
        return Traffic((near.taken - before[0]) * LINE, (far.taken - before[1]) * LINE)

"""The ways of a family to do an operation: a table of rows, and the ranker of all tables.

Requirements: asking a way changes no state; a way that refuses says why, so that a dry run of the
tuner explains every choice; the first way of a table that does not refuse is the first choice.

>>> from calor_kernel.contract.info import DeviceInfo
>>> request = Request("double", {}, (), (), DeviceInfo("a device", frozenset()))
>>> def refuses(rows, request):
...     return "more than 8 rows" if rows > 8 else None
>>> small = Way("small", refuses, lambda rows, request: [Work(())])
>>> ranked([small], 9, request).dropped
(Dropped(variant='small', reason='more than 8 rows'),)

A distribution adds rows for instructions that its device alone has; see :class:`Table`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final, Generic, TypeVar

from calor.errors import PluginError
from calor.plugins.entries import Entry, scan
from calor_kernel.contract.work import Candidates, Dropped, Request, Work

GROUP: Final = "calor_kernel.ways.v"
"""The group of entry points that bring rows, without the version."""
TABLES: Final = ("attention", "attention_gradient", "conv", "matmul")
"""The names of the tables to which another distribution may add rows."""
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Way(Generic[P]):
    """One way to solve a family's problems: a row of its table.

    Attributes
    ----------
    name : str
        The name stored by the tuner: the same at similar sizes.
    refuses : callable
        ``refuses(problem, request)`` returns why the way cannot solve a problem, or None.
    works : callable
        ``works(problem, request)`` returns its candidates, the most promising first, with dropped
        ones among them; only the first is taken unless the request wants candidates. Called only if
        the way does not refuse; an empty result means that no tile of it suits the sizes.
    tier : int
        Ways of a lower tier are more promising. A candidate's group is its own plus the distance to
        the tier of the first choice. Of a way two tiers behind it or more, one candidate is taken.
    spare : bool
        Whether the way is asked only if no way before it has a candidate of group 0.
    paired : bool
        Whether the way is offered beside a first choice of its tier even if no candidates are
        wanted: which is better depends on the unchanged operands, and a plan then chooses again.
    pitched : bool
        Whether it writes results with the request's pitch.
    """

    name: str
    refuses: Callable[[P, Request], str | None]
    works: Callable[[P, Request], Iterable[Work | Dropped]]
    tier: int = 0
    spare: bool = False
    paired: bool = False
    pitched: bool = False


@dataclass(frozen=True, slots=True)
class Row(Generic[P]):
    """A way that another distribution adds to a table, before the way named ``before``."""

    before: str
    way: Way[P]


class Table(Generic[P]):
    """The ways of a family's op, the most promising first, with the rows of other distributions.

    An entry point of the group ``calor_kernel.ways.v1``, named after the table, refers to a tuple
    of :class:`Row`. It is loaded when the table is first asked, on any device: the rows refuse the
    devices that lack their instructions.

    Parameters
    ----------
    name : str
        The name of the table.
    *ways : Way
        The library's own ways.
    """

    def __init__(self, name: str, *ways: Way[P]) -> None:
        self.name = name
        self.own = ways

    def __iter__(self) -> Iterator[Way[P]]:
        """Yield the ways in order.

        Raises
        ------
        PluginError
            If an entry point does not load, names no table, or no way of this one.
        """
        return iter(self._ways)

    @cached_property
    def _ways(self) -> tuple[Way[P], ...]:
        ways = list(self.own)
        for entry in brought():
            if entry.name not in {*TABLES, self.name}:
                raise PluginError(
                    f"{entry.source} adds ways to {entry.name!r}, but the tables of ways are "
                    f"{', '.join(TABLES)}; {_together(entry)}"
                )
            if entry.name == self.name:
                for row in entry.load():
                    names = [way.name for way in ways]
                    if row.before not in names:
                        raise PluginError(
                            f"{entry.source} adds a way before {row.before!r} to the ways of "
                            f"{self.name!r}, which are {', '.join(names)}; {_together(entry)}"
                        )
                    ways.insert(names.index(row.before), row.way)
        return tuple(ways)


def _together(entry: Entry) -> str:
    return f"install versions of calor-kernel and {entry.distribution} that belong together"


@cache
def brought() -> tuple[Entry, ...]:
    """Return the entry points of other distributions' rows."""
    return tuple(scan(GROUP, "calor-kernel", range(1, 2)))


def serves(problem: object, request: Request) -> None:
    """Refuse nothing: for a way that solves every problem of its family."""


def ranked(ways: Iterable[Way[P]], problem: P, request: Request) -> Candidates:
    """Return the candidates of a table for a problem, and why the other ways refuse.

    Parameters
    ----------
    ways : iterable of Way
        The table, the most promising way first.
    problem : P
        The problem to solve.
    request : Request
        The request; ``request.candidates``: whether ways beside the first are wanted.

    Returns
    -------
    Candidates
        The candidates, the first choice first; empty if every way refuses.
    """
    works: list[Work] = []
    dropped: list[Dropped] = []
    first: int | None = None
    for way in ways:
        behind = 0 if first is None else max(way.tier - first, 0)
        beside = request.candidates or (way.paired and behind == 0)
        if first is not None and (way.spare or not beside):
            continue
        reason = way.refuses(problem, request)
        if request.pitches and not way.pitched:
            reason = "it writes dense results alone"
        if reason is not None:
            dropped.append(Dropped(way.name, reason))
            continue
        made = list(_taken(way, problem, request, alone=not request.candidates or behind > 1))
        dropped += (one for one in made if isinstance(one, Dropped))
        own = [one for one in made if isinstance(one, Work)]
        if not made:
            dropped.append(Dropped(way.name, "no tile of it suits the sizes"))
        if first is None and any(work.group == 0 for work in own):
            first = way.tier
        for work in own:
            variant, group = work.variant or way.name, work.group + behind
            works.append(replace(work, variant=variant, group=group, way=way))
    return Candidates.of(sorted(works, key=lambda work: work.group), dropped)


def _taken(way: Way[P], problem: P, request: Request, alone: bool) -> Iterator[Work | Dropped]:
    """Yield the candidates of a way, up to the first work if it is taken ``alone``."""
    for one in way.works(problem, request):
        yield one
        if alone and isinstance(one, Work):
            return

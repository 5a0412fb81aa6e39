"""Queries to the kernel families, each asked once.

Requirements: planning a known graph at another size, or a graph of known ops, takes microseconds
per node, so a family's answers are cached by op, attributes, views and results.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from calor.collecting import collecting_later
from calor.graph.attributes import exact_items
from calor.interning import remember
from calor.specs import Spec
from calor_kernel import library
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    DENSE,
    LOWERINGS,
    Candidates,
    Input,
    Launch,
    Line,
    Refusal,
    Request,
    View,
    Work,
)
from calor_kernel.ir.types import Buffer


def load_families() -> None:
    """Import the kernel families, which register their lowerings."""
    with collecting_later():
        for module in pkgutil.iter_modules(library.__path__, f"{library.__name__}."):
            import_module(module.name)


class Lowerings:
    """The families' answers for one device.

    ``wants``: returns whether an op needs all its candidates; constant per op. ``lean``: whether
    ways with little scratch memory are wanted.
    """

    def __init__(
        self,
        info: DeviceInfo,
        wants: Callable[[str], bool] = lambda op: False,
        lean: bool = False,
    ) -> None:
        self.info = info
        self.wants = wants
        self.lean = lean
        self._memo: dict[Any, Sequence[Work] | Refusal] = {}

    def forget(self) -> None:
        """Forget the answers, when other ops want their candidates."""
        self._memo.clear()

    def __contains__(self, op: str) -> bool:
        return op in LOWERINGS

    def dense(self, op: str, number: int) -> bool:
        """Return whether an op requires an operand in dense memory."""
        which = DENSE.get(op)
        return which is None or number in which

    def ask(
        self,
        op: str,
        attributes: Mapping[str, Any],
        inputs: tuple[View, ...],
        outputs: tuple[Spec, ...],
        deterministic: bool = False,
        kept: frozenset[int] = frozenset(),
        pitches: tuple[Line, ...] = (),
        room: int | None = None,
    ) -> Sequence[Work] | Refusal:
        """Return the candidates of a family for an op, or the reason for none.

        ``kept``: the operands whose preparation is done once for many calls. ``pitches``: those of
        results, for the ops of ``PITCHED``. ``room``: the bytes of scratch memory that there are.
        """
        key = self.key(op, attributes, inputs, outputs, deterministic, kept, pitches, room)
        found = self._memo.get(key)
        if found is None:
            wanted = self.wants(op)
            request = Request(
                *(op, attributes, inputs, outputs, self.info, deterministic, kept, wanted, pitches),
                lean=self.lean,
                room=room,
            )
            found = remember(self._memo, key, self.answer(request))
        return found

    @staticmethod
    def key(op: str, attributes: Mapping[str, Any], *rest: Any) -> Any:
        """Return the key of a request's answer."""
        return op, exact_items(attributes), *rest

    @staticmethod
    def answer(request: Request) -> Sequence[Work] | Refusal:
        """Return the current answer of the family of a request's op."""
        answer = LOWERINGS[request.op](request)
        if isinstance(answer, Refusal):
            return answer
        dropped = answer.dropped if isinstance(answer, Candidates) else ()
        return Candidates.of(map(_declared, answer), dropped)


def _declared(work: Work) -> Work:
    """Return work with its in-place operands declared as written.

    The declaration holds for out-of-place runs too, so both share one kernel.
    """
    in_place = {operand for operand, _ in work.in_place}
    if not in_place:
        return work
    launches = tuple(_written(launch, in_place) for launch in work.launches)
    return work if launches == work.launches else replace(work, launches=launches)


def _written(launch: Launch, in_place: Collection[int]) -> Launch:
    signature = list(launch.build.signature)
    changed = False
    for place, argument in enumerate(launch.arguments):
        if isinstance(argument, Input) and argument.number in in_place:
            declared = signature[place]
            assert isinstance(declared, Buffer)
            if not declared.writable:
                signature[place] = Buffer(declared.dtype, True, declared.align)
                changed = True
    if not changed:
        return launch
    return replace(launch, build=replace(launch.build, signature=tuple(signature)))

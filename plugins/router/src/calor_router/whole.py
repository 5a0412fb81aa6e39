"""The way of a call whose graph is whole on one member: the member's own call, and little more.

Requirements: what is known of a program is looked at once. Generated code without a loop looks at
what each call brings; where a value lies elsewhere, or anything is unusual, it has done nothing,
and the general way runs from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from calor.backends.calls import BoundCall, Look, Made
from calor.backends.device import Device
from calor.backends.protocol import Executable
from calor.errors import OutOfMemoryError
from calor_router.buffer import RoutedBuffer
from calor_router.strictness import asked

Run = Callable[..., Any]

_TEXT: Final = """
def run(inputs, into=None):
    {guard}
    given = {given}
    if None in {looked}:
        return generally(inputs, into)
    targets = None
    if into is not None:
        targets = [{targets}]
        for target in into:
            if target is not None and target.sole != {member}:
                return generally(inputs, into)
    try:
        made = execute(given) if targets is None else execute(given, targets)
    except OutOfMemoryError:
        made = None
    if made is None:
        # Nothing here may keep what has to leave the member.
        given = targets = None
        return generally(inputs, into)
{counted}    if into is None:
{results}        return [{names}]
    return [
        wrapped(inner) if target is None else target
        for target, inner in zip(into, [{ordered}])
    ]
"""


def whole_way(
    device: Device,
    member: int,
    executable: Executable,
    places: Sequence[tuple[int, bool]],
    order: Sequence[int],
    whole: bool,
    count: int,
    generally: Run,
) -> Run:
    """Return the function that runs a graph on one member.

    Parameters
    ----------
    device : Device
        The router.
    member : int
        The member, without a limit.
    executable : Executable
        The graph on that member.
    places : sequence of tuple
        For each of its inputs the place in those of the router's program, and whether it is a
        number or an array of the host.
    order : sequence of int
        For each output of the program its place in what the executable returns.
    whole : bool
        Whether the executable takes all inputs of the program, in their order.
    count : int
        How many of its nodes count as fallbacks.
    generally : callable
        The general way, called with the inputs and the targets where this one does not go.

    Returns
    -------
    callable
        Takes inputs and targets, as executables do.
    """
    backend: Any = device.backend
    kind: type[RoutedBuffer] = backend.kind
    name = kind.slots[member]
    writes = bool(backend.members[member].info.feature("in_place"))
    # What is written in place makes copies wrong, and the general way drops them.
    unusual = (["asked.count"] if count else []) + ([] if writes else ["into is not None"])
    guard = f"if {' or '.join(unusual) or False}:\n        return generally(inputs, into)"
    given = [f"inputs[{i}]" + ("" if host else f".{name}") for i, host in places]
    read = [n for n, (_, host) in enumerate(places) if not host]
    every = whole and len(read) == len(places)
    looked = "given" if len(read) == len(places) else f"({''.join(f'given[{n}], ' for n in read)})"
    made = [f"r{n}" for n in range(len(order))]
    results = "".join(
        f"        {r} = new(kind)\n        {r}.{name} = made[{o}]\n        {r}.sole = {member}\n"
        for r, o in zip(made, order, strict=True)
    )
    # The executable has its targets in its own order.
    back = [order.index(n) for n in range(len(order))]
    text = _TEXT.format(
        guard=guard,
        given=f"[b.{name} for b in inputs]" if every else f"[{', '.join(given)}]",
        looked=looked,
        targets=", ".join(f"into[{o}] and into[{o}].{name}" for o in back),
        member=member,
        counted=f"    device.fallbacks += {count}\n" if count else "",
        results=results,
        names=", ".join(made),
        ordered=", ".join(f"made[{o}]" for o in order),
    )
    scope: dict[str, Any] = {
        "OutOfMemoryError": OutOfMemoryError,
        "asked": asked,
        "device": device,
        "execute": executable,
        "generally": generally,
        "kind": kind,
        "new": object.__new__,
        "wrapped": lambda inner: kind(member, inner),
    }
    exec(compile(text, "<a call on one member>", "exec"), scope)
    way: Run = scope["run"]
    return way


def whole_call(
    device: Device,
    member: int,
    executable: Executable,
    places: Sequence[tuple[int, bool]],
    count: int,
    call: BoundCall,
) -> Callable[..., Any] | None:
    """Return the member's compiled function of a bound call; None if it compiles none.

    Parameters
    ----------
    device : Device
        The router.
    member : int
        The member.
    executable : Executable
        The graph on that member.
    places : sequence of tuple
        As in `whole_way`.
    count : int
        How many of its nodes count as fallbacks.
    call : BoundCall
        What the call fixes and what it takes.

    Returns
    -------
    callable or None
        The function.
    """
    backend: Any = device.backend
    place, kind = backend.members[member], backend.kind
    name = kind.slots[member]
    look = Look((kind,), {}, name)
    # What the member does not read is looked at after what it reads.
    read = [i for i, _ in places]
    read += [i for i in range(len(call.operands)) if i not in set(read)]
    operands = [call.operands[i] for i in read]
    otherwise = call.otherwise
    if count:
        otherwise = _uncounted(device, count, otherwise)
    inner: BoundCall = replace(
        call,
        same=(*call.same, (asked, "count", 0)) if count else call.same,
        operands=tuple(replace(o, looks=(*o.looks, look)) for o in operands),
        made=(Made(kind, {"sole": member}, name), *call.made),
        otherwise=otherwise,
    )
    made = place.backend.caller(place.index, executable, inner)
    return made if made is None or not count else _counted(device, count, made)


def _counted(device: Device, count: int, native: Run) -> Run:
    """Return the call that counts the nodes which run elsewhere than on the first member."""

    def call(*args: Any, **kwargs: Any) -> Any:
        device.fallbacks += count
        return native(*args, **kwargs)

    return call


def _uncounted(device: Device, count: int, otherwise: Run) -> Run:
    """Return the way that takes over where the compiled one has done nothing; it counts itself."""

    def call(*args: Any, **kwargs: Any) -> Any:
        device.fallbacks -= count
        return otherwise(*args, **kwargs)

    return call

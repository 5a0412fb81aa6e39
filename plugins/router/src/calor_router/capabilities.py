"""What a router can do: what one of its members can, with the reason where none can."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calor.backends.device import Device
from calor.backends.protocol import FULL, Info, State, impossible
from calor.dtypes import DType

_LEVELS = ("full", "partial", "not_yet", "impossible")
# What a router does only if every member it may choose does.
_SHARED = ("dynamic_shapes", "fork", "quantized_only")


def united(name: str, members: Sequence[Device]) -> Info:
    """Return the description of a router of these members."""
    infos = [member.info for member in members]
    absent = impossible("no member has it")
    dtypes = {
        t: best(i.dtypes.get(t, absent) for i in infos)
        for t in dict.fromkeys(t for i in infos for t in i.dtypes)
    }
    features = {feature: _least(i.feature(feature) for i in infos) for feature in _SHARED}
    for feature in ("interactive", "control_flow"):
        features[feature] = best(i.feature(feature) for i in infos)
    # A value that changes place takes the place of the old one, whatever its members can.
    features["in_place"] = FULL
    # What is stored is the graph and its placement; the members compile it again.
    features["serialize"] = FULL
    elsewhere = impossible("a value may lie on any member; x.to(name) moves it to one")
    features.update(host_views=elsewhere, dlpack=elsewhere)
    # Members round differently, and what else is in a program decides which of them runs an op.
    if len({member.backend.name for member in members}) > 1:
        features["mixed_rounding"] = FULL
    features["collectives"] = impossible("a router is one device; make groups of it")
    features["memory_limit"] = impossible(
        f"a router has the memory of its members: set the limit of {members[0].name}"
    )
    return Info(
        description=f"a router of {', '.join(member.name for member in members)}",
        dtypes=dtypes,
        features=features,
        ops=_ops(infos, dtypes),
        limits={
            limit: max(i.limits[limit] for i in infos if limit in i.limits)
            for limit in dict.fromkeys(n for i in infos for n in i.limits)
            if all(limit in i.limits for i in infos)
        },
        flushes=frozenset().union(*(i.flushes for i in infos)),
    )


def _ops(infos: Sequence[Info], dtypes: dict[DType, State]) -> dict[str | tuple[str, DType], State]:
    """Return the best state of each op that a member describes apart, in each dtype."""
    named = dict.fromkeys(key if isinstance(key, str) else key[0] for i in infos for key in i.ops)
    found: dict[str | tuple[str, DType], State] = {}
    for op in named:
        for dtype, known in dtypes.items():
            state = best(i.supports(op, dtype) for i in infos)
            if state != known:
                found[op, dtype] = state
    return found


def best(states: Iterable[State]) -> State:
    """Return the highest of the members' states of a capability, the first one of equals."""
    return min(states, key=lambda state: _LEVELS.index(state.level))


def _least(states: Iterable[State]) -> State:
    return max(states, key=lambda state: _LEVELS.index(state.level))

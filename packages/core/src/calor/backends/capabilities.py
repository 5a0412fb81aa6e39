"""What a backend states of its devices: dtypes, features, ops and memory, each with its extent.

Requirements: "cannot" and "not yet" differ, and whatever is not full says why; a feature is one of
a fixed list, so nothing optional is found by ``hasattr``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from calor.dtypes import ALL, DType
from calor.graph.graph import Graph

Level = Literal["full", "partial", "not_yet", "impossible"]


@dataclass(frozen=True, slots=True)
class State:
    """How far a device has a capability. It is true if the capability can be used.

    Parameters
    ----------
    level : {"full", "partial", "not_yet", "impossible"}
        "partial" can be used within limits; "not_yet" might come, "impossible" cannot.
    reason : str, optional
        Why; needed for "partial" and "impossible".
    """

    level: Level
    reason: str = ""

    def __bool__(self) -> bool:
        return self.level in ("full", "partial")

    def __str__(self) -> str:
        return f"{self.level} ({self.reason})" if self.reason else self.level


FULL = State("full")
NOT_YET = State("not_yet")


def partial(reason: str) -> State:
    """Return the state of a capability that can be used within limits.

    Parameters
    ----------
    reason : str
        The limits.

    Returns
    -------
    State
        The state.
    """
    return State("partial", reason)


def impossible(reason: str) -> State:
    """Return the state of a capability that the device can never have.

    Parameters
    ----------
    reason : str
        Why it cannot have it.

    Returns
    -------
    State
        The state.
    """
    return State("impossible", reason)


# The features that a backend may state; one that it does not name is not_yet.
FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "interactive": "compiles fast enough that a print may compile",
        "dynamic_shapes": "runs graphs of any static shape without a compile in the minutes",
        "control_flow": "runs cond, while_loop and scan nodes itself",
        "in_place": "writes outputs into given buffers",
        "host_views": "download returns a read-only view of the buffer's own memory",
        "dlpack": "exchanges buffers through DLPack without a copy",
        "serialize": "executables can be stored and loaded",
        "memory_limit": "the memory limit can be set",
        "fork": "works on in a forked child process",
        "quantized_only": "runs only quantised graphs",
        "mixed_rounding": "rounds an op in one of several ways, by the program that it is in",
        "collectives": "its devices exchange what they have by means of their own",
    }
)


@dataclass(frozen=True, slots=True)
class Info:
    """What a device is and can do.

    Parameters
    ----------
    description : str
        The device in words, for users.
    dtypes : mapping of DType to State, optional
        The dtypes that it has; one that is missing is impossible. By default all are full.
    features : mapping of str to State, optional
        The features of `FEATURES` that it has; one that is missing is not_yet.
    ops : mapping, optional
        A State for an op's name, or for (name, dtype), where it differs from the dtype's.
    limits : mapping of str to int, optional
        Numbers such as "max_rank" or "max_buffer_bytes"; "members" of a device that runs a program
        once for each of several devices.
    flushes : frozenset of DType, optional
        Floating dtypes, declared partial, of which subnormal numbers may be treated as zero, as
        operands and as results.
    """

    description: str
    dtypes: Mapping[DType, State] = field(default_factory=lambda: dict.fromkeys(ALL, FULL))
    features: Mapping[str, State] = field(default_factory=dict)
    ops: Mapping[str | tuple[str, DType], State] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    flushes: frozenset[DType] = frozenset()

    def feature(self, name: str) -> State:
        """Return the state of a feature.

        Parameters
        ----------
        name : str
            A name of `FEATURES`.

        Returns
        -------
        State
            The state; not_yet if the backend does not state it.

        Raises
        ------
        KeyError
            If there is no feature of this name.
        """
        if name not in FEATURES:
            raise KeyError(f"{name!r} is no feature; there are {', '.join(FEATURES)}")
        return self.features.get(name, NOT_YET)

    def supports(self, op: str, dtype: DType) -> State:
        """Return the state of an op for operands and results of a dtype.

        Parameters
        ----------
        op : str
            The op's name.
        dtype : DType
            The dtype.

        Returns
        -------
        State
            The state.
        """
        state = self.dtypes.get(dtype)
        if state is None:
            return impossible(f"the device has no {dtype.name}")
        if not state:
            return state
        return self.ops.get((op, dtype), self.ops.get(op, state))

    def objections(self, graph: Graph) -> dict[int, str]:
        """Return the nodes of a graph that the description rules out.

        Parameters
        ----------
        graph : Graph
            The graph.

        Returns
        -------
        dict of int to str
            The reason for each refused node, by its position.
        """
        found: dict[int, str] = {}
        specs = graph.specs
        # Most graphs have only dtypes that most ops take.
        plain = all(map(self.dtypes.get, {s.dtype for s in specs}))
        stated = {key if isinstance(key, str) else key[0] for key in self.ops}
        for number, node in enumerate(graph.nodes):
            name = node.op.name
            if not plain or name in stated:
                dtypes = dict.fromkeys(specs[v].dtype for v in (*node.inputs, *node.outputs))
                states = ((dtype, self.supports(name, dtype)) for dtype in dtypes)
                refused = next(
                    (f"{dtype.name} is {state}" for dtype, state in states if not state), ""
                )
                if refused:
                    found[number] = refused
                    continue
            for body in node.attributes.values():
                if isinstance(body, Graph) and (inner := self.objections(body)):
                    found[number] = f"in its sub-graph, {next(iter(inner.values()))}"
                    break
        return found


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """How many bytes of a device are in use.

    Parameters
    ----------
    in_use : int
        The bytes of live buffers.
    peak : int
        The most so far.
    limit : int or None
        The limit; None if only the system limits it.
    """

    in_use: int
    peak: int
    limit: int | None

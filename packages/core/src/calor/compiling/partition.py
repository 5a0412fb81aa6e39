"""Cutting a graph between a device and the companions that the user chose.

Core owns the partitioner. A graph that the device claims whole is compiled whole. Otherwise
composites that it does not claim are decomposed first, and host numbers of a dtype that it lacks
are converted on the host. Nodes that are still refused run on a companion if the user named one
(``router:npu,cpu``), and are counted; without one, an error names every op and the device's reason.
Nothing runs elsewhere without the user's consent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from calor.backends.device import Device
from calor.backends.protocol import Claim, Executable
from calor.compiling.host_numbers import WithHostNumbers, split
from calor.compiling.partitioned import PartitionedExecutable, Stage
from calor.errors import UnsupportedError
from calor.graph.decompose import decompose, plain
from calor.graph.graph import Graph
from calor.graph.segments import cut

Reasons = Mapping[int, str]


def compile_graph(
    device: Device,
    graph: Graph,
    companions: Sequence[Device] = (),
    within: tuple[int, Mapping[int, int]] | None = None,
) -> Executable:
    """Compile a graph for a device; UnsupportedError when an op runs neither there nor beside.

    ``companions`` take, in their order, what the device refuses; the device's own companions are
    asked after them. ``within``: the most bytes that a call may allocate, and the input in whose
    memory an output is written, by number; the device must then take the graph whole.
    """
    graph = plain(graph)
    beside = tuple(dict.fromkeys((*companions, *device.companions)))
    claim = claim_of(device, graph)
    # Level by level: a composite may be made of composites that the device takes.
    while claim.reasons:
        smaller = decompose(graph, frozenset(claim.reasons))
        if smaller is graph:
            break
        graph = smaller
        claim = claim_of(device, graph)
    if _whole(claim, graph):
        if within is not None:
            return device.backend.compile_within(device.index, graph, *within)
        return device.backend.compile(device.index, graph)
    parts = split(graph, claim.reasons, device.info)
    if parts is not None:
        if within is not None:
            within = within[0], parts.moved(within[1])
        return WithHostNumbers(parts, compile_graph(device, parts.rest, companions, within))
    if within is not None and beside:
        raise UnsupportedError(
            f"{device.name} does not take the whole program, and memory_limit is for programs that "
            f"one device takes: leave it out"
        )
    refusals = {device: claim.reasons}
    # A colour is a device and the part of its claim; each colour is compiled apart.
    colours: list[tuple[Device, int] | None] = [None] * len(graph.nodes)
    _colour(colours, device, claim)
    for companion in beside:
        if None not in colours:
            break
        other = claim_of(companion, graph)
        refusals[companion] = other.reasons
        _colour(colours, companion, other)
    if None in colours:
        raise _refused(device, graph, colours, refusals)
    stages = []
    for segment in cut(graph, colours):
        place: Device = segment.colour[0]  # type: ignore[index]
        if place is device and len(segment.nodes) == len(graph.nodes):
            raise UnsupportedError(
                f"{place.name} takes a graph of {len(graph.nodes)} nodes in parts, and no part of "
                f"it alone; its claim is at fault"
            )
        others = tuple(d for d in (device, *beside) if d is not place)
        executable = compile_graph(place, segment.graph, others)
        stages.append(Stage(place, executable, segment))
    return PartitionedExecutable(device, graph, stages, claim.reasons)


def claim_of(device: Device, graph: Graph) -> Claim:
    """Return what a device takes, less what its info rules out."""
    claim = device.backend.claim(device.index, graph)
    if not any(claim.parts):
        return claim
    ruled_out = device.info.objections(graph)
    taken = {i for part in claim.parts for i in part}
    if not taken & ruled_out.keys():
        return claim
    parts = (tuple(i for i in part if i not in ruled_out) for part in claim.parts)
    return Claim(tuple(p for p in parts if p), {**ruled_out, **claim.reasons})


def _whole(claim: Claim, graph: Graph) -> bool:
    return (
        not claim.reasons
        and sum(map(len, claim.parts)) == len(graph.nodes)
        and (len(claim.parts) <= 1)
    )


def _colour(colours: list[tuple[Device, int] | None], device: Device, claim: Claim) -> None:
    for number, part in enumerate(claim.parts):
        for i in part:
            if colours[i] is None:
                colours[i] = (device, number)


def _refused(
    device: Device,
    graph: Graph,
    colours: Sequence[object],
    refusals: Mapping[Device, Reasons],
) -> UnsupportedError:
    left = [i for i, colour in enumerate(colours) if colour is None]
    lines: Counter[str] = Counter()
    refused = []
    for i in left:
        whys = [f"{d.name} says {r.get(i, 'nothing')}" for d, r in refusals.items()]
        why = refusals[device].get(i, "no reason given") if len(whys) == 1 else ", ".join(whys)
        node = graph.nodes[i]
        lines[f"{node.op.name}: {why}"] += 1
        dtypes = dict.fromkeys(graph.specs[v].dtype.name for v in (*node.inputs, *node.outputs))
        refused.append((node.op.name, tuple(dtypes), why))
    listed = "; ".join(
        text if count == 1 else f"{text} ({count} times)" for text, count in sorted(lines.items())
    )
    names = ",".join(d.name.removeprefix("router:").removesuffix(":0") for d in refusals)
    beside = (
        ""
        if any(name.partition(":")[0] == "numpy" for name in names.split(","))
        else f'; let another device run them beside it: calor.device("router:{names},numpy")'
    )
    error = UnsupportedError(
        f"{device.name} does not take {len(left)} of {len(graph.nodes)} ops ({listed}){beside}"
    )
    error.refused = tuple(refused)
    return error

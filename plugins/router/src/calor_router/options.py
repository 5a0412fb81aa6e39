"""Where a program may run, and where it does: what the speeds say, and what a trial says.

Requirements: a program never runs much longer than on the better member alone. A model of a few
figures is wrong by factors for some programs, so a cut in several parts has to gain clearly by the
model, and places that are near each other are tried: once on a machine, with operands that are made
up, so that no result depends on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from math import inf
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np

from calor.errors import CalorError
from calor.graph.file import save
from calor.graph.graph import Graph
from calor.graph.host_call import HostCall
from calor_router.figures import kept
from calor_router.placement import alone, placements
from calor_router.speeds import name_of

# A cut in parts takes at most this share of the time on one member, by the model.
_GAIN: Final = 0.8
# Places are tried if the model is within this factor of the best one, and the program takes long
# enough to matter and to be timed.
_NEAR: Final = 6.0
_LEAST_S: Final = 100e-6
# The most bytes of the operands of a trial, and the seconds of samples after which none follows.
_MOST_BYTES: Final = 256 << 20
_LONG_S: Final = 0.5
_SAMPLES: Final = 4


class Option(NamedTuple):
    """A placement with its seconds by the model."""

    seconds: float
    graph: Graph
    chosen: tuple[int, ...]
    reasons: dict[int, str]


def chosen_option(backend: Any, graph: Graph, compiled: Callable[[Option], Any]) -> Option:
    """Return where a graph runs.

    Parameters
    ----------
    backend : RouterBackend
        The router.
    graph : Graph
        A graph of which a member takes each node.
    compiled : callable
        Returns the executable of an option.

    Returns
    -------
    Option
        The placement.
    """
    options = _options(backend.members, graph)
    if len(options) < 2 or backend.rooms.limited or not _can_be_tried(options):
        return options[0]
    names = [name_of(member) for member in backend.members]
    digests = (_digest(option) for option in options)
    figures = kept(("calls", *names, *digests), lambda: _tried(backend, options, compiled))
    return min(zip(figures, options, strict=True), key=lambda one: one[0])[1]


def _options(members: Sequence[Any], graph: Graph) -> list[Option]:
    """Return the placements that come into question, the one that the model prefers first."""
    found = [Option(*one) for one in placements(members, graph)]
    best = min(found, key=lambda option: option.seconds)
    single: dict[int, Option] = {}
    for option in (Option(*one) for one in alone(members, graph)):
        member = option.chosen[0] if option.chosen else 0
        if member not in single or option.seconds < single[member].seconds:
            single[member] = option
    ranked = sorted(single.values(), key=lambda option: option.seconds)
    if not ranked or best.seconds < _GAIN * ranked[0].seconds:
        ranked.insert(0, best)
    least = ranked[0].seconds
    return [option for option in ranked if option.seconds <= _NEAR * least] or [best]


def _can_be_tried(options: Sequence[Option]) -> bool:
    """Tell whether a run with made up operands ends, changes nothing, and is worth its time."""
    graph = options[0].graph
    if options[0].seconds < _LEAST_S:
        return False
    nbytes = sum(known.nbytes for known in (*graph.input_specs, *graph.output_specs))
    values = (v for option in options for node in option.graph.nodes
              for v in node.attributes.values())  # fmt: skip
    return nbytes <= _MOST_BYTES and not any(isinstance(v, Graph | HostCall) for v in values)


def _digest(option: Option) -> str:
    told = save(option.graph) + repr(option.chosen).encode()
    return hashlib.sha256(told).hexdigest()


def _tried(
    backend: Any, options: Sequence[Option], compiled: Callable[[Option], Any]
) -> tuple[float, ...]:
    """Return the seconds of a call of each option; those by the model if none can be tried."""
    times = [_seconds(backend, option, compiled) for option in options]
    if min(times) == inf:
        return tuple(option.seconds for option in options)
    return tuple(times)


def _seconds(backend: Any, option: Option, compiled: Callable[[Option], Any]) -> float:
    graph, device = option.graph, backend.device
    counted = device.fallbacks, device.transfers, device.transferred_bytes
    try:
        run = compiled(option)
        inputs = [*_operands(backend, graph)]
        # The result that costs least to wait for.
        sizes = [known.nbytes for known in graph.output_specs]
        last = sizes.index(min(sizes))
        samples: list[float] = []
        # The first call prepares: it may compile for longer than the others run.
        while len(samples) < 2 or (len(samples) <= _SAMPLES and sum(samples[1:]) < _LONG_S):
            start = perf_counter()
            made = run(inputs)
            backend.download(0, made[last], graph.output_specs[last])
            samples.append(perf_counter() - start)
        return min(samples[1:])
    except CalorError:
        return inf
    finally:
        # What the trial moved is nothing that the program did.
        device.fallbacks, device.transfers, device.transferred_bytes = counted


def _operands(backend: Any, graph: Graph) -> Iterator[Any]:
    """Yield made up operands: zeros for indices, and numbers that are none for others."""
    for v, known in zip(graph.inputs, graph.input_specs, strict=True):
        floating = np.issubdtype(known.dtype.numpy, np.inexact) or known.dtype.numpy.kind == "V"
        array = np.zeros(known.shape, known.dtype.numpy)
        if floating:
            array += known.dtype.numpy.type(0.5)
        yield array if v in graph.host else backend.upload(0, array)

"""Tracing a function once for a jitted program: what it reads, returns and changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calor import tree
from calor.backends.device import Device
from calor.errors import TraceError
from calor.functions.creation import asarray
from calor.graph.graph import Graph
from calor.recording.record import weak_spec
from calor.recording.sites import Site
from calor.recording.tracing import Capture, GraphTrace, Retrace, tracing
from calor.specs import Spec
from calor.tensor.tensor import wrap
from calor.tensor.values import Handle, Value
from calor.transforms.argument_gradients import Sinks, kinds, present
from calor.transforms.arguments import NUMBERS, Arguments
from calor.transforms.simplify import simplify
from calor.transforms.state import Snapshot, Stateful, members, named_leaves

Leaf = tuple[str, Any, Any, Any]


@dataclass(slots=True)
class Traced:
    """The outcome of a trace.

    Graph inputs are: argument tensors, gradients that some of them have, argument numbers, numbers
    of Stateful objects, then ``sources`` (an index of ``captures``, or a constant Value). Graph
    outputs are: results, then what the writes name as (index, output number).

    ``roots`` are objects that are reached from outside; ``specs`` are those of the tensors;
    ``argument_kinds`` say how arguments take gradients, or are None where nothing depends on it.
    ``grads_added`` says which gradients of ``grad_writes`` are added to those of before.
    ``sites`` are the places of the ops that may fail; ``enabled`` is whether gradients were on for
    some of the code.
    """

    graph: Graph
    roots: list[Stateful]
    sites: list[Site]
    specs: list[Spec]
    argument_kinds: list[int] | None
    structures: list[tree.TreeDef]
    number_places: list[int]
    captures: list[Handle]
    capture_specs: list[Spec]
    places: list[tuple[str, int]]
    sources: list[int | Value]
    result: tree.TreeDef
    leaves: list[tuple[bool, Any]]
    argument_writes: list[tuple[int, int]]
    argument_grads: list[tuple[int, int | None]]
    state_writes: list[tuple[int, int]]
    grad_writes: list[tuple[int, int | None]]
    grads_added: list[bool]
    grad_owners: list[tuple[str, int]]
    owners: list[Handle]
    grad_absent: list[bool]
    results_differentiable: bool
    trains: bool
    enabled: bool

    def in_place(self) -> dict[int, int]:
        """Return the outputs that a call writes to the memory of an input, with that input."""
        first = len(self.graph.inputs) - len(self.sources)
        place = {s: first + n for n, s in enumerate(self.sources) if type(s) is int}
        return {o: place[i] for i, o in self.state_writes if i in place} | {
            o: i for i, o in self.argument_writes
        }


def get(owner: Any, key: Any) -> Any:
    """Return the value of a Stateful attribute, a list item or a dictionary item."""
    return vars(owner)[key] if isinstance(owner, Stateful) else owner[key]


def put(owner: Any, key: Any, value: Any) -> None:
    """Set the value back without counting it as an assignment."""
    if isinstance(owner, Stateful):
        vars(owner)[key] = value
    else:
        owner[key] = value


def traced(
    function: Callable[..., Any],
    name: str,
    arguments: Arguments,
    roots: Sequence[Stateful],
    device: Device,
    *,
    simple: bool = True,
    sized: Sequence[Spec] | None = None,
) -> Traced:
    """Trace a function, repeatedly if a trace shows that another one is needed.

    One is needed if the function asks how arguments take gradients, and if it reads a number of an
    object that was not known before. The graph is simplified unless ``simple`` is False, for
    comparing graphs of several sizes: which constants are folded depends on sizes. ``sized``: specs
    of the tensors with symbolic sizes, which the graph then has too.
    """
    tracer = Tracer(function, name, arguments, roots, device, simple, sized)
    # Until the last of it numbers of objects are stand-ins, too.
    with tracing:
        while True:
            with contextlib.suppress(Retrace):
                made = tracer.run()
                if made is not None:
                    return made


class Tracer:
    """Traces a function; ``roots`` are the objects known to be reached from outside."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        arguments: Arguments,
        roots: Sequence[Stateful],
        device: Device,
        simple: bool = True,
        sized: Sequence[Spec] | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.arguments = arguments
        self.roots = list(roots)
        self.device = device
        self.simple = simple
        self.sized = sized
        self.how = kinds(arguments.tensors)
        self.unrecorded = any(self.how)

    def run(self) -> Traced | None:
        """Trace once; None or Retrace if another trace is needed."""
        self.objects = [*self.arguments.objects, *self.roots]
        self.structures = [tree.flatten(o)[1] for o in self.objects]
        self.held: list[Leaf] = [leaf for o in self.objects for leaf in named_leaves(o)]
        self.known = members(self.objects)
        self.again = False
        trace = self.trace = GraphTrace(self.device, self.name)
        trace.unrecorded = self.unrecorded
        trace.on_number = self._meet
        before = Snapshot(self.known)
        try:
            with trace:
                made = self._traced()
        except BaseException:
            # A trace that fails leaves every object as it was.
            before.take_back()
            raise
        finally:
            before.put_back()
            for _, owner, key, leaf in self.held:
                if get(owner, key) is not leaf:
                    put(owner, key, leaf)
            if trace.unrecorded and trace.asks_gradients:
                self.unrecorded, self.again = False, True
        return None if self.again else made

    def _meet(self, obj: Stateful) -> None:
        """Start again when the code reads a number of an object that was not known before."""
        if not any(known is obj for known in (*self.known, *self.trace.made)):
            self.roots.append(obj)
            self.again = True
            raise Retrace

    def _traced(self) -> Traced:
        trace, arguments = self.trace, self.arguments
        how = [0] * len(self.how) if trace.unrecorded else self.how
        given = [*arguments.tensors, *present(arguments.tensors, how)]
        specs = [t._value.spec for t in given] if self.sized is None else [*self.sized]
        stand_ins = [trace.placeholder(s) for s in specs]
        tensors = stand_ins[: len(how)]
        sinks = Sinks(tensors, how, stand_ins[len(how) :])
        numbers = [trace.placeholder(weak_spec(n), host=True) for n in arguments.numbers]
        number_places = [i for i, leaf in enumerate(self.held) if type(leaf[3]) in NUMBERS]
        for i in number_places:
            path, owner, key, number = self.held[i]
            if isinstance(owner, tuple):
                raise TraceError(
                    f"{self.name} reads a state whose {path} is a number in a tuple beside "
                    f"tensors; hold it in a list, or in a tensor"
                )
            put(owner, key, trace.placeholder(weak_spec(number), host=True))
        first_source = trace.count
        before = [t._value for t in tensors]
        args, kwargs = arguments.rebuild(tensors, numbers)
        result = self.function(*args, **kwargs)
        now = self._held_now(number_places)
        leaves, structure = tree.flatten(result)

        outputs: list[Any] = []
        described: list[tuple[bool, Any]] = []
        for leaf in leaves:
            is_tensor = isinstance(leaf, Handle)
            described.append((is_tensor, len(outputs) if is_tensor else leaf))
            if is_tensor:
                # Made of Python numbers alone, it becomes a tensor as these do.
                outputs.append(asarray(leaf))
        differentiable = any(t._record is not None for t in outputs)
        argument_writes = [
            (i, _append(outputs, wrap(t._value)))
            for i, (t, value) in enumerate(zip(tensors, before, strict=True))
            if t._value is not value
        ]
        # A place that was given another tensor counts as a write to the tensor it held, also where
        # the list of that place is another one now.
        replaced = {
            id(leaf): new
            for (_, _, _, leaf), new in zip(self.held, now, strict=True)
            if isinstance(leaf, Handle) and new is not leaf
        }
        for _, _, _, leaf in self.held:
            if id(leaf) in replaced:
                trace.attach(leaf)
                # What it was given may be a tensor from outside, too.
                trace.attach(replaced[id(leaf)])
        state_writes: list[tuple[Capture, int]] = []
        for capture in list(trace.captures.values()):
            new = replaced.get(id(capture.handle), capture.handle)
            if new._value is not capture.placeholder:
                state_writes.append((capture, _append(outputs, wrap(new._value))))
        changed = [(h, h._grad) for h, old in trace.grads.values() if h._grad is not old]
        argument_grads = [
            (i, None if g is None else _append(outputs, wrap(g._value)))
            for i, g in sinks.writes(changed)
        ]
        grads = sinks.others(changed)
        grad_outputs = [
            (h, None if g is None else _append(outputs, wrap(g._value))) for h, g in grads
        ]
        graph = trace.graph(outputs)
        captures = list(trace.captures.values())
        order = {id(c): i for i, c in enumerate(captures)}
        # A gradient that was looked at, or set and given up again, is not written and yet read.
        asked = [(h, None) for h, _ in trace.grads.values() if not trace.is_local(h)]
        owners = self._owners(captures, [h for h, _ in (*grads, *sinks.others(asked))])
        number = {id(h): i for i, h in enumerate(owners)}
        return Traced(
            graph=simplify(graph) if self.simple else graph,
            sites=[site.settled() for site in trace.sites],
            roots=self.roots,
            specs=specs,
            argument_kinds=self.how if trace.asks_gradients else None,
            structures=self.structures,
            number_places=number_places,
            captures=[c.handle for c in captures],
            capture_specs=[c.value.spec for c in captures],
            places=self._places(captures, owners),
            sources=self._sources(captures, first_source),
            result=structure,
            leaves=described,
            argument_writes=argument_writes,
            argument_grads=argument_grads,
            state_writes=[(order[id(c)], slot) for c, slot in state_writes],
            grad_writes=[(number[id(h)], slot) for h, slot in grad_outputs],
            grads_added=[id(h) not in trace.renewed for h, _ in grad_outputs],
            grad_owners=self._owner_places(owners),
            owners=owners,
            grad_absent=[self._first_grad(h) is None for h in owners],
            results_differentiable=differentiable,
            trains=bool(changed) or any(c.record is not None for c, _ in state_writes),
            enabled=trace.enabled,
        )

    def _held_now(self, number_places: list[int]) -> list[Any]:
        """Return what is in each place of a leaf after the call; refuse what no write can do."""
        for structure, obj in zip(self.structures, self.objects, strict=True):
            if tree.flatten(obj)[1] != structure:
                raise TraceError(
                    f"{self.name} changes the structure of a {type(obj).__name__} while it is "
                    f"traced (a new tensor attribute, or a static one assigned); do that before "
                    f"the jitted call, or hold what changes in a tensor"
                )
        now = [leaf for o in self.objects for *_, leaf in named_leaves(o)]
        for (path, _, _, leaf), value in zip(self.held, now, strict=True):
            if isinstance(leaf, Handle) and not isinstance(value, Handle):
                raise TraceError(
                    f"{self.name} puts a {type(value).__name__} where {path} is a tensor while it "
                    f"is traced; put a tensor there, as calor.full_like makes it"
                )
        for i in number_places:
            _, owner, key, _ = self.held[i]
            value = now[i]
            if (
                not isinstance(value, Handle)
                or value._value.position >= self.trace.count
                or (value._value.trace is not self.trace)
            ):
                raise TraceError(
                    f"{self.name} assigns the number {key!r} of a {type(owner).__name__} while it "
                    f"is traced; hold a number that changes inside in a tensor"
                )
        return now

    def _first_grad(self, handle: Handle) -> Any:
        noted = self.trace.grads.get(id(handle))
        return handle._grad if noted is None else noted[1]

    def _owners(self, captures: list[Capture], written: list[Handle]) -> list[Handle]:
        """Return the tensors whose ``.grad`` the program reads or writes."""
        found = {id(h): h for h in written}
        captured = {id(c.handle) for c in captures}
        tensors = [leaf for _, _, _, leaf in self.held if isinstance(leaf, Handle)]
        for h in [*tensors, *(c.handle for c in captures)]:
            grad = self._first_grad(h)
            if grad is not None and id(grad) in captured:
                found[id(h)] = h
        return list(found.values())

    def _owner_places(self, owners: list[Handle]) -> list[tuple[str, int]]:
        at = {id(leaf): i for i, (_, _, _, leaf) in enumerate(self.held)}
        return [("held", at[id(h)]) if id(h) in at else ("fixed", i) for i, h in enumerate(owners)]

    def _places(self, captures: list[Capture], owners: list[Handle]) -> list[tuple[str, int]]:
        """Return where each captured handle is found at a call: object leaf, gradient, or fixed."""
        at = {id(leaf): i for i, (_, _, _, leaf) in enumerate(self.held)}
        grads = {id(self._first_grad(h)): i for i, h in enumerate(owners)}
        places = []
        for i, capture in enumerate(captures):
            key = id(capture.handle)
            if key in at:
                places.append(("held", at[key]))
            elif key in grads:
                places.append(("grad", grads[key]))
            else:
                places.append(("fixed", i))
        return places

    def _sources(self, captures: list[Capture], first: int) -> list[int | Value]:
        by_position = {c.position: i for i, c in enumerate(captures)}
        given = self.trace.input_positions()
        return [
            by_position[p] if p in by_position else self.trace.inputs[n]
            for n, p in enumerate(given)
            if p >= first
        ]


def _append(outputs: list[Any], tensor: Any) -> int:
    outputs.append(tensor)
    return len(outputs) - 1

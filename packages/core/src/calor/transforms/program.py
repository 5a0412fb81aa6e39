"""A jitted program: a traced graph, compiled, with the tensors that it reads and changes.

Requirements: a call costs about 0.1 µs per tensor of state. While no Stateful object was assigned
to and no state tensor was given another value, the buffers of the last call are reused as they
are; state that nobody else holds is written in place, so nothing is written back either.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from calor import tree
from calor.backends.device import known_devices
from calor.graph import trace as traces
from calor.graph.trace import Handle, Value, exports, local, materialize, ready, wrap
from calor.transforms.argument_gradients import check_apart, kinds, present, store
from calor.transforms.arguments import Arguments
from calor.transforms.journal import note, opened
from calor.transforms.state import Stateful, epoch, members, named_leaves, versions
from calor.transforms.traced import Traced, get
from calor.transforms.traced import traced as trace_function

if TYPE_CHECKING:
    from calor.backends.device import Device

_getrefcount = sys.getrefcount
_new = object.__new__
MISS: Final = object()
# References to a state value that only its handle owns, as counted in Program._finish: by the
# handle, by two lists of the binding, by the call's list, and by the count's own argument.
_SOLE: Final = next(map(_getrefcount, [object()])) + 3


class Binding:
    """The tensors that a program reads beside its arguments, for one set of Stateful objects."""

    __slots__ = (
        "buffers",
        "dynamic",
        "epoch",
        "expected",
        "exports",
        "grad_ids",
        "handles",
        "into",
        "members",
        "objects",
        "owners",
        "values",
        "version",
        "written",
    )

    def __init__(
        self,
        objects: list[Stateful],
        handles: list[Handle],
        owners: list[Handle],
        dynamic: list[tuple[Any, Any]],
        stateful: list[Stateful],
    ) -> None:
        self.objects = objects
        self.handles = handles
        self.owners = owners
        self.dynamic = dynamic
        self.epoch = epoch.count
        self.members = stateful
        self.version = versions(stateful)
        self.grad_ids: list[int] = []
        self.values: list[Value] = []
        self.buffers: list[Any] = []
        self.written: list[Value] = []
        self.expected: list[int] = []
        self.into: list[Any] = []
        self.exports = -1


def _tied(leaves: list[Any]) -> list[int]:
    """Return, for each leaf, the place of the first that is the same tensor."""
    first: dict[int, int] = {}
    return [first.setdefault(id(leaf), place) for place, leaf in enumerate(leaves)]


def _requires(handles: Iterable[Any]) -> list[bool]:
    return [h._record is not None for h in handles]


class Program:
    """One trace of a function for one structure and one set of specs."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        arguments: Arguments,
        roots: Sequence[Stateful],
        device: Device,
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.device = device
        self.roots = list(roots)
        self.grad_mode = local.grad_enabled
        self.bindings: list[Binding] = []
        self.backward: Any = None
        # Which of the handles required gradients in the trace; set by the first binding.
        self.requires: list[bool] | None = None
        # Which tensors of the state were one tensor in the trace (tied weights); likewise.
        self.tied: list[int] | None = None
        traced = trace_function(function, name, arguments, roots, device)
        self.traced: Traced = traced
        self.specs = traced.specs
        # How arguments take gradients, where the function depends on it: where it calls backward().
        self.argument_kinds = traced.argument_kinds
        self.graph = traced.graph
        self.executable = device.plan(("jit", self.graph.key), lambda: self.graph, jit=True)
        device.holders.add(self)
        self.differentiable = self.grad_mode and not traced.trains
        others = traced.argument_writes or traced.argument_grads or traced.grad_writes
        self.stateless = not (traced.state_writes or others)
        self.output_specs = self.graph.output_specs
        self.devices = [device] * len(self.specs)
        self.no_records = [None] * len(self.specs)
        self.results_differentiable = traced.results_differentiable
        self.changes_arguments = bool(traced.argument_writes or traced.argument_grads)
        self.writes_others = bool(others)
        self.one_result = traced.result is tree.LEAF and traced.leaves[0][0]

    def run(self, tensors: list[Any], numbers: list[Any], objects: list[Stateful]) -> Any:
        """Call the program; MISS when the arguments or the state do not fit it."""
        try:
            if self.argument_kinds is not None:
                if kinds(tensors) != self.argument_kinds:
                    return MISS
                tensors = [*tensors, *present(tensors, self.argument_kinds)]
            given = [t._value for t in tensors]
        except AttributeError:
            return MISS
        if [v.spec for v in given] != self.specs:
            return MISS
        # While the process has one device, every value is on it.
        if len(known_devices) > 1 and [v.device for v in given] != self.devices:
            return MISS
        if local.grad_enabled is not self.grad_mode:
            return MISS
        bindings = self.bindings
        binding: Any = bindings[0] if bindings else None
        if binding is None or binding.epoch != epoch.count or binding.objects != objects:
            binding = self._find(objects)
            if binding is None:
                return MISS
        if binding.owners and not self._same_grads(binding):
            return MISS
        values = [h._value for h in binding.handles]
        if values != binding.values and not self._refresh(binding, values):
            return MISS
        buffers = [v.buffer for v in given]
        if None in buffers:
            buffers = [materialize(v) for v in given]
        if numbers:
            buffers += numbers
        if binding.dynamic:
            buffers += [get(owner, key) for owner, key in binding.dynamic]
        buffers += binding.buffers
        if self.differentiable and (
            self.results_differentiable or [t._record for t in tensors] != self.no_records
        ):
            from calor.transforms.replay import differentiable_call

            return differentiable_call(self, tensors, binding, values, buffers)
        if self.stateless:
            return self._results(self.executable(buffers))
        return self.finish(tensors, binding, values, buffers)

    def finish(
        self, tensors: list[Any], binding: Binding, values: list[Value], buffers: list[Any]
    ) -> Any:
        """Execute, store what the program changes, and return its results."""
        if self.traced.argument_grads:
            check_apart(self.name, tensors, binding.owners)
        if opened.journals:
            # What is remembered has another owner, and so is not written in place below.
            for i, _ in self.traced.state_writes:
                note(binding.handles[i])
            for i, _ in self.traced.argument_writes:
                note(tensors[i])
        if binding.exports != exports.count:
            self._choose_in_place(binding)
        into = binding.into
        written = binding.written
        writes = self.traced.state_writes
        counts = list(map(_getrefcount, written))
        if counts != binding.expected:
            into = list(into)
            for (_, slot), count in zip(writes, counts, strict=True):
                if count != _SOLE:
                    into[slot] = None
        made = self.executable(buffers, into)
        if into is not binding.into or binding.exports < 0:
            for (i, slot), value in zip(writes, written, strict=True):
                if into[slot] is None:
                    binding.handles[i]._value = ready(value.spec, self.device, made[slot])
        if self.writes_others:
            self._store_others(tensors, binding, made)
        return self._results(made)

    def _store_others(self, tensors: list[Any], binding: Binding, made: list[Any]) -> None:
        for i, slot in self.traced.argument_writes:
            tensors[i]._value = ready(self.output_specs[slot], self.device, made[slot])
        if self.traced.argument_grads:
            assert self.argument_kinds is not None
            grads = [(i, self._made(made, slot)) for i, slot in self.traced.argument_grads]
            store(tensors, grads, self.argument_kinds)
        for i, place in self.traced.grad_writes:
            owner = binding.owners[i]
            if place is None:
                owner._grad = None
                continue
            value = ready(self.output_specs[place], self.device, made[place])
            if owner._grad is None:
                owner._grad = wrap(value)
            else:
                owner._grad._value = value

    def _made(self, made: list[Any], slot: int | None) -> Any:
        if slot is None:
            return None
        return wrap(ready(self.output_specs[slot], self.device, made[slot]))

    def _results(self, made: list[Any]) -> Any:
        device = self.device
        specs = self.output_specs
        traced = self.traced
        if self.one_result:
            value: Value = _new(Value)
            value.spec = specs[0]
            value.device = device
            value.trace = None
            value.position = 0
            value.buffer = made[0]
            tensor = _new(traces.tensor_type)
            tensor._value = value
            tensor._record = None
            tensor._grad = None
            return tensor
        leaves = [
            wrap(ready(specs[x], device, made[x])) if is_tensor else x
            for is_tensor, x in traced.leaves
        ]
        return tree.unflatten(traced.result, leaves)

    def _find(self, objects: list[Stateful]) -> Binding | None:
        """Return the binding for these objects after something was assigned or swapped."""
        for binding in self.bindings:
            same = binding.objects == objects and binding.version == versions(binding.members)
            if same and _requires(binding.handles) == self.requires:
                binding.epoch = epoch.count
                self.bindings.remove(binding)
                self.bindings.insert(0, binding)
                return binding
        return self._bind(objects)

    def _bind(self, objects: list[Stateful]) -> Binding | None:
        everything = [*objects, *self.roots]
        traced = self.traced
        for structure, obj in zip(traced.structures, everything, strict=True):
            if tree.flatten(obj)[1] != structure:
                return None
        held = [leaf for o in everything for leaf in named_leaves(o)]
        tied = _tied([leaf for *_, leaf in held])
        if self.tied is None:
            self.tied = tied
        elif tied != self.tied:
            return None
        owners = [
            held[i][3] if kind == "held" else traced.owners[i] for kind, i in traced.grad_owners
        ]
        handles: list[Any] = []
        for kind, i in traced.places:
            if kind == "held":
                handles.append(held[i][3])
            elif kind == "grad":
                handles.append(owners[i]._grad)
            else:
                handles.append(traced.captures[i])
        if not all(isinstance(h, Handle) for h in handles):
            return None
        requires = _requires(handles)
        if self.requires is None:
            self.requires = requires
        elif requires != self.requires:
            return None
        dynamic = [(held[i][1], held[i][2]) for i in traced.number_places]
        kept = []
        for stale in self.bindings:
            if stale.objects != objects:
                kept.append(stale)
            # A stale binding must not count as an owner of the state's values.
            stale.values = []
            stale.written = []
            stale.expected = []
        binding = Binding(objects, handles, owners, dynamic, members(everything))
        if not handles:
            # Nothing captured will ever differ, but constants of the trace are inputs as well.
            self._refresh(binding, [])
        self.bindings = [binding, *kept[:7]]
        return binding

    def _same_grads(self, binding: Binding) -> bool:
        """Return whether gradients are absent and present as in the trace; follow new ones."""
        ids = [id(h._grad) for h in binding.owners]
        if ids == binding.grad_ids:
            return True
        if [h._grad is None for h in binding.owners] != self.traced.grad_absent:
            return False
        for n, (kind, i) in enumerate(self.traced.places):
            if kind == "grad":
                binding.handles[n] = binding.owners[i]._grad
        binding.grad_ids = ids
        return True

    def _refresh(self, binding: Binding, values: list[Value]) -> bool:
        """Take over the state's present values; False when a spec or device differs."""
        traced = self.traced
        if [v.spec for v in values] != traced.capture_specs:
            return False
        if any(v.device is not self.device for v in values):
            return False
        for v in values:
            if v.buffer is None:
                materialize(v)
        binding.values = list(values)
        binding.buffers = [
            values[s].buffer if type(s) is int else s.buffer  # type: ignore[union-attr]
            for s in traced.sources
        ]
        binding.written = [values[i] for i, _ in traced.state_writes]
        binding.expected = [_SOLE] * len(binding.written)
        binding.exports = -1
        return True

    def _choose_in_place(self, binding: Binding) -> None:
        """Decide which state may be written in place: what no NumPy view or DLPack holder sees."""
        into: list[Any] = [None] * len(self.output_specs)
        free = bool(self.device.info.feature("in_place"))
        if free:
            for (_, slot), value in zip(self.traced.state_writes, binding.written, strict=True):
                if value.buffer.exported:
                    free = False
                else:
                    into[slot] = value.buffer
        binding.into = into
        # A view may be dropped without notice, so an exported buffer is asked about at each call.
        binding.exports = exports.count if free else -1

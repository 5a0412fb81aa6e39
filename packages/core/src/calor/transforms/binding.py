"""The state that a jitted program reads and writes beside its arguments, cached between calls.

Requirements: as long as no attribute of a Stateful object was assigned and no state tensor got
another value, a call uses the buffers of the last one. State with no other holder is written in
place, so nothing is written back.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Final

from calor import tree
from calor.backends.device import Device
from calor.recording.trace import exports, materialize
from calor.recording.tracing import traced_elsewhere, tracing
from calor.tensor.values import Handle, Value
from calor.transforms.containers import Containers
from calor.transforms.following import follow
from calor.transforms.locks import Turn, turn_for
from calor.transforms.state import Stateful, epoch, members, named_leaves, versions
from calor.transforms.traced import Traced

_getrefcount = sys.getrefcount
# References to a state value that only its handle owns, as Binding.in_place counts them: by the
# handle, by two lists of the binding, by the call's list, and by the count's own argument.
_SOLE: Final = next(map(_getrefcount, [object()])) + 3


def _owners(tensor: Any) -> int:
    """Return how often the value of a tensor is referred to, the asking included."""
    return _getrefcount(tensor._value)


# That is for a value that only its tensor owns. Asked of this interpreter, as its compiler decides
# what an argument counts for.
_OWNED: Final = _owners(SimpleNamespace(_value=object()))
# How many bindings a program keeps besides the last.
_OTHERS: Final = 7


class Binding:
    """The tensors of the state of one program, for one set of Stateful objects."""

    __slots__ = (
        "buffers",
        "containers",
        "device",
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
        "touched",
        "traced",
        "turn",
        "values",
        "version",
        "written",
    )

    def __init__(
        self,
        traced: Traced,
        device: Device,
        objects: list[Stateful],
        everything: list[Stateful],
        held: list[tuple[str, Any, Any, Any]],
    ) -> None:
        self.traced = traced
        self.device = device
        self.objects = objects
        self.owners: list[Any] = [
            held[i][3] if kind == "held" else traced.owners[i] for kind, i in traced.grad_owners
        ]
        self.handles: list[Any] = [self._handle(kind, i, held) for kind, i in traced.places]
        self.dynamic = [(held[i][1], held[i][2]) for i in traced.number_places]
        self.epoch = epoch.count
        self.members = members(everything)
        self.version = versions(self.members)
        containers = Containers(self.members)
        # None where there are none, so that a call need not look.
        self.containers = containers if containers.views else None
        self.grad_ids: list[int] = []
        self.values: list[Value] = []
        self.written: list[Value] = []
        self.expected: list[int] = []
        self.buffers: list[Any] = []
        self.into: list[Any] = []
        self.exports = -1
        self.turn: Turn | None = None
        self.touched = self._touched()

    def _handle(self, kind: str, i: int, held: list[tuple[str, Any, Any, Any]]) -> Any:
        if kind == "held":
            return held[i][3]
        return self.owners[i]._grad if kind == "grad" else self.traced.captures[i]

    def _touched(self) -> frozenset[int]:
        """Return the identities of tensors that must not be arguments as well.

        Those are the ones that a call changes, and all where it changes its arguments.
        """
        traced = self.traced
        if traced.argument_writes or traced.argument_grads:
            tensors = [*self.handles]
        else:
            tensors = [self.handles[i] for i, _ in traced.state_writes]
        owners = [self.owners[i] for i, _ in traced.grad_writes]
        tensors += [*owners, *(owner._grad for owner in owners)]
        return frozenset(id(t) for t in tensors if t is not None)

    def changed(self, tops: list[Stateful]) -> Iterator[Any]:
        """Yield what a call changes: captured tensors, and objects (by leaf, in ``tops``)."""
        traced = self.traced
        places = [traced.places[i] for i, _ in traced.state_writes]
        places += [("grad", i) for i, _ in traced.grad_writes]
        for kind, i in places:
            fixed: list[Any] = traced.captures
            if kind == "grad":
                kind, i = traced.grad_owners[i]
                fixed = traced.owners
            yield tops[i] if kind == "held" else fixed[i]

    def release(self) -> None:
        """Stop counting as an owner of the state's values, once no call uses them."""
        if self.turn is not None:
            self.turn.acquire()
        self.forget()
        if self.turn is not None:
            self.turn.release()

    def forget(self) -> None:
        """Drop the cached state; the next call reads it again."""
        if self.handles:
            self.values = []
            self.written = []
            self.expected = []
            self.buffers = []
            self.into = []
            self.exports = -1

    def same_containers(self) -> bool:
        """Tell whether lists and other containers of the objects hold what they held."""
        return self.containers is None or self.containers.same()

    def same_grads(self) -> bool:
        """Tell whether the same gradients are present as in the trace; follow new tensors."""
        ids = [id(h._grad) for h in self.owners]
        if ids == self.grad_ids:
            return True
        if [h._grad is None for h in self.owners] != self.traced.grad_absent:
            return False
        for n, (kind, i) in enumerate(self.traced.places):
            if kind == "grad":
                self.handles[n] = self.owners[i]._grad
        self.touched = self._touched()
        self.grad_ids = ids
        return True

    def has_specs(self) -> bool:
        """Tell whether the state has the shapes and dtypes that it had in the trace."""
        return [h._value.spec for h in self.handles] == self.traced.capture_specs

    def refresh(self, values: list[Value]) -> bool | None:
        """Read the present values of the state; None if a spec or device differs.

        False while another thread traces with them. The state of random numbers moves to the
        device, and the list gets its new values.
        """
        traced = self.traced
        if [v.spec for v in values] != traced.capture_specs:
            return None
        if any(v.device is not self.device for v in values):
            if not follow(self.handles, self.device):
                return None
            values[:] = [h._value for h in self.handles]
        if traced_elsewhere(values):
            return False
        for v in values:
            if v.buffer is None:
                materialize(v)
        self.buffers = [
            values[s].buffer if type(s) is int else s.buffer  # type: ignore[union-attr]
            for s in traced.sources
        ]
        self.written = [values[i] for i, _ in traced.state_writes]
        self.expected = [_SOLE] * len(self.written)
        self.exports = -1
        self.values = list(values)
        return True

    def in_place(self, outputs: int) -> list[Any]:
        """Return for each output the buffer of state with no other holder to write to, or None."""
        if self.exports != exports.count:
            self._choose(outputs)
        counts = list(map(_getrefcount, self.written))
        if counts == self.expected:
            return self.into
        into = list(self.into)
        for (_, slot), count in zip(self.traced.state_writes, counts, strict=True):
            if count != _SOLE:
                into[slot] = None
        return into

    def with_arguments(self, tensors: list[Any], into: list[Any]) -> list[Any]:
        """Return the outputs' buffers with those of arguments that the program changes as well."""
        writes = self.traced.argument_writes
        if not writes or not self.device.info.feature("in_place"):
            return into
        into = list(into)
        for i, slot in writes:
            tensor = tensors[i]
            if _owners(tensor) == _OWNED and not tensor._value.buffer.exported:
                into[slot] = tensor._value.buffer
        return into

    def _choose(self, outputs: int) -> None:
        """Find the state to write in place: no NumPy view and no DLPack consumer shares it."""
        into: list[Any] = [None] * outputs
        free = bool(self.device.info.feature("in_place"))
        if free:
            for (_, slot), value in zip(self.traced.state_writes, self.written, strict=True):
                if value.buffer.exported:
                    free = False
                else:
                    into[slot] = value.buffer
        self.into = into
        # A view may be dropped without notice, so an exported buffer is asked about at each call.
        self.exports = exports.count if free else -1


class Bindings:
    """The bindings of one program, the most recent first.

    ``function`` is the jitted function; calls that change their arguments lock it.
    """

    def __init__(self, traced: Traced, device: Device, function: Any) -> None:
        # Weakly, for it holds its programs.
        self.function: Callable[[], Any] = weakref.ref(function)
        self.traced = traced
        self.device = device
        self.made: list[Binding] = []
        # Which of the handles required gradients in the trace, and which tensors of the state were
        # one tensor (tied weights); set by the first binding.
        self.requires: list[bool] | None = None
        self.tied: list[int] | None = None
        # The captured tensors that the function has from outside, too, not from an object alone. A
        # call with another object still reads these, and not the tensors of that object.
        ids = set(map(id, function.reached))
        self.reached = [h for h in traced.captures if id(h) in ids]

    def find(self, objects: list[Stateful]) -> Binding | None:
        """Return the binding of these objects after an assignment or an exchange of objects.

        None if the objects are not as in the trace.
        """
        for binding in self.made:
            if binding.objects != objects:
                continue
            same = binding.version == versions(binding.members) and binding.same_containers()
            if same and _requires(binding.handles) == self.requires:
                binding.epoch = epoch.count
                self.made = [binding, *(b for b in self.made if b is not binding)]
                return binding
            # Another program may go on with these objects, perhaps for good.
            binding.release()
        return self._bind(objects)

    def _bind(self, objects: list[Stateful]) -> Binding | None:
        everything = [*objects, *self.traced.roots]
        traced = self.traced
        # Until another thread's trace ends, objects hold what it assigned to them; that this is
        # taken back counts as no assignment.
        with tracing:
            for structure, obj in zip(traced.structures, everything, strict=True):
                if tree.flatten(obj)[1] != structure:
                    return None
            leaves = [(o, leaf) for o in everything for leaf in named_leaves(o)]
            held = [leaf for _, leaf in leaves]
            binding = Binding(traced, self.device, objects, everything, held)
        handles = binding.handles
        if not all(isinstance(h, Handle) for h in handles):
            return None
        alike = _requires(handles), _tied([*(leaf for *_, leaf in held), *self.reached])
        if self.requires is None:
            self.requires, self.tied = alike
        elif alike != (self.requires, self.tied):
            return None
        changed = list(binding.changed([o for o, _ in leaves]))
        if traced.argument_writes or traced.argument_grads:
            changed.append(self.function())
        binding.turn = turn_for(changed) if changed else None
        for stale in self.made:
            stale.release()
        if not handles:
            # Nothing captured will ever differ, but constants of the trace are inputs as well.
            binding.refresh([])
        others = [b for b in self.made if b.objects != objects]
        self.made = [binding, *others[:_OTHERS]]
        return binding


def _requires(handles: Iterable[Any]) -> list[bool]:
    return [h._record is not None for h in handles]


def _tied(leaves: list[Any]) -> list[int]:
    """Return, for each tensor, the place of the first that is the same; numbers are no ties."""
    first: dict[int, int] = {}
    tensors = (leaf for leaf in leaves if isinstance(leaf, Handle))
    return [first.setdefault(id(leaf), place) for place, leaf in enumerate(tensors)]

"""A jitted program: a compiled trace, and what a call of it does.

Requirements: a call costs about 0.1 µs per tensor of its arguments and its state. So a single check
covers what nearly always holds; only if it fails, each condition is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

from calor import tree
from calor.backends.device import Device
from calor.errors import DeviceError
from calor.graph.graph import Graph
from calor.local import local
from calor.ops.backpropagation import pull_back
from calor.recording.journal import note, opened
from calor.recording.records import Custom, Projection
from calor.recording.sites import locate
from calor.recording.trace import materialize
from calor.recording.tracing import tracing
from calor.specs import Spec
from calor.tensor.tensor import Tensor, wrap
from calor.tensor.values import Handle, Value, ready
from calor.transforms.argument_gradients import kinds, present, store
from calor.transforms.arguments import Arguments
from calor.transforms.binding import Binding, Bindings
from calor.transforms.flows import flows
from calor.transforms.following import follow
from calor.transforms.forward import push_forward
from calor.transforms.state import Stateful, epoch
from calor.transforms.traced import Traced, get
from calor.transforms.traced import traced as trace_function

_new = object.__new__
MISS: Final = object()


def plain_buffers(tensors: Sequence[Any], specs: list[Spec], device: Device) -> list[Any] | None:
    """Return the buffers of tensors that have these specs, are computed, and have no record.

    None if one does not, which needs a closer check. It is a single loop, as every call runs it.
    """
    buffers = [
        buffer
        for t, spec in zip(tensors, specs)  # noqa: B905 - checked below
        for v in (t._value,)
        if v.spec is spec and v.device is device and t._record is None
        for buffer in (v.buffer,)
        if buffer is not None
    ]
    return buffers if len(buffers) == len(specs) == len(tensors) else None


class JittedFunction(Protocol):
    """A jitted function, as programs and bound calls see it."""

    function: Callable[..., Any]
    name: str
    static: frozenset[int | str]
    memory_limit: int | None
    roots: list[Stateful]
    reached: list[Handle]
    programs: list[Program]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the program that fits the arguments; trace the function if none does."""
        ...

    def device_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Device:
        """Return the device of a call with these arguments."""
        ...

    def trace_again(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Trace and compile the function for these arguments anew; it does not run."""
        ...


class Program:
    """One trace of a function for one structure and one set of specs."""

    def __init__(
        self,
        jitted: JittedFunction,
        arguments: Arguments,
        device: Device,
        compiled: Callable[[Callable[..., Any]], Callable[..., Any]],
        traced: Traced | None = None,
    ) -> None:
        self.name = jitted.name
        self.arguments = arguments
        self.device = device
        self.grad_mode = local.grad_enabled
        self.precision = local.precision
        self.floating = local.floating
        self.views = local.views
        self.autocast = local.autocast
        # What makes a function one of programs, and the backward passes that it made: by which
        # inputs want gradients and which outputs have one.
        self.compiled = compiled
        self.backward: dict[tuple[tuple[int, ...], tuple[int, ...]], Any] = {}
        self.flowing: dict[tuple[int, ...], list[bool]] = {}
        if traced is None:
            traced = trace_function(jitted.function, jitted.name, arguments, jitted.roots, device)
        self.traced: Traced = traced
        self.sites = traced.sites
        self.bindings = Bindings(traced, device, jitted)
        # Now, as which tensors are one is that of the trace; the first call may run op by op.
        self.bindings.find(arguments.objects)
        self.specs = traced.specs
        # How arguments take gradients, where the function depends on it: where it calls backward().
        self.argument_kinds = traced.argument_kinds
        self.graph = traced.graph
        self.executable = self._compiled(jitted.memory_limit)
        device.holders.add(self)
        self.differentiable = traced.enabled and not traced.trains
        self.results_differentiable = self.differentiable and traced.results_differentiable
        others = traced.argument_writes or traced.argument_grads or traced.grad_writes
        self.stateless = not (traced.state_writes or others)
        self.output_specs = self.graph.output_specs
        self.changes_arguments = bool(traced.argument_writes or traced.argument_grads)
        self.writes_others = bool(others)
        self.one_result = traced.result is tree.LEAF and traced.leaves[0][0]

    def __del__(self) -> None:
        # Not in one whose trace failed.
        if "device" in self.__dict__:
            self.device.ended = True

    def resized(self, specs: Sequence[Spec], graph: Graph) -> Program:
        """Return the program of another graph of the same trace, for tensors of other sizes.

        Parameters
        ----------
        specs : sequence of Spec
            The specs of the tensors.
        graph : Graph
            The graph; it reads the same tensors and numbers, and its outputs mean the same.

        Returns
        -------
        Program
            The program. It shares the state of this one.
        """
        made: Program = _new(type(self))
        made.__dict__.update(self.__dict__)
        made.specs, made.graph, made.backward, made.flowing = [*specs], graph, {}, {}
        made.output_specs = graph.output_specs
        made.executable = made._compiled(None)
        self.device.holders.add(made)
        return made

    def fits_state(self, objects: list[Stateful]) -> bool:
        """Return whether the state is as it was in the trace.

        Parameters
        ----------
        objects : list of Stateful
            The objects among the arguments.

        Returns
        -------
        bool
            False if a call with these objects would miss.
        """
        binding = self.bindings.find(objects)
        if binding is None or (binding.owners and not binding.same_grads()):
            return False
        return binding.has_specs() and follow(binding.handles, self.device)

    def _compiled(self, nbytes: int | None) -> Any:
        """Return the executable; ``nbytes`` is the memory that a call may take."""
        # Compiling is imported with the first plan, so that ``import calor`` stays quick.
        from calor.compiling.plans import plan_for

        key: tuple[Any, ...] = ("jit", self.graph.key)
        if nbytes is None:
            return plan_for(self.device, key, lambda: self.graph, jit=True)
        from calor.compiling.limits import Limit

        limit = Limit(nbytes, self.traced.in_place())
        key = (*key, nbytes, *sorted(limit.in_place.items()))
        return plan_for(self.device, key, lambda: self.graph, jit=True, limit=limit, name=self.name)

    def run(self, tensors: list[Any], numbers: list[Any], objects: list[Stateful]) -> Any:
        """Call the program; MISS when the arguments or the state do not fit it."""
        try:
            if self.argument_kinds is not None:
                if kinds(tensors) != self.argument_kinds:
                    return MISS
                tensors = [*tensors, *present(tensors, self.argument_kinds)]
            buffers = plain_buffers(tensors, self.specs, self.device)
        except AttributeError:
            return MISS
        recorded = self.results_differentiable
        if buffers is None:
            buffers = self._read(tensors)
            if buffers is None:
                return MISS
            recorded = recorded or (
                self.differentiable and any(t._record is not None for t in tensors)
            )
        return self.enter(recorded, tensors, numbers, objects, buffers)

    def _read(self, tensors: list[Any]) -> list[Any] | None:
        """Return the buffers of arguments, computing pending ones; None if a spec differs."""
        given = [t._value for t in tensors]
        if [v.spec for v in given] != self.specs:
            return None
        if any(v.device is not self.device for v in given):
            return None
        return [materialize(v) for v in given]

    def enter(
        self,
        recorded: bool,
        tensors: list[Any],
        numbers: list[Any],
        objects: list[Stateful],
        buffers: list[Any],
    ) -> Any:
        """Call the program with buffers of its tensors; ``recorded`` is whether they have a record.

        The list of buffers becomes the program's.
        """
        if (
            local.grad_enabled is not self.grad_mode
            or local.precision is not self.precision
            or local.autocast is not self.autocast
        ):
            return MISS
        if local.floating is not self.floating or local.views is not self.views:
            return MISS
        if self.changes_arguments and len(set(map(id, tensors))) != len(tensors):
            return self._op_by_op(tensors, numbers, objects)
        made = self.bindings.made
        binding: Any = made[0] if made else None
        if (
            binding is None
            or binding.epoch != epoch.count
            or binding.objects != objects
            or (binding.containers is not None and not binding.containers.same())
        ):
            binding = self.bindings.find(objects)
            if binding is None:
                return MISS
        turn = binding.turn
        if turn is not None:
            turn.acquire()
        try:
            if self.changes_arguments:
                # Who had the turn before may have changed them.
                buffers = self._read(tensors) or buffers
            if binding.owners and not binding.same_grads():
                # Another program goes on with the state, perhaps for good.
                binding.forget()
                return MISS
            values = [h._value for h in binding.handles]
            free = values == binding.values or binding.refresh(values)
            if free is None:
                return MISS
            dynamic = binding.dynamic
            if dynamic:
                dynamic = [get(owner, key) for owner, key in dynamic]
                free = free and Tensor not in map(type, dynamic)
            if free and (self.stateless or binding.touched.isdisjoint(map(id, tensors))):
                if numbers:
                    buffers += numbers
                if dynamic:
                    buffers += dynamic
                buffers += binding.buffers
                if recorded:
                    return self._differentiable(tensors, binding, buffers)
                if self.stateless:
                    return self._results(self.executable(buffers))
                return self.finish(tensors, binding, buffers)
        except DeviceError as error:
            locate(error, self.sites)
            raise
        finally:
            if turn is not None:
                turn.release()
        if free:
            return self._op_by_op(tensors, numbers, objects)
        # Another thread traces with this state, which holds stand-ins until it is done.
        with tracing:
            pass
        return self.enter(recorded, tensors, numbers, objects, buffers)

    def _op_by_op(self, tensors: list[Any], numbers: list[Any], objects: list[Stateful]) -> Any:
        """Run the function itself, for a call that changes a tensor which it has twice.

        The trace takes that tensor for two, and would not see at one what it changes at the other.
        """
        args, kwargs = self.arguments.rebuild(tensors, numbers, objects)
        return self.bindings.function().function(*args, **kwargs)

    def _differentiable(self, tensors: list[Any], binding: Binding, buffers: list[Any]) -> Any:
        """Execute, and give a record to the results that depend on an input with one.

        The record keeps the inputs. When a gradient is needed, a second program runs the graph and
        its backward pass in one call; the gradient of a gradient replays the graph op by op.
        """
        traced, graph = self.traced, self.graph
        # What the graph reads, held as it is now: the handles may be given other values later.
        sources = [_held(binding, s) for s in traced.sources]
        numbers = buffers[len(tensors) : len(buffers) - len(sources)]
        inputs: list[Any] = [*[wrap(t._value, t._record) for t in tensors], *numbers, *sources]
        wanted = [
            i for i, x in enumerate(inputs) if isinstance(x, Handle) and x._record is not None
        ]
        result = self.finish(tensors, binding, buffers)
        reached = self._reached(tuple(wanted)) if wanted else []
        if not any(reached):
            return result

        def pull(gs: list[Any]) -> list[Any]:
            present = {o: g for o, g in enumerate(gs) if g is not None}
            if local.grad_enabled or local.jit:
                return list(pull_back(graph, inputs, wanted, present))
            backward = self._backward(tuple(wanted), tuple(present))
            bare = [wrap(x._value) if isinstance(x, Handle) else x for x in inputs]
            return list(backward(bare, present))

        def push(tangents: Sequence[Any]) -> list[Any]:
            return push_forward(graph, inputs, wanted, tangents)

        parents = tuple(inputs[i]._record for i in wanted)
        record = Custom(parents, pull, len(graph.outputs), graph.output_specs, push)
        leaves, structure = tree.flatten(result)
        for (is_tensor, slot), leaf in zip(traced.leaves, leaves, strict=True):
            if is_tensor and reached[slot]:
                leaf._record = Projection(record, slot)
        return tree.unflatten(structure, leaves)

    def _reached(self, wanted: tuple[int, ...]) -> list[bool]:
        """Return for each output whether a gradient flows from it to one of the wanted inputs."""
        found = self.flowing.get(wanted)
        if found is None:
            given = [i in wanted for i in range(len(self.graph.inputs))]
            found = self.flowing[wanted] = flows(self.graph, given)
        return found

    def _backward(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> Callable[..., Any]:
        """Return the compiled backward pass to the wanted inputs, from gradients of outputs."""
        found = self.backward.get((wanted, given))
        if found is None:
            graph = self.graph

            def run(args: list[Any], gradients: dict[int, Any]) -> Any:
                return pull_back(graph, args, list(wanted), gradients)

            run.__name__ = f"backward of {self.name}"
            found = self.backward[wanted, given] = self.compiled(run)
        return found

    def finish(self, tensors: list[Any], binding: Binding, buffers: list[Any]) -> Any:
        """Execute, store what the program changes, and return its results."""
        if opened.journals or opened.watching:
            # What is remembered has another owner, and so is not written in place below.
            for i, _ in self.traced.state_writes:
                note(binding.handles[i])
            for i, _ in self.traced.argument_writes:
                note(tensors[i])
        into = binding.in_place(len(self.output_specs))
        stays = into is binding.into and binding.exports >= 0
        into = binding.with_arguments(tensors, into)
        # A device has a shorter way where nothing is in place.
        changes = self.traced.state_writes or self.traced.argument_writes
        made = self.executable(buffers, into if changes else None)
        if self.writes_others or not stays:
            # What is replaced stays as it is, as what is written in place does, if the run failed,
            # also if something else of it did.
            if any(into[slot] is None for slot in self._replaced()):
                self.device.backend.verify(self.device.index, made)
            # Another thread's trace would not see a tensor change under its hands.
            with tracing:
                self._store(tensors, binding, into, made)
        return self._results(made)

    def _replaced(self) -> Iterator[int]:
        """Yield the results that take the place of values that a later call may need."""
        traced = self.traced
        yield from (slot for _, slot in (*traced.state_writes, *traced.argument_writes))
        yield from (slot for _, slot in traced.argument_grads if slot is not None)
        for (_, slot), added in zip(traced.grad_writes, traced.grads_added, strict=True):
            # A program that gives up the gradients of before does so after a failed call, too.
            if slot is not None and added:
                yield slot

    def _store(
        self, tensors: list[Any], binding: Binding, into: list[Any], made: list[Any]
    ) -> None:
        """Assign the new values of what the program changes, unless they were written in place."""
        writes = self.traced.state_writes
        for (i, slot), value in zip(writes, binding.written, strict=True):
            if into[slot] is None:
                binding.handles[i]._value = ready(value.spec, self.device, made[slot])
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
            tensor = _new(Tensor)
            tensor._value = value
            tensor._record = None
            tensor._grad = None
            tensor._view = None
            return tensor
        leaves = [
            wrap(ready(specs[x], device, made[x])) if is_tensor else x
            for is_tensor, x in traced.leaves
        ]
        return tree.unflatten(traced.result, leaves)


class Resized(Program):
    """A program of other sizes whose executable needed no graph; ``graph`` makes that."""

    def __init__(
        self,
        program: Program,
        specs: Sequence[Spec],
        output_specs: Sequence[Spec],
        executable: Any,
        graph: Callable[[], Any],
    ) -> None:
        self.__dict__.update(program.__dict__)
        del self.__dict__["graph"]
        self.specs, self.output_specs = [*specs], tuple(output_specs)
        self.backward = {}
        self.executable = executable
        self._make = graph
        self.device.holders.add(self)

    @cached_property
    def graph(self) -> Graph:  # type: ignore[override]
        """The graph, made on first use."""
        made: Graph = self._make()
        return made


def _held(binding: Binding, source: Any) -> Any:
    """Return a tensor of a graph input's present value: a captured tensor's, or a constant."""
    if type(source) is not int:
        return wrap(source)
    handle = binding.handles[source]
    return wrap(handle._value, handle._record)

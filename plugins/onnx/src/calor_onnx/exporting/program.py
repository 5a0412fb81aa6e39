"""A function as one graph for all sizes of symbolic axes: traced for several sizes and merged.

Requirements: the exported graph is the one that ``calor.jit`` would compile; captured tensors have
their paths in modules as names. A size that differs between traces becomes a polynomial of the
symbols; other differences are errors with the user's line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import calor
from calor import Tensor, tree
from calor.device_selection import current_device
from calor.dtypes import DType
from calor.errors import ArgumentError, ShapeError
from calor.graph.decompose import plain
from calor.graph.graph import Graph
from calor.lines import user_line
from calor.ops.base import Op, Signature
from calor.random import Generator, default_generator
from calor.recording.trace import materialize
from calor.recording.tracing import watchers
from calor.specs import Spec
from calor.tensor.tensor import wrap
from calor.transforms.arguments import Arguments
from calor.transforms.hidden import hidden
from calor.transforms.state import named_leaves
from calor.transforms.traced import Traced, get, traced
from calor_onnx.exporting.errors import ExportError
from calor_onnx.exporting.sizes import Dimension, NotGeneral, Samples

Dynamic = Mapping[str, Mapping[int, str]]


@dataclass(frozen=True)
class Value:
    """Shape and dtype of a value; sizes may be symbolic."""

    shape: tuple[Dimension, ...]
    dtype: DType


@dataclass
class Step:
    """One op of a merged graph; ``sampled`` has the operand specs and attributes of each trace."""

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, Any]
    sampled: list[tuple[tuple[Spec, ...], dict[str, Any]]]
    takes: tuple[Value, ...]
    gives: tuple[Value, ...]
    wanted: tuple[bool, ...] = ()


@dataclass
class Merged:
    """The merged graph: values by number, steps in order; ``inputs`` come first."""

    values: list[Value]
    inputs: tuple[int, ...]
    steps: list[Step]
    outputs: tuple[int, ...]


@dataclass
class Program:
    """A function to write: its graph, and the names of inputs and outputs.

    ``held`` are the arrays of captured inputs, which follow ``inputs``, by name.
    """

    graph: Merged
    samples: Samples
    inputs: list[str]
    held: list[tuple[str, np.ndarray[Any, Any]]]
    outputs: list[str]
    # For each symbol, an input and its axis of that size.
    symbols: dict[str, tuple[str, int]]
    lines: dict[Any, str] = field(default_factory=dict)
    # Indices of the arrays that are keys of generators.
    keys: frozenset[int] = frozenset()

    def line(self, step: Step) -> str | None:
        """Return the user's line that recorded a step, if known."""
        return self.lines.get((step.op.name, step.sampled[0][0]))


def merge(graphs: Sequence[Graph], samples: Samples, line: Callable[..., str | None]) -> Merged:
    """Merge the graphs of all traces.

    Raises
    ------
    ExportError
        If they differ in more than sizes.
    """
    first = graphs[0]
    for other in graphs[1:]:
        _check_alike(first, other, samples, line)
    problems: list[tuple[str, str, str]] = []
    values: list[Value] = []
    for i, spec in enumerate(first.specs):
        sizes = zip(*(g.specs[i].shape for g in graphs), strict=True)
        values.append(Value(tuple(map(samples.size, sizes)), spec.dtype))
    steps = []
    for at, node in enumerate(first.nodes):
        alike = [g.nodes[at] for g in graphs]
        attributes = {}
        for name, value in node.attributes.items():
            found = [n.attributes[name] for n in alike]
            try:
                attributes[name] = (
                    merge(found, samples, line)
                    if isinstance(value, Graph)
                    else samples.merged(found)
                )
            except NotGeneral:
                problems.append(_uneven(node, first, line))
                attributes[name] = value
        sampled = [
            (tuple(g.specs[v] for v in n.inputs), dict(n.attributes))
            for g, n in zip(graphs, alike, strict=True)
        ]
        takes = tuple(values[v] for v in node.inputs)
        gives = tuple(values[v] for v in node.outputs)
        step = Step(node.op, node.inputs, node.outputs, attributes, sampled, takes, gives)
        steps.append(step)
    if problems:
        raise ExportError(list(dict.fromkeys(problems)))
    return Merged(values, first.inputs, steps, first.outputs)


def _uneven(node: Any, graph: Graph, line: Callable[..., str | None]) -> tuple[str, str, str]:
    reason = "its numbers follow from the symbolic sizes in a way that export cannot find"
    where = line(node.op.name, tuple(graph.specs[v] for v in node.inputs))
    return node.op.name, reason, where or "an unknown line"


def _check_alike(
    first: Graph, other: Graph, samples: Samples, line: Callable[..., str | None]
) -> None:
    """Raise ExportError if two traces have different ops or operands."""
    same = len(first.nodes) == len(other.nodes) and first.outputs == other.outputs
    nodes = zip(first.nodes, other.nodes, strict=False)
    apart = [a for a, b in nodes if (a.op, a.inputs, a.outputs) != (b.op, b.inputs, b.outputs)]
    if not same or apart:
        reason = (
            f"other operations are recorded for other sizes of {', '.join(samples.symbols)}; "
            f"give examples of another size, or leave the axis out of dynamic="
        )
        at = apart[0] if apart else first.nodes[-1]
        where = line(at.op.name, tuple(first.specs[v] for v in at.inputs))
        raise ExportError([(at.op.name, reason, where or "an unknown line")])


class _Function:
    """A function and its example arguments, with tensors that can be replaced."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function = function
        self.leaves, self.structure = tree.flatten(args)
        self.tensors = [
            i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor | np.ndarray)
        ]
        self.examples = [
            x if isinstance(x := self.leaves[i], Tensor) else calor.asarray(x) for i in self.tensors
        ]
        self.names = self._names(args)

    def __call__(self, *tensors: Any) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.tensors, tensors, strict=True):
            leaves[place] = tensor
        return self.function(*tree.unflatten(self.structure, leaves))

    def _names(self, args: tuple[Any, ...]) -> list[str]:
        called = getattr(self.function, "forward", self.function)
        try:
            bound = inspect.signature(called).bind(*args)
            given: list[tuple[str, Any]] = []
            for name, value in bound.arguments.items():
                kind = bound.signature.parameters[name].kind
                several = kind is inspect.Parameter.VAR_POSITIONAL
                given += [(f"{name}.{i}", v) for i, v in enumerate(value)] if several else [
                    (name, value)
                ]  # fmt: skip
        except (TypeError, ValueError):
            given = [(f"input.{i}", value) for i, value in enumerate(args)]
        return [name for name, leaf in named(given) if isinstance(leaf, Tensor | np.ndarray)]


def named(given: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the leaves of named values in the order of a tree, each with its path."""
    found: list[tuple[str, Any]] = []
    for name, value in given:
        if isinstance(value, dict):
            inner = [(f"{name}.{key}", value[key]) for key in value]
        elif isinstance(value, list | tuple):
            keys = getattr(value, "_fields", range(len(value)))
            inner = [(f"{name}.{key}", v) for key, v in zip(keys, value, strict=True)]
        else:
            found.append((name, value))
            continue
        found += named(inner)
    return found


def trace(function: Callable[..., Any], args: tuple[Any, ...], dynamic: Dynamic) -> Program:
    """Return the program of a function or module for example arguments."""
    made = _Function(function, args)
    samples, symbols = _samples(made, dynamic)
    device = made.examples[0].device if made.examples else current_device()
    lines: dict[Any, str] = {}

    def watch(sig: Signature) -> None:
        lines.setdefault((sig.op.name, sig.inputs), user_line())

    traces: list[Traced] = []
    name = getattr(function, "__name__", type(function).__name__)
    watchers.append(watch)
    try:
        for point in samples.points:
            tensors = _sized(made, dynamic, point)
            with calor.device(device):
                arguments = Arguments(tuple(tensors), {}, frozenset())
                found = traced(
                    made,
                    name,
                    arguments,
                    hidden(function)[0],
                    device,
                    simple=not samples.symbols,
                )
                traces.append(found)
    except ShapeError as error:
        if traces or not samples.symbols:
            raise
        error.add_note(
            f"the function was called with the sizes {samples.points[len(traces)]}, since these "
            f"axes shall be dynamic"
        )
        raise
    finally:
        watchers.remove(watch)
    first = traces[0]
    generators = _generators(first)
    _check(first, name, {id(g.counter) for g in generators})

    def line(op: str, inputs: tuple[Spec, ...]) -> str | None:
        return lines.get((op, inputs))

    graph = merge([plain(t.graph) for t in traces], samples, line)
    held = _held(first, function)
    outputs = _outputs(first)
    # The remaining outputs are the counters of generators after a run.
    graph.outputs = graph.outputs[: len(outputs)]
    keys = {id(g.key) for g in generators}
    numbers = len(first.number_places)
    drawn = frozenset(
        numbers + i
        for i, source in enumerate(first.sources)
        if isinstance(source, int) and id(first.captures[source]) in keys
    )
    return Program(graph, samples, made.names, held, outputs, symbols, lines, drawn)


def _generators(first: Traced) -> list[Generator]:
    """Return the generators that a function draws from; drawing changes their counters."""
    leaves = [leaf for o in first.roots for leaf in named_leaves(o)]
    owners = {id(owner): owner for _, owner, _, _ in leaves if isinstance(owner, Generator)}
    return [default_generator, *owners.values()]


def _samples(made: _Function, dynamic: Dynamic) -> tuple[Samples, dict[str, tuple[str, int]]]:
    sizes: dict[str, int] = {}
    places: dict[str, tuple[str, int]] = {}
    examples = dict(zip(made.names, made.examples, strict=True))
    for name, axes in dynamic.items():
        if name not in examples:
            raise ArgumentError(f"dynamic= names {name!r}; the inputs are {', '.join(examples)}")
        shape = examples[name].shape
        for axis, symbol in axes.items():
            if not 0 <= axis < len(shape):
                raise ArgumentError(f"dynamic=: {name!r} has {len(shape)} axes, none is {axis}")
            if sizes.setdefault(symbol, shape[axis]) != shape[axis]:
                raise ArgumentError(
                    f"dynamic=: {symbol!r} is {sizes[symbol]} and {shape[axis]} in the examples; "
                    f"axes of one name have one size"
                )
            places.setdefault(symbol, (name, axis))
    if len(sizes) > 4:
        raise ArgumentError(f"dynamic= has {len(sizes)} symbols; at most 4 can be told apart")
    fixed = [
        n
        for name, example in examples.items()
        for axis, n in enumerate(example.shape)
        if axis not in dynamic.get(name, {})
    ]
    return Samples(sizes, fixed), places


def _sized(made: _Function, dynamic: Dynamic, point: Mapping[str, int]) -> list[Any]:
    """Return tensors of the examples' shapes with other sizes on the symbolic axes."""
    tensors = []
    for name, example in zip(made.names, made.examples, strict=True):
        shape = list(example.shape)
        for axis, symbol in dynamic.get(name, {}).items():
            shape[axis] = point[symbol]
        if tuple(shape) != tuple(example.shape):
            example = calor.zeros(tuple(shape), dtype=example.dtype, device=example.device)
        tensors.append(example.detach())
    return tensors


def _check(first: Traced, name: str, counters: set[int]) -> None:
    others = [i for i, _ in first.state_writes if id(first.captures[i]) not in counters]
    if others or first.grad_writes or first.argument_writes:
        raise ArgumentError(
            f"{name} changes tensors from outside while it runs, which a model cannot; a module "
            f"is put into inference mode by .eval()"
        )
    if not any(is_tensor for is_tensor, _ in first.leaves):
        raise ArgumentError(f"{name} returns no tensor, so there is nothing to export")


def _paths(function: Any) -> dict[int, str]:
    """Return names of captured tensors: paths of modules, variables."""
    found: dict[int, str] = {}

    def visit(prefix: str, value: Any) -> None:
        if isinstance(value, Tensor):
            found.setdefault(id(value), prefix)
        elif hasattr(value, "named_parameters") and hasattr(value, "named_buffers"):
            for path, tensor in [*value.named_parameters(), *value.named_buffers()]:
                found.setdefault(id(tensor), f"{prefix}.{path}" if prefix else path)

    visit("", function)
    visit("", getattr(function, "__self__", None))
    plain_function = inspect.unwrap(getattr(function, "__func__", function))
    if inspect.isfunction(plain_function):
        variables = inspect.getclosurevars(plain_function)
        for name, value in [*variables.nonlocals.items(), *variables.globals.items()]:
            visit(name, value)
    return found


def _held(first: Traced, function: Any) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Return the arrays of captured inputs: numbers of objects first, then tensors."""
    held: list[tuple[str, np.ndarray[Any, Any]]] = []
    leaves = [leaf for o in first.roots for leaf in named_leaves(o)]
    specs = [first.graph.specs[v] for v in first.graph.inputs]
    start = len(first.specs)
    for place in first.number_places:
        path, owner, key, _ = leaves[place]
        host = specs[start + len(held)].dtype.numpy
        held.append((str(path) or "number", np.asarray(get(owner, key), host)))
    paths = _paths(function)
    for source in first.sources:
        if isinstance(source, int):
            handle = first.captures[source]
            held.append((paths.get(id(handle), "constant"), wrap(handle._value).numpy()))
        else:
            materialize(source)
            held.append(("constant", wrap(source).numpy()))
    return held


def _named_leaves(obj: Any) -> Any:

    return named_leaves(obj)


def _outputs(first: Traced) -> list[str]:
    """Return the names of the returned tensors."""
    result = tree.unflatten(first.result, list(range(len(first.leaves))))
    names = {leaf: name for name, leaf in named([("output", result)])}
    return [names[i] for i, (is_tensor, _) in enumerate(first.leaves) if is_tensor]

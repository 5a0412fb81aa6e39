"""Faults of compilers: graphs that are optimized by laws which do not hold for rounded numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calor.backends.numpy_backend import NumpyExecutable
from calor.backends.op_table import Function, Step
from calor.dtypes import DType, bfloat16, float16
from calor.graph.graph import Graph, Node

from .base import Array, Broken, Call, Fault, afterwards, calling, changing

Makers = dict[int, Node]
# Returns another function of the same operands for a node, or None to leave it.
Rewrite = Callable[[Node, Makers], Function | None]
_MOVES = ("expand", "reshape", "cast")
_NARROW = (float16, bfloat16)


def rewriting(rewrite: Rewrite) -> type[Broken]:
    """Return a backend whose compiler replaces the functions of some nodes."""

    class Optimized(NumpyExecutable):
        def __init__(self, backend: Any, index: int, graph: Graph) -> None:
            super().__init__(backend, index, graph)
            makers = {o: n for n in graph.nodes for o in n.outputs}
            self.steps = [self._step(step, makers) for step in self.steps]

        def _step(self, step: Step, makers: Makers) -> Step:
            node = makers[step.slots[0]]
            found = rewrite(node, makers)
            return step if found is None else step._replace(function=found)

    class Optimizing(Broken):
        executable = Optimized

    return Optimizing


def _uniform(value: int, makers: Makers) -> Any:
    """Return the number that a value repeats, or None."""
    node = makers.get(value)
    while node is not None and node.op.name in _MOVES:
        node = makers.get(node.inputs[0])
    if node is None or node.op.name != "full":
        return None
    return node.attributes["value"].number


def _zero_times(node: Node, makers: Makers) -> Function | None:
    if node.op.name != "mul" or all(_uniform(v, makers) != 0 for v in node.inputs):
        return None
    return lambda a, b: np.zeros_like(a)


class SkipsConversions(Broken):
    """A conversion to a dtype as wide is left out where all that follows converts back."""

    class Optimized(NumpyExecutable):
        """Leaves out the first step of such a pair."""

        def __init__(self, backend: Any, index: int, graph: Graph) -> None:
            super().__init__(backend, index, graph)
            makers = {o: n for n in graph.nodes for o in n.outputs}
            for i, step in enumerate(self.steps):
                if self._returns(makers[step.slots[0]], graph):
                    self.steps[i] = step._replace(function=lambda x: x)

        def _returns(self, node: Node, graph: Graph) -> bool:
            if node.op.name != "cast" or node.outputs[0] in graph.outputs:
                return False
            source, middle = (graph.specs[v].dtype for v in (node.inputs[0], node.outputs[0]))
            users = [n for n in graph.nodes if node.outputs[0] in n.inputs]
            back = all(n.op.name == "cast" and n.attributes["dtype"] is source for n in users)
            return back and middle.itemsize >= source.itemsize and not source.is_complex

    executable = Optimized


def _plus_zero(node: Node, makers: Makers) -> Function | None:
    if node.op.name != "add" or _uniform(node.inputs[1], makers) != 0:
        return None
    return lambda a, b: a


def _same(op: str, number: int) -> Rewrite:
    """Rewrite an op on one value twice to a number."""

    def rewrite(node: Node, makers: Makers) -> Function | None:
        if node.op.name != op or len(set(node.inputs)) > 1:
            return None
        return lambda a, b: np.full_like(a, number)

    return rewrite


def _by_constant(node: Node, makers: Makers) -> Function | None:
    if node.op.name != "div" or not _uniform(node.inputs[1], makers):
        return None
    return lambda a, b: np.asarray(a * (b.dtype.type(1) / b), a.dtype)


class Reassociates(Broken):
    """The sum (a + b) − b is a."""

    class Calls(NumpyExecutable):
        """Reads a where b is taken away again."""

        def __init__(self, backend: Any, index: int, graph: Graph) -> None:
            super().__init__(backend, index, graph)
            sums = {n.outputs[0]: n.inputs for n in graph.nodes if n.op.name == "add"}
            for i, step in enumerate(self.steps):
                if step.name == "sub" and sums.get(step.first, (-1, -1))[1] == step.second:
                    kept = (sums[step.first][0],)
                    self.steps[i] = step._replace(function=lambda a: a, operands=kept)
            self.steps = [step._replace(end=-1, ends=()) for step in self.steps]

    executable = Calls


class ExcessPrecision(Broken):
    """Chains of arithmetic on 16-bit floats are rounded at their end alone."""

    class Calls(NumpyExecutable):
        """Keeps float32 between arithmetic steps."""

        def __init__(self, backend: Any, index: int, graph: Graph) -> None:
            super().__init__(backend, index, graph)
            nodes = {n.outputs[0]: n for n in graph.nodes}
            self.steps = [
                step._replace(function=_wide_step(step, graph, nodes[step.slots[0]].inputs))
                for step in self.steps
            ]

        def _run(self, given: Sequence[Any]) -> list[Any]:
            made = super()._run(given)
            return [
                np.asarray(x, s.dtype.numpy)
                for x, s in zip(made, self.graph.output_specs, strict=True)
            ]

    executable = Calls


def _wide_step(step: Step, graph: Graph, inputs: Sequence[int]) -> Function:
    kinds: list[DType] = [graph.specs[v].dtype for v in inputs]
    right = step.function
    if step.name in ("add", "sub", "mul", "div") and kinds[0] in _NARROW:
        return lambda a, b: right(a.astype(np.float32), b.astype(np.float32))
    return lambda *x: right(*(np.asarray(a, k.numpy) for a, k in zip(x, kinds, strict=True)))


def _moved_up(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Leave inputs out that nothing reads, and bind those after them one place earlier."""
    graph = executable.graph
    read = {v for n in graph.nodes for v in n.inputs} | set(graph.outputs)
    given, known = list(inputs), graph.input_specs
    for i, v in enumerate(graph.inputs[:-1]):
        following = known[i + 1] == known[i] and graph.inputs[i + 1] not in graph.host
        if v not in read and following and v not in graph.host:
            given[i + 1] = inputs[i]
    return run(given, into)


def _as_computed(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Give outputs of one form in the order in which they are computed."""
    made, outputs = run(inputs, into), executable.graph.outputs
    specs = executable.graph.output_specs
    if into is not None or len(set(specs)) > 1:
        return made
    return [made[i] for i in sorted(range(len(made)), key=lambda i: outputs[i])]


def _short_numbers(y: Array, x: Any, a: Any) -> Array:
    narrow = {"f8": np.float32, "i8": np.int32, "u8": np.uint32}.get(y.dtype.str[1:])
    with np.errstate(all="ignore"):
        return y if narrow is None else y.astype(narrow).astype(y.dtype)


def _counted(right: Function) -> Function:
    """Count by adding 1, which stands still where the numbers grow too coarse for it."""

    def iota(*, length: int, dtype: Any) -> Any:
        if dtype.kind != "float":
            return right(length=length, dtype=dtype)
        made, number = np.zeros(length, dtype.numpy), dtype.numpy.type(0)
        for i in range(length):
            made[i], number = number, dtype.numpy.type(number + dtype.numpy.type(1))
        return made

    return iota


class RoundsNumbers(Broken):
    """Python numbers come to the device as float32."""

    def enter(self, index: int, given: Any, spec: Any) -> Any:
        """Round what the host gives."""
        if isinstance(given, int | float) and not isinstance(given, bool):
            return np.asarray(np.float32(given), spec.dtype.numpy)
        return super().enter(index, given, spec)


class DropsImaginaryParts(Broken):
    """Complex numbers of Python come to the device without their imaginary part."""

    def enter(self, index: int, given: Any, spec: Any) -> Any:
        """Take the real part of what the host gives."""
        if isinstance(given, complex):
            return np.asarray(given.real, spec.dtype.numpy)
        return super().enter(index, given, spec)


_EACH = tuple(f"graphs/each_op_by_itself/{d}" for d in ("float32", "float64"))


class Fuses(Broken):
    """A product and the sum after it are rounded once, where both are in one graph."""

    class Fused(NumpyExecutable):
        """Gives sums the exact product."""

        def __init__(self, backend: Any, index: int, graph: Graph) -> None:
            super().__init__(backend, index, graph)
            product = {n.outputs[0]: n.inputs for n in graph.nodes if n.op.name == "mul"}
            for i, step in enumerate(self.steps):
                if step.name in ("add", "sub") and step.first in product:
                    operands = (*product[step.first], step.second)
                    exact = _sum if step.name == "add" else _difference
                    self.steps[i] = step._replace(function=exact, operands=operands)
            # What a fused step reads has to live until then.
            self.steps = [step._replace(end=-1, ends=()) for step in self.steps]

    executable = Fused


def _fused(a: Array, b: Array, c: Array, sign: int) -> Array:
    if c.dtype not in (np.float32, np.float64):
        return np.asarray(a * b + c if sign > 0 else a * b - c)
    wide = np.float64 if c.dtype == np.float32 else np.longdouble
    return np.asarray(a.astype(wide) * b.astype(wide) + sign * c.astype(wide), c.dtype)


def _sum(a: Array, b: Array, c: Array) -> Array:
    return _fused(a, b, c, 1)


def _difference(a: Array, b: Array, c: Array) -> Array:
    return _fused(a, b, c, -1)


FAULTS = [
    Fault(
        "conversions-skipped",
        "a conversion there and back is left out where the dtype between is as wide",
        SkipsConversions,
        ("accuracy/casts-there-and-back/int32", "accuracy/casts-there-and-back/int64",
         "accuracy/casts-there-and-back/bfloat16"),
        ("cast",),
    ),
    Fault("zero-times-anything", "x · 0 is 0, for NaN and infinities too", rewriting(_zero_times),
          _EACH),
    Fault("plus-zero", "x + 0 is x, for −0 too", rewriting(_plus_zero), _EACH),
    Fault("same-minus-same", "x − x is 0, for infinities too", rewriting(_same("sub", 0)), _EACH),
    Fault("same-over-same", "x / x is 1, for 0 too", rewriting(_same("div", 1)), _EACH),
    Fault("sums-reassociated", "(x + y) − y is x", Reassociates, _EACH),
    Fault("division-by-a-constant", "x / 3 is x · (1 / 3)", rewriting(_by_constant), _EACH),
    Fault("excess-precision", "chains of float16 are rounded at their end alone", ExcessPrecision,
          ("graphs/each_op_by_itself/float16", "graphs/each_op_by_itself/bfloat16")),
    Fault("unused-inputs-dropped", "an input that nothing reads is left out, and others move up",
          calling(_moved_up), ("graphs/unused_inputs",)),
    Fault("outputs-as-computed", "outputs come in the order in which they are computed",
          calling(_as_computed), ("graphs/order_of_outputs",)),
    Fault("numbers-in-a-graph-short", "constants of 64 bits keep 32",
          changing(full=afterwards(_short_numbers)),
          ("values/full-third/float64", "values/full-long/int64"), ("full",)),
    Fault("arrays-in-a-graph-short", "constant arrays of 64 bits keep 32",
          changing(constant=afterwards(_short_numbers)),
          ("values/constant-int64-special/int64", "values/constant-float64-special/float64"),
          ("constant",)),
    Fault("numbers-from-the-host-short", "Python numbers come to the device as float32",
          RoundsNumbers, ("history/digits_of_numbers/int64", "history/digits_of_numbers/float64")),
    Fault("counts-by-adding", "iota adds 1 in its own dtype, which stands still in float16",
          changing(iota=_counted), ("values/iota-long/float16",), ("iota",)),
    Fault(
        "products-fused",
        "a product and the sum after it are rounded once where they meet in one graph",
        Fuses,
        _EACH,
    ),
    Fault("imaginary-parts-dropped", "complex numbers of Python come without imaginary part",
          DropsImaginaryParts, ("history/digits_of_numbers/complex128",)),
]  # fmt: skip

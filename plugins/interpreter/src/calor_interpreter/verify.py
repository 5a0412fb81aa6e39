"""The verifier: rules for every kernel, checked after it is built and after every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from calor_interpreter.rules import OPERATION_RULES, Complaints, Found
from calor_kernel.errors import VerificationError
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.passes.early import AWAIT
from calor_kernel.ir.uniformity import Level, Uniformity, conditions


def verify(kernel: Kernel) -> Kernel:
    """Return the kernel if it obeys every rule; VerificationError names the first violation.

    The error gives the operation, its source file and line, and the rule.
    """
    for rule, check in RULES.items():
        for operation, complaint in check(kernel):
            where = f"kernel {kernel.name}"
            if operation is not None:
                place = operation.position
                line = f"{place[0]}:{place[1]}: " if place is not None else ""
                where = f"{line}{operation.name} in kernel {kernel.name}"
            raise VerificationError(f"{where} breaks the rule {rule!r}: {complaint}")
    return kernel


def _each(check: Callable[[Operation], Complaints]) -> Callable[[Kernel], Iterator[Found]]:
    def run(kernel: Kernel) -> Iterator[Found]:
        for operation in kernel.body.walk():
            for complaint in check(operation):
                yield operation, complaint

    return run


def _frame(kernel: Kernel) -> Iterator[Found]:
    """The cube, the plane, parameters and memories are well-formed."""
    if min(kernel.cube) < 1 or kernel.plane < 1:
        yield None, f"a cube of {kernel.cube} units in planes of {kernel.plane}"
    names = [p.name for p in kernel.parameters] + [m.name for m in kernel.memories]
    for name in {n for n in names if names.count(n) > 1}:
        yield None, f"the name {name!r} stands for two things"
    for parameter in kernel.parameters:
        of = parameter.memory if parameter.value is None else parameter.value
        if (parameter.value is None) == (parameter.memory is None) or of is None:
            yield None, f"parameter {parameter.name!r} is a number or a buffer, one of them"
        elif of.type.width != 1 or of.type.dtype is not parameter.declared.dtype:
            yield None, f"parameter {parameter.name!r}, {parameter.declared}, is {of.type}"
    for memory in kernel.memories:
        if memory.space == "global" or not memory.size or memory.size < 1:
            yield None, f"memory {memory.name!r} of a kernel's own is {memory.space}, {memory.size}"
    if kernel.body.arguments or kernel.body.yields:
        yield None, "the body takes and yields nothing"


def _definitions(kernel: Kernel) -> Iterator[Found]:
    """Every operand is defined once, earlier in the same block or in an enclosing one."""
    defined = {p.value for p in kernel.parameters if p.value is not None}
    visible = set(defined)

    def define(values: tuple[Value, ...], operation: Operation | None) -> Iterator[Found]:
        for value in values:
            if value in defined:
                yield operation, f"{value!r} is made twice"
            defined.add(value)
            visible.add(value)

    def block(inside: Block, owner: Operation | None) -> Iterator[Found]:
        made: list[Value] = list(inside.arguments)
        yield from define(inside.arguments, owner)
        for operation in inside.operations:
            for place, value in enumerate(operation.operands):
                if value not in visible:
                    yield operation, f"operand {place}, {value!r}, has no value here"
            for region in operation.regions:
                yield from block(region, operation)
            yield from define(operation.results, operation)
            made += operation.results
        for value in inside.yields:
            if value not in visible:
                yield owner, f"a region yields {value!r}, which has no value there"
        visible.difference_update(made)

    yield from block(kernel.body, None)


def _memories(kernel: Kernel) -> Iterator[Found]:
    """Memory belongs to a parameter or to the kernel."""
    own: set[Memory | None] = {p.memory for p in kernel.parameters}
    own.update(kernel.memories)
    own.update(op.memory for op in kernel.body.walk() if op.name == "select_memory")
    for operation in kernel.body.walk():
        for memory in (operation.memory, *map(operation.attributes.get, ("source", "right"))):
            if memory is not None and memory not in own:
                yield operation, f"{memory!r} belongs to another kernel"


# What names memory and neither reads nor writes it.
_EARLY: Final = frozenset(("prefetch", "select_memory"))
_DIVERGES = (
    "it stands under a condition that differs between the units of a {scope}; move it out of the "
    "if or the loop, or make the condition the same for all of them"
)


def _together(kernel: Kernel) -> Iterator[Found]:
    """Collective operations of a scope are not under a condition that diverges within it."""
    if kernel.units == 1 or not any(OPS[o.name].scope for o in kernel.body.walk()):
        return
    uniformity = Uniformity(kernel)
    for operation, level in conditions(uniformity, kernel.body):
        scope = operation.attributes.get("scope") or OPS[operation.name].scope
        if not OPS[operation.name].scope or scope == "unit":
            continue
        # A named barrier gives the number of units that reach it.
        needed = Level.PLANE if operation.attributes.get("count") else Level[scope.upper()]
        if kernel.units <= kernel.plane and level == Level.PLANE:
            level = Level.CUBE
        if level < needed:
            yield operation, _DIVERGES.format(scope=scope)


def _awaited(kernel: Kernel) -> Iterator[Found]:
    """What precedes the wait for other launches accesses no memory that these may write."""
    operations = kernel.body.operations
    places = [i for i, one in enumerate(operations) if one.name == AWAIT]
    for operation in kernel.body.walk():
        if operation.name == AWAIT and all(operation is not operations[i] for i in places):
            yield operation, "some units may never wait; move it out of the if or the loop"
    for operation in Block((), list(operations[: places[0] if places else 0])).walk():
        of = (operation.memory, operation.attributes.get("source"))
        early = _EARLY | {"load"} if all(m is None or not m.writable for m in of) else _EARLY
        if operation.name not in early and any(m is not None and m.space == "global" for m in of):
            yield operation, "it comes before the launches that may write the memory are awaited"


RULES: Final[Mapping[str, Callable[[Kernel], Iterator[Found]]]] = MappingProxyType(
    {
        "frame": _frame,
        **{name: _each(check) for name, check in OPERATION_RULES.items()},
        "definitions": _definitions,
        "memories": _memories,
        "together": _together,
        "awaited": _awaited,
    }
)

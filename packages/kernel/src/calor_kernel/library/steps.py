"""The launches of a work in progress, and their scratch memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from calor.dtypes import DType
from calor.errors import CompileError
from calor.specs import Spec
from calor_kernel.contract.choices import greatest, spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import (
    LOWERINGS,
    Argument,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    View,
    Work,
)
from calor_kernel.language.kernel import KernelFunction

_MEMORY = (Input, Output, Scratch)


def redirected(launch: Launch, memory: Mapping[Argument, Argument]) -> Launch:
    """Return the launch with its buffers replaced; offsets are added."""
    arguments: list[Argument] = []
    for argument in launch.arguments:
        if isinstance(argument, _MEMORY):
            target = memory.get(type(argument)(argument.number))
            if isinstance(target, _MEMORY):
                argument = type(target)(target.number, target.offset + argument.offset)
        arguments.append(argument)
    return replace(launch, arguments=tuple(arguments), copies=None)


@dataclass
class Steps:
    """Launches so far, and their scratch memory."""

    launches: list[Launch] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)

    def memory(self, nbytes: int) -> Scratch:
        """Return a new piece of scratch memory."""
        self.scratch.append(nbytes)
        return Scratch(len(self.scratch) - 1)

    def room(self, count: int, dtype: DType) -> Bound:
        """Return new scratch memory for elements of a dtype."""
        return Bound(self.memory(count * dtype.itemsize), dtype)

    def add(self, kernel: KernelFunction, grid: Grid, effort: Effort, **given: object) -> None:
        """Add a launch."""
        self.launches.append(launch(kernel, grid, effort, **given))

    def include(
        self,
        request: Request,
        op: str,
        attributes: Mapping[str, object],
        operands: Sequence[tuple[View, Argument]],
        results: Sequence[tuple[Spec, Argument]],
        spare: list[Scratch] | None = None,
    ) -> None:
        """Add the work of another op for a request; operands and results come with their memory.

        ``spare``: scratch memory of an earlier work of its kind, which is used again and extended.

        Raises
        ------
        CompileError
            If the family of the op refuses it.
        """
        refused = self.try_include(request, op, attributes, operands, results, spare)
        if refused is not None:
            raise CompileError(f"{request.op} needs {op}: {refused.reason}", op=request.op)

    def try_include(
        self,
        request: Request,
        op: str,
        attributes: Mapping[str, object],
        operands: Sequence[tuple[View, Argument]],
        results: Sequence[tuple[Spec, Argument]],
        spare: list[Scratch] | None = None,
    ) -> Refusal | None:
        """Do what :meth:`include` does, or return why the family of the op refuses it."""
        views, specs = tuple(view for view, _ in operands), tuple(spec for spec, _ in results)
        asked = replace(request, op=op, attributes=attributes, inputs=views, outputs=specs)
        found = LOWERINGS[op](asked)
        if isinstance(found, Refusal):
            return found
        assert not found[0].failures, f"{op} reports failures, which {request.op} would not see"
        memory: dict[Argument, Argument] = {Input(k): x for k, (_, x) in enumerate(operands)}
        memory |= {Output(k): x for k, (_, x) in enumerate(results)}
        pieces = [] if spare is None else spare
        for k, nbytes in enumerate(found[0].scratch):
            if k == len(pieces):
                pieces.append(self.memory(nbytes))
            number = pieces[k].number
            self.scratch[number] = greatest(self.scratch[number], nbytes)
            memory[Scratch(k)] = pieces[k]
        self.launches += [redirected(launch, memory) for launch in found[0].launches]
        return None

    def copy(self, view: View, source: Argument, target: Argument, info: DeviceInfo) -> None:
        """Add the launches that copy a view of a buffer argument densely to another."""
        result = spec_of(view.shape, view.dtype)
        request = Request("copy", {}, (view,), (result,), info)
        self.include(request, "copy", {}, [(view, source)], [(result, target)])

    def work(self, variant: str = "") -> Work:
        """Return the launches as work."""
        return Work(tuple(self.launches), tuple(self.scratch), variant=variant)

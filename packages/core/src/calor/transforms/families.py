"""Programs of one function at many sizes, from one trace with symbolic sizes.

Requirements: a call at a new size costs what differs, not a trace. A trace with symbolic sizes
notes each question that the function, the rules of ops or a pass ask of a size, as a guard; its
graph is that of all sizes for which the guards hold. Where a guard fails, another trace is made;
where no trace is possible, or too few calls use one, the function is traced at each size, as
`reason` says. The first call is traced plainly, because most functions are called at one size; the
second shows which sizes differ. Where these are declared, the first call is traced with symbolic
sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

from calor.backends.device import Device
from calor.backends.sized_graphs import SizedGraph
from calor.errors import CalorError
from calor.graph.graph import Graph
from calor.graph.open_graph import OpenGraph
from calor.local import local
from calor.sizes import Size, TooManyGuards, Trace
from calor.specs import Spec, spec
from calor.transforms.arguments import Arguments
from calor.transforms.program import JittedFunction, Program, Resized
from calor.transforms.simplify import simplify
from calor.transforms.state import Stateful
from calor.transforms.traced import Traced
from calor.transforms.traced import traced as trace_function
from calor.transforms.type_questions import TypeQuestions
from calor.varying_sizes import Match

_FAMILIES: Final = 8
_SEEN: Final = 4
# New traces without a call between them that uses an old one, before none is made any more.
_PATIENCE: Final = 8
# Errors of code that does not take symbolic sizes.
_UNFIT: Final = (
    CalorError, TooManyGuards, ArithmeticError, AssertionError, AttributeError, LookupError,
    TypeError, ValueError,
)  # fmt: skip


class Family:
    """One trace with symbolic sizes, and how to make a program of it.

    ``program`` is a program of the family, with which others share what does not depend on sizes.
    """

    def __init__(
        self, program: Program, match: Match, graph: OpenGraph, direct: SizedGraph | None
    ) -> None:
        self.program = program
        self.match = match
        self.graph = graph
        self.direct = direct

    def at(self, sizes: tuple[int, ...], specs: Sequence[Spec]) -> Program | None:
        """Return the program for tensors of these specs, None if a guard fails."""
        symbols = self.match.symbols(sizes)
        if symbols is None:
            return None
        executable = None if self.direct is None else self.direct.at(symbols)
        if executable is not None:
            outputs = self.graph.output_specs(symbols)
            return Resized(
                self.program, specs, outputs, executable, partial(self.graph_at, symbols)
            )
        graph = self.graph_at(symbols)
        return None if graph is None else self.program.resized(specs, graph)

    def graph_at(self, symbols: Sequence[int]) -> Graph | None:
        """Return the graph for some sizes, None if a guard fails."""
        try:
            numbers = self.graph.numbers(*symbols)
        except (ArithmeticError, ValueError):
            return None
        return None if numbers is None else self.graph.at(numbers)


class Families:
    """The families of one structure of arguments: the same ranks, dtypes and static values.

    ``declared``: for each size of the tensors, in order, its name if it may vary, else None; sizes
    of one name are equal. True: all may vary. Left out, the calls show which sizes differ, after
    ``plain`` traces. ``compared``: whether a trace is used only if it gives the graphs of traces
    at single sizes, since code may ask a size what no guard sees, such as its type.
    """

    def __init__(
        self, declared: Sequence[Any] | bool = (), *, plain: int = 1, compared: bool = False
    ) -> None:
        self.declared = declared
        self.plain = plain
        self.compared = compared
        self.reason: str | None = None
        self.made = 0
        self._seen: list[tuple[int, ...]] = []
        self._varying: set[int] = set()
        self._kinds: Any = None
        self._families: list[Family] = []
        self._patience = _PATIENCE

    def program(
        self,
        jitted: JittedFunction,
        arguments: Arguments,
        device: Device,
        compiled: Any,
        others: Sequence[Program] = (),
    ) -> Program | None:
        """Return a program for a call's arguments; None if the function must be traced for them.

        Parameters
        ----------
        jitted : JittedFunction
            The function.
        arguments : Arguments
            The arguments of the call.
        device : Device
            The device of the call.
        compiled : callable
            What makes a function one of programs.
        others : sequence of Program, optional
            The programs so far of the same structure of arguments.

        Returns
        -------
        Program or None
            The program.
        """
        if self.reason is not None:
            return None
        specs, kinds, sizes = asked(arguments.tensors, device)
        if any(t._record is not None for t in arguments.tensors):
            return None
        if self._kinds != kinds:
            self._kinds, self._seen, self._families = kinds, [sizes], []
            self._varying = {*self._names(sizes)}
        else:
            found = self._find(sizes, specs, arguments.objects)
            if found is not None:
                return found
            last = enumerate(zip(self._seen[-1], sizes, strict=True))
            self._varying.update(p for p, (a, b) in last if a != b and min(a, b) > 1)
            self._seen = [*self._seen[1 - _SEEN :], sizes]
        varying = {p for p in self._varying if sizes[p] > 1}
        if not varying or (not self.declared and len(self._seen) <= self.plain):
            return None
        if not self._patience:
            self.reason = f"traced at each size: {self.made} traces for many sizes fitted few calls"
            self._families = []
            return None
        self._patience -= 1
        family = self._learned(jitted, arguments, device, compiled, varying, others)
        if family is None:
            return None
        self.made += 1
        self._families = [family, *self._families[: _FAMILIES - 1]]
        found = family.at(sizes, specs)
        # Most functions are called at one size, which a program of its own serves best.
        return family.program if len(self._seen) == 1 else found

    def known(self, tensors: Sequence[Any]) -> Program | None:
        """Return a program of a known trace for tensors that are all that a call gives.

        Parameters
        ----------
        tensors : sequence of Tensor
            The tensors.

        Returns
        -------
        Program or None
            The program; None if the function may have to be traced.
        """
        if not self._families or any(t._record is not None for t in tensors):
            return None
        specs, kinds, sizes = asked(tensors, tensors[0]._value.device)
        return self._find(sizes, specs, []) if kinds == self._kinds else None

    def _names(self, sizes: tuple[int, ...]) -> dict[int, Any]:
        """Return the declared names of sizes, by their places."""
        if isinstance(self.declared, bool):
            return {p: p for p in range(len(sizes))} if self.declared else {}
        if len(self.declared) != len(sizes):
            return {}
        return {p: name for p, name in enumerate(self.declared) if name is not None}

    def _find(
        self, sizes: tuple[int, ...], specs: Sequence[Spec], objects: list[Stateful]
    ) -> Program | None:
        """Return the program of a known trace; None if sizes or state fit none."""
        for place, family in enumerate(self._families):
            found = family.at(sizes, specs) if family.program.fits_state(objects) else None
            if found is not None:
                if place:
                    others = [one for one in self._families if one is not family]
                    self._families = [family, *others]
                self._patience = _PATIENCE
                return found
        return None

    def _learned(
        self,
        jitted: JittedFunction,
        arguments: Arguments,
        device: Device,
        compiled: Any,
        varying: set[int],
        others: Sequence[Program],
    ) -> Family | None:
        """Return the family of a trace with symbolic sizes, None if none can be made."""
        match = Match(self._seen, varying, self._names(self._seen[-1]))
        trace = Trace([values[-1] for values in match.values])
        # The tables of specs and recipes keep sizes beyond the trace, so their hashes stay.
        trace.tabled = True
        known = [t._value.spec for t in arguments.tensors]
        try:
            left = iter(match.sizes(trace, self._seen[-1]))
            sized = [spec(tuple([next(left) for _ in s.shape]), s.dtype, s.weak) for s in known]
            with TypeQuestions() if self.compared else nullcontext() as asking:
                made = trace_function(
                    jitted.function, jitted.name, arguments, jitted.roots, device, sized=sized
                )
            if asking is not None and asking.found is not None:
                raise TypeError(f"code may ask the type of a size: {asking.found}")
            self._check(made, trace, len(match.values))
            graph = OpenGraph(made.graph, trace)
            known_graph = graph.hinted()
            # What the function reads beside its arguments, which are weights for the most part.
            lasting = made.graph.inputs[len(made.graph.inputs) - len(made.sources) :]
            direct = device.backend.sized(device.index, made.graph, known_graph, trace, lasting)
        except _UNFIT as error:
            self.reason = f"traced at each size: {str(error).partition(chr(10))[0]}"
            return None
        made.specs = known
        made.graph = known_graph
        program = Program(jitted, arguments, device, compiled, made)
        family = Family(program, match, graph, direct)
        if self.compared and not _alike(family, others) and not _plainly(family, jitted):
            self.reason = "traced at each size: code asks a size what no guard sees"
            return None
        return family

    def _check(self, made: Traced, trace: Trace, symbols: int) -> None:
        """Raise TypeError for a trace that other sizes cannot share."""
        if made.state_writes or made.argument_writes or made.argument_grads or made.grad_writes:
            raise TypeError("the function changes tensors")
        if any(isinstance(leaf, Size) for is_tensor, leaf in made.leaves if not is_tensor):
            raise TypeError("a result is a size")
        fixed = sum(f"a{k}=={trace.atoms[k].hint}" in trace.guards for k in range(symbols))
        if fixed == symbols:
            raise TypeError("a result depends on each size as a number")


def _alike(family: Family, others: Sequence[Program]) -> bool:
    """Return whether the family gives the graphs of programs of other sizes, of one at least."""
    compared = False
    for other in others:
        symbols = family.match.symbols(tuple([n for s in other.specs for n in s.shape]))
        graph = None if symbols is None else family.graph_at(symbols)
        if graph is not None:
            if not _same(family, graph, other.traced, other.graph):
                return False
            compared = True
    return compared


def _plainly(family: Family, jitted: JittedFunction) -> bool:
    """Return whether a trace at the sizes of the family's own call gives its graph."""
    program = family.program
    plain = trace_function(
        jitted.function, jitted.name, program.arguments, jitted.roots, program.device
    )
    return _same(family, program.graph, plain, plain.graph)


def _same(family: Family, graph: Graph, other: Traced, of_other: Graph) -> bool:
    made = family.program.traced
    if (made.result, made.leaves) != (other.result, other.leaves):
        return False
    # Numbers that are sizes are not simplified before they are known.
    return graph.key == of_other.key or simplify(graph).key == simplify(of_other).key


def asked(tensors: Sequence[Any], device: Device) -> tuple[list[Spec], Any, tuple[int, ...]]:
    """Return the specs of a call's tensors, what a trace depends on beside sizes, and the sizes.

    Parameters
    ----------
    tensors : sequence of Tensor
        The tensors.
    device : Device
        The device of the call.

    Returns
    -------
    tuple of list of Spec, object and tuple of int
        The specs; devices, settings, ranks and dtypes, which are compared; the sizes of all axes.
    """
    specs = [t._value.spec for t in tensors]
    modes = local.grad_enabled, local.precision, local.floating, local.autocast, local.views
    kinds = (device, modes, [(s.ndim, s.dtype, s.weak) for s in specs])
    return specs, kinds, tuple([n for s in specs for n in s.shape])

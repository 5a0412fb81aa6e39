"""The row program of a group, written node by node, and the values it keeps for a later pass."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from calor_kernel.library.elementwise.operations import ROWS
from calor_kernel.library.elementwise.step import Step
from calor_kernel.library.reduce.composites import COMPOSITES, composite
from calor_kernel.library.reduce.fusion_groups import FOLDS, Role, Rows, Search
from calor_kernel.library.reduce.program import Fold, Program, Recipe, Schedule
from calor_kernel.library.reduce.reduction_ops import working

# Instructions from which a later pass reads a value instead of recomputing it; maximum of kept
# values.
_HEAVY, _KEPT = 8, 2


class Writer:
    """Writes the program of a group."""

    def __init__(self, search: Search, group: Rows) -> None:
        self.search, self.group = search, group
        self.recipe = Recipe()
        self.values: dict[int, int] = {}
        self.operands: dict[tuple[int, Role], int] = {}
        self.numbers: list[float] = []
        self.kept: list[int] = []

    def add(self, number: int) -> None:
        """Add a node."""
        graph, recipe = self.search.graph, self.recipe
        node = graph.nodes[number]
        name, result = node.op.name, graph.specs[node.outputs[0]]
        reduces = name in FOLDS or name in COMPOSITES
        role: Role | None = "along" if reduces else self.search.role(self.group, node.outputs[0])
        assert role is not None
        read = [self._operand(v, role) for v in node.inputs]
        if name in COMPOSITES:
            terms = prod(self.group.shape[a] for a in self.group.axes)
            made, numbers = composite(recipe, name, read[0], terms, node.attributes)
            self.values.update(zip(node.outputs, made.results, strict=True))
            self.numbers += numbers
            self.kept += made.kept
        elif name in FOLDS:
            wide = working(name, recipe.dtype(read[0]), result.dtype)
            total = recipe.fold(name, recipe.cast(read[0], wide))
            self.values[node.outputs[0]] = recipe.cast(total, result.dtype)
        else:
            items = tuple(sorted(node.attributes.items()))
            self.values[node.outputs[0]] = recipe.add(Step(name, tuple(read), result.dtype, items))

    def _operand(self, value: int, role: Role) -> int:
        found = self.search.link(self.group, value, role)
        if found is not None:
            return self.values[found[0]]
        key = (value, role)
        if key not in self.operands:
            dtype = self.search.graph.specs[value].dtype
            self.operands[key] = self.recipe.operand(dtype, role)
        return self.operands[key]


def with_kept(program: Program) -> Program:
    """Return a program that keeps expensive values for later passes."""
    schedule = Schedule.of(program)
    last: dict[int, int] = {}
    for n in range(program.values):
        step = program.step(n)
        if step is None:
            continue
        read = [step.operand] if isinstance(step, Fold) else step.operands
        for v in read:
            last[v] = max(last.get(v, 0), schedule.walks[n])
    kept = list(program.kept)
    for n in range(program.values):
        step = program.step(n)
        if step is None or isinstance(step, Fold) or not schedule.along[n] or n in kept:
            continue
        weight: Any = ROWS[step.op].weight if step.op in ROWS else 1
        if weight >= _HEAVY and last.get(n, 0) > schedule.walks[n]:
            kept.append(n)
    same = [n for n in kept if program.dtype(n) is program.dtype(kept[0])]
    return replace(program, kept=tuple(same[:_KEPT]))

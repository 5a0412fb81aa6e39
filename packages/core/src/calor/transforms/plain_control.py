"""Control flow as plain Python, where each op is looked at: the bodies run step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor import tree
from calor.functions.joining import stack


def plain_while(condition: Callable[[Any], Any], body: Callable[[Any], Any], carry: Any) -> Any:
    """Return the last carry."""
    structure = tree.flatten(carry)[1]
    while condition(carry):
        carry = tree.ordered(body(carry), structure)
    return carry


def plain_scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    row: Callable[[int], Any],
    count: int,
    reverse: bool,
) -> tuple[Any, Any]:
    """Return the last carry and the stacked outputs of at least one step."""
    structure = tree.flatten(carry)[1]
    steps = [*range(count)]
    made = []
    for i in reversed(steps) if reverse else steps:
        after, output = body(carry, row(i))
        carry = tree.ordered(after, structure)
        made.append(output)
    if reverse:
        made.reverse()
    outputs = tree.flatten(made[0])[1]
    leaves = [tree.leaves(tree.ordered(output, outputs)) for output in made]
    stacked = [stack(list(parts)) for parts in zip(*leaves, strict=True)]
    return carry, tree.unflatten(outputs, stacked)

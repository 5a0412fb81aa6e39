"""The quick way through a bound call: tensors alone, one result, nothing that changes.

Requirements: what was found out once is not looked at again; what may have changed since is looked
at in one go, and where it has, the call takes the long way from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor.config import config
from calor.graph import trace as traces
from calor.graph.trace import Value, local
from calor.transforms.arguments import Arguments
from calor.transforms.program import MISS, Program, plain_buffers
from calor.transforms.state import epoch

_new = object.__new__
Quick = Callable[[tuple[Any, ...]], Any]


def quick_call(program: Program, bound: Arguments, rest: Arguments) -> Quick | None:
    """Return what calls a program with the arguments that are not bound, or returns MISS.

    None for a program that needs more than its tensors, which was just called with others.
    """
    made = program.bindings.made
    if not made or not program.stateless or not program.one_result:
        return None
    if program.results_differentiable or program.argument_kinds is not None:
        return None
    binding = made[0]
    if binding.turn is not None or binding.owners or binding.handles or binding.dynamic:
        return None
    if bound.numbers or bound.objects or not rest.tensors_alone:
        return None
    tensors, kinds = tuple(bound.tensors), [type(t) for t in rest.tensors]
    specs, device, constants = program.specs, program.device, list(binding.buffers)
    grad_mode, known = program.grad_mode, epoch.count
    spec = program.output_specs[0]

    def call(args: tuple[Any, ...]) -> Any:
        if local.jit or local.grad_enabled is not grad_mode or epoch.count != known:
            return MISS
        if [type(t) for t in args] != kinds or not config.jit:
            return MISS
        buffers = plain_buffers(tensors + args, specs, device)
        if buffers is None:
            return MISS
        value: Value = _new(Value)
        value.buffer = program.executable(buffers + constants)[0]
        value.spec = spec
        value.device = device
        value.trace = None
        value.position = 0
        tensor = _new(traces.tensor_type)
        tensor._value = value
        tensor._record = None
        tensor._grad = None
        return tensor

    return call

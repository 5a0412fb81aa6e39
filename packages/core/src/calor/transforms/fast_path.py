"""The fast path of a bound call: tensors only, one result, no changes of state.

Requirements: facts that cannot change are checked once. Generated code without a loop checks those
that can; if one has changed, the call takes the general path from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from calor.backends.calls import BoundCall, Look, Made, Operand
from calor.config import config
from calor.errors import DeviceError
from calor.local import local
from calor.recording.sites import locate
from calor.tensor.tensor import Tensor
from calor.tensor.values import Value
from calor.transforms.arguments import Arguments
from calor.transforms.program import MISS, Program
from calor.transforms.state import epoch

Quick = Callable[[tuple[Any, ...]], Any]

# With more tensors a loop costs little beside them.
_FEW: Final = 8
_BEGIN: Final = """
def call(args):
    if local.jit or local.grad_enabled is not grad_mode{changed}:
        return MISS
    if local.precision is not precision or local.floating is not floating:
        return MISS
    if local.autocast is not autocast or local.views is not views:
        return MISS
    if len(args) != {count} or not config.jit:
        return MISS
"""
_ARGUMENT: Final = """
    t{i} = args[{place}]
    if type(t{i}) is not K{i}:
        return MISS
"""
_TENSOR: Final = """
    v = t{i}._value
    b{i} = v.buffer
    if v.spec is not s{i} or v.device is not device or b{i} is None or t{i}._record is not None:
        return MISS
"""
_END: Final = """
    value = new(Value)
    try:
        value.buffer = program.executable([{buffers}])[0]
    except DeviceError as error:
        locate(error, program.sites)
        raise
    value.spec = spec
    value.device = device
    value.trace = None
    value.position = 0
    tensor = new(Tensor)
    tensor._value = value
    tensor._record = None
    tensor._grad = None
    tensor._view = None
    return tensor
"""


def quick_call(program: Program, bound: Arguments, rest: Arguments) -> Quick | None:
    """Return what calls a program with the arguments that are not bound, or returns MISS.

    None for a program that needs more than its tensors, which was just called with others.
    """
    if not _alone(program, bound, rest):
        return None
    binding = program.bindings.made[0]
    scope: dict[str, Any] = {
        "DeviceError": DeviceError,
        "MISS": MISS,
        "Tensor": Tensor,
        "Value": Value,
        "autocast": program.autocast,
        "config": config,
        "device": program.device,
        "epoch": epoch,
        "grad_mode": program.grad_mode,
        "precision": program.precision,
        "floating": program.floating,
        "views": program.views,
        "known": epoch.count,
        "local": local,
        "locate": locate,
        "new": object.__new__,
        "program": program,
        "spec": program.output_specs[0],
        **{f"s{i}": known for i, known in enumerate(program.specs)},
        **{f"t{i}": tensor for i, tensor in enumerate(bound.tensors)},
        **{f"c{i}": constant for i, constant in enumerate(binding.buffers)},
    }
    changed = " or epoch.count != known" if _looks_at_objects(program) else ""
    parts = [_BEGIN.format(count=len(rest.tensors), changed=changed)]
    for place, tensor in enumerate(rest.tensors):
        i = len(bound.tensors) + place
        scope[f"K{i}"] = type(tensor)
        parts.append(_ARGUMENT.format(i=i, place=place))
    parts += [_TENSOR.format(i=i) for i in range(len(program.specs))]
    buffers = [f"b{i}" for i in range(len(program.specs))]
    buffers += [f"c{i}" for i in range(len(binding.buffers))]
    parts.append(_END.format(buffers=", ".join(buffers)))
    exec(compile("".join(parts), "<a bound call>", "exec"), scope)
    call: Quick = scope["call"]
    return call


def compiled_call(
    program: Program,
    bound: Sequence[Any],
    kinds: Sequence[type],
    otherwise: Callable[..., Any],
) -> Callable[..., Any] | None:
    """Return a call as :func:`quick_call` made it, compiled; None where the device does not.

    ``bound``: the bound tensors. ``kinds``: the types of the others.
    """
    device = program.device
    starts: list[tuple[int | None, Any, type]] = [(None, t, type(t)) for t in bound]
    starts += [(place, None, kind) for place, kind in enumerate(kinds)]
    operands = []
    for (place, tensor, kind), known in zip(starts, program.specs, strict=True):
        handle = Look((kind,), {"_record": None}, "_value")
        value = Look((Value,), {"spec": known, "device": device}, "buffer")
        operands.append(Operand(place, tensor, (handle, value)))
    operands += [Operand(None, constant) for constant in program.bindings.made[0].buffers]
    result = {"spec": program.output_specs[0], "device": device, "trace": None, "position": 0}
    same: list[tuple[Any, str, Any]] = [(config, "jit", True)]
    if _looks_at_objects(program):
        same.append((epoch, "count", epoch.count))
    modes = {
        "grad_enabled": program.grad_mode,
        "precision": program.precision,
        "floating": program.floating,
        "views": program.views,
        "autocast": program.autocast,
    }
    call = BoundCall(
        arguments=len(kinds),
        same=tuple(same),
        thread=(local, "jit", modes),
        operands=tuple(operands),
        made=(
            Made(Value, result, "buffer"),
            Made(Tensor, {"_record": None, "_grad": None, "_view": None}, "_value"),
        ),
        otherwise=otherwise,
    )
    return device.backend.caller(device.index, program.executable, call)


def _looks_at_objects(program: Program) -> bool:
    """Return whether there are objects by which a program may change when one is assigned to."""
    return bool(program.bindings.made[0].members)


def _alone(program: Program, bound: Arguments, rest: Arguments) -> bool:
    """Return whether a call depends on a few tensors alone, and has one result."""
    made = program.bindings.made
    if not made or not program.stateless or not program.one_result:
        return False
    if program.results_differentiable or program.argument_kinds is not None:
        return False
    binding = made[0]
    if binding.containers is not None:
        return False
    if binding.turn is not None or binding.owners or binding.handles or binding.dynamic:
        return False
    if bound.numbers or bound.objects or not rest.tensors_alone:
        return False
    return len(program.specs) <= _FEW

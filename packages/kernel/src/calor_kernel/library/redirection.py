"""Composite work: launches of other work with their arguments redirected to other memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from calor.specs import Spec
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    View,
)
from calor_kernel.library.copying import lower_copy


def redirected(launch: Launch, memory: Mapping[Argument, Argument]) -> Launch:
    """Return the launch with its buffers replaced; offsets are added."""
    arguments: list[Argument] = []
    for argument in launch.arguments:
        if isinstance(argument, Input | Output | Scratch):
            target = memory.get(replace(argument, offset=0))
            if isinstance(target, Input | Output | Scratch):
                argument = replace(target, offset=target.offset + argument.offset)
        arguments.append(argument)
    return replace(launch, arguments=tuple(arguments), copies=None)


def copy_to_scratch(view: View, source: Argument, scratch: int, info: DeviceInfo) -> list[Launch]:
    """Return the launches that copy a view of a buffer argument densely to scratch memory."""
    target: Spec = spec_of(view.shape, view.dtype)
    candidates = lower_copy(Request("copy", {}, (view,), (target,), info))
    assert not isinstance(candidates, Refusal)
    work = candidates[0]
    memory: dict[Argument, Argument] = {Input(0): source, Output(0): Scratch(scratch)}
    return [redirected(launch, memory) for launch in work.launches]

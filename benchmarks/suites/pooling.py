"""Max pooling: the shapes of which others claim speed."""

from typing import Any

from harness import Case
from suites._operations import library, normal, operation

_SHAPES = ((2, 32, 512, 512), (2, 128, 512, 512))
_WINDOWS = ((3, 2, 1), (2, 2, 0))
# Bytes a second from memory, one core.
_MEMORY = 40e9


def cases(device: str) -> list[Case]:
    return [
        case
        for shape in _SHAPES
        for window in _WINDOWS
        for case in (_case(device, shape, window, False), _case(device, shape, window, True))
    ]


def _case(device: str, shape: tuple[int, ...], window: tuple[int, int, int], last: bool) -> Case:
    kernel, stride, padding = window

    def ours(x: Any) -> Any:
        from calor import nn

        return nn.functional.max_pool2d(x, kernel, stride=stride, padding=padding)

    held: list[Any] = []

    def theirs(x: Any) -> Any:
        torch = library("torch")
        if last:
            if not held:
                held.append(x.contiguous(memory_format=torch.channels_last))
            x = held[0]
        return torch.nn.functional.max_pool2d(x, kernel, stride=stride, padding=padding)

    elements = 1
    for n in shape:
        elements *= n
    against = "channels last" if last else "channels first"
    return operation(
        device,
        f"max_pool2d k{kernel} s{stride} p{padding} {'x'.join(map(str, shape))} beside {against}",
        normal(shape),
        ours,
        torch=theirs,
        relative=0,
        floor=elements * 5 / _MEMORY,
    )

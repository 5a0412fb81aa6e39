"""Convolutions: the 23 distinct ones of ResNet-50 at batch 1, and other kinds with their gradients.

torch stands for its eager convolution. Of ResNet-50's shapes there is a second case beside
oneDNN with weights that were packed before, where this build of torch has it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness import Case
from suites._operations import Array, library, normal, operation

_FMA = 238e9


@dataclass(frozen=True)
class Shape:
    """A convolution: channels in and out, size of the image and the kernel, stride."""

    channels: int
    filters: int
    size: int
    kernel: int
    stride: int = 1
    groups: int = 1
    dilation: int = 1
    batch: int = 1

    @property
    def padding(self) -> int:
        return self.kernel // 2 * self.dilation

    @property
    def name(self) -> str:
        more = f" g{self.groups}" if self.groups > 1 else ""
        more += f" d{self.dilation}" if self.dilation > 1 else ""
        more += f" batch {self.batch}" if self.batch > 1 else ""
        return f"{self.channels}->{self.filters} {self.size}² k{self.kernel} s{self.stride}{more}"

    def arrays(self) -> Callable[[], list[Array]]:
        return normal(
            (self.batch, self.channels, self.size, self.size),
            (self.filters, self.channels // self.groups, self.kernel, self.kernel),
        )

    @property
    def flops(self) -> int:
        out = -(-self.size // self.stride)
        inner = self.channels // self.groups * self.kernel**2
        return 2 * self.batch * self.filters * out * out * inner


def resnet50() -> list[Shape]:
    """Return the distinct convolutions of ResNet-50 on images of 224 by 224."""
    found = [Shape(3, 64, 224, 7, 2)]
    before, size = 64, 56
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        out = size // stride
        found += [
            Shape(before, width, size, 1),
            Shape(width, width, size, 3, stride),
            Shape(width, 4 * width, out, 1),
            Shape(before, 4 * width, size, 1, stride),
            Shape(4 * width, width, out, 1),
            Shape(width, width, out, 3),
        ]
        before, size = 4 * width, out
    return list(dict.fromkeys(found))


_OTHERS = (
    Shape(32, 32, 112, 3, groups=32),
    Shape(144, 144, 56, 3, 2, groups=144),
    Shape(384, 384, 14, 3, groups=384, batch=8),
    Shape(128, 128, 28, 3, groups=32),
    Shape(64, 128, 56, 3, 2, batch=4),
    Shape(64, 64, 32, 3, dilation=2, batch=4),
    Shape(256, 256, 28, 3, dilation=4),
)


def cases(device: str) -> list[Case]:
    found = [_forward(device, s) for s in resnet50()]
    found += [_packed(device, s) for s in resnet50()]
    for shape in _OTHERS:
        found += [_forward(device, shape), _gradient(device, shape, 0), _gradient(device, shape, 1)]
    return found


def _ours(shape: Shape) -> Callable[[Any, Any], Any]:
    def call(x: Any, w: Any) -> Any:
        from calor import nn

        return nn.functional.conv2d(
            x,
            w,
            stride=shape.stride,
            padding=shape.padding,
            dilation=shape.dilation,
            groups=shape.groups,
        )

    return call


def _theirs(shape: Shape) -> Callable[[Any, Any], Any]:
    def call(x: Any, w: Any) -> Any:
        torch = library("torch")
        return torch.nn.functional.conv2d(
            x, w, None, shape.stride, shape.padding, shape.dilation, shape.groups
        )

    return call


def _forward(device: str, shape: Shape) -> Case:
    return operation(
        device,
        f"conv2d {shape.name}",
        shape.arrays(),
        _ours(shape),
        torch=_theirs(shape),
        relative=1e-4,
        floor=shape.flops / _FMA,
    )


def _packed(device: str, shape: Shape) -> Case:
    packed: list[Any] = []

    def theirs(x: Any, w: Any) -> Any:
        torch = library("torch")
        pads, strides, ones = [shape.padding] * 2, [shape.stride] * 2, [1, 1]
        if not packed:
            held = torch._C._nn.mkldnn_reorder_conv2d_weight(
                w.to_mkldnn(), pads, strides, ones, 1, list(x.shape)
            )
            packed.append(held)
        return torch.ops.mkldnn._convolution_pointwise(
            x, packed[0], None, pads, strides, ones, 1, "none", [], ""
        )

    return operation(
        device,
        f"conv2d {shape.name} beside packed weights",
        shape.arrays(),
        _ours(shape),
        torch=theirs,
        relative=1e-4,
        floor=shape.flops / _FMA,
    )


def _gradient(device: str, shape: Shape, which: int) -> Case:
    """Return the case of the gradient of the image (0) or of the weights (1)."""
    out = -(-shape.size // shape.stride)
    whole = shape.arrays()
    gradient = normal((shape.batch, shape.filters, out, out))

    def ours(x: Any, w: Any, g: Any) -> Any:
        import calor

        _, pull = calor.vjp(_ours(shape), x, w)
        return pull(g)[which]

    def theirs(x: Any, w: Any, g: Any) -> Any:
        torch = library("torch")
        mask = [which == 0, which == 1, False]
        pads, strides = [shape.padding] * 2, [shape.stride] * 2
        made = torch.ops.aten.convolution_backward(
            g, x, w, None, strides, pads, [shape.dilation] * 2, False, [0, 0], shape.groups, mask
        )
        return made[which]

    return operation(
        device,
        f"conv2d {shape.name} gradient of {('the image', 'the weights')[which]}",
        lambda: [*whole(), *gradient()],
        ours,
        torch=theirs,
        relative=1e-4,
        floor=shape.flops / _FMA,
    )

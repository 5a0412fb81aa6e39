"""ResNet-50's convolutions on a GPU, forward and both gradients, beside cuDNN through torch.

Of batches of 1 and 32, in bfloat16, and in float32 where both may round factors to TF32, and where
neither does. cuDNN tries its ways and takes the fastest. The first convolution's image needs no
gradient.
"""

import os
from typing import Any

from harness import Case
from suites._gpu import Function, gpu_case, normal, often
from suites._operations import library
from suites.convolution import Shape, resnet50

os.environ["CALOR_KEEP"] = "1"

# What an H200 was seen to compute in a second: products of half types, half of that by TF32, and
# what its units multiply and add one by one.
_PEAKS = {"bf16": 790e12, "tf32": 395e12, "f32": 52e12}
_BYTES = 4.2e12
# What a call computes at most, in multiplications and additions.
_WORK = 2e13
_DTYPES = {"bf16": "bfloat16", "tf32": "float32", "f32": "float32"}
_NEAR = {"bf16": 2e-2, "tf32": 5e-3, "f32": 1e-4}
_PARTS = {"forward": None, "gradient of the image": 0, "gradient of the weights": 1}


def cases(device: str) -> list[Case]:
    return [
        _case(device, shape, kind, what)
        for kind in _DTYPES
        for batch in (1, 32)
        for shape in (_batched(s, batch) for s in resnet50())
        for what in _PARTS
        if shape.channels > 3 or what != "gradient of the image"
    ]


def _batched(s: Shape, batch: int) -> Shape:
    return Shape(s.channels, s.filters, s.size, s.kernel, s.stride, batch=batch)


def _case(device: str, shape: Shape, kind: str, what: str) -> Case:
    out = -(-shape.size // shape.stride)
    image = (shape.batch, shape.channels, shape.size, shape.size)
    weights = (shape.filters, shape.channels, shape.kernel, shape.kernel)
    result = (shape.batch, shape.filters, out, out)
    which = _PARTS[what]
    dtype, rounded = _DTYPES[kind], kind == "tf32"
    item = 2 if dtype == "bfloat16" else 4
    elements = sum(a * b * c * d for a, b, c, d in (image, weights, result))
    return gpu_case(
        device,
        f"conv2d {kind} {shape.name} batch {shape.batch} {what}".replace(
            f" batch {shape.batch} batch", " batch"
        ),
        normal(image, weights) if which is None else normal(image, weights, result),
        _ours(shape, which, rounded),
        _theirs(shape, which, rounded),
        dtype=dtype,
        near=_NEAR[kind],
        units=often(_WORK, shape.flops),
        floor=lambda: max(shape.flops / _PEAKS[kind], elements * item / _BYTES),
    )


def _ours(shape: Shape, which: int | None, rounded: bool) -> Function:
    def forward(x: Any, w: Any) -> Any:
        import calor
        from calor import nn

        with calor.matmul_precision("high" if rounded else "highest"):
            return nn.functional.conv2d(x, w, stride=shape.stride, padding=shape.padding)

    def gradient(x: Any, w: Any, g: Any) -> Any:
        import calor

        _, pull = calor.vjp(forward, x, w)
        return pull(g)[which or 0]

    return forward if which is None else gradient


def _theirs(shape: Shape, which: int | None, rounded: bool) -> Function:
    def cudnn() -> Any:
        torch = library("torch")
        torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, rounded
        return torch

    def forward(x: Any, w: Any) -> Any:
        return cudnn().nn.functional.conv2d(x, w, None, shape.stride, shape.padding)

    def gradient(x: Any, w: Any, g: Any) -> Any:
        pads, strides = [shape.padding] * 2, [shape.stride] * 2
        mask = [which == 0, which == 1, False]
        made = cudnn().ops.aten.convolution_backward(
            g, x, w, None, strides, pads, [1, 1], False, [0, 0], 1, mask
        )
        return made[which]

    return forward if which is None else gradient

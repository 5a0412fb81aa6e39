"""Convolutions: forward, transposed, deformable, causal with a state."""

from __future__ import annotations

from math import prod
from typing import Any

import calor
from calor.ops import contraction as rows
from calor_nn.functional.sampling import moved_columns
from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.windows import cropped, ends, given, shared, windows_of


def with_bias(y: Any, bias: Any) -> Any:
    """Return y plus a number for each channel."""
    if bias is None:
        return y
    return calor.add(y, calor.reshape(bias, (-1, *(1,) * (y.ndim - 2))))


@operator("Conv")
def conv(
    call: Call, x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Any:  # fmt: skip
    """The cross-correlation of x with w, plus b."""
    lie = windows_of(x.shape[2:], w.shape[2:], strides, pads, dilations, auto_pad)
    padding = lie.pads
    if any(p < 0 for pair in padding for p in pair):
        starts = [-low for low, _ in padding]
        sizes = [n + low + high for n, (low, high) in zip(lie.sizes, padding, strict=True)]
        x, padding = cropped(x, starts, sizes), ((0, 0),) * len(padding)
    made = rows.conv(
        x, w, stride=lie.strides, padding=padding, dilation=lie.dilations, groups=group
    )
    return with_bias(made, b)


@operator("ConvTranspose")
def conv_transpose(
    call: Call, x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None, output_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Any:  # fmt: skip
    """The gradient of Conv for its operand: each element adds w, scaled, around its place."""
    rank = x.ndim - 2
    step, apart = given(strides, rank, "strides"), given(dilations, rank, "dilations")
    more = given(output_padding, rank, "output_padding", 0)
    reach = [d * (k - 1) + 1 for d, k in zip(apart, w.shape[2:], strict=True)]
    whole = tuple((n - 1) * s + r for n, s, r in zip(x.shape[2:], step, reach, strict=True))
    if output_shape or auto_pad.startswith("SAME"):
        sizes = [n * s for n, s in zip(x.shape[2:], step, strict=True)]
        sizes = sizes if not output_shape else [*output_shape][-rank:]
        total = [n + m - size for n, m, size in zip(whole, more, sizes, strict=True)]
        starts = [shared(t, auto_pad)[0] for t in total]
    else:
        pairs = ((0, 0),) * rank if auto_pad == "VALID" else ends(pads, rank)
        sizes = [n + m - sum(p) for n, m, p in zip(whole, more, pairs, strict=True)]
        starts = [low for low, _ in pairs]
    if min(sizes, default=1) < 1:
        raise ModelError(f"ConvTranspose: padding leaves sizes {sizes} of {list(whole)}")
    # A forward convolution of the output's sizes has exactly the sizes of x if cropping and output
    # padding are within a stride; otherwise the whole result is computed and cropped.
    highs = [n - low - size for n, low, size in zip(whole, starts, sizes, strict=True)]
    padding = [(low, max(high, 0)) for low, high in zip(starts, highs, strict=True)]
    direct = all(
        low >= 0 and (size + low + high - r) // s + 1 == n
        for (low, high), size, r, s, n in zip(padding, sizes, reach, step, x.shape[2:], strict=True)
    )
    made = rows.conv_input_gradient(
        x,
        w,
        input_shape=(x.shape[0], w.shape[1] * group, *(sizes if direct else whole)),
        stride=step,
        padding=tuple(padding) if direct else ((0, 0),) * rank,
        dilation=apart,
        groups=group,
    )
    return with_bias(made if direct else cropped(made, starts, sizes), b)


@operator("DeformConv", since=19)
def deform_conv(
    call: Call, x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None, *,
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    offset_group: int = 1, pads: list[int] | None = None, strides: list[int] | None = None,
) -> Any:  # fmt: skip
    """Conv that reads x between its places, moved by ``offset`` (Dai et al., 2017)."""
    lie = windows_of(x.shape[2:], w.shape[2:], strides, pads, dilations)
    batch, lows = x.shape[0], [low for low, _ in lie.pads]
    columns = moved_columns(
        x, offset, mask, lie.kernel, lie.counts, lie.strides, lows, lie.dilations
    )
    columns = calor.reshape(columns, (batch, group, -1, prod(lie.counts)))
    weights = calor.reshape(w, (group, w.shape[0] // group, -1))
    made = calor.reshape(calor.matmul(weights, columns), (batch, w.shape[0], *lie.counts))
    return with_bias(made, b)


@operator("CausalConvWithState", since=27)
def causal_conv_with_state(
    call: Call, x: Any, w: Any, b: Any = None, past: Any = None, *, activation: str = "none"
) -> Any:
    """A convolution of each channel with itself over what came before; also the new state."""
    kept = w.shape[2] - 1
    if past is None:
        past = calor.zeros((*x.shape[:2], kept), dtype=x.dtype, device=call.device)
    joined = calor.concat([past, x], axis=2)
    made = with_bias(
        rows.conv(joined, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=x.shape[1]),
        b,
    )
    if activation in ("silu", "swish"):
        made = calor.silu(made)
    elif activation != "none":
        raise ModelError(f"CausalConvWithState: activation {activation!r} is not known")
    return made, joined[:, :, joined.shape[2] - kept :]

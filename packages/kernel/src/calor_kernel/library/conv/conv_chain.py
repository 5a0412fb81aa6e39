"""Convolutions with the elementwise work that follows them, as one launch where a way can do that.

Requirements: a result is images of channels of pixels, so an epilogue sees images as products,
channels as rows and pixels as columns: a bias or a scale of channels is a column vector. With
channels last, pixels are rows and channels are columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from calor_kernel.contract.work import Refusal, Request, Work
from calor_kernel.library.conv.lowering import forward_works, lower_conv
from calor_kernel.library.matmul.product_chain import TailOf, chained


def lower_conv_chain(request: Request) -> Sequence[Work] | Refusal:
    """Lower a convolution with an ``expression`` of its result, as ``lower_product_chain``."""
    return chained(request, "conv", lower_conv, _fused)


def _fused(conv: Request, tail_of: TailOf) -> Iterable[Work]:
    images, *others = conv.outputs[0].shape
    if "order" in conv.attributes:
        tail = tail_of(images, prod(others[:-1]), others[-1])
    else:
        tail = tail_of(images, others[0], prod(others[1:]))
    works = () if tail is None else forward_works(conv, tail)
    return () if isinstance(works, Refusal) else works

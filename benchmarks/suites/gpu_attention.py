"""Attention of 16,384 tokens and 2,048 features on a GPU, beside torch's flash and cuDNN backends.

Half of the cases are the forward pass, half the backward pass alone, which reads what the forward
pass left. Torch computes on CUDA, by the backend that a case names.
"""

import os
from typing import Any

from harness import Case
from suites._gpu import gpu_case, normal, often
from suites._operations import library

os.environ["CALOR_KEEP"] = "0"

_TOKENS, _WIDTH = 16384, 2048
# What an H200 was seen to compute of products of half types in a second.
_PEAK = 790e12
# What a call computes at most, in multiplications and additions.
_WORK = 2e13
_NEAR = 3e-2
_BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION"}


def cases(device: str) -> list[Case]:
    return [
        make(device, features, length, causal, backend)
        for features in (64, 128)
        for length in (512, 1024, 2048, 4096, 8192)
        for causal in (False, True)
        for make in (_forward, _backward)
        for backend in _BACKENDS
    ]


def _name(features: int, length: int, causal: bool, what: str, backend: str) -> str:
    return f"attention d {features} T {length}{' causal' if causal else ''} {what} beside {backend}"


def _shape(features: int, length: int) -> tuple[int, ...]:
    return (_TOKENS // length, _WIDTH // features, length, features)


def _flops(length: int, causal: bool) -> float:
    return 4 * _TOKENS * _WIDTH * length / (2 if causal else 1)


def _theirs(backend: str, causal: bool, q: Any, k: Any, v: Any) -> Any:
    torch = library("torch")
    chosen = getattr(library("torch.nn.attention").SDPBackend, _BACKENDS[backend])
    with library("torch.nn.attention").sdpa_kernel(chosen):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _forward(device: str, features: int, length: int, causal: bool, backend: str) -> Case:
    def ours(q: Any, k: Any, v: Any) -> Any:
        from calor import nn

        return nn.functional.scaled_dot_product_attention(q, k, v, causal=causal)

    flops = _flops(length, causal)
    return gpu_case(
        device,
        _name(features, length, causal, "forward", backend),
        normal(*[_shape(features, length)] * 3),
        ours,
        lambda q, k, v: _theirs(backend, causal, q, k, v),
        dtype="bfloat16",
        near=_NEAR,
        units=often(_WORK, flops),
        floor=lambda: flops / _PEAK,
    )


def _backward(device: str, features: int, length: int, causal: bool, backend: str) -> Case:
    scale = features**-0.5

    def before(given: list[Any]) -> list[Any]:
        from calor.ops.attention import attention

        q, k, v, g = given
        out, total = attention(q, k, v, causal=causal, scale=scale)
        return [q, k, v, g, out, total]

    def ours(q: Any, k: Any, v: Any, g: Any, out: Any, total: Any) -> Any:
        from calor.ops.attention import attention_gradient

        delta = (g.astype("float32") * out.astype("float32")).sum(-1)
        return attention_gradient(g, delta, total, q, k, v, causal=causal, scale=scale)

    def torch_before(given: list[Any]) -> list[Any]:
        leaves = [t.requires_grad_() for t in given[:3]]
        return [leaves, _theirs(backend, causal, *leaves), given[3]]

    def theirs(leaves: Any, out: Any, g: Any) -> Any:
        return library("torch").autograd.grad(out, leaves, g, retain_graph=True)

    flops = 2.5 * _flops(length, causal)
    return gpu_case(
        device,
        _name(features, length, causal, "backward", backend),
        normal(*[_shape(features, length)] * 4),
        ours,
        theirs,
        dtype="bfloat16",
        near=_NEAR,
        units=often(_WORK, flops),
        floor=lambda: flops / _PEAK,
        before=before,
        torch_before=torch_before,
    )

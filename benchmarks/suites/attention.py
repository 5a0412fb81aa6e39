"""Attention of 12 heads of 64, forward and backward, beside torch's fused function."""

from typing import Any

from harness import Case
from suites._operations import library, normal, operation

_FMA = 238e9


def cases(device: str) -> list[Case]:
    return [
        case
        for tokens in (128, 1024)
        for case in (
            _forward(device, tokens, False),
            _forward(device, tokens, True),
            _backward(device, tokens, False),
            _backward(device, tokens, True),
        )
    ]


def _named(tokens: int, causal: bool, what: str) -> str:
    return f"attention T {tokens}{' causal' if causal else ''} {what}"


def _ours(q: Any, k: Any, v: Any, causal: bool) -> Any:
    from calor import nn

    return nn.functional.scaled_dot_product_attention(q, k, v, causal=causal)


def _theirs(q: Any, k: Any, v: Any, causal: bool) -> Any:
    torch = library("torch")
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _forward(device: str, tokens: int, causal: bool) -> Case:
    shape = (1, 12, tokens, 64)
    return operation(
        device,
        _named(tokens, causal, "forward"),
        normal(shape, shape, shape),
        lambda q, k, v: _ours(q, k, v, causal),
        torch=lambda q, k, v: _theirs(q, k, v, causal),
        relative=1e-4,
        floor=4 * 12 * 64 * tokens**2 / (2 if causal else 1) / _FMA,
    )


def _backward(device: str, tokens: int, causal: bool) -> Case:
    """Return forward and backward together: what a training step pays."""
    shape = (1, 12, tokens, 64)

    def ours(q: Any, k: Any, v: Any, g: Any) -> Any:
        import calor

        _, pull = calor.vjp(lambda q, k, v: _ours(q, k, v, causal), q, k, v)
        return pull(g)

    def theirs(q: Any, k: Any, v: Any, g: Any) -> Any:
        torch = library("torch")
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in (q, k, v)]
            return torch.autograd.grad(_theirs(leaves[0], leaves[1], leaves[2], causal), leaves, g)

    return operation(
        device,
        _named(tokens, causal, "forward and backward"),
        normal(shape, shape, shape, shape),
        ours,
        torch=theirs,
        relative=1e-4,
        floor=14 * 12 * 64 * tokens**2 / (2 if causal else 1) / _FMA,
    )

"""Layers of transformers in JAX, of parameters with PyTorch's names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any


class Layers:
    """Layers by the names of their parameters."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.parameters = parameters

    @cached_property
    def jax(self) -> Any:
        """The library."""
        return importlib.import_module("jax")

    def linear(self, name: str, x: Any) -> Any:
        """Return x · weightᵀ + bias."""
        made = x @ self.parameters[f"{name}.weight"].T
        bias = self.parameters.get(f"{name}.bias")
        return made if bias is None else made + bias

    def norm(self, name: str, x: Any) -> Any:
        """Return the layer norm."""
        wide = x.astype("float32")
        wide = wide - wide.mean(-1, keepdims=True)
        made = wide * self.jax.lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
        made = made * self.parameters[f"{name}.weight"] + self.parameters[f"{name}.bias"]
        return made.astype(x.dtype)

    def attention(self, parts: Any, heads: int, causal: bool) -> Any:
        """Return the heads' attention, joined, of queries, keys and values (N, T, width)."""
        n, length, width = parts[0].shape
        q, k, v = (p.reshape(n, length, heads, width // heads) for p in parts)
        made = self.jax.nn.dot_product_attention(q, k, v, is_causal=causal)
        return made.reshape(n, length, width)

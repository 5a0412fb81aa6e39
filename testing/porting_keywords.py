"""Do the hints for keywords and for modules hold? `python testing/porting_keywords.py torch`

An example is a call as PyTorch, NumPy or JAX has it, and what the hint says to write in calor. The
tests look at the hint that the call gets in calor, and compare what is written instead with what
NumPy computes; this program compares it with what the framework computes.
"""

import importlib
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import calor
from calor import nn
from porting_rows import FRAMEWORKS, INSIDE, X, Y, converted, numpy_of, same

Names = dict[str, Any]


class Keyword(NamedTuple):
    """A keyword of other frameworks, whose it is, a call with it, and what to write in calor.

    ``wrong`` is the call in calor with the keyword as it is there; ``oracle`` is in NumPy. F stands
    for the framework's functions, and N for those of neural networks.
    """

    keyword: str
    whose: str
    theirs: str
    wrong: str
    right: str
    oracle: str


Q = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3) / 10
MASK = np.array([[True, False], [True, True]])
OPERANDS: Names = {
    "x": X,
    "y": Y,
    "q": Q,
    "m": MASK,
    "inside": INSIDE,
    "j": np.array([[1, 0, 1]]),
    "z": np.zeros((1, 2, 2), np.float32),
    "p": np.array([[False, True]]),
}
SOFT = "(lambda e: e / e.sum({}, keepdims=True))(np.exp(x - x.max({}, keepdims=True)))"
ATTENDED = (
    "(lambda s: (lambda e: e / e.sum(-1, keepdims=True))(np.exp(s)) @ q)"
    "(np.where({}, q @ np.swapaxes(q, -1, -2) / 3 ** 0.5, -np.inf))"
)
LOWER = "np.tril(np.ones((2, 2), bool))"
# Layers whose parameters are random, of inputs that make them give zeros; NaN if all is masked.
PADDED = "nn.{}Attention(2, 1, bias=False, batch_first=True)(z, z, z, {})"
PADDED = f"(lambda made: made[0] if isinstance(made, tuple) else made)({PADDED})"
ENCODED = "0 * nn.TransformerEncoderLayer(2, 1, 4, 0.0, batch_first=True)(z, {})"
DECODED = "0 * nn.TransformerDecoderLayer(2, 1, 4, 0.0, batch_first=True)(z, z, {})"
BOTH = "0 * nn.Transformer(2, 1, 1, 1, 4, 0.0, batch_first=True)(z, z, {})"
# Masks of whole layers, and what they are called in calor. The results are zeros.
MASKED = (
    ("src_key_padding_mask", ENCODED, "key_mask"), ("src_mask", ENCODED, "mask"),
    ("src_key_padding_mask", BOTH, "source_key_mask"), ("src_mask", BOTH, "source_mask"),
    ("tgt_key_padding_mask", DECODED, "key_mask"), ("tgt_mask", DECODED, "mask"),
    ("tgt_key_padding_mask", BOTH, "target_key_mask"), ("tgt_mask", BOTH, "target_mask"),
    ("memory_key_padding_mask", DECODED, "memory_key_mask"),
    ("memory_key_padding_mask", BOTH, "memory_key_mask"),
    ("src_is_causal", BOTH, "source_causal"), ("tgt_is_causal", BOTH, "target_causal"),
    ("tgt_is_causal", DECODED, "causal"), ("memory_is_causal", DECODED, "memory_causal"),
    ("memory_is_causal", BOTH, "memory_causal"),
)  # fmt: skip


def _masked(theirs: str, layer: str, ours: str) -> Keyword:
    if theirs.endswith("causal"):
        # PyTorch takes it as what is known of a mask that is given as well.
        there = f"{theirs.replace('is_causal', 'mask')}=~m, {theirs}=True"
        calls = (there, f"{theirs}=True", f"{ours}=True")
    else:
        # True is what is left out in PyTorch's layers, and what is attended to in calor's.
        mask = "p" if theirs.endswith("padding_mask") else "~m"
        calls = (f"{theirs}={mask}", f"{theirs}={mask}", f"{ours}=~{mask}")
    call, wrong, right = map(layer.format, calls)
    return Keyword(theirs, "t", call, wrong, right, "np.zeros((1, 2, 2))")


ROWS = (
    Keyword(
        "dim", "t", "F.sum(x, dim=0)", "calor.sum(x, dim=0)", "calor.sum(x, axis=0)", "x.sum(0)"
    ),
    Keyword(
        "dims",
        "t",
        "F.flip(x, dims=(0,))",
        "calor.flip(x, dims=0)",
        "calor.flip(x, axis=0)",
        "x[::-1]",
    ),
    Keyword(
        "dims",
        "t",
        "F.permute(x, dims=(1, 0))",
        "calor.permute_dims(x, dims=(1, 0))",
        "calor.permute_dims(x, axes=(1, 0))",
        "x.T",
    ),
    Keyword(
        "keepdim",
        "t",
        "F.mean(x, 1, keepdim=True)",
        "calor.mean(x, 1, keepdim=True)",
        "calor.mean(x, 1, keepdims=True)",
        "x.mean(1, keepdims=True)",
    ),
    Keyword(
        "start_dim",
        "t",
        "F.flatten(q, start_dim=2)",
        "calor.flatten(q, start_dim=2)",
        "calor.flatten(q, start_axis=2)",
        "q.reshape(1, 2, 6)",
    ),
    Keyword(
        "end_dim",
        "t",
        "F.flatten(q, end_dim=1)",
        "calor.flatten(q, end_dim=1)",
        "calor.flatten(q, end_axis=1)",
        "q.reshape(2, 2, 3)",
    ),
    Keyword(
        "dim0",
        "t",
        "F.swapaxes(x, axis0=0, axis1=1)",
        "calor.swapaxes(x, dim0=0)",
        "calor.swapaxes(x, 0, 1)",
        "x.T",
    ),
    Keyword(
        "dim1",
        "t",
        "F.transpose(x, dim0=0, dim1=1)",
        "calor.swapaxes(x, 0, dim1=1)",
        "calor.swapaxes(x, 0, 1)",
        "x.T",
    ),
    Keyword(
        "unbiased",
        "t",
        "F.var(x, unbiased=True)",
        "calor.var(x, unbiased=True)",
        "calor.var(x, correction=True)",
        "x.var(ddof=1)",
    ),
    Keyword(
        "ddof",
        "nj",
        "F.std(x, ddof=1)",
        "calor.std(x, ddof=1)",
        "calor.std(x, correction=1)",
        "x.std(ddof=1)",
    ),
    Keyword(
        "a_min",
        "n",
        "F.clip(x, a_min=-1, a_max=None)",
        "calor.clip(x, a_min=-1)",
        "calor.clip(x, min=-1)",
        "np.clip(x, -1, None)",
    ),
    Keyword(
        "a_max",
        "n",
        "F.clip(x, a_min=None, a_max=1)",
        "calor.clip(x, a_max=1)",
        "calor.clip(x, max=1)",
        "np.clip(x, None, 1)",
    ),
    Keyword(
        "size",
        "t",
        "F.full(size=(2,), fill_value=7)",
        "calor.full(size=(2,), fill_value=7)",
        "calor.full(shape=(2,), fill_value=7)",
        "np.full(2, 7)",
    ),
    Keyword(
        "newshape",
        "",
        "",
        "calor.reshape(x, newshape=(3, 2))",
        "calor.reshape(x, shape=(3, 2))",
        "x.reshape(3, 2)",
    ),
    Keyword(
        "fill",
        "",
        "",
        "calor.full((2,), fill=7)",
        "calor.full((2,), fill_value=7)",
        "np.full(2, 7)",
    ),
    Keyword(
        "value",
        "",
        "",
        "calor.full((2,), value=7)",
        "calor.full((2,), fill_value=7)",
        "np.full(2, 7)",
    ),
    Keyword(
        "diagonal",
        "t",
        "F.tril(x, diagonal=1)",
        "calor.tril(x, diagonal=1)",
        "calor.tril(x, k=1)",
        "np.tril(x, 1)",
    ),
    Keyword(
        "axes",
        "",
        "",
        "calor.flip(x, axes=(0, 1))",
        "calor.flip(x, axis=(0, 1))",
        "x[::-1, ::-1]",
    ),
    Keyword(
        "axis",
        "",
        "",
        "calor.permute_dims(x, axis=(1, 0))",
        "calor.permute_dims(x, axes=(1, 0))",
        "x.T",
    ),
    Keyword(
        "index",
        "t",
        "F.gather(x, 0, index=j)",
        "calor.take_along_axis(x, index=j, axis=0)",
        "calor.take_along_axis(x, j, axis=0)",
        "np.take_along_axis(x, j, 0)",
    ),
    Keyword(
        "shifts",
        "t",
        "F.roll(x, shifts=1)",
        "calor.roll(x, shifts=1)",
        "calor.roll(x, shift=1)",
        "np.roll(x, 1)",
    ),
    Keyword(
        "is_causal",
        "t",
        "N.scaled_dot_product_attention(q, q, q, is_causal=True)",
        "N.scaled_dot_product_attention(q, q, q, is_causal=True)",
        "N.scaled_dot_product_attention(q, q, q, causal=True)",
        ATTENDED.format(LOWER),
    ),
    Keyword(
        "dropout_p",
        "t",
        "N.scaled_dot_product_attention(q, q, q, dropout_p=0.0)",
        "N.scaled_dot_product_attention(q, q, q, dropout_p=0.0)",
        "N.scaled_dot_product_attention(q, q, q, dropout=0.0)",
        ATTENDED.format("True"),
    ),
    Keyword(
        "attn_mask",
        "t",
        "N.scaled_dot_product_attention(q, q, q, attn_mask=m)",
        "N.scaled_dot_product_attention(q, q, q, attn_mask=m)",
        "N.scaled_dot_product_attention(q, q, q, mask=m)",
        ATTENDED.format("m"),
    ),
    Keyword(
        "attn_mask",
        "t",
        "N.scaled_dot_product_attention(q, q, q, attn_mask=1.0 * m)",
        "N.scaled_dot_product_attention(q, q, q, attn_mask=1.0 * m)",
        "N.scaled_dot_product_attention(q, q, q, bias=1.0 * m)",
        "(lambda s: (lambda e: e / e.sum(-1, keepdims=True))(np.exp(s)) @ q)"
        "(q @ np.swapaxes(q, -1, -2) / 3 ** 0.5 + m)",
    ),
    Keyword(
        "inplace",
        "t",
        "N.dropout(x, 0.0, inplace=True)",
        "N.dropout(x, 0.0, inplace=True)",
        "(lambda x: N.dropout(x, 0.0))(x)",
        "x",
    ),
    Keyword(
        "where",
        "nj",
        "F.sum(x, where=x > 0)",
        "calor.sum(x, where=x > 0)",
        "calor.sum(calor.where(x > 0, x, 0))",
        "x[x > 0].sum()",
    ),
    Keyword(
        "initial",
        "nj",
        "F.max(x, initial=9)",
        "calor.max(x, initial=9)",
        "calor.maximum(calor.max(x), 9)",
        "np.float32(9)",
    ),
    Keyword(
        "dtype",
        "t",
        "F.softmax(x, 1, dtype=F.float64)",
        "calor.softmax(x, 1, dtype=calor.float64)",
        "calor.softmax(x.astype(calor.float64), 1)",
        SOFT.format(1, 1),
    ),
    Keyword(
        "order",
        "n",
        'F.reshape(x, (3, 2), order="C")',
        'calor.reshape(x, (3, 2), order="C")',
        "calor.reshape(x, (3, 2))",
        "x.reshape(3, 2)",
    ),
    Keyword(
        "size_average",
        "t",
        "N.mse_loss(x, y, size_average=False)",
        "N.mse_loss(x, y, size_average=False)",
        'N.mse_loss(x, y, reduction="sum")',
        "((x - y) ** 2).sum()",
    ),
    Keyword(
        "reduce",
        "t",
        "N.mse_loss(x, y, reduce=False)",
        "N.mse_loss(x, y, reduce=False)",
        'N.mse_loss(x, y, reduction="none")',
        "(x - y) ** 2",
    ),
    Keyword(
        "non_blocking",
        "t",
        'x.to("cpu", non_blocking=True)',
        "x.to(x.device, non_blocking=True)",
        "x.to(x.device)",
        "x",
    ),
    Keyword(
        "memory_format",
        "t",
        'x.to("cpu", memory_format=torch.contiguous_format)',
        "x.to(x.device, memory_format=None)",
        "x.to(x.device)",
        "x",
    ),
    Keyword(
        "use_reentrant",
        "t",
        "torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)",
        "calor.checkpoint(calor.sin, use_reentrant=False)(x)",
        "calor.checkpoint(calor.sin)(x)",
        "np.sin(x)",
    ),
    Keyword(
        "overwrite_input",
        "n",
        "F.median(x.copy(), overwrite_input=True)",
        "calor.median(x, overwrite_input=True)",
        "calor.median(x)",
        "np.median(x)",
    ),
    Keyword(
        "kind",
        "n",
        'F.sort(x, kind="stable")',
        'calor.sort(x, kind="stable")',
        "calor.sort(x, stable=True)",
        "np.sort(x)",
    ),
    Keyword(
        "approximation",
        "",
        "",
        'calor.gelu(0 * x, approximation="tanh")',
        'calor.gelu(0 * x, approximate="tanh")',
        "0 * x",
    ),
    Keyword(
        "dimension",
        "t",
        "x.unfold(dimension=1, size=2, step=1)",
        "calor.unfold(x, dimension=1, size=2, step=1)",
        "calor.unfold(x, axis=1, size=2, step=1)",
        "np.lib.stride_tricks.sliding_window_view(x, 2, 1)",
    ),
    Keyword(
        "enable_gqa",
        "t",
        "N.scaled_dot_product_attention(q, q[:, :1], q[:, :1], enable_gqa=True)",
        "N.scaled_dot_product_attention(q, q[:, :1], q[:, :1], enable_gqa=True)",
        "N.scaled_dot_product_attention(q, q[:, :1], q[:, :1])",
        ATTENDED.replace("@ q)", "@ q[:, :1])")
        .replace("np.swapaxes(q,", "np.swapaxes(q[:, :1],")
        .format("True"),
    ),
    Keyword(
        "seed",
        "",
        "",
        "calor.random.normal((2,), seed=3) * 0",
        "calor.random.normal((2,), key=calor.random.key(3)) * 0",
        "np.zeros(2)",
    ),
    Keyword(
        "rng",
        "",
        "",
        "calor.random.normal((2,), rng=None) * 0",
        "calor.random.normal((2,), generator=None) * 0",
        "np.zeros(2)",
    ),
    Keyword(
        "size",
        "n",
        "np.random.default_rng(0).normal(size=(2,)) * 0",
        "calor.random.normal(size=(2,)) * 0",
        "calor.random.normal(shape=(2,)) * 0",
        "np.zeros(2)",
    ),
    Keyword(
        "key_padding_mask",
        "t",
        PADDED.format("Multihead", "key_padding_mask=p"),
        PADDED.format("MultiHead", "key_padding_mask=p"),
        PADDED.format("MultiHead", "key_mask=~p"),
        "np.zeros((1, 2, 2))",
    ),
    *(_masked(*row) for row in MASKED),
)


class Moved(NamedTuple):
    """An attribute of torch's modules: a use of it, and what to write; both give a value."""

    name: str
    theirs: str
    ours: str


DTYPES = "str([p.dtype for p in {}.parameters()]).replace('torch.', '').replace('calor.', '')"
NAMES = "[name for name, _ in {}.named_{}()]"
MODULES = (
    *(
        Moved(name, DTYPES.format(f"model.{name}()"), DTYPES.format(f"model.to(calor.{dtype})"))
        for name, dtype in {
            "half": "float16",
            "bfloat16": "bfloat16",
            "float": "float32",
            "double": "float64",
        }.items()
    ),
    Moved(
        "type",
        DTYPES.format("model.type(torch.float16)"),
        DTYPES.format("(lambda dtype: model.to(dtype))(calor.float16)"),
    ),
    Moved("compile", "torch.zeros(3).shape", "calor.jit(model)(calor.zeros((3, 2))).shape[1:]"),
    Moved(
        "register_parameter",
        f"[model.register_parameter('b', parameter), {NAMES.format('model', 'parameters')}][1]",
        f"[setattr(model, 'b', parameter), {NAMES.format('model', 'parameters')}][1]",
    ),
    *(
        Moved(
            name,
            f"[model.{name}('m', nn.ReLU()), {NAMES.format('model', 'children')}][1]",
            f"[setattr(model, 'm', nn.ReLU()), {NAMES.format('model', 'children')}][1]",
        )
        for name in ("register_module", "add_module")
    ),
    Moved(
        "get_parameter",
        "tuple(model.get_parameter('weight').shape)",
        "dict(model.named_parameters())['weight'].shape",
    ),
    Moved(
        "get_submodule",
        "type(nn.Sequential(model).get_submodule('0')).__name__",
        "type(dict(nn.Sequential(model).named_modules())['0']).__name__",
    ),
    Moved(
        "get_buffer",
        "tuple(nn.BatchNorm1d(3).get_buffer('running_mean').shape)",
        "dict(nn.BatchNorm1d(3).named_buffers())['running_mean'].shape",
    ),
)
# Those that name a device, or that nothing replaces.
NOT_COMPUTED = frozenset(("cuda", "cpu", "share_memory", "to_empty"))


def calor_names() -> Names:
    """What the texts of calor use."""
    made = {k: converted(v, calor.asarray) for k, v in OPERANDS.items()}
    model = nn.Linear(2, 3)
    parameter = nn.Parameter(calor.zeros(2))
    return {**made, "calor": calor, "N": nn.functional, "nn": nn, "model": model,
            "parameter": parameter}  # fmt: skip


def oracle(row: Keyword) -> Any:
    """What NumPy computes."""
    return eval(row.oracle, {**OPERANDS, "np": np})


def written(text: str) -> Any:
    """What calor computes."""
    return numpy_of(eval(text, calor_names()))


def framework_names(framework: str) -> Names:
    """What the texts of a framework use."""
    module = importlib.import_module(framework)
    functions = importlib.import_module("jax.numpy") if framework == "jax" else module
    made = {k: converted(v, functions.asarray) for k, v in OPERANDS.items()}
    names = {**made, framework: module, "F": functions, "np": np}
    if framework == "torch":
        names["nn"] = importlib.import_module("torch.nn")
        names["N"] = names["nn"].functional
        names["model"] = names["nn"].Linear(2, 3)
        names["parameter"] = names["nn"].Parameter(module.zeros(2))
    return names


def comparisons(framework: str) -> Iterator[tuple[str, str, str]]:
    """The texts that are run in a framework and in calor, each with what it is about."""
    for row in ROWS:
        if FRAMEWORKS[framework] in row.whose:
            yield f"{row.keyword}=", row.theirs, row.right
    if framework == "torch":
        for moved in MODULES:
            yield f"model.{moved.name}", moved.theirs, moved.ours


def main(framework: str) -> int:
    """Run every row beside a framework; 1 if one of them does not hold."""
    wrong = count = 0
    for name, theirs, ours in comparisons(framework):
        count += 1
        try:
            other = numpy_of(eval(theirs, framework_names(framework)))
            mine = written(ours)
            equal = mine == other if isinstance(mine, str | list) else same(mine, other)
        except Exception as error:
            wrong += 1
            print(f"{name}: {type(error).__name__}: {error}")
            continue
        if not equal:
            wrong += 1
            print(f"{name} {ours} gives\n{mine}\n{framework} gives\n{other}")
    print(f"{count} hints beside {framework}, {wrong} of them wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

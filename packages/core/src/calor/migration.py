"""Names that people bring from PyTorch, NumPy and JAX, and what calor calls the same thing.

Requirements: one table. The errors for a missing name, method or keyword argument are made from it,
and so are the tables of the pages for people who change over (``tools/name_tables.py``); nothing
here is loaded until a name is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import FunctionType
from typing import Any, Final, NamedTuple

from calor import _arrays


class Row(NamedTuple):
    """A name that calor does not have, what to write, and whose name it is (letters t, n, j).

    ``full`` is the name as its users write it, where that is not its framework's prefix and name.
    """

    theirs: str
    ours: str
    whose: str
    full: str = ""


# Attributes of the modules torch, numpy, jax and jax.numpy.
NAMES: Final = (
    Row("array", "calor.asarray(data)", "nj"),
    Row("as_tensor", "calor.asarray(data)", "t"),
    Row("asanyarray", "calor.asarray(data)", "n"),
    Row("ascontiguousarray", "calor.asarray(data)", "n"),
    Row("from_numpy", "calor.asarray(array)", "t"),
    Row("rand", "calor.random.uniform(shape)", "t"),
    Row("randn", "calor.random.normal(shape)", "t"),
    Row("randint", "calor.random.integers(low, high, shape)", "t"),
    Row("rand_like", "calor.random.uniform(x.shape)", "t"),
    Row("randn_like", "calor.random.normal(x.shape)", "t"),
    Row("randperm", "calor.random.permutation(n)", "t"),
    Row("multinomial", "calor.random.categorical(calor.log(weights))", "t"),
    Row("bernoulli", "calor.random.bernoulli(p.shape, p)", "t"),
    Row("manual_seed", "calor.random.seed(number)", "t"),
    Row("PRNGKey", "calor.random.key(number)", "j", "jax.random.PRNGKey"),
    Row("cat", "calor.concat(tensors, axis=0)", "t"),
    Row("concatenate", "calor.concat(tensors, axis=0)", "tnj"),
    Row("unbind", "calor.unstack(x, axis=0)", "t"),
    Row("view", "calor.reshape(x, shape)", "t"),
    Row("ravel", "calor.reshape(x, -1)", "tnj"),
    Row("unsqueeze", "calor.expand_dims(x, axis=0)", "t"),
    Row("permute", "calor.permute_dims(x, axes)", "t"),
    Row("movedim", "calor.moveaxis(x, source, destination)", "t"),
    Row("swapdims", "calor.swapaxes(x, axis1, axis2)", "t"),
    Row("broadcast_tensors", "calor.broadcast_arrays(a, b)", "t"),
    Row("mm", "calor.matmul(a, b)", "t"),
    Row("bmm", "calor.matmul(a, b)", "t"),
    Row("mv", "calor.matmul(matrix, vector)", "t"),
    Row("vdot", "calor.vecdot(a, b)", "tnj"),
    Row("addmm", "bias + a @ b", "t"),
    Row("norm", "calor.linalg.vector_norm(x)", "t"),
    Row("cross", "calor.linalg.cross(a, b)", "tnj"),
    Row("inverse", "calor.linalg.inv(x)", "t"),
    Row("det", "calor.linalg.det(x)", "t"),
    Row("svd", "calor.linalg.svd(x, full_matrices=False); its last part is V.mH", "t"),
    Row("cholesky", "calor.linalg.cholesky(x)", "t"),
    Row("mul", "calor.multiply(a, b)", "t"),
    Row("sub", "calor.subtract(a, b)", "t"),
    Row("div", "calor.divide(a, b)", "t"),
    Row("true_divide", "calor.divide(a, b)", "tnj"),
    Row("power", "calor.pow(a, b)", "nj"),
    Row("mod", "calor.remainder(a, b)", "nj"),
    Row("neg", "calor.negative(x)", "t"),
    Row("absolute", "calor.abs(x)", "tnj"),
    Row("fabs", "calor.abs(x)", "nj"),
    Row("rint", "calor.round(x)", "nj"),
    Row("around", "calor.round(x)", "nj"),
    Row("fix", "calor.trunc(x)", "tn"),
    Row("clamp", "calor.clip(x, min, max)", "t"),
    Row("conjugate", "calor.conj(x)", "nj"),
    Row("arcsin", "calor.asin(x)", "tnj"),
    Row("arccos", "calor.acos(x)", "tnj"),
    Row("arctan", "calor.atan(x)", "tnj"),
    Row("arctan2", "calor.atan2(y, x)", "tnj"),
    Row("arcsinh", "calor.asinh(x)", "tnj"),
    Row("arccosh", "calor.acosh(x)", "tnj"),
    Row("arctanh", "calor.atanh(x)", "tnj"),
    Row("eq", "calor.equal(a, b)", "t"),
    Row("ne", "calor.not_equal(a, b)", "t"),
    Row("lt", "calor.less(a, b)", "t"),
    Row("le", "calor.less_equal(a, b)", "t"),
    Row("gt", "calor.greater(a, b)", "t"),
    Row("ge", "calor.greater_equal(a, b)", "t"),
    Row("invert", "calor.bitwise_invert(x)", "nj"),
    Row("bitwise_not", "calor.bitwise_invert(x)", "tnj"),
    Row("left_shift", "calor.bitwise_left_shift(a, b)", "nj"),
    Row("right_shift", "calor.bitwise_right_shift(a, b)", "nj"),
    Row("amax", "calor.max(x, axis=0)", "tnj"),
    Row("amin", "calor.min(x, axis=0)", "tnj"),
    Row("cumsum", "calor.cumulative_sum(x, axis=0)", "tnj"),
    Row("cumprod", "calor.cumulative_prod(x, axis=0)", "tnj"),
    Row("cummax", "calor.cumulative_max(x, axis=0), calor.cumulative_argmax(x, axis=0)", "t"),
    Row("cummin", "calor.cumulative_min(x, axis=0), calor.cumulative_argmin(x, axis=0)", "t"),
    Row("unique", "calor.unique_values(x)", "tnj"),
    Row("in1d", "calor.isin(x, values)", "n"),
    Row("index_select", "calor.take(x, indices, axis=0)", "t"),
    Row("gather", "calor.take_along_axis(x, indices, axis=0)", "t"),
    Row("scatter", "calor.scatter_along_axis(x, indices, values, axis=0)", "t"),
    Row("scatter_add", 'calor.scatter_along_axis(x, indices, values, axis=0, update="add")', "t"),
    Row("take_along_dim", "calor.take_along_axis(x, indices, axis=0)", "t"),
    Row("repeat_interleave", "calor.repeat(x, repeats)", "t"),
    Row("narrow", "x[start : start + length]", "t"),
    Row("put_along_axis", "calor.scatter_along_axis(x, indices, values, axis=0)", "nj"),
    Row("masked_select", "x[mask]", "t"),
    Row("masked_fill", "calor.where(mask, value, x)", "t"),
    Row("addmv", "bias + matrix @ vector", "t"),
    Row("baddbmm", "bias + a @ b", "t"),
    Row("addbmm", "bias + calor.sum(a @ b, axis=0)", "t"),
    Row("addr", "bias + calor.outer(a, b)", "t"),
    Row("addcmul", "x + a * b", "t"),
    Row("addcdiv", "x + a / b", "t"),
    Row("rsub", "b - a", "t"),
    Row("frac", "x - calor.trunc(x)", "t"),
    Row("sgn", "calor.sign(x)", "t"),
    Row("aminmax", "calor.min(x), calor.max(x)", "t"),
    Row("std_mean", "calor.std(x, correction=1), calor.mean(x)", "t"),
    Row("var_mean", "calor.var(x, correction=1), calor.mean(x)", "t"),
    Row("dist", "calor.linalg.vector_norm(a - b)", "t"),
    Row("msort", "calor.sort(x, axis=0)", "t"),
    Row("logcumsumexp", "calor.cumulative_logsumexp(x, axis=0)", "t"),
    Row("bucketize", "calor.searchsorted(boundaries, x)", "t"),
    Row("histc", "calor.histogram(x, bins, range=(min, max)).counts", "t"),
    Row("tensor_split", "calor.array_split(x, parts, axis=0)", "t"),
    Row(
        "scatter_reduce", 'calor.scatter_along_axis(x, indices, values, axis=0, update="mean")', "t"
    ),
    Row("index_add", 'calor.index_update(x, indices, values, axis=0, update="add")', "t"),
    Row("index_copy", "calor.index_update(x, indices, values, axis=0)", "t"),
    Row("index_fill", "calor.index_update(x, indices, value, axis=0)", "t"),
    Row("index_reduce", 'calor.index_update(x, indices, values, axis=0, update="mean")', "t"),
    Row("diagflat", "calor.diag(calor.reshape(x, -1))", "tn"),
    Row("view_as_real", "calor.stack((calor.real(x), calor.imag(x)), axis=-1)", "t"),
    Row("view_as_complex", "calor.complex(x[..., 0], x[..., 1])", "t"),
    Row("trapz", "calor.trapezoid(y)", "t"),
    Row(
        "nancumsum",
        "calor.cumulative_sum(calor.nan_to_num(x), axis=0); infinities become numbers",
        "nj",
    ),
    Row(
        "nancumprod",
        "calor.cumulative_prod(calor.nan_to_num(x, nan=1.0), axis=0); infinities become numbers",
        "nj",
    ),
    Row("setdiff1d", "calor.unique_values(a[~calor.isin(a, b)])", "nj"),
    Row("union1d", "calor.unique_values(calor.concat((a, b), axis=None))", "nj"),
    Row("intersect1d", "calor.unique_values(a[calor.isin(a, b)])", "nj"),
    Row("append", "calor.concat((a, b), axis=None)", "nj"),
    Row("flatnonzero", "calor.nonzero(calor.reshape(x, -1))[0]", "nj"),
    Row("extract", "x[mask]", "nj"),
    Row("compress", "calor.take(x, calor.nonzero(flags)[0], axis=0)", "nj"),
    Row("ediff1d", "calor.diff(calor.reshape(x, -1))", "nj"),
    Row("divmod", "calor.floor_divide(a, b), calor.remainder(a, b)", "nj"),
    Row("histogram2d", "calor.histogramdd(calor.stack((a, b), axis=1)).counts", "nj"),
    Row("identity", "calor.eye(n)", "nj"),
    Row("row_stack", "calor.vstack(tensors)", "t"),
    Row("numel", "x.size", "t"),
    Row("shape", "x.shape", "nj"),
    Row("ndim", "x.ndim", "nj"),
    Row("copy", "x.copy()", "nj"),
    Row("clone", "x.copy()", "t"),
    Row("is_tensor", "isinstance(x, calor.Tensor)", "t"),
    Row("ndarray", "calor.Tensor", "nj"),
    Row("Array", "calor.Tensor", "j"),
    Row("half", "calor.float16", "t"),
    Row("float", "calor.float32", "t"),
    Row("double", "calor.float64", "t"),
    Row("short", "calor.int16", "t"),
    Row("int", "calor.int32", "t"),
    Row("long", "calor.int64", "t"),
    Row("int_", "calor.int64", "nj"),
    Row("float_", "calor.float64", "nj"),
    Row("cfloat", "calor.complex64", "t"),
    Row("dtype", "calor.DType", "tnj"),
    Row("inference_mode", "calor.no_grad()", "t"),
    Row("set_grad_enabled", "calor.no_grad()", "t"),
    Row("autograd", "calor.grad(function)", "t", "torch.autograd.grad"),
    Row("func", "calor.vmap(function); grad, vjp, jvp, jacrev too", "t", "torch.func.vmap"),
    Row("jacobian", "calor.jacrev(function)", "j"),
    Row("compile", "calor.jit(function)", "t"),
    Row("set_default_device", 'with calor.device("cuda"): ...', "t"),
    Row("default_device", 'with calor.device("cuda"): ...', "j"),
    Row("device_put", "x.to(device)", "j"),
    Row("device_get", "x.numpy()", "j"),
    Row("block_until_ready", "calor.eval(x)", "j"),
    Row("make_jaxpr", "print(calor.trace(function, x).text())", "j"),
    Row("remat", "calor.checkpoint(function)", "j"),
    Row("utils", "calor.checkpoint(function)", "t", "torch.utils.checkpoint.checkpoint"),
    Row("tree_map", "calor.tree.map(function, tree)", "j"),
    Row("tree_util", "calor.tree", "j"),
    Row("numpy", "calor itself: jax.numpy.sum is calor.sum", "j"),
    Row("lax", "calor itself: calor.cond, calor.scan, calor.while_loop, calor.fori_loop", "j"),
    Row("optim", "calor.train", "t"),
    Row("optax", "calor.train", "j", "optax"),
    Row("cuda", 'x.to("cuda"), with calor.device("cuda"): ...', "t"),
    Row("set_printoptions", "numpy.set_printoptions(...), which calor follows", "tn"),
)

# What is called calor.nn.functional.name here.
NEURAL: Final = frozenset((
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid", "alpha_dropout",
    "attention_weights", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "channel_dropout",
    "channel_shuffle", "col2im", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "ctc_loss", "deform_conv2d", "dropout", "embedding", "embedding_bag",
    "feature_alpha_dropout", "fractional_max_pool2d", "fractional_max_pool3d", "gaussian_nll_loss",
    "glu", "grid_sample", "group_norm",
    "gumbel_softmax", "hard_shrink", "hard_sigmoid", "hard_swish", "hard_tanh",
    "hinge_embedding_loss", "huber_loss", "im2col", "instance_norm", "interpolate", "kl_div",
    "l1_loss", "layer_norm", "linear", "local_response_norm", "log_sigmoid", "lp_pool1d",
    "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "max_pool1d", "max_pool2d", "max_pool3d",
    "max_unpool", "mish", "mse_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "nll_loss", "normalize", "one_hot", "pairwise_distance",
    "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "prelu", "relu6", "rms_norm",
    "rotary_embedding", "rrelu", "scaled_dot_product_attention", "selu", "smooth_l1_loss",
    "soft_margin_loss", "soft_shrink", "softmin", "softsign", "tanh_shrink", "threshold",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
))  # fmt: skip

# Attributes of torch.Tensor, numpy.ndarray and jax.Array.
METHODS: Final = (
    Row("view_as", "x.reshape(y.shape)", "t"),
    Row("reshape_as", "x.reshape(y.shape)", "t"),
    Row("unsqueeze", "x.expand_dims(axis)", "t"),
    Row("permute", "x.permute_dims(axes)", "t"),
    Row("movedim", "x.moveaxis(source, destination)", "t"),
    Row("swapdims", "x.swapaxes(axis1, axis2)", "t"),
    Row("t", "x.T", "t"),
    Row("H", "x.mT.conj()", "t"),
    Row("mH", "x.mT.conj()", "t"),
    Row("expand", "x.broadcast_to(shape)", "t"),
    Row("expand_as", "x.broadcast_to(y.shape)", "t"),
    Row("unbind", "x.unstack(axis)", "t"),
    Row("contiguous", "x, which is always dense", "t"),
    Row("is_contiguous", "x, which is always dense", "t"),
    Row("stride", "x.shape, as tensors are dense and row-major", "t"),
    Row("strides", "x.shape, as tensors are dense and row-major", "n"),
    Row("cuda", 'x.to("cuda")', "t"),
    Row("cpu", 'x.to("cpu")', "t"),
    Row("is_cuda", "x.device", "t"),
    Row("get_device", "x.device", "t"),
    Row("numel", "x.size", "t"),
    Row("nelement", "x.size", "t"),
    Row("dim", "x.ndim", "t"),
    Row("element_size", "x.dtype.itemsize", "t"),
    Row("itemsize", "x.dtype.itemsize", "tnj"),
    Row("type", "x.astype(dtype)", "t"),
    Row("type_as", "x.astype(y.dtype)", "t"),
    Row("short", "x.astype(calor.int16)", "t"),
    Row("byte", "x.astype(calor.uint8)", "t"),
    Row("data", "x.detach()", "t"),
    Row("register_hook", "calor.custom_vjp(function)", "t"),
    Row("add", "x + y", "t"),
    Row("sub", "x - y", "t"),
    Row("mul", "x * y", "t"),
    Row("div", "x / y", "t"),
    Row("neg", "-x", "t"),
    Row("mm", "x @ y", "t"),
    Row("bmm", "x @ y", "t"),
    Row("mv", "x @ y", "t"),
    Row("dot", "x @ y", "tnj"),
    Row("eq", "x == y", "t"),
    Row("ne", "x != y", "t"),
    Row("lt", "x < y", "t"),
    Row("le", "x <= y", "t"),
    Row("gt", "x > y", "t"),
    Row("ge", "x >= y", "t"),
    Row("add_", "x += y", "t"),
    Row("sub_", "x -= y", "t"),
    Row("mul_", "x *= y", "t"),
    Row("div_", "x /= y", "t"),
    Row("zero_", "x[...] = 0", "t"),
    Row("fill_", "x[...] = value", "t"),
    Row("fill", "x[...] = value", "n"),
    Row("copy_", "x[...] = y", "t"),
    Row("normal_", "x[...] = calor.random.normal(x.shape)", "t"),
    Row("uniform_", "x[...] = calor.random.uniform(x.shape)", "t"),
    Row("masked_fill", "calor.where(mask, value, x)", "t"),
    Row("masked_fill_", "x[mask] = value", "t"),
    Row("masked_select", "x[mask]", "t"),
    Row("index_select", "x.take(indices, axis)", "t"),
    Row("gather", "x.take_along_axis(indices, axis)", "t"),
    Row("scatter", "calor.scatter_along_axis(x, indices, values, axis=0)", "t"),
    Row("scatter_", "x = calor.scatter_along_axis(x, indices, values, axis=0)", "t"),
    Row("scatter_add", 'calor.scatter_along_axis(x, indices, values, axis=0, update="add")', "t"),
    Row("take_along_dim", "x.take_along_axis(indices, axis)", "t"),
    Row("repeat_interleave", "calor.repeat(x, repeats)", "t"),
    Row("narrow", "x[start : start + length]", "t"),
    Row("select", "x[index]", "t"),
    Row("split_with_sizes", "calor.split(x, sizes, axis=0)", "t"),
    Row("where", "calor.where(condition, x, y)", "t"),
    Row("equal", "calor.array_equal(x, y)", "t"),
    Row("at", "x[index] = value", "j"),
    Row("clamp", "x.clip(min, max)", "t"),
    Row("clamp_", "x = x.clip(min, max)", "t"),
    Row("absolute", "x.abs()", "t"),
    Row("conjugate", "x.conj()", "n"),
    Row("amax", "x.max(axis)", "t"),
    Row("amin", "x.min(axis)", "t"),
    Row("ptp", "x.max() - x.min()", "n"),
    Row("norm", "calor.linalg.vector_norm(x)", "t"),
    Row("diagonal", "calor.linalg.diagonal(x)", "tnj"),
    Row("trace", "calor.linalg.trace(x)", "tnj"),
    Row("inverse", "calor.linalg.inv(x)", "t"),
    Row("unique", "calor.unique_values(x)", "t"),
    Row("cumulative_sum", "x.cumsum(axis)", "j"),
    Row("new_zeros", "calor.zeros(shape, dtype=x.dtype, device=x.device)", "t"),
    Row("new_ones", "calor.ones(shape, dtype=x.dtype, device=x.device)", "t"),
    Row("new_full", "calor.full(shape, value, dtype=x.dtype, device=x.device)", "t"),
    Row("new_empty", "calor.empty(shape, dtype=x.dtype, device=x.device)", "t"),
    Row("grad_fn", "calor.trace(function, x).text(), which shows a graph", "t"),
    Row("is_leaf", "x.requires_grad", "t"),
    Row("retain_grad", "calor.grad(function)", "t"),
    Row("new_tensor", "calor.asarray(data, dtype=x.dtype, device=x.device)", "t"),
    Row("flat", "x.ravel()", "n"),
    Row("block_until_ready", "calor.eval(x)", "j"),
    Row("pin_memory", "x; transfers need no mark", "t"),
    Row("share_memory_", "x; tensors are pickled to other processes", "t"),
)

# Keyword arguments; calor's are tried in order, the first that the function has is named.
KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "dim": ("axis",),
    "dims": ("axes", "axis"),
    "axes": ("axis",),
    "axis": ("axes",),
    "keepdim": ("keepdims",),
    "start_dim": ("start_axis",),
    "end_dim": ("end_axis",),
    "dim0": ("axis1",),
    "dim1": ("axis2",),
    "unbiased": ("correction",),
    "ddof": ("correction",),
    "a_min": ("min",),
    "a_max": ("max",),
    "size": ("shape",),
    "newshape": ("shape",),
    "fill": ("fill_value",),
    "value": ("fill_value", "value"),
    "diagonal": ("k",),
    "index": ("indices",),
    "kind": ("stable",),
    "approximation": ("approximate",),
    "rng": ("generator",),
    "is_causal": ("causal",),
    "src_is_causal": ("source_causal", "causal"),
    "tgt_is_causal": ("target_causal", "causal"),
    "memory_is_causal": ("memory_causal",),
    "dropout_p": ("dropout",),
    "shifts": ("shift",),
    "dimension": ("axis",),
}
# Masks of attention; calor's are tried in order.
MASKS: Final[Mapping[str, tuple[str, ...]]] = {
    "attn_mask": ("mask",),
    "src_mask": ("source_mask", "mask"),
    "tgt_mask": ("target_mask", "mask"),
    "key_padding_mask": ("key_mask",),
    "src_key_padding_mask": ("source_key_mask", "key_mask"),
    "tgt_key_padding_mask": ("target_key_mask", "key_mask"),
    "memory_key_padding_mask": ("memory_key_mask",),
}
# Keyword arguments without a counterpart, and what to do instead.
ADVICE: Final[Mapping[str, str]] = {
    "seed": "in calor it is key=calor.random.key(seed)",
    "inplace": "results are new tensors, so leave it out: x = f(x)",
    "where": "select first: calor.where(mask, x, neutral)",
    "initial": "join it afterwards: calor.maximum(result, initial), result + initial",
    "order": "tensors are dense and row-major, so leave it out",
    "memory_format": "tensors are dense and row-major, so leave it out",
    "dtype": "cast first: x.astype(dtype)",
    "size_average": 'write reduction="mean", "sum" or "none"',
    "reduce": 'write reduction="mean", "sum" or "none"',
    "non_blocking": "transfers need no mark, so leave it out",
    "enable_gqa": "fewer heads of keys and values than of queries are taken as they are",
    "overwrite_input": "leave it out",
    "use_reentrant": "leave it out",
}
# Functions that return a function, to which others give its arguments as well.
_CURRIED: Final = {"checkpoint"}
_NAMES: Final = {row.theirs: row.ours for row in NAMES}
_METHODS: Final = {row.theirs: row.ours for row in METHODS}


def missing_name(name: str) -> AttributeError:
    """Return the error for ``calor.name``, with calor's name for it where the table has one."""
    ours = f"calor.nn.functional.{name}" if name in NEURAL else _NAMES.get(name)
    hint = f": write {ours}" if ours else ""
    if name in NEURAL and find_spec("calor_nn") is None:
        hint += ', which is part of calor-nn; pip install "calor[nn]"'
    return AttributeError(f"calor has no {name!r}{hint}", name=name, obj=sys.modules["calor"])


def missing_method(x: Any, name: str) -> AttributeError:
    """Return the error for ``x.name`` of a tensor, with calor's way to write it if there is one."""
    ours = _METHODS.get(name)
    base = name.rstrip("_")
    if ours is None and name.endswith("_") and callable(getattr(type(x), base, None)):
        ours = f"x = x.{base}(...)"
    if ours is None and name in _arrays.__all__:
        ours = f"calor.{name}(x, ...)"
    hint = f": write {ours}" if ours else ""
    return AttributeError(f"a tensor has no {name!r}{hint}", name=name, obj=x)


def numpy_function(name: str) -> TypeError:
    """Return the error for ``np.name(x)`` of a tensor, with calor's function where there is one."""
    ours = f"calor.{name}(...)" if name in _arrays.__all__ else _NAMES.get(name)
    write = f"write {ours}, or " if ours else ""
    return TypeError(f"np.{name} does not take a tensor: {write}give it x.numpy()")


def arguments_of_none(kind: type, keywords: Mapping[str, Any]) -> TypeError:
    """Return the error for arguments of a class that takes none."""
    name = next(iter(keywords), None)
    if name is None:
        return TypeError(f"{kind.__name__}() takes no arguments")
    hint = f"; {ADVICE[name]}" if name in ADVICE else ""
    return TypeError(f"{kind.__name__}() got an unexpected keyword argument {name!r}{hint}")


def mask_advice(theirs: str, accepted: Sequence[str]) -> str | None:
    """Return how a function with these parameters takes a mask of attention, if it does."""
    ours = next((name for name in MASKS.get(theirs, ()) if name in accepted), None)
    if ours is None:
        return None
    if ours.endswith("key_mask"):
        where = "which is True where a key may be attended to"
        return f"in calor it is {ours}=, {where}: {ours}=~{theirs}"
    bias = "; numbers to add are bias=" if "bias" in accepted else ""
    return f"in calor it is {ours}=, which is True where a query may attend to a key{bias}"


def wrong_call(
    function: FunctionType,
    accepted: Sequence[str],
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    error: TypeError,
) -> TypeError:
    """Return the error for arguments that a function does not take, with calor's way to give them.

    ``accepted`` are the names of its parameters.

    The error that Python made is returned itself when the table has no answer.
    """
    called = function.__name__
    if called == "__init__":
        called = type(positional[0]).__qualname__
    text = str(error).replace(f"{function.__qualname__}()", f"{called}()")
    if called in _CURRIED and len(positional) > len(accepted):
        return TypeError(f"{text}; it returns a function: calor.{called}(function)(x)")
    if "out" in keywords:
        # NumPy's reductions call the method of their name with out=None.
        if keywords["out"] is None:
            return numpy_function(function.__name__)
        return TypeError(f"{text}; results are new tensors, so there is no out=")
    for theirs in keywords:
        if theirs not in accepted:
            # Python names the first keyword only.
            head, found, _ = text.rpartition("unexpected keyword argument ")
            text = f"{head}{found}{theirs!r}" if found else text
            advice = mask_advice(theirs, accepted) or ADVICE.get(theirs)
            ours = next((n for n in KEYWORDS.get(theirs, ()) if n in accepted), None)
            positional_only = function.__code__.co_posonlyargcount
            if ours in accepted[:positional_only]:
                return TypeError(f"{text}; in calor {ours} is given by position")
            if ours is not None:
                return TypeError(f"{text}; in calor it is {ours}=")
            if advice is not None:
                return TypeError(f"{text}; {advice}")
    if "shape" in accepted and positional and all(type(n) is int for n in positional):
        # Numbers alone are printed: a traced tensor has no text.
        sizes = ", ".join(map(repr, positional))
        return TypeError(f"{text}; a shape is one argument: {function.__name__}(({sizes}))")
    return error

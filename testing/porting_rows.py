"""Do the rows for people who change over hold? `python testing/porting_rows.py torch`

Each row of `calor.migration` names something of PyTorch, NumPy or JAX and what to write in calor.
An example here says with which operands both are run, and the results are compared. The tests run
every row beside NumPy; this program runs them beside `torch` or `jax`, where that is installed.
"""

import importlib
import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

import calor
from calor.migration import METHODS, NAMES, Row

Names = dict[str, Any]
FRAMEWORKS = {"torch": "t", "numpy": "n", "jax": "j"}


class Example(NamedTuple):
    """How a row is run.

    ``theirs`` is the framework's call; F stands for its module of functions. ``oracle`` is what
    NumPy computes instead, where NumPy does not have the name or means something else by it.
    ``given`` replaces operands of ``OPERANDS``. ``compare`` says what has to be the same: the
    values, their magnitudes, or the shapes alone of random values.
    """

    theirs: str
    oracle: str = ""
    given: Mapping[str, Any] = {}
    compare: str = "values"


def floats(*rows: list[float]) -> Any:
    return np.array(rows, np.float32)


X = floats([1.5, -2.0, 3.0], [4.0, 5.5, -6.0])
Y = floats([0.5, 2.0, -1.0], [3.0, -5.5, 2.0])
INSIDE = floats([0.25, -0.5], [0.75, 0.125])
INTEGERS = np.array([[5, 12, 7], [3, 64, 255]])
WITH_NAN = floats([1.0, np.nan, 3.0], [np.inf, 2.0, np.nan])
SQUARE = floats([4.0, 1.0], [1.0, 3.0])
VECTORS: Names = {"a": X[0], "b": Y[0]}
# What the names in a row stand for, where its example says nothing else.
OPERANDS: Names = {
    "x": X, "y": Y, "a": X, "b": Y, "data": X, "array": X, "tensors": (X, Y), "shape": (3, 2),
    "axes": (1, 0), "axis": 0, "source": 0, "destination": 1, "axis1": 0, "axis2": 1, "parts": 3,
    "min": -1.0, "max": 2.0, "mask": X > 0, "value": 7.0, "indices": np.array([1, 0, 1]),
    "matrix": X, "vector": Y[0], "bias": X[0], "p": 0.5, "n": 5, "low": 2, "high": 9, "number": 3,
}  # fmt: skip
ALONG = np.array([[1, 0, 1]])
PRODUCT: Names = {"a": X, "b": Y.T.copy(), "x": X, "y": Y.T.copy()}
ADDED = "x + np.eye(2, dtype=x.dtype)[indices[0]].T @ np.diag(values[0])"
SPREAD: Names = {"x": X, "indices": ALONG, "values": floats([9.0, 8.0, 7.0])}
BATCHES: Names = {"x": np.stack([X, Y]), "y": np.stack([Y.T, X.T]).copy()}
COMPLEX: Names = {"x": X + 1j * Y}
ROWS: Names = {"indices": np.array([1, 0]), "values": Y}
BITS: Names = {"x": INTEGERS, "a": INTEGERS, "b": np.array([[1, 2, 3], [3, 2, 1]])}


def unary(name: str, oracle: str = "", **given: Any) -> Example:
    return Example(f"F.{name}(x)", oracle, given)


def binary(name: str, oracle: str = "", **given: Any) -> Example:
    return Example(f"F.{name}(a, b)", oracle, given)


EXAMPLES: dict[str, Example] = {
    "array": Example("F.array(data)"),
    "as_tensor": Example("F.as_tensor(data)", "np.array(data)"),
    "asanyarray": Example("F.asanyarray(data)"),
    "ascontiguousarray": Example("F.ascontiguousarray(data)"),
    "from_numpy": Example("F.as_tensor(array)", "array"),
    "rand": Example("F.rand(shape)", "np.zeros(shape, np.float32)", compare="shapes"),
    "randn": Example("F.randn(shape)", "np.zeros(shape, np.float32)", compare="shapes"),
    "randint": Example(
        "F.randint(low, high, shape)", "np.zeros(shape, np.int64)", compare="shapes"
    ),
    "rand_like": Example("F.rand_like(x)", "x", compare="shapes"),
    "randn_like": Example("F.randn_like(x)", "x", compare="shapes"),
    "randperm": Example("F.sort(F.randperm(n)).values", "np.arange(n)", compare="shapes"),
    "multinomial": Example(
        "F.multinomial(weights, 1)[:, 0]",
        "np.array([1, 0])",
        {"weights": floats([0.0, 1.0, 0.0], [1.0, 0.0, 0.0])},
    ),
    "bernoulli": Example("F.bernoulli(p) == 1", "p == 1", {"p": floats([0.0, 1.0], [1.0, 0.0])}),
    "cat": Example("F.cat(tensors)", "np.concatenate(tensors)"),
    "concatenate": Example("F.concatenate(tensors)"),
    "unbind": Example("F.unbind(x)", "list(x)"),
    "view": Example("F.reshape(x, shape)", "x.reshape(shape)"),
    "ravel": unary("ravel"),
    "unsqueeze": Example("F.unsqueeze(x, 0)", "x[None]"),
    "permute": Example("F.permute(x, axes)", "x.T"),
    "movedim": Example("F.movedim(x, source, destination)", "np.moveaxis(x, source, destination)"),
    "swapdims": Example("F.swapdims(x, axis1, axis2)", "np.swapaxes(x, axis1, axis2)"),
    "broadcast_tensors": binary("broadcast_tensors", "np.broadcast_arrays(a, b)", b=Y[:1]),
    "mm": binary("mm", "a @ b", **PRODUCT),
    "bmm": binary("bmm", "a @ b", a=BATCHES["x"], b=BATCHES["y"]),
    "mv": Example("F.mv(matrix, vector)", "matrix @ vector"),
    "vdot": binary("vdot", **VECTORS),
    "addmm": Example("F.addmm(bias, a, b)", "bias + a @ b", {**PRODUCT, "bias": Y[1, :2]}),
    "norm": unary("norm", "np.sqrt((x ** 2).sum())"),
    "cross": Example("F.cross(a, b)", given=VECTORS),
    "inverse": unary("inverse", "np.linalg.inv(x)", x=SQUARE),
    "det": unary("det", "np.linalg.det(x)", x=SQUARE),
    "svd": Example(
        "(lambda s: (s.U, s.S, s.V.mH))(F.svd(x))",
        "np.linalg.svd(x, full_matrices=False)",
        compare="magnitudes",
    ),
    "cholesky": unary("cholesky", "np.linalg.cholesky(x)", x=SQUARE),
    "mul": binary("mul", "a * b"),
    "sub": binary("sub", "a - b"),
    "div": binary("div", "a / b"),
    "true_divide": binary("true_divide"),
    "power": binary("power", a=np.abs(X)),
    "mod": binary("mod"),
    "neg": unary("neg", "-x"),
    "absolute": unary("absolute"),
    "fabs": unary("fabs"),
    "rint": unary("rint"),
    "around": unary("around"),
    "fix": unary("fix"),
    "clamp": Example("F.clamp(x, min, max)", "np.clip(x, min, max)"),
    "conjugate": unary("conjugate", x=COMPLEX["x"]),
    "arcsin": unary("arcsin", x=INSIDE),
    "arccos": unary("arccos", x=INSIDE),
    "arctan": unary("arctan"),
    "arctan2": Example("F.arctan2(y, x)"),
    "arcsinh": unary("arcsinh"),
    "arccosh": unary("arccosh", x=np.abs(X)),
    "arctanh": unary("arctanh", x=INSIDE),
    "eq": binary("eq", "a == b"),
    "ne": binary("ne", "a != b"),
    "lt": binary("lt", "a < b"),
    "le": binary("le", "a <= b"),
    "gt": binary("gt", "a > b"),
    "ge": binary("ge", "a >= b"),
    "invert": unary("invert", **BITS),
    "bitwise_not": unary("bitwise_not", **BITS),
    "left_shift": binary("left_shift", **BITS),
    "right_shift": binary("right_shift", **BITS),
    "amax": Example("F.amax(x, 0)"),
    "amin": Example("F.amin(x, 0)"),
    "cumsum": Example("F.cumsum(x, 0)"),
    "cumprod": Example("F.cumprod(x, 0)"),
    "cummax": Example(
        "tuple(F.cummax(x, 0))", "(np.maximum.accumulate(x), [[0, 0, 0], [1, 1, 0]])"
    ),
    "cummin": Example(
        "tuple(F.cummin(x, 0))", "(np.minimum.accumulate(x), [[0, 0, 0], [0, 0, 1]])"
    ),
    "unique": unary("unique", x=INTEGERS % 4),
    "in1d": Example("F.isin(x, values)", given={"values": X[0]}),
    "index_select": Example("F.index_select(x, 0, indices)", "x[indices]"),
    "gather": Example(
        "F.gather(x, 0, indices)", "np.take_along_axis(x, indices, 0)", {"indices": ALONG}
    ),
    "scatter": Example("F.scatter(x, 0, indices, values)", "scattered(x, indices, values)", SPREAD),
    "scatter_add": Example("F.scatter_add(x, 0, indices, values)", ADDED, SPREAD),
    "take_along_dim": Example(
        "F.take_along_dim(x, indices, 0)", "np.take_along_axis(x, indices, 0)", {"indices": ALONG}
    ),
    "repeat_interleave": Example(
        "F.repeat_interleave(x, repeats)", "np.repeat(x, repeats)", {"x": X[0], "repeats": 2}
    ),
    "narrow": Example("F.narrow(x, 0, start, length)", "x[1:2]", {"start": 1, "length": 1}),
    "put_along_axis": Example("scattered(x, indices, values)", given=SPREAD),
    "masked_select": Example("F.masked_select(x, mask)", "x[mask]"),
    "masked_fill": Example("F.masked_fill(x, mask, value)", "np.where(mask, value, x)"),
    "addmv": Example("F.addmv(bias, matrix, vector)", "bias + matrix @ vector", {"bias": Y[:, 0]}),
    "baddbmm": Example(
        "F.baddbmm(bias, a, b)",
        "bias + a @ b",
        {"bias": BATCHES["x"] @ BATCHES["y"], "a": BATCHES["x"], "b": BATCHES["y"]},
    ),
    "addbmm": Example(
        "F.addbmm(bias, a, b)",
        "bias + (a @ b).sum(0)",
        {"bias": (BATCHES["x"] @ BATCHES["y"])[0], "a": BATCHES["x"], "b": BATCHES["y"]},
    ),
    "addr": Example(
        "F.addr(bias, a, b)", "bias + np.outer(a, b)", {"bias": np.outer(X[0], Y[0]), **VECTORS}
    ),
    "addcmul": Example("F.addcmul(x, a, b)", "x + a * b"),
    "addcdiv": Example("F.addcdiv(x, a, b)", "x + a / b"),
    "rsub": binary("rsub", "b - a"),
    "frac": unary("frac", "x - np.trunc(x)"),
    "sgn": unary("sgn", "np.sign(x)"),
    "aminmax": unary("aminmax", "(x.min(), x.max())"),
    "std_mean": unary("std_mean", "(x.std(ddof=1), x.mean())"),
    "var_mean": unary("var_mean", "(x.var(ddof=1), x.mean())"),
    "dist": binary("dist", "np.sqrt(((a - b) ** 2).sum())"),
    "msort": unary("msort", "np.sort(x, 0)"),
    "logcumsumexp": Example("F.logcumsumexp(x, 0)", "np.logaddexp.accumulate(x)"),
    "bucketize": Example(
        "F.bucketize(x, boundaries)",
        "np.searchsorted(boundaries, x)",
        {"boundaries": np.sort(Y[0])},
    ),
    "histc": Example(
        "F.histc(x, bins, min, max)", "np.histogram(x, bins, (min, max))[0]", {"bins": 3}
    ),
    "tensor_split": Example("F.tensor_split(x, parts)", "np.array_split(x, parts)"),
    "scatter_reduce": Example(
        "F.scatter_reduce(x, 0, indices, values, 'mean')",
        "(x + scattered(x, indices, values)) / 2",
        SPREAD,
    ),
    "index_add": Example("F.index_add(x, 0, indices, values)", "x + values[::-1]", ROWS),
    "index_copy": Example("F.index_copy(x, 0, indices, values)", "values[::-1]", ROWS),
    "index_fill": Example("F.index_fill(x, 0, indices, value)", "np.full_like(x, value)", ROWS),
    "index_reduce": Example(
        "F.index_reduce(x, 0, indices, values, 'mean')", "(x + values[::-1]) / 2", ROWS
    ),
    "diagflat": unary("diagflat"),
    "view_as_real": unary("view_as_real", "np.stack((x.real, x.imag), -1)", **COMPLEX),
    "view_as_complex": unary("view_as_complex", "x[..., 0] + 1j * x[..., 1]", x=INSIDE),
    "trapz": Example("F.trapz(y)", "np.trapezoid(y)"),
    "nancumsum": Example("F.nancumsum(x, 0)", given={"x": np.where(X > 0, X, np.nan)}),
    "nancumprod": Example("F.nancumprod(x, 0)", given={"x": np.where(X > 0, X, np.nan)}),
    "setdiff1d": binary("setdiff1d", a=INTEGERS, b=INTEGERS[0]),
    "union1d": binary("union1d", a=INTEGERS, b=INTEGERS[0]),
    "intersect1d": binary("intersect1d", a=INTEGERS, b=INTEGERS[0]),
    "append": binary("append"),
    "flatnonzero": unary("flatnonzero", x=np.maximum(X, 0)),
    "extract": Example("F.extract(mask, x)"),
    "compress": Example("F.compress(flags, x, axis=0)", given={"flags": np.array([False, True])}),
    "ediff1d": unary("ediff1d"),
    "divmod": binary("divmod"),
    "histogram2d": Example("F.histogram2d(a, b)[0]", given=VECTORS),
    "identity": Example("F.identity(n)"),
    "row_stack": Example("F.row_stack(tensors)", "np.vstack(tensors)"),
    "numel": unary("numel", "x.size"),
    "shape": unary("shape"),
    "ndim": unary("ndim"),
    "copy": unary("copy"),
    "clone": unary("clone", "x"),
    "is_tensor": unary("is_tensor", "True"),
    "autograd": Example(
        "F.autograd.grad(function(leaf(x)), leaf.last)[0]",
        "2 * x",
        {"function": lambda t: (t * t).sum()},
    ),
    "func": Example(
        "F.func.vmap(function)(x)", "(x * x).sum(1)", {"function": lambda t: (t * t).sum()}
    ),
    "jacobian": Example(
        "jax.jacobian(function)(x)", "np.diag(2 * x)", {"function": lambda t: t * t, "x": X[0]}
    ),
    "compile": Example("function(x)", "x * 2 + 1", {"function": lambda t: t * 2 + 1}),
    "remat": Example("function(x)", "x * 2 + 1", {"function": lambda t: t * 2 + 1}),
    "utils": Example("function(x)", "x * 2 + 1", {"function": lambda t: t * 2 + 1}),
    "device_get": Example("jax.device_get(x)", "x"),
    "tree_map": Example(
        "jax.tree.map(function, tree)",
        "[x * 2 + 1, y * 2 + 1]",
        {"function": lambda t: t * 2 + 1, "tree": [X, Y]},
    ),
}
# The methods whose functions have another example than the function of this name, or none.
METHOD_EXAMPLES: dict[str, Example] = {
    "view_as": Example("x.view_as(y)", "x.reshape(y.shape)", {"y": X.T.copy()}),
    "reshape_as": Example("x.reshape_as(y)", "x.reshape(y.shape)", {"y": X.T.copy()}),
    "unsqueeze": Example("x.unsqueeze(axis)", "x[None]"),
    "permute": Example("x.permute(axes)", "x.T"),
    "movedim": Example("x.movedim(source, destination)", "x.T"),
    "swapdims": Example("x.swapdims(axis1, axis2)", "x.T"),
    "t": Example("x.t()", "x.T"),
    "H": Example("x.H", "x.conj().T", COMPLEX),
    "mH": Example("x.mH", "x.conj().T", COMPLEX),
    "expand": Example(
        "x.expand(shape)", "np.broadcast_to(x, shape)", {"x": X[:1], "shape": (4, 3)}
    ),
    "expand_as": Example("x.expand_as(y)", "np.broadcast_to(x, y.shape)", {"x": X[:1]}),
    "unbind": Example("x.unbind(axis)", "list(x)"),
    "numel": Example("x.numel()", "x.size"),
    "nelement": Example("x.nelement()", "x.size"),
    "dim": Example("x.dim()", "x.ndim"),
    "element_size": Example("x.element_size()", "x.itemsize"),
    "itemsize": Example("x.itemsize"),
    "type": Example("x.type(dtype)", "x.astype(dtype)", {"dtype": np.dtype("float64")}),
    "type_as": Example("x.type_as(y)", "x.astype(y.dtype)", {"y": INTEGERS}),
    "short": Example("x.short()", "x.astype(np.int16)"),
    "byte": Example("x.byte()", "x.astype(np.uint8)", {"x": INTEGERS}),
    "data": Example("x.data", "x"),
    "add": Example("x.add(y)", "x + y"),
    "sub": Example("x.sub(y)", "x - y"),
    "mul": Example("x.mul(y)", "x * y"),
    "div": Example("x.div(y)", "x / y"),
    "neg": Example("x.neg()", "-x"),
    "mm": Example("x.mm(y)", "x @ y", PRODUCT),
    "bmm": Example("x.bmm(y)", "x @ y", BATCHES),
    "mv": Example("x.mv(y)", "x @ y", {"y": Y[0]}),
    "dot": Example("x.dot(y)", given={"x": X[0], "y": Y[0]}),
    "eq": Example("x.eq(y)", "x == y"),
    "ne": Example("x.ne(y)", "x != y"),
    "lt": Example("x.lt(y)", "x < y"),
    "le": Example("x.le(y)", "x <= y"),
    "gt": Example("x.gt(y)", "x > y"),
    "ge": Example("x.ge(y)", "x >= y"),
    "add_": Example("x.add_(y)", "x + y"),
    "sub_": Example("x.sub_(y)", "x - y"),
    "mul_": Example("x.mul_(y)", "x * y"),
    "div_": Example("x.div_(y)", "x / y"),
    "zero_": Example("x.zero_()", "np.zeros_like(x)"),
    "fill_": Example("x.fill_(value)", "np.full_like(x, value)"),
    "fill": Example("[x.fill(value), x][1]"),
    "copy_": Example("x.copy_(y)", "y"),
    "normal_": Example("x.normal_()", "x", compare="shapes"),
    "uniform_": Example("x.uniform_()", "x", compare="shapes"),
    "masked_fill": Example("x.masked_fill(mask, value)", "np.where(mask, value, x)"),
    "masked_fill_": Example("x.masked_fill_(mask, value)", "np.where(mask, value, x)"),
    "masked_select": Example("x.masked_select(mask)", "x[mask]"),
    "index_select": Example("x.index_select(axis, indices)", "x[indices]"),
    "gather": Example(
        "x.gather(axis, indices)", "np.take_along_axis(x, indices, axis)", {"indices": ALONG}
    ),
    "scatter": Example("x.scatter(0, indices, values)", "scattered(x, indices, values)", SPREAD),
    "scatter_": Example("x.scatter_(0, indices, values)", "scattered(x, indices, values)", SPREAD),
    "scatter_add": Example("x.scatter_add(0, indices, values)", ADDED, SPREAD),
    "take_along_dim": Example(
        "x.take_along_dim(indices, axis)",
        "np.take_along_axis(x, indices, axis)",
        {"indices": ALONG},
    ),
    "repeat_interleave": Example(
        "x.repeat_interleave(repeats)", "np.repeat(x, repeats)", {"x": X[0], "repeats": 2}
    ),
    "narrow": Example("x.narrow(0, start, length)", "x[1:2]", {"start": 1, "length": 1}),
    "select": Example("x.select(0, index)", "x[index]", {"index": 1}),
    "split_with_sizes": Example("x.split_with_sizes(sizes)", "[x[:1], x[1:]]", {"sizes": (1, 1)}),
    "where": Example("x.where(condition, y)", "np.where(condition, x, y)", {"condition": X > 0}),
    "equal": Example("x.equal(y)", "np.array_equal(x, y)"),
    "is_leaf": Example("x.is_leaf and x.requires_grad", "False"),
    "at": Example("x.at[index].set(value)", "np.where([[True], [False]], value, x)", {"index": 0}),
    "clamp": Example("x.clamp(min, max)", "x.clip(min, max)"),
    "clamp_": Example("x.clamp_(min, max)", "x.clip(min, max)"),
    "absolute": Example("x.absolute()", "np.abs(x)"),
    "conjugate": Example("x.conjugate()", given=COMPLEX),
    "amax": Example("x.amax(axis)", "x.max(axis)"),
    "amin": Example("x.amin(axis)", "x.min(axis)"),
    "ptp": Example("np.ptp(x)"),
    "norm": Example("x.norm()", "np.sqrt((x ** 2).sum())"),
    "diagonal": Example("x.diagonal()"),
    "trace": Example("x.trace()"),
    "inverse": Example("x.inverse()", "np.linalg.inv(x)", {"x": SQUARE}),
    "unique": Example("x.unique()", "np.unique(x)", {"x": INTEGERS % 4}),
    "cumulative_sum": Example("F.cumulative_sum(x, axis=axis)", "x.cumsum(axis)"),
    "new_zeros": Example("x.new_zeros(shape)", "np.zeros(shape, x.dtype)"),
    "new_ones": Example("x.new_ones(shape)", "np.ones(shape, x.dtype)"),
    "new_full": Example("x.new_full(shape, value)", "np.full(shape, value, x.dtype)"),
    "new_empty": Example("x.new_empty(shape)", "np.zeros(shape)", compare="shapes"),
    "new_tensor": Example("x.new_tensor(data)", "np.asarray(data, x.dtype)", {"data": [1, 2]}),
    "flat": Example("np.array(list(x.flat))"),
}
# Rows that name a thing to use rather than a value to compute; that the thing exists is tested.
NOT_COMPUTED = frozenset((
    "manual_seed", "PRNGKey", "ndarray", "Array", "half", "float", "double", "short", "int", "long",
    "int_", "float_", "cfloat", "dtype", "inference_mode", "set_grad_enabled", "set_default_device",
    "default_device", "device_put", "block_until_ready", "make_jaxpr", "tree_util", "numpy", "lax",
    "optim", "optax", "cuda", "set_printoptions",
))  # fmt: skip
METHODS_NOT_COMPUTED = frozenset((
    "contiguous", "is_contiguous", "stride", "strides", "cuda", "cpu", "is_cuda", "get_device",
    "register_hook", "block_until_ready", "grad_fn", "retain_grad", "pin_memory", "share_memory_",
))  # fmt: skip


def examples(letter: str) -> Iterator[tuple[Row, Example]]:
    """The rows of a framework that are run, each with its example."""
    for rows, known in ((NAMES, EXAMPLES), (METHODS, METHOD_EXAMPLES)):
        for row in rows:
            if letter in row.whose and row.theirs in known:
                yield row, known[row.theirs]


def ours(row: Row, example: Example) -> Any:
    """What calor computes by the row, word by word."""
    names = {k: calor_value(v) for k, v in {**OPERANDS, **example.given}.items()}
    # What follows a semicolon is a remark.
    return evaluated(row.ours.partition(";")[0], {**names, "calor": calor, "numpy": np})


def expected(example: Example) -> Any:
    """What NumPy computes, also where it has a newer name for it."""
    names = {k: copied(v) for k, v in {**OPERANDS, **example.given}.items()}
    text = example.oracle or example.theirs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return evaluated(text, {**names, "np": np, "F": np, "scattered": scattered})


def theirs(example: Example, framework: str) -> Any:
    """What the framework that a row names computes."""
    module = importlib.import_module(framework)
    functions = importlib.import_module("jax.numpy") if framework == "jax" else module
    convert = functions.asarray
    leaf = Leaf()
    names = {k: converted(v, convert) for k, v in {**OPERANDS, **example.given}.items()}
    if framework == "torch" and "dtype" in example.given:
        names["dtype"] = module.float64
    known = {"F": functions, "np": np, framework: module, "leaf": leaf, "scattered": scattered}
    return evaluated(example.theirs, {**names, **known})


class Leaf:
    """Makes a tensor of torch one that requires a gradient, and remembers it."""

    last: Any = None

    def __call__(self, x: Any) -> Any:
        self.last = x.clone().requires_grad_()
        return self.last


def evaluated(text: str, names: Names) -> Any:
    """The value of an expression, or of `x` after a statement."""
    try:
        code = compile(text, text, "eval")
    except SyntaxError:
        exec(compile(text, text, "exec"), names)
        return names["x"]
    value = eval(code, names)
    # A row may give a function, such as `calor.jit(function)`.
    return value(names["x"]) if inspect.isroutine(value) else value


def scattered(x: Any, indices: Any, values: Any) -> Any:
    result = np.array(x)
    np.put_along_axis(result, np.asarray(indices), np.asarray(values), 0)
    return result


def calor_value(value: Any) -> Any:
    return converted(value, calor.asarray)


def converted(value: Any, convert: Any) -> Any:
    if isinstance(value, np.ndarray):
        return convert(value.copy())
    if isinstance(value, list | tuple) and any(isinstance(v, np.ndarray) for v in value):
        return type(value)(converted(v, convert) for v in value)
    return value


def copied(value: Any) -> Any:
    return converted(value, np.asarray)


def same(found: Any, wanted: Any, compare: str = "values") -> bool:
    """Whether two results are equal, but for rounding."""
    if isinstance(found, list | tuple) and not isinstance(wanted, np.ndarray):
        return all(same(a, b, compare) for a, b in zip(found, wanted, strict=True))
    if isinstance(found, bytes):
        return bool(found == wanted)
    a, b = np.asarray(found), np.asarray(wanted)
    if compare == "magnitudes":
        a, b = np.abs(a), np.abs(b)
    close = compare == "shapes" or np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
    return bool(a.shape == b.shape and close)


def main(framework: str) -> int:
    """Run every row beside a framework; 1 if one of them does not hold."""
    wrong = 0
    count = 0
    for row, example in examples(FRAMEWORKS[framework]):
        count += 1
        try:
            mine, other = ours(row, example), theirs(example, framework)
        except Exception as error:
            wrong += 1
            print(f"{row.theirs}: {type(error).__name__}: {error}")
            continue
        if not same(numpy_of(mine), numpy_of(other), example.compare):
            wrong += 1
            print(f"{row.theirs}: {row.ours} gives\n{mine}\n{framework} gives\n{other}")
    print(f"{count} rows beside {framework}, {wrong} of them wrong")
    return int(wrong > 0)


def numpy_of(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [numpy_of(v) for v in value]
    if hasattr(value, "resolve_conj"):
        value = value.detach().resolve_conj()
    return value.numpy() if hasattr(value, "numpy") else value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

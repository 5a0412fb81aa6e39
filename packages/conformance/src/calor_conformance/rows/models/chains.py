"""Graphs of several nodes: steps of a chain, of which many are joined or removed by passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..language import Array
from .language import Rng, coin, some


class Chain:
    """A graph that is written node by node; its value has four axes.

    Parameters
    ----------
    rng : Generator
        What is drawn.
    """

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.shape = (2, 4, int(rng.integers(3, 6)), int(rng.integers(3, 6)))
        self.x = some(rng, *self.shape)
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.outputs: list[str] = []
        self.value = "x"
        self.told: list[str] = []

    def name(self) -> str:
        """Return a new name."""
        return f"v{len(self.nodes)}_{len(self.constants)}"

    def constant(self, array: Any) -> str:
        """Return the name of a constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def number(self, value: float) -> str:
        """Return the name of a constant number of float32."""
        return self.constant(np.float32(value))

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, and return its output."""
        from onnx import helper

        made = self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [made], **attributes))
        return made

    def either(self, op: str, a: str, b: str) -> str:
        """Add a node of two operands in any order."""
        return self.add(op, *((a, b) if coin(self.rng) else (b, a)))

    def model(self) -> Any:
        """Return the model; sometimes its batch is of any size."""
        from onnx import TensorProto, helper, numpy_helper

        outputs = [*self.outputs, self.value]
        declared: list[Any] = list(self.shape)
        if coin(self.rng, 0.4):
            declared[0] = "N"
        graph = helper.make_graph(
            [*self.nodes, helper.make_node("Identity", [self.value], ["last"])],
            "chain",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, declared)],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None)
             for n in ("last", *dict.fromkeys(o for o in outputs if o != "x"))],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


Step = Callable[[Chain], None]


def _elementwise(c: Chain) -> None:
    op = str(c.rng.choice(["Relu", "Tanh", "Sigmoid", "Abs", "Neg", "Erf", "HardSwish", "Elu"]))
    c.value = c.add(op, c.value)


def _number(c: Chain) -> None:
    op = str(c.rng.choice(["Add", "Mul", "Sub", "Max", "Min"]))
    shape = [(), (1,), (4, 1, 1), (1, 4, 1, 1)][int(c.rng.integers(4))]
    c.value = c.either(op, c.value, c.constant(some(c.rng, *shape)))


def _nothing(c: Chain) -> None:
    kind = int(c.rng.integers(6))
    if kind == 0:
        c.value = c.add("Identity", c.value)
    elif kind == 1:
        c.value = c.add("Dropout", c.value)
    elif kind == 2:
        c.value = c.add("Cast", c.value, to=1)
    elif kind == 3:
        c.value = c.either("Mul", c.value, c.number(1.0))
    elif kind == 4:
        c.value = c.either("Add", c.value, c.number(0.0))
    else:
        c.value = c.add("Transpose", c.value, perm=[0, 1, 2, 3])


def _conv(c: Chain) -> None:
    size = int(c.rng.choice([1, 3]))
    group = int(c.rng.choice([1, 2, 4]))
    w = c.constant(some(c.rng, 4, 4 // group, size, size) / 3)
    inputs = [c.value, w, *([c.constant(some(c.rng, 4))] if coin(c.rng) else [])]
    c.value = c.add("Conv", *inputs, group=group, pads=[size // 2] * 4)
    if coin(c.rng, 0.6):
        _batch_norm(c)


def _batch_norm(c: Chain) -> None:
    rows = [c.constant(some(c.rng, 4)) for _ in range(3)]
    variance = c.constant(c.rng.uniform(0.3, 2, 4).astype(np.float32))
    epsilon = float(c.rng.choice([1e-5, 0.1]))
    c.value = c.add("BatchNormalization", c.value, *rows, variance, epsilon=epsilon)


def _transposes(c: Chain) -> None:
    """Two transposes, with something between them, that are nothing together."""
    perm = [int(n) for n in c.rng.permutation(4)]
    c.value = c.add("Transpose", c.value, perm=perm)
    if coin(c.rng):
        c.value = c.add(str(c.rng.choice(["Relu", "Tanh", "Neg"])), c.value)
    if coin(c.rng, 0.4):
        c.value = c.add("Softmax", c.value, axis=int(c.rng.integers(-4, 4)))
    c.value = c.add("Transpose", c.value, perm=[int(n) for n in np.argsort(perm)])


def _shapes(c: Chain) -> None:
    """Reshapes there and back, by constants or by the shape of the operand."""
    _, _, h, w = c.shape
    before = c.value
    c.value = c.add("Reshape", c.value, c.constant(np.array([0, 2, -1], np.int64)))
    if coin(c.rng):
        c.value = c.add("Softmax", c.value, axis=-1)
    if coin(c.rng):
        wanted = c.add("Shape", before)
    else:
        wanted = c.constant(np.array([-1, 4, h, w] if coin(c.rng) else [0, 4, h, -1], np.int64))
    c.value = c.add("Reshape", c.value, wanted)


def _gelu(c: Chain) -> None:
    x = c.value
    if coin(c.rng):
        bent = c.add("Erf", c.add("Div", x, c.number(np.sqrt(2))))
    else:
        cube = c.add("Mul", x, c.add("Mul", x, x)) if coin(c.rng) else c.add(
            "Pow", x, c.number(3.0)
        )  # fmt: skip
        inner = c.either("Add", x, c.either("Mul", c.number(0.044715), cube))
        bent = c.add("Tanh", c.either("Mul", c.number(np.sqrt(2 / np.pi)), inner))
    # Now and then nearly the form of it.
    one, half = (1.0, 0.5) if coin(c.rng, 0.8) else (1.5, 0.25)
    plus = c.either("Add", bent, c.number(one))
    if coin(c.rng):
        c.value = c.either("Mul", c.either("Mul", x, plus), c.number(half))
    else:
        c.value = c.either("Mul", c.either("Mul", x, c.number(half)), plus)


def _layer_norm(c: Chain) -> None:
    x, axes = c.value, c.constant(np.array([-1], np.int64))
    mean = c.add("ReduceMean", x, axes)
    off = c.add("Sub", x, mean)
    square = c.add("Mul", off, off) if coin(c.rng) else c.add("Pow", off, c.number(2.0))
    spread = c.add("ReduceMean", square, axes)
    epsilon = c.number(1e-5 if coin(c.rng, 0.7) else 0.5)
    root = c.add("Sqrt", c.either("Add", spread, epsilon))
    c.value = c.add("Div", off, root)
    width = c.shape[-1]
    if coin(c.rng, 0.7):
        c.value = c.either("Mul", c.value, c.constant(some(c.rng, width)))
        if coin(c.rng, 0.7):
            c.value = c.either("Add", c.value, c.constant(some(c.rng, width)))


def _attention(c: Chain) -> None:
    """Attention of the value by itself, with scores that are scaled before or after."""
    x, rate = c.value, float(c.rng.choice([0.5, 0.7]))
    keys = c.add("Transpose", x, perm=[0, 1, 3, 2])
    if coin(c.rng):
        x = c.either("Mul", x, c.number(rate))
    scores = c.add("MatMul", x, keys)
    if coin(c.rng):
        scores = c.add("Div", scores, c.number(1 / rate))
    if coin(c.rng, 0.4):
        h = c.shape[2]
        mask = np.where(np.tri(h, dtype=bool), 0, -1e4).astype(np.float32)
        scores = c.either("Add", scores, c.constant(mask))
    c.value = c.add("MatMul", c.add("Softmax", scores, axis=-1), c.value)


def _product(c: Chain) -> None:
    n = c.shape[-1]
    w = c.constant(some(c.rng, n, n) / 2)
    if coin(c.rng, 0.4):
        w = c.add("Transpose", w, perm=[1, 0])
    c.value = c.add("MatMul", c.value, w)
    if coin(c.rng):
        c.value = c.either("Add", c.value, c.constant(some(c.rng, n)))


def _parts(c: Chain) -> None:
    from onnx import helper

    names = [c.name() + part for part in "ab"]
    at = c.constant(np.array([1, 3], np.int64))
    c.nodes.append(helper.make_node("Split", [c.value, at], names, axis=1))
    c.value = c.add("Concat", *(names[::-1] if coin(c.rng) else names), axis=1)


def _padded(c: Chain) -> None:
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    mode = str(c.rng.choice(["constant", "edge", "reflect"]))
    c.value = c.add("Pad", c.value, c.constant(pads), mode=mode)
    c.value = c.add("MaxPool", c.value, kernel_shape=[3, 3])


def _kept(c: Chain) -> None:
    """Make the value an output besides, so that no pass may remove it."""
    if c.value != "x" and c.value not in c.outputs:
        c.outputs.append(c.value)


def _branch(c: Chain) -> None:
    from onnx import TensorProto, helper

    sums = c.add("ReduceSum", c.value, keepdims=0)
    known = coin(c.rng, 0.3)
    yes = c.constant(np.asarray(coin(c.rng))) if known else c.add(
        "Greater", sums, c.number(float(c.rng.normal()))
    )  # fmt: skip
    bodies = []
    for op in ("Neg", "Sigmoid"):
        out = c.name() + op
        node = helper.make_node(op, [c.value], [out])
        info = helper.make_tensor_value_info(out, TensorProto.FLOAT, None)
        bodies.append(helper.make_graph([node], op, [], [info]))
    c.value = c.add("If", yes, then_branch=bodies[0], else_branch=bodies[1])


def _loop(c: Chain) -> None:
    """A loop that some number of turns or a condition ends, with rows that it stacks."""
    from onnx import TensorProto, helper

    go = c.constant(np.asarray(True))
    trips = c.constant(np.asarray(int(c.rng.integers(1, 4)), np.int64))
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=1),
            helper.make_node("Add", ["s", "f"], ["t"]),
            helper.make_node("ReduceSum", ["t", "axes"], ["row"], keepdims=0),
            helper.make_node("ReduceSum", ["row"], ["sum"], keepdims=0),
            helper.make_node("Less", ["sum", "most"], ["on"]),
        ],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("s", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("t", TensorProto.FLOAT, None),
         helper.make_tensor_value_info("row", TensorProto.FLOAT, None)],
        [helper.make_tensor("most", TensorProto.FLOAT, [], [float(c.rng.choice([1e6, 9.0]))]),
         helper.make_tensor("axes", TensorProto.INT64, [3], [1, 2, 3])],
    )  # fmt: skip
    last, rows = c.name() + "l", c.name() + "r"
    c.nodes.append(helper.make_node("Loop", [trips, go, c.value], [last, rows], body=body))
    c.outputs.append(rows)
    c.value = last


def _scan(c: Chain) -> None:
    from onnx import TensorProto, helper

    body = helper.make_graph(
        [helper.make_node("Add", ["s", "row"], ["t"]), helper.make_node("Tanh", ["t"], ["u"])],
        "body",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("s", "row")],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("t", "u")],
    )  # fmt: skip
    first = c.add("ReduceMean", c.value, c.constant(np.array([0], np.int64)), keepdims=0)
    last, rows = c.name() + "s", c.name() + "u"
    c.nodes.append(
        helper.make_node("Scan", [first, c.value], [last, rows], body=body, num_scan_inputs=1)
    )
    c.outputs.append(last)
    c.value = rows


STEPS: Final[dict[str, Step]] = {
    "elementwise": _elementwise, "a number": _number, "nothing": _nothing, "conv": _conv,
    "batch norm": _batch_norm, "transposes": _transposes, "shapes": _shapes, "gelu": _gelu,
    "layer norm": _layer_norm, "attention": _attention, "product": _product, "parts": _parts,
    "padded": _padded, "kept": _kept, "branch": _branch, "loop": _loop, "scan": _scan,
}  # fmt: skip


def chain(rng: Rng, length: int) -> Chain:
    """Return a chain of steps.

    Parameters
    ----------
    rng : Generator
        What is drawn.
    length : int
        How many steps.

    Returns
    -------
    Chain
        The chain, whose text names the steps.
    """
    made = Chain(rng)
    for name in rng.choice(list(STEPS), length):
        STEPS[str(name)](made)
        made.told.append(str(name))
    return made

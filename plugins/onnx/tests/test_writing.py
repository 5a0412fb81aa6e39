"""Branches, loops and scans as Python source: readable, and with the numbers of the model."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calor
import calor_onnx
from calor.errors import UnsupportedError

HEAD = '<ir_version: 8, opset_import: ["" : 18]>'
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((12, 3)).astype(np.float32)
H = RANDOM.standard_normal(3).astype(np.float32)

SCAN = """f (float[T,3] x, float[3] h) => (float[3] last, float[A,B] rows) {
    last, rows = Scan <num_scan_inputs = 1, OPTIONS body = b (float[3] s, float[3] r)
        => (float[3] t, float[3] o) { u = Add (s, r) t = Tanh (u) o = Mul (t, r) }> (h, x)
}"""
LOOP = """f (float[T,3] x, float[3] h) => (float[3] last, float[A,3] rows) {
    shape = Shape (x)
    zero = Constant <value_int = 0> ()
    trips = Gather (shape, zero)
    on = Constant <value = bool {1}> ()
    last, rows = Loop (trips, on, h) <body = b (int64 i, bool c, float[3] s)
        => (bool d, float[3] t, float[3] o) {
        d = Identity (c) BODY u = Add (s, r) t = Tanh (u) o = Mul (t, r) }>
}"""
SLICED = """axes = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
    first = Unsqueeze (i, axes) end = Add (first, one) part = Slice (x, first, end, axes)
    r = Squeeze (part, axes)"""
WHILE = """f (float[T,3] x, float[3] h) => (float[3] y) {
    limit = Constant <value_float = 30.0> ()
    start = Abs (h)
    y = Loop (TRIPS, , start) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t) {
        t = Add (s, s) most = ReduceMax <keepdims = 0> (t) d = Less (most, limit) }>
}"""
STACKS = """f (float[T,3] x, float[3] h) => (float[3] last, float[A,3] rows) {
    limit = Constant <value_float = 30.0> ()
    start = Abs (h)
    last, rows = Loop (, , start) <body = b (int64 i, bool c, float[3] s)
        => (bool d, float[3] t, float[3] o) {
        t = Add (s, s) o = Neg (s) most = ReduceMax <keepdims = 0> (t) d = Less (most, limit) }>
}"""
GROWS = """f (float[T,3] x, float[3] h) => (float[M] y) {
    three = Constant <value_int = 3> ()
    y = Loop (three, , h) <body = b (int64 i, bool c, float[K] s) => (bool c, float[L] t) {
        t = Concat <axis = 0> (s, h) }>
}"""
SEQUENCE = """f (float[T,3] x, float[3] h) => (float[3,3] y) {
    three = Constant <value_int = 3> ()
    none = SequenceEmpty ()
    s = Loop (three, , none) <body = b (int64 i, bool c, seq(float[K]) q)
        => (bool d, seq(float[K]) r) { d = Identity (c) r = SequenceInsert (q, h) }>
    y = ConcatFromSequence <axis = 0, new_axis = 1> (s)
}"""
BRANCH = """f (float[T,3] x, float[3] h) => (float[M] y) {
    total = ReduceSum <keepdims = 0> (x)
    zero = Constant <value_float = 0.0> ()
    c = Greater (total, zero)
    [choice] y = If (c) <then_branch = t () => (float[M] p) { THEN },
        else_branch = e () => (float[M] q) { q = Sub (h, total) }>
}"""
NESTED = """p = Loop (three, , h) <body = b (int64 i, bool g, float[3] s) => (bool d, float[3] u)
    { d = Identity (g) v = Add (s, h) u = Mul (v, total) }>"""
SIZES = """f (float[T,3] x, float[3] h) => (float[M,3] y) {
    shape = Shape (x)
    zero = Constant <value_int = 0> () six = Constant <value_int = 6> ()
    rows = Gather (shape, zero)
    c = Greater (rows, six)
    y = If (c) <then_branch = t () => (float[M,3] p) { p = Neg (x) },
        else_branch = e () => (float[M,3] q) { q = Concat <axis = 0> (x, x) }>
}"""

# The model, and what its source has.
CASES = {
    "scan": (SCAN.replace("OPTIONS", ""), ["(s,) = carry", "calor.scan(last_step, [h], [x])"]),
    "scan of columns, backward": (
        SCAN.replace("OPTIONS", "scan_input_axes = [1], scan_input_directions = [1],")
        .replace("float[3] h", "float[12] h").replace("[3]", "[L]"),
        ["[calor.flip(calor.moveaxis(x, 1, 0), axis=0)]"],
    ),
    "scan laid from the end": (
        SCAN.replace("OPTIONS", "scan_output_directions = [1], scan_output_axes = [1],"),
        ["= calor.moveaxis(calor.flip(", ", axis=0), 0, 1)"],
    ),
    "loop of one operation": (
        LOOP.replace("BODY", "r = Gather <axis = 0> (x, i)"),
        ["def last_step(carry, i):", "calor.arange(trips.item(), dtype=calor.int64))"],
    ),
    "loop that slices": (
        LOOP.replace("BODY", SLICED),
        ["for i in map(np.array, range(trips.item())):", "o_turns.append(o)"],
    ),
    "loop that its data ends": (
        WHILE.replace("TRIPS", ""), ["return state[1]", "_, _, y = calor.while_loop("],
    ),
    "loop that its data or a number ends": (
        WHILE.replace("TRIPS", "three").replace(
            "start =", "three = Constant <value_int = 3> () start ="
        ),
        ["return calor.logical_and(state[1], state[0] < 3)"],
    ),
    "loop that its data ends, with rows": (
        STACKS, ["for i in map(np.array, count()):", "if not c.item():\n                break"],
    ),
    "loop that grows": (GROWS, ["for i in map(np.array, range(3)):", "s = h\n"]),
    "loop over a sequence": (SEQUENCE, ["q = none\n", 'onnx("SequenceInsert", q, h)']),
    "branch": (
        BRANCH.replace("THEN", "p = Neg (h)"),
        ["def choice_then():", "y = calor.cond(c, choice_then, choice_else)"],
    ),
    "branches of two shapes": (
        BRANCH.replace("THEN", "p = Concat <axis = 0> (h, h)"),
        ["if c.item():", "else:\n            # Sub\n            q = h - total"],
    ),
    "branch that sizes decide": (SIZES, ["if c.item():\n"]),
    "loop in a branch": (
        BRANCH.replace("THEN", NESTED).replace(
            "zero =", "three = Constant <value_int = 3> () zero ="
        ),
        ["            def p_step(carry, i", "[p], _ = calor.scan("],
    ),
}  # fmt: skip


def written(model: calor_onnx.Model, path: Path, given: dict[str, Any]) -> tuple[Any, str]:
    source = calor_onnx.to_python(model, path, given)
    spec = importlib.util.spec_from_file_location(source.stem, source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(source.stem, None)
    return module.Model(), source.read_text()


def agree(found: Any, wanted: Any) -> None:
    several = isinstance(wanted, tuple)
    for a, b in zip(found if several else [found], wanted if several else [wanted], strict=True):
        np.testing.assert_allclose(np.asarray(a), b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("small", [30, 2], ids=["whole", "in parts"])
@pytest.mark.parametrize("case", CASES)
def test_gives_what_the_model_gives(
    case: str, small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calor_onnx.sections.SMALL", small)
    monkeypatch.setattr("calor_onnx.sections.EACH", small)
    text, wanted = CASES[case]
    model = calor_onnx.load(onnx.parser.parse_model(f"{HEAD} {text}"), "numpy")
    h = X[:, 0] if "columns" in case else H
    made, source = written(model, tmp_path / "net.py", {"x": X, "h": h})
    assert [part for part in wanted if part not in source] == []
    assert max(map(len, source.splitlines())) <= 100
    assert not any(line != line.rstrip() for line in source.splitlines())
    for x in (X, -X, X[:5]):
        if "columns" not in case or len(x) == len(h):
            agree(made(calor.asarray(x), calor.asarray(h)), model(x, h))


def test_weights_of_bodies_are_the_modules_and_one_operation_is_compiled(tmp_path: Path) -> None:
    weight = RANDOM.standard_normal((3, 40)).astype(np.float32) / 20
    text = """f (float[3] x) => (float[3] y) {
        four = Constant <value_int = 4> ()
        y = Loop (four, , x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t) {
            d = Identity (c) p = MatMul (s, w) q = Transpose <perm = [1, 0]> (v)
            r = MatMul (p, q) t = Tanh (r) }>
    }"""
    proto = onnx.parser.parse_model(f"{HEAD} {text}")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    body = proto.graph.node[1].attribute[0].g
    body.initializer.append(onnx.numpy_helper.from_array(weight * 2, "v"))
    model = calor_onnx.load(proto, "numpy")
    module, _ = written(model, tmp_path / "net.py", {"x": H})
    assert {name for name, _ in module.named_parameters()} >= {"w"}
    x = calor.asarray(H)
    agree(calor.jit(module)(x), model(H))
    module(x).sum().backward()
    assert float(abs(module.w.grad).sum()) > 0


FUNCTIONS = """<ir_version: 8, opset_import: ["" : 18, "mine" : 1]>
    f (float[T,3] x, float[3] h) => (float[T,3] y, float[T,3] z)
        <float[1] two = {2}, float[3] w = {1, 2, 3}> {
        a = Mul (h, two)
        [first] y = mine.Scaled <bias = 0.5> (x, a)
        [second] z = mine.Scaled (y, w)
    }
    <domain: "mine", opset_import: ["" : 18, "mine" : 1]> Scaled <bias: float = 1.0> (x, two) => (z)
    {
        b = Constant <value_float: float = @bias> ()
        p = Mul (x, two)
        q = mine.Shifted (p, b)
        z = Tanh (q)
    }
    <domain: "mine", opset_import: ["" : 18]> Shifted (x, w) => (y) { y = Add (x, w) }"""


def test_functions_of_the_model_are_functions(tmp_path: Path) -> None:
    model = calor_onnx.load(onnx.parser.parse_model(FUNCTIONS), "numpy")
    module, source = written(model, tmp_path / "net.py", {"x": X, "h": H})
    for x in (X, X[:4]):
        agree(module(calor.asarray(x), calor.asarray(H)), model(x, H))
    assert "def Scaled(x, two):" in source
    assert "def Shifted(x, " in source
    assert "y = Scaled(x, a)" in source


def test_what_is_not_written_is_named(tmp_path: Path) -> None:
    text = SCAN.replace("OPTIONS", "").replace("u = Add (s, r)", "n = NonZero (r) k = Cast "
        "<to = 1> (n) j = ReduceMax <keepdims = 0> (k) v = Add (s, r) u = Add (v, j)")  # fmt: skip
    model = calor_onnx.load(onnx.parser.parse_model(f"{HEAD} {text}"), "numpy")
    with pytest.raises(
        UnsupportedError, match="scans .*last; to train such a model, use calor_onnx"
    ):
        calor_onnx.to_python(model, tmp_path / "net.py", {"x": X, "h": H})


def test_maps_of_sequences_are_functions(tmp_path: Path) -> None:
    text = """f (float[T,3] x, float[3] h) => (float[A,3] y) {
        s = SequenceConstruct (x, x)
        t = SequenceConstruct (h, h)
        u, v = SequenceMap <body = each (float[T,3] a, float[3] b, float[3] c)
            => (float[T,3] d, float[T,3] e) { p = Mul (a, b) d = Add (p, c) e = Sub (a, p) }>
            (s, t, h)
        one = ConcatFromSequence <axis = 0> (u)
        other = ConcatFromSequence <axis = 0> (v)
        y = Concat <axis = 0> (one, other)
    }"""
    model = calor_onnx.load(onnx.parser.parse_model(f"{HEAD} {text}"), "numpy")
    module, source = written(model, tmp_path / "net.py", {"x": X, "h": H})
    assert "def u_each(a, b, c):" in source
    for x in (X, X[:4]):
        agree(module(calor.asarray(x), calor.asarray(H)), model(x, H))


def test_operators_with_other_bodies_are_refused(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 25, "ai.onnx.preview" : 1]>
        f (float[1,1,2,4] x) => (float[1,1,2,4] y) {
            y = ai.onnx.preview.FlexAttention <score_mod = b (float s) => (float t)
                { t = Add (s, s) }> (x, x, x)
        }"""
    model = calor_onnx.load(onnx.parser.parse_model(text), "numpy")
    given = {"x": np.ones((1, 1, 2, 4), np.float32)}
    with pytest.raises(UnsupportedError, match="operators with bodies"):
        calor_onnx.to_python(model, tmp_path / "net.py", given)


def test_old_powers_have_their_axis(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 6]>
        f (float[2,3,4] x, float[3] h) => (float[2,3,4] y) {
            y = Pow <broadcast = 1, axis = 1> (x, h)
        }"""
    model = calor_onnx.load(onnx.parser.parse_model(text), "numpy")
    x = np.abs(RANDOM.standard_normal((2, 3, 4))).astype(np.float32)
    module, _ = written(model, tmp_path / "net.py", {"x": x, "h": H})
    agree(module(calor.asarray(x), calor.asarray(H)), model(x, H))


def test_old_forms_of_operators_keep_their_meaning(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : VERSION]> f (float[2,3] x) => (float[A,B] y) {
        BODY }"""
    norm = "y = BatchNormalization <spatial = 0> (x, s, s, s, s)"
    for version, body in ((3, "y = Concat (x, x)"), (8, norm)):
        held = text.replace("VERSION", str(version)).replace("BODY", body)
        proto = onnx.parser.parse_model(held)
        scale = np.array([1, 2, 3], np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(scale, "s"))
        model = calor_onnx.load(proto, "numpy")
        x = X[:2]
        module, _ = written(model, tmp_path / f"net{version}.py", {"x": x})
        agree(module(calor.asarray(x)), model(x))


def test_bounds_and_constants_keep_their_digits(tmp_path: Path) -> None:
    text = f"""{HEAD} f (double[3] x, int64[3] n) => (double[3] y, int64[3] m, double[3] z)
        <double w = {{0.1234567890123456}}, double high = {{0.3}}, int64 least = {{1}},
         int64 most = {{{2**53 + 1}}}> {{
        y = Mul (x, w) m = Clip (n, least, most) z = Clip (x, low, high)
    }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(-np.inf), "low"))
    model = calor_onnx.load(proto, "numpy")
    given = {"x": np.array([0.1, 0.5, -2.0]), "n": np.array([0, 7, 2**60])}
    module, _ = written(model, tmp_path / "net.py", given)
    wanted = model.run(given)
    for got, name in zip(module(*map(calor.asarray, given.values())), "ymz", strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted[name].numpy())

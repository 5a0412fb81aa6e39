"""When a graph is compiled, for what, and what is interpreted."""

from unittest.mock import Mock

import numpy as np
import onnx
import pytest

import calor_onnx
from calor_onnx.execution import Run
from calor_onnx.plans import LIMIT

HEAD = '<ir_version: 8, opset_import: ["" : 18]>'


def loaded(text: str) -> calor_onnx.Model:
    return calor_onnx.load(onnx.parser.parse_model(f"{HEAD} {text}"), device="numpy")


def test_each_set_of_shapes_is_compiled_once() -> None:
    model = loaded("f (float[N] x) => (float[N] y) { y = Add (x, x) }")
    for size in (1, 2, 1, 2, 3):
        assert model(np.ones(size, np.float32)).tolist() == [2.0] * size
    assert (model.plans, model.reason) == (3, None)


def test_the_cache_is_bounded() -> None:
    model = loaded("f (float[N] x) => (float[N] y) { y = Add (x, x) }")
    for size in range(1, LIMIT + 3):
        model(np.ones(size, np.float32))
    assert model.plans == LIMIT


SHAPES = """f (float[N,M] x) => (float[K] y) {
    shape = Shape (x)
    one = Constant <value_ints = [1]> ()
    zero = Constant <value_int = 0> ()
    axis = Constant <value_ints = [0]> ()
    rows = Gather (shape, zero)
    flat = Unsqueeze (rows, axis)
    minus = Sub (flat, one)
    start = Concat <axis = 0> (minus, axis)
    part = Slice (x, start, shape)
    whole = Constant <value_ints = [-1]> ()
    y = Reshape (part, whole)
}"""


def test_shapes_are_computed_on_the_host() -> None:
    model = loaded(SHAPES)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert model(x).tolist() == [4.0, 5.0]
    assert model(x[:2]).tolist() == [2.0, 3.0]
    assert model.reason is None


def test_an_input_that_decides_a_shape_is_part_of_the_key() -> None:
    model = loaded("f (float[N] x, int64[K] s) => (float[M,L] y) { y = Reshape (x, s) }")
    x = np.arange(6, dtype=np.float32)
    for shape in ([2, 3], [3, 2], [2, -1]):
        wanted = x.reshape(shape).tolist()
        assert model(x, shape).tolist() == wanted
    assert (model.plans, model.reason) == (3, None)


def test_an_input_that_decides_a_shape_in_a_function_is_part_of_the_key() -> None:
    model = calor_onnx.load(
        onnx.parser.parse_model("""
            <ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
            f (float[N] x, int64[K] s) => (float[M,L] y) { y = mine.Shaped (x, s) }
            <domain: "mine", opset_import: ["" : 17]>
            Shaped (x, s) => (y) {
                t = Identity (s)
                y = Reshape (x, t)
            }"""),
        device="numpy",
    )
    assert model([1.0, 2.0], [2, 1]).tolist() == [[1.0], [2.0]]
    assert (model.plans, model.reason) == (1, None)


def test_an_input_that_always_differs_is_interpreted_in_the_end() -> None:
    model = loaded("f (float[N] x, int64[1] s) => (float[M] y) { y = Expand (x, s) }")
    for size in range(1, 30):
        assert model(np.ones(1, np.float32), [size]).shape == (size,)
    assert model.reason == (
        "interpreted, not compiled: s decide shapes and differ from call to call"
    )


def test_shapes_that_depend_on_data_are_interpreted() -> None:
    model = loaded("""f (float[N] x) => (int64[1,M] y) {
        [places] y = NonZero (x)
    }""")
    assert model([0.0, 2.0, 3.0]).tolist() == [[1, 2]]
    assert model([0.0, 0.0]).tolist() == [[]]
    assert "places (NonZero) needs the elements of 'x'" in model.reason


def test_what_comes_before_is_compiled() -> None:
    model = loaded("""f (float[N] x, float[N] w) => (int64[1,M] p, float[M] z, float[N] y) {
        a = Mul (x, w)
        y = Add (a, a)
        [find] p = NonZero (y)
        axis = Constant <value_int = 0> ()
        zero = Constant <value_ints = [0]> ()
        flat = Squeeze (p, zero)
        b = Gather <axis = 0> (a, flat)
        [again] q = NonZero (x)
        r = Squeeze (q, zero)
        c = ReduceSum (r)
        d = Cast <to = 1> (c)
        z = Mul (b, d)
    }""")
    x, w = np.array([1.0, 0.0, 3.0], np.float32), np.array([2.0, 2.0, 0.0], np.float32)
    for _ in range(3):
        places, z, y = model(x, w)
        assert (places.tolist(), z.tolist(), y.tolist()) == ([[0]], [4.0], [4.0, 0.0, 0.0])
    assert model.reason.startswith("interpreted from there on, not compiled: find (NonZero)")
    assert model.plans == 1
    assert model(x[:2], w[:2])[1].tolist() == [0.0]
    assert model.plans == 2


def test_what_is_on_the_host_alone_needs_no_device() -> None:
    model = loaded("""f (float[N,M] x) => (int64[2] y, int64 z) {
        y = Shape (x)
        z = Size (x)
    }""")
    y, z = model(np.ones((2, 5), np.float32))
    assert (y.tolist(), z.item()) == ([2, 5], 10)


IF = """f (float[N] x, bool c) => (float[N] y) {
    y = If (c) <then_branch = t () => (float[N] a) { a = Add (x, x) },
                else_branch = e () => (float[N] b) { b = Neg (x) }>
}"""


def test_an_input_that_chooses_a_branch_is_part_of_the_key() -> None:
    model = loaded(IF)
    assert model([1.0], True).tolist() == [2.0]
    assert model([1.0], False).tolist() == [-1.0]
    assert (model.plans, model.reason) == (2, None)


def test_a_branch_that_data_chooses_is_compiled_where_shapes_agree() -> None:
    model = loaded(IF.replace("bool c", "float[K] d").replace("{\n    y = If", """{
        zero = Constant <value_float = 0.0> ()
        total = ReduceSum <keepdims = 0> (d)
        c = Greater (total, zero)
        y = If"""))  # fmt: skip
    many = np.ones(100, np.float32)
    assert model([1.0], many).tolist() == [2.0]
    assert model([1.0], -many).tolist() == [-1.0]
    assert (model.plans, model.reason) == (1, None)


def test_a_branch_that_data_chooses_is_looked_at_where_shapes_differ() -> None:
    model = loaded("""f (float[N] x, float[K] d) => (float[M] y) {
        zero = Constant <value_float = 0.0> ()
        total = ReduceSum <keepdims = 0> (d)
        c = Greater (total, zero)
        y = If (c) <then_branch = t () => (float[M] a) { a = Concat <axis = 0> (x, x) },
                    else_branch = e () => (float[M] b) { b = Neg (x) }>
    }""")
    many = np.ones(100, np.float32)
    assert model([1.0], many).tolist() == [1.0, 1.0]
    assert model([1.0], -many).tolist() == [-1.0]
    assert "(If) needs the elements of 'c'" in model.reason


LOOP = """f (float[N] x) => (float[N] last, float[T,N] all) {
    trips = Constant <value_int = TRIPS> ()
    on = Constant <value = bool {1}> ()
    last, all = Loop (trips, on, x) <body = b (int64 i, bool c, float[N] h)
        => (bool d, float[N] k, float[N] s) {
        d = Identity (c)
        k = Add (h, x)
        j = Cast <to = 1> (i)
        s = Mul (k, j)
    }>
}"""


@pytest.mark.parametrize("trips", [0, 3, 20])
def test_a_counted_loop_is_compiled(trips: int) -> None:
    model = loaded(LOOP.replace("TRIPS", str(trips)))
    last, rows = model([1.0, 2.0])
    assert last.tolist() == [1.0 + trips, 2.0 + 2 * trips]
    wanted = [[i * (i + 2.0), i * (2 * i + 4.0)] for i in range(trips)]
    assert rows.tolist() == wanted
    assert model.reason is None


def test_a_loop_that_data_ends_is_compiled() -> None:
    model = loaded("""f (float[N] x) => (float[N] y) {
        on = Constant <value = bool {1}> ()
        limit = Constant <value_float = 100.0> ()
        y = Loop (, on, x) <body = b (int64 i, bool c, float[N] h) => (bool d, float[N] k) {
            k = Add (h, h)
            total = ReduceSum <keepdims = 0> (k)
            d = Less (total, limit)
        }>
    }""")
    assert model([1.0, 2.0]).tolist() == [64.0, 128.0]
    assert model.reason is None


def test_a_loop_that_data_ends_and_whose_values_grow_is_interpreted() -> None:
    model = loaded("""f (float[N] x) => (float[M] y) {
        on = Constant <value = bool {1}> ()
        limit = Constant <value_float = 7.0> ()
        y = Loop (, on, x) <body = b (int64 i, bool c, float[N] h) => (bool d, float[K] k) {
            k = Concat <axis = 0> (h, x)
            total = ReduceSum <keepdims = 0> (k)
            d = Less (total, limit)
        }>
    }""")
    assert model([1.0, 2.0]).tolist() == [1.0, 2.0] * 3
    assert "its iterations decide when it ends, and while_loop" in model.reason


def test_a_sequence_goes_through_a_loop() -> None:
    model = loaded("""f (float[N] x) => (float[M] y) {
        trips = Constant <value_int = 3> ()
        on = Constant <value = bool {1}> ()
        none = SequenceEmpty ()
        all = Loop (trips, on, none) <body = b (int64 i, bool c, seq(float[N]) h)
            => (bool d, seq(float[N]) k) {
            d = Identity (c)
            f = Cast <to = 1> (i)
            z = Mul (x, f)
            k = SequenceInsert (h, z)
        }>
        y = ConcatFromSequence <axis = 0> (all)
    }""")
    assert model([1.0, 2.0]).tolist() == [0.0, 0.0, 1.0, 2.0, 2.0, 4.0]
    assert model.reason is None


def test_an_error_names_the_node() -> None:
    model = loaded("""f (float[N] x, float[M] z) => (float[K] y) {
        [adding] y = Add (x, z)
    }""")
    with pytest.raises(ValueError, match="broadcast") as caught:
        model([1.0, 2.0], [1.0, 2.0, 3.0])
    assert caught.value.__notes__ == ["in adding (Add, opset 18)"]
    assert model.plans == 0


def test_only_what_never_ran_is_forgotten_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded("f (float[N] x) => (float[N] y) { y = Add (x, x) }")
    x = np.ones(2, np.float32)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "graph", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            model(x)
        assert model.plans == 0
    assert model(x).tolist() == [2.0, 2.0]
    (kept,) = model._plans._compiled.values()
    program = kept.program
    kept.program = Mock(side_effect=MemoryError)
    with pytest.raises(MemoryError):
        model(x)
    assert model.plans == 1
    kept.program = program
    assert model(x).tolist() == [2.0, 2.0]


def test_what_the_host_computed_is_remembered() -> None:
    calls = []

    @calor_onnx.operator("Noted", domain="test.remembered")
    def noted(call, x):
        calls.append(x.tolist())
        return x + 1

    model = calor_onnx.load(
        onnx.parser.parse_model("""
            <ir_version: 8, opset_import: ["" : 17, "test.remembered" : 1]>
            f (float[N] x) => (int64[1,M] p, int64[1] n) {
                p = NonZero (x)
                s = Shape (x)
                n = test.remembered.Noted (s)
            }"""),
        device="numpy",
    )
    for size in (2, 3, 2, 2, 3):
        assert model(np.ones(size, np.float32))[1].tolist() == [size + 1]
    assert model.reason is not None
    assert calls == [[2], [3]]


def test_what_is_remembered_may_be_cleared_by_another_thread() -> None:
    class Cleared(dict):
        def __contains__(self, key: object) -> bool:
            found = super().__contains__(key)
            self.clear()
            return found

    model = loaded("""f (float[N] x) => (int64[1,M] p, int64[2] n) {
        p = NonZero (x)
        s = Shape (p)
        n = Add (s, s)
    }""")
    for node in model.graph.walk():
        node.known = Cleared()
    for _ in range(3):
        assert model(np.ones(2, np.float32))[1].tolist() == [2, 4]

"""Operands of types that ONNX refuses are told at once, at load; what it allows is let be."""

import onnx
import onnxruntime
import pytest

import calor_onnx
from calor_onnx import TypeConstraintError

HEAD = '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>'

# What is wrong, and what the message says of it.
WRONG = {
    "a type that the operator lacks": (
        "f (int64[N] x) => (int64[N] y) { [wave] y = Sin (x) }",
        ["wave (Sin, opset 17): input is tensor(int64), not tensor(double), tensor(float)"],
    ),
    "two types where one is meant": (
        "f (float[N] x, int64[N] z) => (float[N] y) { [sum] y = Add (x, z) }",
        ["sum (Add, opset 17): A is tensor(float) and B tensor(int64)"],
    ),
    "a constant of another type": (
        "f (float[N] x) => (float[N] y) <double[1] two = {2}> { [twice] y = Mul (x, two) }",
        ["twice (Mul, opset 17): A is tensor(float) and B tensor(double)"],
    ),
    "several, some after a Cast": (
        """f (float[N] x) => (float[N] y) {
            i = Cast <to = 7> (x)
            [first] a = Sin (i)
            b = Neg (x)
            [second] y = And (b, x)
        }""",
        ["first (Sin", "second (And, opset 17): A is tensor(float), not tensor(bool)",
         "second (And, opset 17): B is"],
    ),
    "a shape": (
        "f (float[N] x) => (float[N] y) { s = Shape (x) [soft] y = Softmax (s) }",
        ["soft (Softmax, opset 17): input is tensor(int64)"],
    ),
    "a condition that is none": (
        """f (float[N] x) => (float[N] y) {
            [choice] y = If (x) <then_branch = t () => (float[N] a) { a = Neg (x) },
                else_branch = e () => (float[N] b) { b = Abs (x) }>
        }""",
        ["choice (If, opset 17): cond is tensor(float), not tensor(bool)"],
    ),
    "inside of a branch, and what it gives": (
        """f (float[N] x, bool c) => (float[N] y) {
            [choice] a = If (c) <then_branch = t () => (int64[N] p) { p = Cast <to = 7> (x) },
                else_branch = e () => (int64[N] q) { [inner] s = Sin (c) q = Cast <to = 7> (s) }>
            [after] y = Sqrt (a)
        }""",
        ["inner (Sin, opset 17): input is tensor(bool)", "after (Sqrt, opset 17): X is"],
    ),
    "a sequence for a tensor": (
        "f (seq(float[N]) s) => (float[N] y) { [neg] y = Neg (s) }",
        ["neg (Neg, opset 17): X is seq(tensor(float))"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_is_refused_at_load_with_all_of_them(case: str) -> None:
    text, wanted = WRONG[case]
    proto = onnx.parser.parse_model(f"{HEAD} {text}")
    with pytest.raises(TypeConstraintError) as caught:
        calor_onnx.load(proto, device="numpy")
    message = str(caught.value)
    assert [part for part in wanted if part not in message] == []
    assert len(caught.value.operands) == len(message.splitlines()) - 1 == len(wanted)
    # ONNX Runtime refuses the first.
    with pytest.raises(Exception, match="(?i)type"):
        onnxruntime.InferenceSession(proto.SerializeToString())


ALLOWED = {
    "another opset": (
        '<ir_version: 8, opset_import: ["" : 22]> '
        "f (bfloat16[N] x) => (bfloat16[N] y) { y = Sin (x) }"
    ),
    "types that differ where they may": (
        "f (float[N] x, int32 e) => (float[N] y) { y = Pow (x, e) }"
    ),
    "operands that are left out": ("f (float[N] x, float h) => (float[N] y) { y = Clip (x, , h) }"),
    "a function of the model": (
        """f (int64[N] x) => (int64[N] y) { y = mine.Sin (x) }
        <domain: "mine", opset_import: ["" : 17]> Sin (x) => (y) { y = Neg (x) }"""
    ),
    "texts and whatever": (
        "f (string[N] x) => (string[M] y) { s = SequenceConstruct (x, x) "
        "y = ConcatFromSequence <axis = 0> (s) }"
    ),
    "values of a loop, each of its own type": (
        """f (float[N] x, int64 n) => (float[N] y, int64 k) {
            on = Constant <value = bool {1}> ()
            y, k = Loop (n, on, x, n) <body = b (int64 i, bool c, float[N] s, int64 t)
                => (bool d, float[N] u, int64 v) {
                d = Identity (c) u = Neg (s) v = Add (t, i) }>
        }"""
    ),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_is_let_be(case: str) -> None:
    text = ALLOWED[case]
    text = text if text.startswith("<") else f"{HEAD} {text}"
    assert calor_onnx.load(onnx.parser.parse_model(text), device="numpy").outputs

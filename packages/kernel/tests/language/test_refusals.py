"""What kernels refuse: a refusal names the construct, the file and line, and what to write."""

import importlib.util
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calor.dtypes import float32, int32, int64
from calor_kernel.errors import KernelSourceError, KernelSyntaxError, KernelTypeError
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import KernelFunction, kernel

HEAD = """\
from calor.dtypes import *
from calor_kernel.language import *


"""
FLOATS, WHOLE = Buffer(float32), Buffer(int64)
SIGNATURE = [FLOATS, WHOLE, Scalar(int64)]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], tuple[str, Any]]:
    """Write a module and import it; returns its file's name and the module."""

    def make(text: str) -> tuple[str, Any]:
        path = tmp_path / "written.py"
        path.write_text(HEAD + textwrap.dedent(text))
        found = importlib.util.spec_from_file_location("written", path)
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return str(path), module

    return make


Written = Callable[[str], tuple[str, Any]]


def body(text: str) -> str:
    """A kernel ``k(x, y, n)`` with a body."""
    return "@kernel\ndef k(x, y, n):\n" + textwrap.indent(textwrap.dedent(text).strip(), "    ")


# A body, the line in it that is at fault, and a part of the message.
CONSTRUCTS = {
    "class": ("pass\nclass A:\n    pass", 2, "'class def' (ClassDef)"),
    "try": ("try:\n    y[0] = n\nfinally:\n    pass", 1, "'try' (Try)"),
    "with as": ("with open('f') as f:\n    pass", 1, "takes one context"),
    "two contexts": ("with a, b:\n    pass", 1, "takes one context"),
    "return from with": ("with a:\n    return", 1, "do not leave a with"),
    "yield": ("yield n", 1, "'yield' (Yield)"),
    "yield from": ("yield from (n,)", 1, "(YieldFrom)"),
    "import": ("import os", 1, "'import' (Import)"),
    "from import": ("from os import path", 1, "(ImportFrom)"),
    "global": ("global z\nz = 1", 1, "'global' (Global)"),
    "nonlocal": ("z = 1\ndef f():\n    nonlocal z", 3, "(Nonlocal)"),
    "walrus": ("y[0] = 1\nif (m := n) > 1:\n    pass", 2, "(NamedExpr)"),
    "match": ("match n:\n    case 1:\n        pass", 1, "'match' (Match)"),
    "del": ("z = n\ndel z", 2, "'delete' (Delete)"),
    "async function": ("async def f():\n    pass", 1, "(AsyncFunctionDef)"),
    "async comprehension": ("async def f():\n    [a async for a in n]", 1, "(AsyncFunctionDef)"),
    "else of for": ("for i in range(3):\n    pass\nelse:\n    pass", 1, "a loop's else"),
    "else of while": ("while n > 3:\n    n = n - 1\nelse:\n    pass", 1, "a loop's else"),
    "attribute": ("y[0] = 1\nx.offset = 3", 2, "not attributes"),
    "endless": ("while True:\n    y[0] = n", 1, "never ends"),
    "decorated": ("@helper\ndef f():\n    pass", 2, "takes no decorator"),
    "stale closure": (
        "t = 0\ndef f():\n    return t\nfor i in range(n):\n    t = t + 1\n    y[i] = f()",
        4,
        "'f' reads 't', which changes in this for; hand it over",
    ),
    "stale lambda": (
        "t = 0\nf = lambda: t\nif n > 1:\n    t = 1\n    y[0] = f()",
        3,
        "'f' reads 't', which changes in this if",
    ),
    "stale through another": (
        "t = 0\ndef f():\n    return t\ndef g():\n    return f()\nwhile t < n:\n    t = t + g()",
        6,
        "'g' reads 't', which changes in this while",
    ),
    "break": ("for i in range(n):\n    if i > 3:\n        break", 1, "unrolled; use while"),
    "continue": ("for i in range(n):\n    if i > 3:\n        continue", 1, "unrolled; use while"),
    "return": ("y[0] = 1\nif n > 3:\n    return\ny[1] = n", 2, "assign a result in both branches"),
    "while": ("while n > 3:\n    break", 1, "need conditions known at build time"),
}


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_constructs_are_refused_at_their_line(name: str, write: Written) -> None:
    text, line, message = CONSTRUCTS[name]
    path, module = write(body(text))
    at = HEAD.count("\n") + 2 + line
    with pytest.raises(KernelSyntaxError) as error:
        module.k.build(SIGNATURE)
    assert message in str(error.value)
    assert (error.value.filename, error.value.lineno) == (path, at)
    assert str(error.value).startswith(f"{path}:{at}: ")


def test_indented_kernels_are_located_and_keep_their_text(write: Written) -> None:
    path, module = write(
        '''
        def make():
            @kernel
            def k(x, y, n):
                """Text
        that stands at the margin."""
                y[0] = len("""a
          b""")
                del n
            return k
        '''
    )
    with pytest.raises(KernelSyntaxError) as error:
        module.make().build(SIGNATURE)
    assert error.value.lineno == HEAD.count("\n") + 9
    assert path in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["k = kernel(lambda x, y, n: None)", "k = [\n    kernel(lambda x, y, n: x)\n]"],
)
def test_a_kernel_is_no_lambda(text: str, write: Written) -> None:
    _, module = write(text)
    made = module.k[0] if isinstance(module.k, list) else module.k
    with pytest.raises(KernelSyntaxError, match="lambda; a kernel is a def of its own"):
        made.build(SIGNATURE)


def test_a_kernel_is_no_coroutine(write: Written) -> None:
    _, module = write("@kernel\nasync def k(x, y, n):\n    pass")
    with pytest.raises(KernelSyntaxError, match="async def; a kernel is a def of its own"):
        module.k.build(SIGNATURE)


def test_source_is_needed() -> None:
    names: dict[str, Any] = {}
    exec("def k(x):\n    pass", names)
    with pytest.raises(KernelSourceError, match="write them in a file, not through exec"):
        kernel(names["k"]).build([FLOATS])


# A body that is refused for its types, the line at fault in it (None where the error says none),
# and a part of the message.
TYPES = {
    "truth value": ("y[0] = 1 if [v for v in (n,) if v] else 0", None, "has no truth value"),
    "index of registers": ("r = registers(3, int64)\nr[n] = 1", None, "known at build time"),
    "sequence": ("a, b = n", None, "is no sequence"),
    "loop over a number": ("for i in n:\n    pass", None, "write range(...)"),
    "loop in a function": ("y[0] = sum(i for i in range(n))", None, "for statement over range"),
    "condition of a number": ("if n:\n    y[0] = 1", 1, "if does not take int64"),
    "two types": ("y[0] = n + n.to(int32)", 1, "operands of one type, not int64, int32"),
    "division": ("x[0] = n / 2", 1, "div does not take int64"),
    "floor of floats": ("x[0] = x[0] // 2.0", 1, "// is for integers"),
    "modulo of floats": ("x[0] = x[0] % 2.0", 1, "% is for integers"),
    "float meets integer": ("y[0] = n + 0.5", 1, "the float 0.5 meets int64"),
    "too large": ("y[0] = n.to(int8) + 300", 1, "300 does not fit int8"),
    "negative": ("y[0] = n.to(uint8) + -1", 1, "-1 does not fit uint8"),
    "no value": ("y[0] = n + None", 1, "None cannot be a device value"),
    "store": ("x[0] = n", 1, "does not hold int64; write .to(float32)"),
    "read only": ("z = 1\nw[0] = 1.0", None, "declared as only read"),
    "and of numbers": ("if n and n > 1:\n    pass", 1, "and takes bools, not int64"),
    "or of numbers": ("if n > 1 or n:\n    pass", 1, "or takes bools, not int64"),
    "not of a number": ("y[0] = 1 if not n else 0", 1, "not takes a bool, not int64"),
    "vector condition": ("if x.load(0, 4) > 0.0:\n    pass", 1, "an if takes a scalar"),
    "while of numbers": ("while n:\n    n = n - 1", 1, "a while takes a bool, not int64"),
    "while changes arrays": (
        "a = registers(1, int64)\ndef f():\n    a[0] = n\n    return 1 < n\nwhile f():\n    pass",
        5,
        "the condition of a while changes a register array",
    ),
    "branches differ": (
        "if n > 1:\n    r = n\nelse:\n    r = x[0]\ny[0] = r",
        1,
        "'r' is int64 on one way and float32 on another",
    ),
    "branches hold objects": ("r = x\nif n > 1:\n    r = y", 2, "which the build must decide"),
    "loop changes a type": (
        "r = n\nfor i in range(n):\n    y[i] = r\n    r = x[i]",
        2,
        "'r' is int64 before the loop and becomes float32",
    ),
    "loop changes text": (
        "r = 'a'\nfor i in range(n):\n    r = r + 'a'",
        2,
        "which the build must decide",
    ),
    "no value after a loop": ("for i in range(n):\n    t = i\ny[0] = t", 3, "'t' has no value on"),
    "loop variable": ("for i in range(n):\n    pass\ny[0] = i + 1", 3, "'i' has no value on"),
    "no value after a branch": ("if n > 1:\n    t = n\ny[0] = t * 2", 3, "'t' has no value on"),
    "no value in a condition": ("if n > 1:\n    t = n\nif t:\n    pass", 3, "'t' has no value on"),
    "no value compared": ("if n > 1:\n    t = n\ny[0] = 1 if t == 3 else 0", 3, "'t' has no value"),
    "escape by a list": (
        "kept = []\nfor i in range(n):\n    kept.append(i * 2)\ny[0] = kept[0]",
        4,
        "made in a loop or a branch is used outside of it",
    ),
    "escape from a branch": (
        "kept = []\nif n > 1:\n    kept.append(x[0] + 1.0)\nx[1] = kept[0]",
        4,
        "made in a loop or a branch is used outside of it",
    ),
    "range of floats": ("for i in range(x[0]):\n    pass", 1, "does not have integers"),
    "step 0": ("for i in range(0, n, 0):\n    pass", 1, "the step of a range is 0"),
    "step of any sign": ("for i in range(0, 9, n):\n    pass", 1, "never negative"),
    "range of types": ("for i in range(n.to(int32), n):\n    pass", 1, "of one type"),
    "registers hold another": ("a = registers(2, float32)\na[0] = n", None, "does not hold int64"),
    "lanes": ("x.store(0, splat(x.load(0, 4), 8))", 1, "float32x4 does not have 8 lanes"),
    "widths": ("x.store(0, x.load(0, 4) + x.load(0, 8))", 1, "not float32x4, float32x8"),
    "selection": ("y[0] = select(n > 1, n, x[0])", None, "select chooses between"),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_that_do_not_fit_are_refused(name: str, write: Written) -> None:
    text, line, message = TYPES[name]
    path, module = write(body(text).replace("(x, y, n)", "(x, y, n, w)"))
    signature = [*SIGNATURE, Buffer(float32, writable=False)]
    with pytest.raises(KernelTypeError) as error:
        module.k.build(signature)
    assert message in str(error.value)
    place = "" if line is None else f"{HEAD.count(chr(10)) + 2 + line}: "
    assert str(error.value).startswith(f"{path}:{place}")


@kernel
def three(x: Any, n: Any, *more: Any, factor: int = 2) -> None:
    x[0] = (n + len(more)).to(float32) * factor


def test_a_signature_names_every_parameter() -> None:
    built = three.build([FLOATS, Scalar(int64), WHOLE, Scalar(int32)])
    assert [p.name for p in built.parameters] == ["x", "n", "more_0", "more_1"]
    with pytest.raises(KernelTypeError, match=r"has 2 run-time parameters \(x, n\); the signature"):
        three.build([FLOATS])
    with pytest.raises(TypeError, match="unexpected keyword argument 'width'"):
        three.build([FLOATS, Scalar(int64)], width=3)


def test_kernels_name_their_build_time_parameters() -> None:
    def loose(x: Any, **build: Any) -> None:
        pass

    with pytest.raises(KernelTypeError, match=r"names its build-time parameters; no \*\*"):
        KernelFunction(loose)


def test_functions_of_the_language_need_a_kernel() -> None:
    from calor_kernel.language import cube_position

    with pytest.raises(KernelTypeError, match="call it inside a @kernel"):
        cube_position()

"""The table of environment variables in the documentation: `python tools/environment_variables.py`.

The names come from the sources, where they are read; what each does is written here. The tests
compare the two, so a variable without a description, or that nothing reads, is found.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
NAME = re.compile(r"CALOR_[A-Z_]+")


class Variable(NamedTuple):
    """What a variable is if it is not set, and what it does."""

    default: str
    effect: str


VARIABLES = {
    "CALOR_BESIDE": Variable(
        "1", "`0` launches independent work one after another, not side by side"
    ),
    "CALOR_BUNDLES": Variable(
        "none", "read-only folders of compiled kernels and tuning results, as in `PATH`"
    ),
    "CALOR_CACHE": Variable("1", "`0` stores nothing on disk"),
    "CALOR_CACHE_BYTES": Variable("2147483648", "the greatest size of the cache folder"),
    "CALOR_CACHE_DIR": Variable(
        "the user's cache folder",
        "the folder of compiled kernels, planned graphs, tuning results, measured speeds",
    ),
    "CALOR_COMPILE_WORKERS": Variable(
        "one for each further core, at most 8", "the most processes that compile; `0` for none"
    ),
    "CALOR_CPU_TARGET": Variable("native", "the processor that kernels of `cpu` are compiled for"),
    "CALOR_CPU_THREADS": Variable(
        "the processors that the process may use", "the threads of the device `cpu`"
    ),
    "CALOR_CUDA_DRIVER": Variable(
        "the one that is installed", "`cupy` or `pycuda`: what reaches the driver of CUDA"
    ),
    "CALOR_CUDA_LOOPS": Variable("1", "`0` has the host run each step of loops on CUDA devices"),
    "CALOR_CUDA_OVERLAP": Variable(
        "1", "`0` starts no launch on CUDA devices before the one before it has ended"
    ),
    "CALOR_DEBUG": Variable("0", "`1` keeps the line of your program for each operation"),
    "CALOR_DEBUG_NANS": Variable(
        "0", "`1` stops at the first op that makes a NaN or an infinity, `nan` at a NaN alone"
    ),
    "CALOR_DEFAULT_DTYPE": Variable(
        "float32", "the dtype of Python floats: `float64` or `float32`"
    ),
    "CALOR_DETERMINISTIC": Variable(
        "0", "`1`: the same input gives the same bits in every run and with any tuning"
    ),
    "CALOR_DEVICE": Variable("cpu if it is installed", "the default device, such as `cuda:1`"),
    "CALOR_EAGER": Variable("0", "`1` computes each operation when it is called"),
    "CALOR_HTTP_CA": Variable(
        "the system's", "a file with the certificate that signed those of servers"
    ),
    "CALOR_HTTP_PATIENCE": Variable("30", "the seconds after which a server counts as away"),
    "CALOR_HTTP_STREAM": Variable(
        "1", "`0` sends each request to servers of devices by itself, without a WebSocket"
    ),
    "CALOR_HTTP_TOKEN": Variable("none", "the token of servers of devices"),
    "CALOR_HTTP_TOKENS": Variable(
        "the user's configuration", "the file with the tokens of servers of devices"
    ),
    "CALOR_HTTP_ZSTD": Variable("0", "`1` compresses what is sent to servers of devices"),
    "CALOR_JIT": Variable("1", "`0` runs jitted functions as plain Python"),
    "CALOR_KEEP": Variable("1", "`0` packs weights at each call, and keeps no packed weights"),
    "CALOR_MATMUL_PRECISION": Variable(
        "highest", "how exactly float32 is multiplied: `highest`, `direct`, `high` or `tf32`"
    ),
    "CALOR_ONNXRUNTIME_DEVICE": Variable(
        "none", "the device of programs that are written for ONNX Runtime"
    ),
    "CALOR_OPENCL_PLATFORM": Variable("all", "use OpenCL platforms with this text in their name"),
    "CALOR_OPENCL_WITHOUT": Variable("none", "OpenCL extensions that are not used, with commas"),
    "CALOR_TRACE_BYTES": Variable("1073741824", "the bytes of results that may be pending"),
    "CALOR_TRACE_NODES": Variable("2048", "the number of operations that may be pending"),
    "CALOR_TUNE": Variable(
        "stored", "which measured choices of kernels are used: `on`, `off`, `own`, `dry`"
    ),
    "CALOR_TUNE_CHECK": Variable("0", "`1` compares the results of all kernels that are timed"),
    "CALOR_VIEWS": Variable("warn", "what a write to a slice of a living tensor does"),
    "CALOR_WGPU_ADAPTER": Variable("all", "use adapters with this text in their name"),
    "CALOR_WGPU_CHECKS": Variable("0", "`1`: checks of bounds and endless loops in wgpu's kernels"),
    "CALOR_WGPU_WITHOUT": Variable("none", "adapter features that are not used, with commas"),
}


def read_in(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the variables that the sources name as whole texts, each with its distributions."""
    found: dict[str, set[str]] = {}
    for path in [*root.glob("packages/*/src/**/*.py"), *root.glob("plugins/*/src/**/*.py")]:
        text = path.read_text("utf-8")
        if "CALOR_" not in text:
            continue
        package = path.relative_to(root).parts[3].replace("_", "-")
        for name in _names(ast.parse(text)):
            found.setdefault(name, set()).add(package)
    return {name: sorted(places) for name, places in sorted(found.items())}


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that are arguments of calls, keys, or values of constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            parts: list[ast.expr] = [] if called == "replace" else [*node.args]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            parts = [] if node.value is None else [node.value]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        else:
            continue
        for part in parts:
            value = part.value if isinstance(part, ast.Constant) else None
            if isinstance(value, str) and NAME.fullmatch(value):
                yield value


def markdown() -> str:
    """Return the table."""
    lines = ["| variable | if it is not set | effect | read by |", "| --- | --- | --- | --- |"]
    for name, places in read_in().items():
        if name in VARIABLES:
            default, effect = VARIABLES[name]
            lines.append(f"| `{name}` | {default} | {effect} | {', '.join(places)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
    sys.exit(read_in().keys() != VARIABLES.keys())

"""The command line ``calor-onnx MODEL``: inspect, run, verify, benchmark and rewrite a model.

``run-program`` and ``stand-in`` replace onnxruntime in unchanged programs; see
:mod:`calor_onnx.session.replacing`.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

COMMANDS = ("inspect", "run", "verify", "benchmark", "write", "run-program", "stand-in")
_LIMIT = 1e-3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of ``calor-onnx``.

    Parameters
    ----------
    arguments : sequence of str, default None
        The command line without the program's name. None takes it from ``sys.argv``.

    Returns
    -------
    int
        The exit status: 1 if a model is wrong, results differ or something is missing, else 0.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] not in COMMANDS and not given[0].startswith("-"):
        # calor-onnx MODEL means inspect; with --to it means write.
        given.insert(0, "write" if any(a.startswith("--to") for a in given) else "inspect")
    options = _parser().parse_args(given)
    from calor.errors import CalorError
    from calor_onnx.errors import InputError

    try:
        return int(options.function(options) or 0)
    except (CalorError, OSError) as error:
        print(error, file=sys.stderr)
        notes = [*getattr(error, "__notes__", ())]
        if not isinstance(error, InputError):
            # Random inputs are the usual cause of an error in a model.
            notes += getattr(options, "notes", [])
        for note in notes:
            print(note, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="calor-onnx", description="ONNX models on calor.")
    parser.add_argument("--version", action="version",
                        version=f"calor-onnx {metadata.version('calor-onnx')}")  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, text: str, function: Any, *, model: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(function=function)
        if model:
            made.add_argument("model", help="an .onnx file")
            made.add_argument("--device", help="a device of calor (default: the current device)")
            made.add_argument("--input", action="append", default=[], metavar="NAME=FILE",
                              help="a .npy or .npz file, or numbers such as 1,2")  # fmt: skip
            made.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,224,224",
                              help="an input's shape, or the size of a symbol")  # fmt: skip
            made.add_argument("--seed", type=int, default=0, help="seed of random inputs")
        return made

    looked = add("inspect", "print inputs, outputs, operators and sizes", _inspect)
    looked.add_argument("--draw", metavar="FILE.svg", help="draw calor's graph of the model")
    looked.add_argument("--verbose", action="store_true",
                        help="run it once, and list the parts that are not compiled")  # fmt: skip
    ran = add("run", "run the model once and print a summary of its outputs", _run)
    ran.add_argument("--save", metavar="FOLDER", help="write each output as NAME.npy")
    checked = add("verify", "compare the outputs with those of ONNX Runtime", _verify)
    checked.add_argument("--tolerance", type=float, default=_LIMIT,
                         help="largest difference, relative to an output's largest magnitude "
                              "(default: %(default)s)")  # fmt: skip
    timed = add("benchmark", "time runs here and in ONNX Runtime", _benchmark)
    timed.add_argument("--repeats", type=int, default=20,
                       help="number of timed runs (default: %(default)s)")  # fmt: skip
    written = add("write", "write the model as Python source and a safetensors file", _write)
    written.add_argument("--to", choices=["python"], default="python", help="form of the output")
    written.add_argument("--output", metavar="FILE.py", help="source file (default: MODEL.py)")
    written.add_argument("--force", action="store_true", help="overwrite existing files")
    program = add("run-program", "run a program with calor-onnx as onnxruntime", _program,
                  model=False)  # fmt: skip
    program.add_argument("--device", help="device that replaces the program's providers")
    program.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    program.add_argument("program", help="a Python file, or with -m a module")
    program.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    add("stand-in", "print the folder to put on PYTHONPATH for such programs", _stand_in,
        model=False)  # fmt: skip
    return parser


def _loaded(options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Return the model and a value for each of its inputs."""
    from calor_onnx.errors import InputError
    from calor_onnx.feeding import feed, made_up
    from calor_onnx.model import load

    model = load(options.model, options.device)
    shapes = {}
    for text in options.shape:
        name, _, sizes = text.rpartition("=")
        try:
            shapes[name] = [int(n) for n in sizes.split(",") if n]
        except ValueError:
            raise InputError(
                f"--shape {text} has a size that is not a number; write x=1,3,224,224"
            ) from None
    files = {}
    for text in options.input:
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            raise InputError(f"--input {text} needs a name and a value; write x=x.npy or x=1,2")
        files[name] = file
    given = feed(model, files=files, shapes=shapes, seed=options.seed)
    options.notes = made_up(given, files)
    return model, given


def _inspect(options: argparse.Namespace) -> None:
    from calor_onnx.inspecting import compiled, described, graph_of
    from calor_onnx.model import load

    if options.draw:
        model, given = _loaded(options)
        graph_of(model, given).draw(options.draw)
    else:
        model = load(options.model, options.device, simplify=False)
    print(described(model))
    if options.verbose:
        model, given = _loaded(options)
        model.run(given)
        print(f"\n{compiled(model)}")
    if options.draw:
        print(f"\ndrawn: {options.draw}")


def _run(options: argparse.Namespace) -> None:
    import numpy as np

    from calor_onnx.comparing import on_host
    from calor_onnx.naming import plain

    model, given = _loaded(options)
    for name, value in model.run(given).items():
        found = on_host(value)
        if isinstance(found, np.ndarray) and found.dtype != np.object_ and found.size:
            print(f"{name}: {found.dtype} {list(found.shape)}, from {found.min():.6g} to "
                  f"{found.max():.6g}, mean {found.mean():.6g}")  # fmt: skip
        else:
            print(f"{name}: {found}")
        if options.save and isinstance(found, np.ndarray):
            folder = Path(options.save)
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"{plain(name)}.npy", found, allow_pickle=False)
    _tell(model)


def _tell(model: Any) -> None:
    """Print the reasons why parts of the model are not compiled."""
    for text in filter(None, [model.reason, *model.remarks]):
        print(text)


def _verify(options: argparse.Namespace) -> int:
    from calor_onnx.comparing import differences

    model, given = _loaded(options)
    found = differences(model, options.model, given)
    for row in found:
        verdict = "agrees" if row.largest <= options.tolerance else "DIFFERS"
        print(f"{row.name}: {verdict}, by {row.largest:.2e} of its largest magnitude")
    return int(any(row.largest > options.tolerance for row in found))


def _benchmark(options: argparse.Namespace) -> None:
    from calor_onnx.comparing import times

    model, given = _loaded(options)
    ours, theirs = times(model, options.model, given, options.repeats)
    print(f"{model.device.name}: {ours * 1e3:.3f} ms, the shortest of {options.repeats} runs")
    if theirs is None:
        print("ONNX Runtime is not installed; to compare, pip install onnxruntime")
    else:
        print(f"ONNX Runtime on the CPU: {theirs * 1e3:.3f} ms; ratio {ours / theirs:.2f}")
    _tell(model)


def _write(options: argparse.Namespace) -> None:
    from calor_onnx.errors import InputError
    from calor_onnx.writing import to_python

    path = Path(options.output or Path(options.model).with_suffix(".py").name)
    weights = path.with_suffix(".safetensors")
    there = [str(file) for file in (path, weights) if file.exists()]
    if there and not options.force:
        raise InputError(
            f"{' and '.join(there)} would be overwritten; pass --force, or another --output"
        )
    model, given = _loaded(options)
    to_python(model, path, given)
    print(f"{path} and {weights}")


def _program(options: argparse.Namespace) -> None:
    from calor_onnx.session.replacing import replace_onnxruntime

    replace_onnxruntime(options.device)
    sys.argv = [options.program, *options.arguments]
    if options.module:
        sys.path.insert(0, os.getcwd())
        _check_module(options.program)
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(options.program).resolve().parent))
        runpy.run_path(options.program, run_name="__main__")


def _check_module(name: str) -> None:
    """Check that a module exists and can be run.

    Raises
    ------
    InputError
        If it does not exist or cannot be run.
    """
    from calor_onnx.errors import InputError

    try:
        found = find_spec(name)
        if found is not None and found.submodule_search_locations is not None:
            found = find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        # A missing import of an enclosing package is an error of the program itself.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        found = None
    except ValueError:
        found = None
    if found is None:
        raise InputError(f"there is no module {name!r} to run; to run a file, leave out -m")


def _stand_in(options: argparse.Namespace) -> None:
    from calor_onnx.session.replacing import stand_in

    print(stand_in())

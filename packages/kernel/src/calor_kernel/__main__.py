"""The command line: ``python -m calor_kernel bundle`` and ``python -m calor_kernel cache``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from calor_kernel.device.storage import cache_directory
from calor_kernel.runtime.bundle import cache_figures, make_bundle


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m calor_kernel", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    bundle = commands.add_parser(
        "bundle",
        help="put compiled kernels and tuning results into a directory that can be shipped",
        description="With a program, what it compiles and tunes is bundled; without one, all that "
        "the cache holds. A process reads the bundles that CALOR_BUNDLES names.",
    )
    bundle.add_argument("directory", type=Path)
    bundle.add_argument("program", nargs=argparse.REMAINDER, help="-- command and its arguments")
    commands.add_parser("cache", help="say where the cache is and what it holds")
    given = parser.parse_args(arguments)
    if given.command == "cache":
        print(cache_figures(cache_directory()))
        return 0
    program = given.program[1:] if given.program[:1] == ["--"] else given.program
    if program:
        environment = {**os.environ, "CALOR_CACHE_DIR": str(given.directory.resolve())}
        environment.pop("CALOR_BUNDLES", None)
        status = subprocess.run(program, env=environment, check=False).returncode
        if status:
            return status
    else:
        make_bundle(cache_directory(), given.directory)
    print(cache_figures(given.directory))
    return 0


if __name__ == "__main__":
    sys.exit(main())

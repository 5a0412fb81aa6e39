"""The command line: ``python -m calor devices``, ``doctor``, ``tune`` and ``new-backend``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import calor

if TYPE_CHECKING:
    from calor.backends.device import Device
    from calor.backends.protocol import Tuned


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the result is the exit status: 1 when something does not load."""
    parser = argparse.ArgumentParser(prog="python -m calor", description="Ask calor about itself.")
    parser.add_argument("--version", action="version", version=f"calor {calor.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("devices", help="list the devices that are present")
    listing.add_argument("--features", metavar="NAME", help="show the features of one device")
    commands.add_parser("doctor", help="say what is installed, what fails to load and why")
    project = commands.add_parser("new-backend", help="write a project for a device of your own")
    project.add_argument("name", help="the device's name, such as acme")
    project.add_argument("--directory", help="the project's folder; calor-NAME here if not given")
    tuning = commands.add_parser("tune", help="run a script and measure its kernels' candidates")
    tuning.add_argument("--device", metavar="NAME", help="the device; the default one if not given")
    tuning.add_argument(
        "--seconds", type=float, default=60.0, help="the time for measuring, 60 if not given"
    )
    tuning.add_argument(
        "--export", metavar="FILE", help="write what is stored for the device as a bundle, at last"
    )
    tuning.add_argument("script", nargs="?", help="the script; it runs as a program on the device")
    tuning.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the script")
    options = parser.parse_args(arguments)

    from calor.errors import CalorError

    try:
        text, status = _answer(options)
    except CalorError as error:
        print(error, file=sys.stderr)
        return 1
    print(text)
    return status


def _answer(options: argparse.Namespace) -> tuple[str, int]:
    from calor import doctor
    from calor.plugins.discovery import get_device

    if options.command == "new-backend":
        return _new_backend(options.name, options.directory), 0
    if options.command == "tune":
        return _tune(options), 0
    if options.command == "doctor":
        return doctor.doctor_text()
    if options.features:
        return doctor.features_text(get_device(options.features)), 0
    return doctor.devices_text()


def _tune(options: argparse.Namespace) -> str:
    """Run a script while its device measures candidates, write a bundle; return what was done."""
    from pathlib import Path

    from calor.device_selection import as_device, current_device
    from calor.errors import ArgumentError
    from calor.transforms.tuning import export

    if options.script is None and options.export is None:
        raise ArgumentError("tune: name a script to tune, or a file to --export the results to")
    if options.script is not None and not Path(options.script).is_file():
        raise ArgumentError(f"tune: there is no script {options.script}")
    device = current_device() if options.device is None else as_device(options.device)
    said = [] if options.script is None else [f"{device.name}: {_tune_script(device, options)}"]
    if options.export is not None:
        said.append(f"{options.export}: {export(device, options.export)} choices for {device.name}")
    return "\n".join(said)


def _tune_script(device: Device, options: argparse.Namespace) -> Tuned:
    """Run a script while its device measures candidates; return what it found."""
    import runpy
    from pathlib import Path

    from calor.device_selection import as_device
    from calor.transforms.tuning import measuring

    script = Path(options.script)
    given, path = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [options.script, *options.arguments], str(script.resolve().parent)
    try:
        with as_device(device), measuring(device, options.seconds) as tuned:
            runpy.run_path(options.script, run_name="__main__")
    finally:
        sys.argv, sys.path[0] = given, path
    return tuned


def _new_backend(name: str, directory: str | None) -> str:
    """Write the project; PluginError where the package with its templates is not installed."""
    from calor.errors import PluginError

    try:
        project = import_module("calor_conformance.project")
    except ModuleNotFoundError as error:
        if error.name != "calor_conformance":
            raise
        raise PluginError(
            "the templates of a project are in another package: pip install calor-conformance"
        ) from None
    said: str = project.new_backend(name, directory)
    return said


if __name__ == "__main__":
    sys.exit(main())

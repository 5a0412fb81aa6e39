"""The command line: ``python -m calor devices``, ``doctor`` and ``new-backend``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the result is the exit status: 1 when something does not load."""
    parser = argparse.ArgumentParser(prog="python -m calor", description="Ask calor about itself.")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("devices", help="list the devices that are present")
    listing.add_argument("--features", metavar="NAME", help="show the features of one device")
    commands.add_parser("doctor", help="say what is installed, what fails to load and why")
    project = commands.add_parser("new-backend", help="write a project for a device of your own")
    project.add_argument("name", help="the device's name, such as acme")
    project.add_argument("--directory", help="the project's folder; calor-NAME here if not given")
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
    if options.command == "doctor":
        return doctor.doctor_text()
    if options.features:
        return doctor.features_text(get_device(options.features)), 0
    return doctor.devices_text()


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

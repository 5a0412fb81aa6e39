"""The command line: ``python -m calor devices`` and ``python -m calor doctor``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the result is the exit status: 1 when something does not load."""
    parser = argparse.ArgumentParser(prog="python -m calor", description="Ask calor about itself.")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("devices", help="list the devices that are present")
    listing.add_argument("--features", metavar="NAME", help="show the features of one device")
    commands.add_parser("doctor", help="say what is installed, what fails to load and why")
    options = parser.parse_args(arguments)

    from calor.errors import CalorError
    from calor.plugins import doctor
    from calor.plugins.discovery import resolve_device

    if options.command == "doctor":
        text, status = doctor.doctor_text()
    elif options.features:
        try:
            text, status = doctor.features_text(resolve_device(options.features)), 0
        except CalorError as error:
            print(error, file=sys.stderr)
            return 1
    else:
        text, status = doctor.devices_text()
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main())

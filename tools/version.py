"""Set the version of every project: `python tools/version.py 0.1.0`.

The projects are one release train, so their versions are set together. `--date` appends the day as
a development release (0.1.0.dev20260105), which is how the weekly pre-release gets its number.
"""

import argparse
import datetime
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION_LINE = re.compile(r'^version = "(?P<version>[^"]+)"$', re.MULTILINE)


def project_files(root: Path) -> list[Path]:
    folders = ("packages", "plugins")
    return sorted(path for folder in folders for path in root.glob(f"{folder}/*/pyproject.toml"))


def set_version(text: str, version: str) -> str:
    """The text of a pyproject.toml with another version; raises ValueError where it has none."""
    if len(VERSION_LINE.findall(text)) != 1:
        raise ValueError("expected one line `version = ...`")
    return VERSION_LINE.sub(f'version = "{version}"', text)


def dated(text: str, day: datetime.date) -> str:
    """The version in a pyproject.toml as the development release of one day."""
    found = VERSION_LINE.search(text)
    if found is None:
        raise ValueError("expected one line `version = ...`")
    return f"{found['version'].partition('.dev')[0]}.dev{day:%Y%m%d}"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("version", nargs="?", help="the new version of every project")
    choice.add_argument("--date", action="store_true", help="today's development release")
    options = parser.parse_args(arguments)
    today = datetime.datetime.now(datetime.UTC).date()
    for path in project_files(root):
        text = path.read_text("utf-8")
        version = dated(text, today) if options.date else options.version
        path.write_text(set_version(text, version), "utf-8")
        print(f"{path.parent.relative_to(root).as_posix()} {version}")


if __name__ == "__main__":
    main()

"""Writes the pages of the API reference: one for each public module of every project.

The public modules are the packages themselves and those of their modules that the package makes
available as an attribute and that state their names in `__all__`. So the reference follows the
code, and a new project appears in it without a change here.
"""

import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

PAGE = """# {name}

```{{eval-rst}}
.. automodule:: {name}
   :members:
   :show-inheritance:
```
"""

INDEX = """# API reference

```{{toctree}}
:maxdepth: 1

{entries}
```
"""


def packages(root: Path) -> Iterator[str]:
    """The import names of the projects, in the order of their folders."""
    for folder in ("packages", "plugins"):
        for path in sorted(root.glob(f"{folder}/*/pyproject.toml")):
            name: str = tomllib.loads(path.read_text("utf-8"))["project"]["name"]
            yield name.replace("-", "_")


def public_modules(package: ModuleType) -> list[str]:
    """The package and the modules below it that are meant to be used by name."""
    below = [
        value.__name__
        for name, value in sorted(vars(package).items())
        if isinstance(value, ModuleType)
        and not name.startswith("_")
        and value.__name__ == f"{package.__name__}.{name}"
        and hasattr(value, "__all__")
    ]
    return [package.__name__, *below]


def write_pages(folder: Path, root: Path) -> None:
    """Write the reference's pages into `folder`, and remove those that no module has any more."""
    folder.mkdir(exist_ok=True)
    names = [
        module
        for package in packages(root)
        for module in public_modules(importlib.import_module(package))
    ]
    pages = {folder / f"{name}.md": PAGE.format(name=name) for name in names}
    pages[folder / "index.md"] = INDEX.format(entries="\n".join(names))
    for old in set(folder.glob("*.md")) - set(pages):
        old.unlink()
    for path, text in pages.items():
        # Sphinx reads again only what changed, and it judges that by the file's time.
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")

"""What is installed, read from the metadata of distributions; nothing is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from calor.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "calor.plugins.v"
# The major version of the hooks and of the backend protocol. A core also loads the major before
# its own; the first has none before it.
API: Final = 1
LOADED: Final = range(max(1, API - 1), API + 1)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry point: ``name`` is what it brings, ``api`` the number at the end of its group.

    ``reader`` is the distribution that reads the group, ``loaded`` the versions that it loads.
    """

    name: str
    api: str
    distribution: str
    version: str
    point: EntryPoint
    reader: str = "calor"
    loaded: range = LOADED

    @property
    def source(self) -> str:
        """The distribution and its version."""
        return f"{self.distribution} {self.version}"

    @property
    def loadable(self) -> bool:
        """Whether the reader speaks the plugin's major version."""
        return self.api.isdecimal() and int(self.api) in self.loaded

    def load(self) -> Any:
        """Import and return the plugin; PluginError with the reason and what to do next."""
        if not self.loadable:
            raise PluginError(self.other_api())
        try:
            return self.point.load()
        except Exception as error:
            raise PluginError(
                f'plugin "{self.name}" of {self.source} does not load: '
                f"{type(error).__name__}: {error}; reinstall it with "
                f"pip install --force-reinstall {self.distribution}, "
                f"python -m calor doctor shows all plugins"
            ) from error

    def other_api(self) -> str:
        """Return the message for a plugin of another major version of the API."""
        newer = self.api.isdecimal() and int(self.api) > self.loaded[-1]
        remedy = self.reader if newer else self.distribution
        return (
            f'plugin "{self.name}" of {self.source} is for version {self.api} of the plugin API, '
            f"this {self.reader} speaks version {self.loaded[-1]}: pip install --upgrade {remedy}"
        )


def scan(group: str = GROUP, reader: str = "calor", loaded: range = LOADED) -> list[Entry]:
    """Return the entries of every major version of a group, in the order of the path."""
    # Slow to import, so only when something outside core is asked for.
    from importlib.metadata import entry_points

    points = entry_points()
    return [
        Entry(point.name, api.removeprefix(group), *_distribution(point), point, reader, loaded)
        for api in sorted(points.groups)
        if api.startswith(group)
        for point in points.select(group=api)
    ]


def _distribution(point: EntryPoint) -> tuple[str, str]:
    if point.dist is None:
        return "an unknown distribution", "?"
    return point.dist.name, point.dist.version

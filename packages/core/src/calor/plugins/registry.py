"""The registry: names to what plugins registered, each plugin loaded when its name is asked for.

Requirements: looking up a name imports the plugin of that name and no other; a name that two
distributions claim is an error that names both, and only for those who ask for it; a plugin that
fails does so for its own names alone. Core's own backends are found without reading metadata.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pluggy

from calor.backends.device import Device, device_of, known_devices
from calor.backends.protocol import Backend
from calor.collecting import collecting_later
from calor.errors import CalorError, DeviceError, PluginError
from calor.made_once import MadeOnce
from calor.plugins import core, hooks
from calor.plugins.entries import Entry, scan
from calor.plugins.extras import advice

# Which hook fills which kind of name. Names of devices and schemes have no prefix.
HOOKS: Final[Mapping[str, str]] = {
    "backend": "calor_backends",
    "scheme": "calor_device_schemes",
    "fuser": "calor_fusers",
    "ops": "calor_ops",
    "importer": "calor_importers",
    "tuned": "calor_tuned",
}
PREFIXES: Final = ("fuser", "importer", "ops", "tuned")
_CORE = "calor"


class Registry:
    """What plugins brought. The process has one, in :mod:`calor.plugins.discovery`."""

    def __init__(self, find: Callable[[], Iterable[Entry]] = scan) -> None:
        self._find = find
        self._manager: pluggy.PluginManager | None = None
        self._entries: dict[str, list[Entry]] | None = None
        # Name to (what was registered, who registered it), for each kind.
        self._registered: dict[str, dict[str, tuple[Any, str]]] = {kind: {} for kind in HOOKS}
        self._backends: dict[str, Backend] = {}
        # Opening a device may wait for other threads, so it holds no lock but that of its text.
        self._devices: MadeOnce[str, Device] = MadeOnce()
        self._loaded: set[str] = set()
        self._warned: set[str] = set()
        self.unlock()

    def unlock(self) -> None:
        """Start with a new lock; a forked child may have inherited one that nobody will free."""
        self._lock = threading.RLock()
        self._devices.unlock()

    @property
    def entries(self) -> Mapping[str, list[Entry]]:
        """Entries by name; more than one for a name is a conflict, raised when it is asked for."""
        with self._lock:
            if self._entries is None:
                found: dict[str, list[Entry]] = {}
                for entry in self._find():
                    found.setdefault(entry.name, []).append(entry)
                self._entries = found
            return self._entries

    def installed(self) -> tuple[str, ...]:
        """Return the names of devices and schemes: core's reference, and those of plugins."""
        names = {
            name
            for name, entries in self.entries.items()
            if "." not in name and any(entry.loadable for entry in entries)
        }
        return ("numpy", *sorted(names - {"numpy"}))

    def device(self, text: str) -> Device:
        """Return the device of that name; DeviceError says what is installed.

        PluginError when a plugin has the name and fails.
        """
        if not isinstance(text, str):
            raise DeviceError(
                f"a device is given by its name, such as 'numpy' or 'cuda:1', not "
                f"{type(text).__name__}"
            )
        found = self._devices.get(text)
        if found is None:
            with collecting_later():
                found = self._devices.of(text, lambda: self._open(text))
        return found

    def forget(self, backend: Backend) -> None:
        """Let the names of an ended backend's devices be opened anew."""
        for text, device in self._devices.items():
            if device.backend is backend:
                self._devices.forget(text, device)
                known_devices.pop((id(backend), device.index), None)

    def backend(self, name: str) -> Backend:
        """Return the backend of that name, made the first time; errors as :meth:`device`."""
        with self._lock:
            found = self._backends.get(name)
            if found is None:
                self._provide(name)
                if name not in self._registered["backend"]:
                    raise DeviceError(f'"{name}" makes devices from a text after it: "{name}:…"')
                found = self._backends[name] = self._make("backend", name)
            return found

    def is_scheme(self, name: str) -> bool:
        """Return whether a name only makes devices from a text after it; loads its plugin."""
        with self._lock:
            self._provide(name)
        return name not in self._registered["backend"]

    def fusers(self) -> dict[str, Any]:
        """Return all fusers by name; those that fail are left out with one warning each."""
        return self._every("fuser", "graphs run without a fuser")

    def ops(self) -> None:
        """Import all rows of the op table; those that fail are left out with one warning each."""
        self._every("ops", "the op table lacks what a package adds")

    def tuned(self) -> dict[str, Path]:
        """Return all folders of bundles; those that fail are left out with one warning each."""
        return self._every("tuned", "kernels are chosen without a bundle of measurements")

    def importer(self, suffix: str) -> Callable[..., Any]:
        """Return the function that reads files of a suffix (no dot); PluginError without one."""
        name = f"importer.{suffix}"
        with self._lock:
            if name not in self._loaded and name not in self.entries:
                known = [n.partition(".")[2] for n in self.entries if n.startswith("importer.")]
                raise PluginError(
                    f"no importer for .{suffix} files; installed: {', '.join(known) or 'none'}. "
                    f"{advice(name)}".rstrip()
                )
            self._provide(name)
            function: Callable[..., Any] = self._registered["importer"][suffix][0]
            return function

    def load(self, entry: Entry) -> None:
        """Import a plugin and take what it registers; PluginError when that fails."""
        with self._lock:
            self._only(entry.name)
            self._register(entry.load(), entry.name, entry.source)
            self._check_brought(entry)
            self._loaded.add(entry.name)

    def _open(self, text: str) -> Device:
        kind, _, rest = text.partition(":")
        with self._lock:
            self._provide(kind)
        if kind in self._registered["backend"] and (not rest or rest.isdecimal()):
            return device_of(self.backend(kind), int(rest or 0))
        schemes = dict(self._registered["scheme"])
        fitting = [prefix for prefix in schemes if text.startswith(prefix)]
        if not fitting:
            known = [f"{prefix}…" for prefix in schemes if prefix.startswith(f"{kind}:")]
            says = (
                f"write {' or '.join(known)}"
                if known
                else f'what follows "{kind}:" is the number of a device, from 0'
            )
            raise DeviceError(f'no device "{text}"; {says}')
        prefix = max(fitting, key=len)
        function, source = schemes[prefix]
        try:
            device: Device = function(text)
        except CalorError:
            raise
        except Exception as error:
            raise PluginError(
                f'"{text}": scheme "{prefix}" of {source} failed: {type(error).__name__}: {error}'
            ) from error
        return device

    def _provide(self, name: str) -> None:
        """Load the plugin of a name unless it is; what core brings needs no search."""
        self._start()
        if name in self._loaded:
            return
        entries = self.entries.get(name)
        if not entries:
            hint = advice(name)
            raise DeviceError(
                f'no device "{name}"; installed: {", ".join(self.installed())}'
                + (f". {hint}" if hint else "; python -m calor devices says more")
            )
        self.load(entries[0])

    def _start(self) -> pluggy.PluginManager:
        """Return the manager; made the first time, with what core brings."""
        if self._manager is None:
            self._manager = pluggy.PluginManager(hooks.PROJECT)
            self._manager.add_hookspecs(hooks)
            self._register(core, _CORE, _CORE)
            self._loaded.update(core.names())
        return self._manager

    def _only(self, name: str) -> None:
        claims = [e.source for e in self.entries.get(name, ())]
        if name in core.names():
            claims.insert(0, _CORE)
        if len(claims) > 1:
            raise PluginError(
                f'"{name}" is claimed by {" and by ".join(claims)}; uninstall all but one of them'
            )

    def _register(self, plugin: Any, name: str, source: str) -> None:
        manager = self._start()
        if manager.is_registered(plugin):
            return
        try:
            manager.register(plugin, name)
            manager.check_pending()
            brought = self._ask(manager, plugin)
        except Exception as error:
            if manager.is_registered(plugin):
                manager.unregister(plugin)
            raise PluginError(
                f'plugin "{name}" of {source} does not register: {type(error).__name__}: {error}'
            ) from error
        for kind, names in brought.items():
            for taken in names.keys() & self._registered[kind].keys():
                manager.unregister(plugin)
                raise PluginError(
                    f'{kind} "{taken}" is registered by {self._registered[kind][taken][1]} and by '
                    f"{source}; uninstall one of them"
                )
        for kind, names in brought.items():
            self._registered[kind].update({n: (thing, source) for n, thing in names.items()})

    def _ask(self, manager: pluggy.PluginManager, plugin: Any) -> dict[str, dict[str, Any]]:
        """Call every hook of one plugin alone, so that we know who brought what."""
        others = [p for p in manager.get_plugins() if p is not plugin]
        brought: dict[str, dict[str, Any]] = {}
        for kind, hook in HOOKS.items():
            results = manager.subset_hook_caller(hook, remove_plugins=others)()
            brought[kind] = {n: thing for result in results for n, thing in result.items()}
        return brought

    def _check_brought(self, entry: Entry) -> None:
        prefix, _, rest = entry.name.rpartition(".")
        if prefix in PREFIXES:
            there = rest in self._registered[prefix]
        else:
            there = entry.name in self._registered["backend"] or any(
                scheme.startswith(f"{entry.name}:") for scheme in self._registered["scheme"]
            )
        if not there:
            brought = [
                f"{kind} {n!r}"
                for kind, names in self._registered.items()
                for n, (_, source) in names.items()
                if source == entry.source
            ]
            raise PluginError(
                f'plugin "{entry.name}" of {entry.source} registers nothing of that name, but '
                f"{', '.join(brought) or 'nothing at all'}"
            )

    def _every(self, kind: str, without: str) -> dict[str, Any]:
        """Return what all plugins of a kind make, by name."""
        made = {}
        for name in sorted(n for n in self.entries if n.startswith(f"{kind}.")):
            try:
                with self._lock:
                    self._provide(name)
                    brought = name.partition(".")[2]
                    made[brought] = self._make(kind, brought)
            except PluginError as error:
                if name not in self._warned:
                    self._warned.add(name)
                    warnings.warn(f"{without}: {error}", stacklevel=3)
        return made

    def _make(self, kind: str, name: str) -> Any:
        factory, source = self._registered[kind][name]
        try:
            return factory()
        except CalorError:
            raise
        except Exception as error:
            raise PluginError(
                f'{kind} "{name}" of {source} does not start: {type(error).__name__}: {error}; '
                f"python -m calor doctor shows all plugins"
            ) from error

"""The hooks that a plugin implements: few, and each registers things by name.

Requirements: a hook is called when a name of its kind is asked for, never on a hot path; it returns
factories and opens no device, compiles nothing and reads no file; what it registers is named, so
that two plugins that claim one name are found out.

>>> import calor.plugins
>>> @calor.plugins.hookimpl
... def calor_backends():
...     return {"acme": lambda: ...}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pluggy

from calor.backends.device import Device
from calor.backends.protocol import Backend

PROJECT = "calor"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def calor_backends() -> Mapping[str, Callable[[], Backend]]:
    """Register backends by the names that users type, ``"acme"`` of ``x.to("acme:1")``.

    Called once, by the registry, when a device of one of these names is first asked for. The result
    maps a name to a factory; the factory is called once, when the device is opened, and returns the
    backend of all its devices. A machine without the device is no failure: the backend is made, and
    its ``enumerate`` returns 0. A factory that raises makes the request fail with a PluginError
    that carries its error; other devices are not affected, and the factory is tried again at the
    next request.
    """
    raise NotImplementedError


@hookspec
def calor_device_schemes() -> Mapping[str, Callable[[str], Device]]:
    """Register what makes devices from whole texts, by prefix: ``"router:"``, ``"http://"``.

    Called once, by the registry, when a text whose part before the first colon is this plugin's
    name is first asked for. The result maps a prefix to a function that takes the whole text,
    prefix included, and returns a Device (``calor.backends.device.device_of(backend, index)``),
    whose name must lead back to it. It is called once for each text. A DeviceError of the function
    says what is wrong with the text and reaches the user as it is; any other error is a
    PluginError.
    """
    raise NotImplementedError


@hookspec
def calor_fusers() -> Mapping[str, Callable[[], Any]]:
    """Register fusers: what covers parts of a graph with fewer launches.

    Called once, by the registry, when the planner of calor-kernel first asks for all fusers; core
    itself does not use them. The result maps a fuser's name to a factory of an object of
    calor-kernel's fuser protocol. A plugin that fails is left out with one warning that names it:
    graphs then run unfused, with the same results.
    """
    raise NotImplementedError


@hookspec
def calor_ops() -> Mapping[str, Callable[[], Any]]:
    """Register modules of rows by a name of the package's own: the entry ``"ops.acme"``.

    Called once, by the registry, when somebody asks for the whole op table, or for an op that no
    package imported so far has, such as one of a graph read from a file. The result maps the name
    to a function that imports the modules. A plugin that fails is left out with one warning that
    names it: its ops are then missing.
    """
    raise NotImplementedError


@hookspec
def calor_importers() -> Mapping[str, Callable[..., Any]]:
    """Register readers of model files by file suffix without its dot: ``"onnx"``.

    Called once, by the registry, when a file with such a suffix is first opened. The result maps a
    suffix to a function that takes the path, and options by keyword, and returns what was read. The
    function's errors reach the user as they are.
    """
    raise NotImplementedError


@hookspec
def calor_tuned() -> Mapping[str, Callable[[], Path]]:
    """Register folders of bundles: choices among kernels that were measured on other machines.

    Called once, by the registry, when the tuner of calor-kernel first chooses for a device; core
    itself does not use them. The result maps a name to a factory of a folder with files that
    ``python -m calor tune --export`` wrote. A device's own measurements precede them. A plugin that
    fails is left out with one warning that names it: kernels are then chosen without its bundles.
    """
    raise NotImplementedError

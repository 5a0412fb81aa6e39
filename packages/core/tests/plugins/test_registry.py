"""Plugins are found by name, loaded alone, and fail alone."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from calor.backends.numpy_backend import NumpyBackend
from calor.errors import DeviceError, PluginError
from calor.plugins.entries import API
from calor.plugins.registry import Registry

from .distributions import backend_module


def test_a_device_is_found_by_name(distribution: Any, registry: Registry) -> None:
    distribution("calor-moon", {"moon": "fake_moon"}, {"fake_moon": backend_module("moon")})
    device = registry.device("moon:0")
    assert device.name == "moon:0"
    assert registry.device("moon") is device


def test_names_are_listed_without_an_import(distribution: Any, registry: Registry) -> None:
    distribution("calor-moon", {"moon": "fake_moon"}, {"fake_moon": backend_module("moon")})
    assert registry.installed() == ("numpy", "moon")
    assert "fake_moon" not in sys.modules


def test_only_the_plugin_asked_for_is_imported(distribution: Any, registry: Registry) -> None:
    distribution("calor-moon", {"moon": "fake_moon"}, {"fake_moon": backend_module("moon")})
    distribution("calor-mars", {"mars": "fake_mars"}, {"fake_mars": backend_module("mars")})
    registry.device("mars")
    assert "fake_mars" in sys.modules
    assert "fake_moon" not in sys.modules


def test_core_needs_no_metadata() -> None:
    def search() -> Any:
        raise AssertionError("the metadata was read")

    registry = Registry(search)
    assert isinstance(registry.device("numpy").backend, NumpyBackend)
    assert registry.device("null:0").name == "null:0"


def test_a_distribution_may_bring_several_names(distribution: Any, registry: Registry) -> None:
    both = """
        from calor.backends.null import NullBackend
        from calor.plugins import hookimpl

        class Moon(NullBackend):
            name = "moon"

        class Mars(NullBackend):
            name = "mars"

        @hookimpl
        def calor_backends():
            return {"moon": Moon, "mars": Mars}
    """
    distribution("calor-pair", {"moon": "fake_pair", "mars": "fake_pair"}, {"fake_pair": both})
    assert registry.device("mars").name == "mars:0"
    assert registry.device("moon").name == "moon:0"


MISSPELT = """
    from calor.plugins import hookimpl

    @hookimpl
    def calor_backend():
        return {}
"""
RAISES = """
    from calor.plugins import hookimpl

    def make():
        raise OSError("libmoon.so is missing")

    @hookimpl
    def calor_backends():
        return {"moon": make}
"""
# Module text, and what the error says. Each belongs to the distribution calor-moon 1.0.
BROKEN = {
    "import": (
        "import a_module_that_does_not_exist",
        r"\"moon\" of calor-moon 1\.0 does not load: ModuleNotFoundError.*force-reinstall calor-m",
    ),
    "syntax": ("def", r"does not load: SyntaxError"),
    "exception": ("1 / 0", r"does not load: ZeroDivisionError: division by zero"),
    "hook": (MISSPELT, r"does not register: PluginValidationError: unknown hook"),
    "name": (backend_module("sun"), r"nothing of that name, but backend 'sun'"),
    "empty": ("", r"nothing of that name, but nothing at all"),
    "factory": (RAISES, r"backend \"moon\" of calor-moon 1\.0 does not start: OSError: libmoon"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_failing_plugin_says_why_and_breaks_no_other(
    case: str, distribution: Any, registry: Registry
) -> None:
    text, message = BROKEN[case]
    distribution("calor-moon", {"moon": "fake_moon"}, {"fake_moon": text})
    distribution("calor-mars", {"mars": "fake_mars"}, {"fake_mars": backend_module("mars")})
    for _ in range(2):
        with pytest.raises(PluginError, match=message):
            registry.device("moon")
    assert registry.device("mars").name == "mars:0"
    assert registry.device("numpy").name == "numpy:0"


def test_the_cause_of_a_failure_is_kept(distribution: Any, registry: Registry) -> None:
    distribution("calor-moon", {"moon": "fake_moon"}, {"fake_moon": "1 / 0"})
    with pytest.raises(PluginError) as caught:
        registry.device("moon")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_name_claimed_twice_names_both(distribution: Any, registry: Registry) -> None:
    distribution("calor-moon", {"moon": "fake_moon"}, {"fake_moon": backend_module("moon")})
    distribution(
        "acme-moon", {"moon": "fake_acme"}, {"fake_acme": backend_module("moon")}, version="2.1"
    )
    distribution("calor-mars", {"mars": "fake_mars"}, {"fake_mars": backend_module("mars")})
    with pytest.raises(
        PluginError, match=r"claimed by acme-moon 2\.1 and by calor-moon 1\.0; unin"
    ):
        registry.device("moon")
    assert "fake_moon" not in sys.modules
    assert "fake_acme" not in sys.modules
    assert registry.device("mars").name == "mars:0"


def test_a_name_registered_twice_names_both(distribution: Any, registry: Registry) -> None:
    both = backend_module("mars").replace('{"mars"', '{"moon": Backend, "mars"')
    distribution("calor-moon", {"moon": "fake_moon"}, {"fake_moon": backend_module("moon")})
    distribution("calor-mars", {"mars": "fake_mars"}, {"fake_mars": both})
    registry.device("moon")
    with pytest.raises(
        PluginError, match=r'backend "moon" is registered by calor-moon 1\.0 and by '
    ):
        registry.device("mars")


def test_core_keeps_its_names(distribution: Any, registry: Registry) -> None:
    distribution("acme", {"numpy": "fake_acme"}, {"fake_acme": backend_module("numpy")})
    assert isinstance(registry.device("numpy").backend, NumpyBackend)
    with pytest.raises(PluginError, match=r'"numpy" is claimed by calor and by acme 1\.0'):
        registry.load(registry.entries["numpy"][0])


@pytest.mark.parametrize(
    ("api", "remedy"), [(str(API + 1), "calor"), ("0", "calor-moon"), ("x", "calor-moon")]
)
def test_another_api_major_names_the_remedy(
    api: str, remedy: str, distribution: Any, registry: Registry
) -> None:
    modules = {"fake_moon": backend_module("moon")}
    distribution("calor-moon", {"moon": "fake_moon"}, modules, api=api)
    with pytest.raises(PluginError, match=rf"for version {api} of .* --upgrade {remedy}$"):
        registry.device("moon")
    assert "fake_moon" not in sys.modules
    assert registry.installed() == ("numpy",)


def test_an_unknown_device_says_what_to_install(distribution: Any, registry: Registry) -> None:
    distribution("calor-moon", {"moon": "fake_moon"}, {"fake_moon": backend_module("moon")})
    message = r'^no device "wgpu"; installed: numpy, moon\. pip install "calor\[wgpu\]"$'
    with pytest.raises(DeviceError, match=message):
        registry.device("wgpu:1")
    with pytest.raises(DeviceError, match=r'^no device "sun"; installed: numpy, moon; python -m'):
        registry.device("sun")


def test_threads_open_one_device_together(distribution: Any, registry: Registry) -> None:
    slow = backend_module("moon") + "\nimport time\ntime.sleep(0.05)\n"
    distribution("calor-moon", {"moon": "fake_moon"}, {"fake_moon": slow})
    barrier = threading.Barrier(8)

    def ask(number: int) -> Any:
        barrier.wait()
        return registry.device("moon" if number % 2 else "moon:0")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert all(device is found[0] for device in found)


BAD_TEXTS = {
    "numpy:1": r"backend 'numpy' has 1 device:",
    "numpy:-1": r"the number of a device, from 0",
    "numpy:x": r"the number of a device, from 0",
    "": r'no device ""',
    ":0": r'no device ""',
}


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_a_wrong_text_is_a_device_error(text: str, registry: Registry) -> None:
    with pytest.raises(DeviceError, match=BAD_TEXTS[text]):
        registry.device(text)


def test_a_device_is_named_by_a_text(registry: Registry) -> None:
    with pytest.raises(DeviceError, match=r"device is given by its name, .* not int"):
        registry.device(3)  # type: ignore[arg-type]


SCHEME = """
    from calor.backends.device import device_of
    from calor.plugins.discovery import get_device
    from calor.errors import DeviceError
    from calor.plugins import hookimpl

    def make(text):
        rest = text.removeprefix("orbit:")
        if rest == "odd":
            raise DeviceError("no such orbit")
        if rest == "broken":
            raise KeyError("gravity")
        return get_device(rest)

    @hookimpl
    def calor_device_schemes():
        return {"orbit:": make}
"""


def test_a_scheme_makes_devices_from_texts(distribution: Any, registry: Registry) -> None:
    distribution("calor-orbit", {"orbit": "fake_orbit"}, {"fake_orbit": SCHEME})
    assert registry.device("orbit:numpy:0").name == "numpy:0"
    assert registry.is_scheme("orbit")
    with pytest.raises(DeviceError, match=r"^no such orbit$"):
        registry.device("orbit:odd")
    with pytest.raises(PluginError, match=r'"orbit:" of calor-orbit 1\.0 failed: KeyError: .grav'):
        registry.device("orbit:broken")
    with pytest.raises(DeviceError, match=r'"orbit" makes devices from a text after it'):
        registry.backend("orbit")


WAITING = """
    from calor.backends.null import NullBackend
    from calor.backends.device import device_of
    from calor.plugins import hookimpl

    asked = []

    def make(text):
        # As a device of a server does whose threads open others meanwhile.
        for ask in asked:
            ask()
        return device_of(NullBackend(), 0)

    @hookimpl
    def calor_device_schemes():
        return {"orbit:": make}
"""


def test_opening_a_device_may_wait_for_threads_that_open_others(
    distribution: Any, registry: Registry
) -> None:
    distribution("calor-orbit", {"orbit": "fake_orbit"}, {"fake_orbit": WAITING})
    distribution("calor-chains", {"fuser.chains": "fake_chains"}, {"fake_chains": FUSER})
    assert registry.is_scheme("orbit")
    with ThreadPoolExecutor(1) as pool:
        asked = sys.modules["fake_orbit"].asked
        asked.append(lambda: pool.submit(registry.fusers).result(60))
        asked.append(lambda: pool.submit(registry.device, "numpy").result(60))
        found = registry.device("orbit:high")
    assert found.name == "null:0"
    assert registry.device("orbit:high") is found


FUSER = """
    from calor.plugins import hookimpl

    @hookimpl
    def calor_fusers():
        return {"chains": lambda: "a fuser"}

    @hookimpl
    def calor_importers():
        return {"moon": lambda path: f"read {path}"}
"""


def test_fusers_that_load_are_there_in_spite_of_others(
    distribution: Any, registry: Registry
) -> None:
    distribution("calor-chains", {"fuser.chains": "fake_chains"}, {"fake_chains": FUSER})
    distribution("calor-bad", {"fuser.bad": "fake_bad"}, {"fake_bad": "1 / 0"})
    with pytest.warns(UserWarning, match=r"without a fuser: .*calor-bad 1\.0 does not load"):
        assert registry.fusers() == {"chains": "a fuser"}
    # Once is enough.
    assert registry.fusers() == {"chains": "a fuser"}


ROWS = """
    from calor.plugins import hookimpl

    loaded = []

    @hookimpl
    def calor_ops():
        return {"moon": lambda: loaded.append("rows")}
"""


def test_rows_are_imported_when_they_are_asked_for(distribution: Any, registry: Registry) -> None:
    distribution("calor-moon", {"ops.moon": "fake_moon"}, {"fake_moon": ROWS})
    distribution("calor-bad", {"ops.bad": "fake_bad"}, {"fake_bad": "1 / 0"})
    assert "fake_moon" not in sys.modules
    with pytest.warns(UserWarning, match=r"op table lacks .*calor-bad 1\.0 does not load"):
        registry.ops()
    assert sys.modules["fake_moon"].loaded == ["rows"]


def test_an_importer_is_found_by_suffix(distribution: Any, registry: Registry) -> None:
    distribution("calor-moon", {"importer.moon": "fake_moon"}, {"fake_moon": FUSER})
    assert registry.importer("moon")("a.moon") == "read a.moon"
    message = r'no importer for \.onnx files; installed: moon\. pip install "calor\[onnx\]"'
    with pytest.raises(PluginError, match=message):
        registry.importer("onnx")
    with pytest.raises(PluginError, match=r"no importer for \.x files; installed: moon\.$"):
        registry.importer("x")


TUNED = """
    from pathlib import Path
    from calor.plugins import hookimpl

    @hookimpl
    def calor_tuned():
        return {"moon": lambda: Path("moon")}
"""


def test_folders_of_bundles_are_found(distribution: Any, registry: Registry) -> None:
    distribution("calor-moon", {"tuned.moon": "fake_moon"}, {"fake_moon": TUNED})
    distribution("calor-bad", {"tuned.bad": "fake_bad"}, {"fake_bad": "1 / 0"})
    with pytest.warns(UserWarning, match=r"without a bundle .*calor-bad 1\.0 does not load"):
        assert registry.tuned() == {"moon": Path("moon")}

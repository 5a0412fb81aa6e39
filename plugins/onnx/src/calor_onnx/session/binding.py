"""IOBinding: inputs and outputs that stay where they are between runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor_onnx.session.faults import InvalidArgument, running
from calor_onnx.session.values import OrtValue, device_named, host_of
from calor_onnx.values import upload


class IOBinding:
    """The inputs and outputs of a session's runs, on devices.

    Outputs that are bound to a host array are copied into it; a bound OrtValue becomes the output.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        # Output name → the host array or OrtValue that takes it, or None.
        self._outputs: dict[str, Any] = {}
        self._made: dict[str, Any] = {}

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Bind an input to a host array, which is uploaded now."""
        host = np.asarray(arr_on_cpu)
        text = host.dtype.kind in "SUO"
        device = self._session.calor_model.device
        self._inputs[name] = host.astype(np.object_) if text else upload(host, device)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to an OrtValue, whose elements at the time of a run are taken."""
        self._inputs[name] = ortvalue

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Any,
        buffer_ptr: int,
    ) -> None:
        """Bind an input to memory by its address; on processors alone, others take OrtValues."""
        host = _at(buffer_ptr, element_type, shape, device_type)
        self._inputs[name] = upload(host, self._session.calor_model.device)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to a device, or to memory of a processor by its address."""
        if buffer_ptr is not None:
            self._outputs[name] = _at(buffer_ptr, element_type, shape, device_type)
        else:
            device_named(device_type, device_id)
            self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to an OrtValue, which each run gives its value."""
        self._outputs[name] = ortvalue

    def run(self) -> None:
        """Run the session on what is bound."""
        session = self._session
        given = {n: v.value if isinstance(v, OrtValue) else v for n, v in self._inputs.items()}
        with running():
            made = session.calor_model.run(given)
        names = list(self._outputs) or list(made)
        unknown = [name for name in names if name not in made]
        if unknown:
            raise InvalidArgument(
                f"Invalid output name: {unknown[0]}; the model gives {', '.join(made)}"
            )
        self._made = {name: made[name] for name in names}
        for name, target in self._outputs.items():
            if isinstance(target, OrtValue):
                target.value = made[name]
            elif target is not None:
                target[...] = host_of(made[name])

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run, as they were bound."""
        return [OrtValue(value) for value in self._made.values()]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        """Return the outputs of the last run, in a list."""
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the outputs of the last run as host arrays."""
        return [host_of(value) for value in self._made.values()]

    def synchronize_inputs(self) -> None:
        """Wait until the inputs are on the device."""
        calor.synchronize(self._session.calor_model.device)

    def synchronize_outputs(self) -> None:
        """Wait until the outputs are computed."""
        calor.eval(*[v for v in self._made.values() if isinstance(v, Tensor)])
        calor.synchronize(self._session.calor_model.device)

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self._outputs.clear()
        self._made.clear()


def _at(address: int, element_type: Any, shape: Any, device_type: str) -> Any:
    if str(device_type).lower() != "cpu":
        raise InvalidArgument(
            f"memory of {device_type!r} is not bound by its address here; make an OrtValue of it "
            f"with OrtValue.from_dlpack and bind that"
        )
    import ctypes

    dtype = np.dtype(element_type)
    count = int(np.prod(shape, dtype=np.int64))
    buffer = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(buffer, dtype, count).reshape(tuple(shape))

"""What a session tells of its model and device, in ONNX Runtime's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor_onnx.model import Model
from calor_onnx.session.described import ModelMetadata, NodeArg
from calor_onnx.session.hardware import (
    OrtEpAssignedNode,
    OrtEpAssignedSubgraph,
    OrtEpDevice,
    OrtMemoryInfo,
    ep_device,
    memory_of,
)
from calor_onnx.session.providers import CPU, provider_of


class Describing:
    """The questions that a session answers without running."""

    _model: Model
    _provider: str

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that a run needs: name, type and shape."""
        graph = self._model.imported.proto.graph
        known = {info.name for info in self._model.inputs}
        return [NodeArg.of(info) for info in graph.input if info.name in known]

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs: name, type and shape."""
        return [NodeArg.of(info) for info in self._model.imported.proto.graph.output]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs that have a value when a run gives none."""
        graph = self._model.imported.proto.graph
        known = {info.name for info in self._model.inputs}
        return [NodeArg.of(info) for info in graph.input if info.name not in known]

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model's file says of itself."""
        return ModelMetadata.of(self._model.metadata)

    def get_providers(self) -> list[str]:
        """Return the provider that computes, and the processor, which computes shapes."""
        return [self._provider] if self._provider == CPU else [self._provider, CPU]

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """Return the options of each provider, by its name."""
        return {name: {} for name in self.get_providers()}

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """Return the device of each input, with its provider."""
        device = self._model.device
        found = ep_device(provider_of(device), device)
        return [found for _ in self._model.inputs]

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return the memory in which each input is."""
        return self._memory(self._model.inputs)

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return the memory in which each output is made."""
        return self._memory(self._model.outputs)

    def _memory(self, infos: Sequence[Any]) -> list[OrtMemoryInfo]:
        number = self._model.device.name.partition(":")[2]
        place = int(number) if number.isdigit() else 0
        return [memory_of(provider_of(self._model.device), place) for _ in infos]

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """Return the one part that the graph has, with its nodes: a device computes all of it."""
        nodes = self._model.imported.graph.nodes
        made = [OrtEpAssignedNode(node.name, node.domain, node.op) for node in nodes]
        return [OrtEpAssignedSubgraph(self._provider, made)]

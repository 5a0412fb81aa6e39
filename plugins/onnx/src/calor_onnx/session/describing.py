"""The description of a session's model and device, in ONNX Runtime's terms."""

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
    """The queries that a session answers without a run."""

    _model: Model
    _provider: str

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that a run needs.

        Returns
        -------
        list of NodeArg
            Name, type and shape of each.
        """
        graph = self._model.imported.proto.graph
        known = {info.name for info in self._model.inputs}
        return [NodeArg.of(info) for info in graph.input if info.name in known]

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs.

        Returns
        -------
        list of NodeArg
            Name, type and shape of each.
        """
        return [NodeArg.of(info) for info in self._model.imported.proto.graph.output]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs with a default value.

        Returns
        -------
        list of NodeArg
            Name, type and shape of each.
        """
        graph = self._model.imported.proto.graph
        known = {info.name for info in self._model.inputs}
        return [NodeArg.of(info) for info in graph.input if info.name not in known]

    def get_modelmeta(self) -> ModelMetadata:
        """Return the metadata of the model's file.

        Returns
        -------
        ModelMetadata
            The metadata.
        """
        return ModelMetadata.of(self._model.metadata)

    def get_providers(self) -> list[str]:
        """Return the provider that runs the model, and the CPU provider, which computes shapes.

        Returns
        -------
        list of str
            Names of providers.
        """
        return [self._provider] if self._provider == CPU else [self._provider, CPU]

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """Return the options of each provider; they are empty.

        Returns
        -------
        dict
            An empty dict for each provider's name.
        """
        return {name: {} for name in self.get_providers()}

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """Return the device of each input.

        Returns
        -------
        list of OrtEpDevice
            The devices with their provider.
        """
        device = self._model.device
        found = ep_device(provider_of(device), device)
        return [found for _ in self._model.inputs]

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return the memory of each input.

        Returns
        -------
        list of OrtMemoryInfo
            One entry for each input.
        """
        return self._memory(self._model.inputs)

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return the memory of each output.

        Returns
        -------
        list of OrtMemoryInfo
            One entry for each output.
        """
        return self._memory(self._model.outputs)

    def _memory(self, infos: Sequence[Any]) -> list[OrtMemoryInfo]:
        number = self._model.device.name.partition(":")[2]
        place = int(number) if number.isdigit() else 0
        return [memory_of(provider_of(self._model.device), place) for _ in infos]

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """Return the assignment of nodes to providers: one provider runs all nodes.

        Returns
        -------
        list of OrtEpAssignedSubgraph
            One entry with all nodes.
        """
        nodes = self._model.imported.graph.nodes
        made = [OrtEpAssignedNode(node.name, node.domain, node.op) for node in nodes]
        return [OrtEpAssignedSubgraph(self._provider, made)]

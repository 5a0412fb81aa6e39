"""A graph network (Gilmer et al., 2017): messages along edges are added up at their nodes."""

from typing import Any

import numpy as np

from models.base import Arrays, Library, Model, Size, sized


def network(library: Library, size: Size) -> Any:
    """Return the model of nodes (V, F), sources (E,) and targets (E,) with scores (V, classes)."""
    nn: Any = library.nn
    arrays, width = library.arrays, size["width"]

    def mlp(before: int, after: int) -> Any:
        return nn.Sequential(nn.Linear(before, width), nn.ReLU(), nn.Linear(width, after))

    class Layer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.message, self.update = mlp(2 * width, width), mlp(2 * width, width)
            self.norm = nn.LayerNorm(width)

        def forward(self, x: Any, sources: Any, targets: Any) -> Any:
            sent = self.message(arrays.concat([x[sources], x[targets]], axis=1))
            received = library.added(arrays.zeros_like(x), targets, sent)
            return self.norm(x + self.update(arrays.concat([x, received], axis=1)))

    class GraphNetwork(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(size["features"], width)
            self.layers = nn.ModuleList([Layer() for _ in range(size["layers"])])
            self.head = nn.Linear(width, size["classes"])

        def forward(self, x: Any, sources: Any, targets: Any) -> Any:
            x = self.first(x)
            for layer in self.layers:
                x = layer(x, sources, targets)
            return self.head(x)

    return GraphNetwork()


def inputs(size: Size, batch: int, generator: np.random.Generator) -> Arrays:
    """Draw a graph of ``batch`` times as many nodes, and a class for each node."""
    nodes, edges = size["nodes"] * batch, size["edges"] * batch
    x = generator.standard_normal((nodes, size["features"]), np.float32)
    sources, targets = generator.integers(0, nodes, (2, edges))
    return x, sources, targets, generator.integers(0, size["classes"], nodes)


MODEL = Model(
    title="graph network",
    network=network,
    inputs=inputs,
    sizes={
        "full": sized(nodes=2048, edges=16384, features=64, width=128, layers=4, classes=16),
        "small": sized(nodes=256, edges=2048, features=32, width=64, layers=3, classes=16),
        "tiny": sized(nodes=5, edges=12, features=4, width=8, layers=2, classes=3),
    },
    batches={"inference": 8, "training": 8},
)

"""A layer and its gradient as a graph.

python docs/gallery/graph.py graph.svg
"""

import sys

import calor
from calor import nn
from calor.nn import functional as F


def main(picture: str) -> int:
    """Draw the graph and return the number of its nodes."""
    layer = nn.Linear(64, 10)

    def loss(x, labels):
        value = F.cross_entropy(layer(x), labels)
        value.backward()
        return value

    labels = calor.zeros(32, dtype="int64")
    graph = calor.trace(loss, calor.ones((32, 64)), labels)
    graph.draw(picture)
    return len(graph.nodes)


if __name__ == "__main__":
    print(f"{main(sys.argv[1])} nodes")

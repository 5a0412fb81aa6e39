"""Links of graphs: as their nodes say, found once, and gone with the graph."""

import gc

import calor
from calor_kernel.contract import graph_links
from calor_kernel.contract.graph_links import links_of


def traced():
    x = calor.ones((4, 4))
    return calor.trace(lambda x: calor.sum(x * x + x, axis=0) - calor.exp(x), x)


def test_links_are_those_of_the_nodes():
    graph = traced()
    links = links_of(graph)
    for number, node in enumerate(graph.nodes):
        for value in node.outputs:
            assert links.makers[value] == number
    for value in range(len(graph.specs)):
        readers = [i for i, node in enumerate(graph.nodes) if value in node.inputs]
        assert links.readers.get(value, []) == readers
    assert links.wanted == {*graph.outputs}


def test_links_are_remembered_as_long_as_their_graph():
    graph, other = traced(), traced()
    links = links_of(graph)
    assert links_of(graph) is links
    assert links_of(other) is not links
    del other
    gc.collect()
    assert graph_links._last == []

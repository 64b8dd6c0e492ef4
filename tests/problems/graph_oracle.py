"""Graphs by name, to compare those of problems with links written out one by one."""

import numpy as np


def nodes_of(shapes):
    """Every node as (variable, *index)."""
    return [(name, *i) for name, shape in shapes.items() for i in np.ndindex(shape)]


def attention_links(graph):
    """The pairs of `edge_index`, by name."""
    nodes = nodes_of({v.name: v.shape for v in graph.variables.values()})
    pairs = graph.edge_index().as_tensor().t().tolist()
    return {(nodes[source], nodes[target]) for source, target in pairs}


def symmetric_with_loops(shapes, links):
    """The paper's rule: linked either way, or the same node."""
    loops = {(node, node) for node in nodes_of(shapes)}
    return set(links) | {(b, a) for a, b in links} | loops


def product_links(m, n, k):
    """E[i, j] = sum_l C[i, j, l] with C[i, j, l] = A[i, l] R[l, j]."""
    links = set()
    for i, j, r in np.ndindex(m, n, k):
        links.add((("A", i, r), ("C", i, j, r)))
        links.add((("R", r, j), ("C", i, j, r)))
        links.add((("C", i, j, r), ("E", i, j)))
    return links

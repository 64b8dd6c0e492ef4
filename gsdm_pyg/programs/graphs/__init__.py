"""Graphs of others as problems: networkx, edge lists, files."""

from gsdm_pyg.programs.graphs.specs import from_edges, from_networkx

__all__ = ["from_edges", "from_networkx"]

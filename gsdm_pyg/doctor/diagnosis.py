"""What the doctor found, as a report for people and as values for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gsdm_pyg.choices import Edges


@dataclass(frozen=True)
class Degrees:
    """How many other nodes a node attends to."""

    min: int
    median: float
    mean: float
    max: int
    hub: str  # an entry with the most, such as "E[0, 0]"


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found."""

    variables: str  # with their shapes and roles
    edges: Edges  # which mask
    num_nodes: int
    num_latent: int
    num_observed: int
    num_edges: int  # of the attention mask, self-loops included
    density: float  # of the mask
    num_stated: int  # edges of the mask that the graph states as directed ones
    num_reversed: int  # edges that symmetrization added
    num_factor: int  # edges that factors added
    component_sizes: tuple[int, ...]  # nodes of each connected component, descending
    num_uninformed: int  # latent nodes that no observation reaches
    uninformed: tuple[str, ...]  # the first of these
    latent_to_observed: int | None  # longest shortest path; None without observations
    diameter: int  # longest shortest path between any two nodes
    exact: bool  # otherwise both lengths are lower bounds
    degrees: Degrees
    layers: int | None

    @property
    def depth(self) -> int:
        """The fewest layers by which every latent hears from every observation.

        Without observed variables it is the diameter: any entry may be given, and in
        unconditional samples every node depends on every other.
        """
        path = self.latent_to_observed
        return max(1, self.diameter if path is None else path)

    def problems(self) -> list[str]:
        """What to change, a sentence each with the fix."""
        found = []
        if self.layers is not None and self.layers < self.depth:
            found.append(
                too_shallow(self.layers, self.depth, self.num_observed > 0, self.exact)
            )
        if self.num_uninformed and self.num_observed:
            names = ", ".join(self.uninformed)
            more = self.num_uninformed - len(self.uninformed)
            names += f" and {more:,} more" if more else ""
            remedy = "Connect these entries to what depends on them, or leave them out."
            if self.edges == "directed":
                remedy = 'Use edges="structured", or connect these entries.'
            found.append(
                f"No observation reaches {names}: the posterior there is the prior. "
                f"{remedy}"
            )
        alone = sum(size == 1 for size in self.component_sizes)
        if alone and self.num_nodes > 1:
            found.append(
                f"Nodes without any edge: {alone:,}. Connect each to what it depends "
                "on, or leave it out."
            )
        if not self.num_latent:
            found.append(
                "Nothing is latent, so there is nothing to learn: give a variable the "
                "role latent."
            )
        return found

    def report(self) -> str:
        """The findings, one per line, and then what to change."""
        least = "" if self.exact else "at least "
        path, sizes, degrees = (
            self.latent_to_observed,
            self.component_sizes,
            self.degrees,
        )
        between = f"{least}{self.diameter} between any two nodes"
        if path is not None:
            between = f"{least}{path} from a latent to an observation, {between}"
        components = f"{len(sizes):,}"
        if len(sizes) > 1:
            components += f", of {sizes[0]:,} to {sizes[-1]:,} nodes"
        depth = f"{self.depth} or more"
        depth += "" if self.layers is None else f" (got {self.layers})"
        rows = {
            "variables": self.variables,
            "nodes": f"{self.num_nodes:,}, {self.num_latent:,} latent, "
            f"{self.num_observed:,} observed",
            "mask": f"{self.num_edges:,} edges, density {100 * self.density:.2g}%",
            "edges": f"{self.num_stated:,} stated, {self.num_reversed:,} reversed, "
            f"{self.num_factor:,} of factors, {self.num_nodes:,} self-loops",
            "degree": f"{degrees.min} to {degrees.max} ({degrees.hub}), median "
            f"{degrees.median:g}, mean {degrees.mean:.1f}",
            "components": components,
            "longest path": between,
            "layers": depth,
        }
        if self.edges not in ("structured", "directed"):
            rows["edges"] = f"{self.edges}, not those of the graph"
        lines = [f"{name + ':':<14}{text}" for name, text in rows.items()]
        found = [f"- {problem}" for problem in self.problems()]
        return "\n".join([*lines, *(found or ["- Nothing to change."])])

    def to_dict(self) -> dict[str, Any]:
        """All findings as plain values for JSON, `depth` and `problems` included."""
        findings = asdict(self)
        for name in ("component_sizes", "uninformed"):
            findings[name] = list(findings[name])
        return {**findings, "depth": self.depth, "problems": self.problems()}

    def __str__(self) -> str:
        return self.report()


def too_shallow(layers: int, depth: int, given: bool, exact: bool) -> str:
    """The warning about a model with fewer layers than the longest shortest path.

    Args:
        layers: The depth of the model.
        depth: The length of the path.
        given: Whether it leads from a latent to an observation, not between any nodes.
        exact: Whether the length is exact, not a lower bound.
    """
    ends = "from a latent to an observation" if given else "between two nodes"
    least = "" if exact else "at least "
    return (
        f"layers={layers} is below the longest shortest path {ends}, {least}{depth}: "
        f"a layer passes information along one edge. Use "
        f"layers={depth} or more."
    )

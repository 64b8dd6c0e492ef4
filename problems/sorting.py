"""Sorting (section 4 of the paper)."""

from typing import ClassVar, Literal

import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch.distributions import Bernoulli, Normal
from torch.nn.functional import one_hot

from gsdm_pyg import (
    Categorical,
    GraphicalModel,
    Panel,
    Problem,
    Role,
    Size,
    check_choice,
    factor,
    let,
    observe,
    sample,
)

Ordering = Literal["chain", "full", "none"]
Position = Literal["rank", "share"]


class Sorting(Problem):
    """Sort n standard-normal numbers: s = P u with P a permutation matrix.

    Args:
        n: How many numbers.
        ordering: The constraint on s. "chain" links neighbors, "full" puts all of s
            under one factor, "none" leaves the entries of s unlinked.
        position: How embeddings distinguish the entries of s. "rank" counts them from
            0, as in the paper. "share" is the share of entries that are smaller, in
            thousandths: its range is the same for all n, so that a model can sort more
            numbers than it was trained on.
    """

    n: Size
    ordering: Ordering = "chain"
    position: Position = "rank"

    best_values: ClassVar = {"rmse": 0.0, "exact": 1.0}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("Sorting.ordering", self.ordering, Ordering)
        check_choice("Sorting.position", self.position, Position)

    def graphical_model(self) -> GraphicalModel:
        n, graph = self.n, GraphicalModel()
        rank = torch.arange(n)  # the order of u does not matter, that of s does
        if self.position == "share":
            rank = (1000 * rank + 500) // n
        row = (rank[:, None],)
        u = graph.add_variable("u", (n,), role=Role.OBSERVED)
        P = graph.add_variable("P", (n, n), Categorical(2), positions=row)
        C = graph.add_variable("C", (n, n), role=Role.INTERMEDIATE, positions=row)
        s = graph.add_variable("s", (n,), positions=(rank,))
        graph.connect(u, C)  # C[i, j] = P[i, j] * u[j]
        graph.connect(P, C)
        graph.connect(C, s[:, None])  # s[i] = sum_j C[i, j]
        graph.factor(P)  # one 1 per row ...
        graph.factor(P.T)  # ... and per column
        if self.ordering == "chain":
            graph.connect(s[:-1], s[1:])  # s is non-decreasing
        elif self.ordering == "full":
            graph.factor(s)
        return graph

    def sample_batch(self, num, generator=None):
        u = torch.randn(num, self.n, generator=generator)
        s, order = u.sort()
        P = one_hot(order, self.n)  # [num, n, n], P[i, order[i]] = 1
        return {"u": u, "P": P, "C": P * u[:, None, :], "s": s}

    def program(self):
        """P is a permutation and s is sorted by conditions, as the graph has it."""
        u = observe("u", Normal(0.0, 1.0), self.n)
        P = sample("P", Bernoulli(1 / self.n), (self.n, self.n))
        C = let("C", P * u)
        s = let("s", C.sum(1), role=Role.LATENT)
        factor(P.sum(0) == 1)
        factor(P.sum(1) == 1)
        factor(s[1:] >= s[:-1])

    def metrics(self, sample, truth):
        """RMSE between the sorted truth and u permuted by the sampled P; exact rate."""
        error = truth["s"] - sample["P"].float() @ truth["u"]
        return {
            "rmse": error.square().mean().sqrt().item(),
            "exact": float(torch.equal(sample["P"], truth["P"])),
        }

    def check_given(self, values, known) -> None:
        """Reject what no permutation of u satisfies, in P and in s.

        Known entries of s may be off by `tolerance` each.
        """
        if "P" in values:
            P = (values["P"] * known["P"]).reshape(-1, self.n, self.n)
            mask = known["P"].reshape(P.shape)
            self._check_lines("row", P, mask)
            self._check_lines("column", P.mT, mask.mT)
        if "s" in values:
            s = torch.where(known["s"], values["s"], -torch.inf).reshape(-1, self.n)
            self._check_order(s)
            if "u" in values:
                u = values["u"].reshape(-1, self.n)
                self._check_sorted(s, u, known["u"].reshape(u.shape).all(1))

    def _check_lines(self, kind, P, known) -> None:
        """Lines of P [S, n, n] have at most one known 1, and one if all is known."""
        wrong = (P.sum(2) > 1) | (known.all(2) & (P.sum(2) == 0))  # [S, n]
        if not wrong.any():
            return
        instance, line = wrong.nonzero()[0].tolist()
        ones = P[instance, line].nonzero()[:, 0].tolist()
        places = [(line, i) if kind == "row" else (i, line) for i in ones[:2]]
        got = " and ".join(f"P[{i}, {j}] = 1" for i, j in places) or "zeros alone"
        raise ValueError(
            f"What is given{_of(instance, len(P))} contradicts the constraints: {kind} "
            f"{line} of P, counted from 0, has one 1 (got {got})."
        )

    def _check_order(self, s) -> None:
        """Known entries of s [S, n] do not decrease; unknown ones are -inf."""
        highest = s.cummax(1)  # of all up to an entry
        wrong = s.isfinite() & (highest.values > s + 2 * self.tolerance)
        if wrong.any():
            instance, i = wrong.nonzero()[0].tolist()
            j = int(highest.indices[instance, i])
            low, high = s[instance, i].item(), s[instance, j].item()
            raise ValueError(
                f"What is given{_of(instance, len(s))} contradicts the constraints: s "
                f"does not decrease (got s[{j}] = {high:.6g} and s[{i}] = {low:.6g})."
            )

    def _check_sorted(self, s, u, whole) -> None:
        """Known entries of s [S, n] are those of u [S, n] in order, if `whole` [S]."""
        exact = u.sort(1).values
        wrong = (s - exact).abs() > self.tolerance
        wrong &= s.isfinite() & whole[:, None]
        if wrong.any():
            instance, i = wrong.nonzero()[0].tolist()
            expected = exact[instance, i].item()
            raise ValueError(
                f"What is given{_of(instance, len(s))} contradicts the constraints: "
                f"s[{i}] is {expected:.6g}, entry {i} of u in order, counted from 0 "
                f"(got {s[instance, i].item():.6g})."
            )

    def violations(self, samples):
        """Rows and columns of P without exactly one 1, and steps down in P u."""
        P, u, s = samples["P"], samples["u"], samples["s"]
        Pu = (P.to(u) @ u[..., None])[..., 0]
        return {
            "one 1 in each row of P": (P.sum(2) - 1).abs(),
            "one 1 in each column of P": (P.sum(1) - 1).abs(),
            "s = P u": (s - Pu).abs(),
            "P u does not decrease": (Pu[:, :-1] > Pu[:, 1:]).long(),
        }

    def polish(self, samples, known):
        """C and s as u and the sampled P give them."""
        C = samples["P"] * samples["u"][:, None, :]
        return {**samples, "C": C, "s": C.sum(2)}

    def panels(self):
        marks = {"one 1 in each row of P": "P", "s = P u": "s"}
        return [Panel("matrix", ("P", "u", "s"), signs=("×", "="), marks=marks)]

    def plot(self, sample, truth) -> Figure:
        """P with u above its columns and P u and s beside its rows; errors in red."""
        n, P, u, s = self.n, sample["P"], truth["u"], truth["s"]
        Pu = P.float() @ u
        cell = min(0.35, 7 / n)
        size = (cell * (n + 3) + 0.8, cell * (n + 2) + 0.8)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(2, 3, width_ratios=[n, 1, 1], height_ratios=[1, n])
        panels = [axes[0, 0], axes[1, 1], axes[1, 2]]
        for ax, values in zip(panels, [u[None], Pu[:, None], s[:, None]], strict=True):
            ax.imshow(values, vmin=-2.5, vmax=2.5, cmap="viridis", aspect="auto")
        colors = ListedColormap(["whitesmoke", "midnightblue", "mistyrose", "red"])
        kinds = P + 2 * (truth["P"] != P)  # a right 0, a right 1, a wrong 0, a wrong 1
        axes[1, 0].imshow(kinds, vmin=0, vmax=3, cmap=colors, aspect="auto")
        axes[0, 0].set_title("u")
        for ax, label in zip(axes[1], ["P", "P u", "s"], strict=True):
            ax.set_xlabel(label)
        for ax in axes.flat:
            ax.set(xticks=[], yticks=[])
        for ax in axes[0, 1:]:
            ax.set_axis_off()
        return figure


def _of(instance: int, num: int) -> str:
    return "" if num == 1 else f" of instance {instance}"

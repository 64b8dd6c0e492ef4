"""A linear-Gaussian state-space model, with its exact posterior to compare with."""

from functools import lru_cache
from typing import ClassVar

import torch
from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg import Arrays, GraphicalModel, Panel, Problem, Role, Size
from problems.gaussian import condition

MEMORY = 0.9  # how much of the state is left after a step
NOISE = 0.5  # standard deviation of an observation around the state


class StateSpace(Problem):
    """Infer a hidden state x, of variance 1 at all times, from noisy observations y.

    x[t] = 0.9 x[t-1] + sqrt(1 - 0.9^2) e[t],   y[t] = x[t] + 0.5 d[t],
    with x[0] and all e[t], d[t] standard normal.

    Args:
        steps: Length of the path.
    """

    steps: Size

    best_values: ClassVar = {"z_squared": 1.0, "z": 0.0}

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        x = graph.add_variable("x", (self.steps,))
        y = graph.add_variable("y", (self.steps,), role=Role.OBSERVED)
        graph.connect(x[:-1], x[1:])
        graph.connect(x, y)
        return graph

    def sample_batch(self, num, generator=None):
        e, d = torch.randn(num, 2, self.steps, generator=generator).unbind(1)
        x = e @ _path_from_noise(self.steps).T  # [num, steps]
        return {"x": x, "y": x + NOISE * d}

    def covariance(self) -> Tensor:
        """Prior covariance [2 steps, 2 steps] of all entries of x, then of y.

        Those of x have 0.9^|s - t|, and so have those of y and between the two, except
        for the noise: y[t] has a variance that is 0.5^2 higher.
        """
        noise = NOISE**2 * torch.eye(self.steps, dtype=torch.double)
        joint = _covariance(self.steps).repeat(2, 2)
        joint[self.steps :, self.steps :] += noise
        return joint

    def exact_posterior(
        self, values: Arrays, observed: Arrays | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [steps] of x given any entries of x and y.

        Args:
            values: With x and y [steps], or only what is given.
            observed: Which entries are given, as booleans [steps] of x, of y or of
                both; by default the entries of y that are not NaN.
        """
        if observed is None:
            observed = {"y": ~values["y"].isnan()}
        given = torch.full((2, self.steps), torch.nan, dtype=torch.double)
        for row, name in zip(given, ("x", "y"), strict=True):
            if name in observed:
                row[observed[name]] = values[name][observed[name]].double()
        prior = self.covariance()
        mean, covariance = condition(torch.zeros(len(prior)), prior, given.flatten())
        std = covariance.diagonal().sqrt()
        return mean[: self.steps].float(), std[: self.steps].float()

    def metrics(self, sample, truth):
        """z-scores of the sampled path under the exact posterior of each x[t].

        Over exact samples z has mean 0 and mean square 1: less is too narrow, more is
        too wide or off the mean. `posterior_error` distinguishes the two.
        """
        mean, std = self.exact_posterior(truth)
        z = (sample["x"] - mean) / std
        return {"z": z.mean().item(), "z_squared": z.square().mean().item()}

    def posterior_error(self, samples: Arrays, truth: Arrays) -> dict[str, float]:
        """Errors of the mean and the standard deviation of S posterior samples.

        Both are relative to the exact standard deviation, as root mean squares over
        time. S exact samples have errors of about 1 / sqrt(S) and 1 / sqrt(2 S).

        Args:
            samples: With x [S, steps], all given the y of `truth`.
            truth: With y [steps].
        """
        mean, std = self.exact_posterior(truth)
        paths = samples["x"]
        errors = {
            "mean": (paths.mean(0) - mean) / std,
            "spread": paths.std(0) / std - 1,
        }
        return {name: e.square().mean().sqrt().item() for name, e in errors.items()}

    def panels(self):
        return [Panel("path", ("x", "y"))]

    def plot(self, sample, truth) -> Figure:
        """Observations, true path and the exact posterior, with one or more samples.

        For several sampled paths, x [S, steps], it also shows mean ±2 std of them.
        """
        time, paths = range(self.steps), sample["x"].reshape(-1, self.steps)
        mean, std = self.exact_posterior(truth)
        figure = Figure(figsize=(8, 4), layout="constrained")
        ax = figure.subplots()
        ax.fill_between(
            time, mean - 2 * std, mean + 2 * std, color="0.85", label="exact, ±2 std"
        )
        ax.plot(time, truth["x"], color="black", label="true path")
        ax.plot(time, truth["y"], "o", color="tab:red", ms=4, label="observations")
        ax.plot(time, paths[:20].T, color="tab:blue", lw=1, alpha=0.5)
        ax.lines[-1].set_label("sampled")
        if len(paths) > 1:
            center, spread = paths.mean(0), paths.std(0)
            for edge in (center - 2 * spread, center + 2 * spread):
                ax.plot(time, edge, "--", color="tab:blue")
            ax.lines[-1].set_label("sampled, ±2 std")
        ax.set(xlabel="time", ylabel="state")
        ax.locator_params(axis="x", integer=True)
        ax.legend(
            frameon=False, ncols=5, loc="upper center", bbox_to_anchor=(0.5, 1.12)
        )
        return figure


@lru_cache(maxsize=64)
def _covariance(steps: int) -> Tensor:
    """Prior covariance [steps, steps] of x: 0.9^|s - t|."""
    time = torch.arange(steps, dtype=torch.double)
    return MEMORY ** (time[:, None] - time).abs()


@lru_cache(maxsize=64)
def _path_from_noise(steps: int) -> Tensor:
    """The matrix [steps, steps] that turns the noise e into the path x."""
    return torch.linalg.cholesky(_covariance(steps)).float()

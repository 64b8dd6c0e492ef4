"""A linear-Gaussian state-space model, with its exact posterior to compare with."""

from functools import lru_cache

import torch
from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg import Arrays, GraphicalModel, Problem, Role, Size

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

    def exact_posterior(self, values: Arrays) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [steps] of x given y, NaN where y is unknown.

        With K the prior covariance and o the known entries of y, the Gaussian x | y has
        mean G y[o] and covariance K - G K[o], where G = K[:, o] (K[o, o] + 0.5^2)^-1.
        """
        y, prior = values["y"].double(), _covariance(self.steps)
        known = ~y.isnan()
        seen = prior[known]  # [o, steps]
        noise = NOISE**2 * torch.eye(len(seen), dtype=torch.double)
        gain = torch.linalg.solve(seen[:, known] + noise, seen).T  # [steps, o]
        variance = (prior - gain @ seen).diagonal()
        return (gain @ y[known]).float(), variance.sqrt().float()

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
            centre, spread = paths.mean(0), paths.std(0)
            for edge in (centre - 2 * spread, centre + 2 * spread):
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

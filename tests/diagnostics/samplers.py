"""Posterior samplers in closed form, exact or wrong in a known way."""

from __future__ import annotations

import torch
from torch import Tensor

from gsdm_pyg import Categorical, GraphicalModel, Problem, Role, Size


class Regression(Problem):
    """y = A x + noise with x standard normal: all conditionals are Gaussian."""

    n: Size  # observations, of two unknowns

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        x = graph.add_variable("x", (2,))
        y = graph.add_variable("y", (self.n,), role=Role.OBSERVED)
        graph.connect(x[:, None], y)
        return graph

    def design(self) -> Tensor:
        time = torch.arange(self.n, dtype=torch.double)
        return torch.stack([torch.ones_like(time), torch.cos(time)], 1)

    def covariance(self) -> Tensor:
        """Of x and y together, [2 + n, 2 + n]."""
        root = torch.cat([torch.eye(2, dtype=torch.double), self.design()])
        noise = torch.zeros(2 + self.n, dtype=torch.double)
        noise[2:] = 1.0
        return root @ root.T + noise.diag()

    def sample_batch(self, num, generator=None):
        x = torch.randn(num, 2, generator=generator, dtype=torch.double)
        noise = torch.randn(num, self.n, generator=generator, dtype=torch.double)
        return {"x": x, "y": x @ self.design().T + noise}


class GaussianSampler:
    """Conditionals of a Gaussian, whatever is known (Matheron's rule).

    Args:
        spread: Factor on deviations from the conditional mean; 1 is exact.
        shift: Added to unknown entries.
        ignore_x: Whether known entries of x are not conditioned on.
    """

    def __init__(self, spread=1.0, shift=0.0, ignore_x=False):
        self.spread, self.shift, self.ignore_x = spread, shift, ignore_x

    def sample(self, problem, given=None, num_samples=1, *, generator=None):
        known = torch.cat([given["x"], given["y"]], 1)  # [B, D], NaN where unknown
        used = ~known.isnan()
        if self.ignore_x:
            used[:, :2] = False
        covariance = problem.covariance()
        size = len(covariance)
        mask = used.double()
        inner = covariance * mask[:, :, None] * mask[:, None]
        inner = inner + torch.diag_embed(1 - mask)
        gain = torch.linalg.solve(inner, covariance * mask[:, :, None])  # [B, D, D]
        mean = (known.nan_to_num() * mask)[:, None] @ gain
        noise = torch.randn(
            len(known), num_samples, size, generator=generator, dtype=torch.double
        )
        joint = noise @ torch.linalg.cholesky(covariance).T
        away = joint - (joint * mask[:, None]) @ gain
        draws = mean + self.spread * away + self.shift
        draws = torch.where(known.isnan()[:, None], draws, known[:, None])
        return {"x": draws[..., :2], "y": draws[..., 2:]}


class Coins(Problem):
    """Three hidden bits z of probability 0.3, each seen through normal noise."""

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        z = graph.add_variable("z", (3,), Categorical(2))
        y = graph.add_variable("y", (3,), role=Role.OBSERVED)
        graph.connect(z, y)
        return graph

    def sample_batch(self, num, generator=None):
        z = (torch.rand(num, 3, generator=generator) < 0.3).long()
        return {"z": z, "y": z + torch.randn(num, 3, generator=generator)}


class CoinSampler:
    """log odds of z: log(0.3 / 0.7) + y - 1/2, times an inverse temperature."""

    def __init__(self, sharpness=1.0):
        self.sharpness = sharpness

    def sample(self, problem, given=None, num_samples=1, *, generator=None):
        y = given["y"]
        odds = torch.tensor(0.3 / 0.7).log() + y - 0.5
        p = torch.sigmoid(self.sharpness * odds)[:, None]
        uniform = torch.rand(len(y), num_samples, 3, generator=generator)
        return {
            "z": (uniform < p).long(),
            "y": y[:, None].expand(-1, num_samples, -1),
        }

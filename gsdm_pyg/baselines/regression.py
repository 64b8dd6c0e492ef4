"""The paper's "Regressor": its network predicts latent values from observed ones alone.

The input x_t and the step t are zero (appendix on the architecture). On the structured
graph it is "Regressor + GS".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Batch

from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.diffusion.graph_model import Nodes
from gsdm_pyg.settings import SamplerSettings


class GraphRegression(GraphDiffusion):
    """x0_hat = f(observed), trained by the loss of x0; all samples are equal.

    The squared error makes it the mean of the posterior of a real number, on the scale
    that the number diffuses on. Class probabilities decode to the likeliest class.
    """

    def loss(self, batch: Batch, generator: torch.Generator | None = None) -> Tensor:
        nodes = self.nodes(batch)
        xt, t = self._zeros(batch, nodes)
        alpha_bar = self._alpha_bar(t, batch)
        return self.prediction_loss(xt, t, alpha_bar, batch, nodes)

    @torch.no_grad()
    def sample(
        self,
        batch: Batch,
        sampler: SamplerSettings,
        generator: torch.Generator | Sequence[torch.Generator] | None = None,
        after_evaluation: Callable[[Tensor], object] | None = None,
    ) -> Tensor:
        nodes, training = self.nodes(batch), self.training
        self.eval()
        try:
            x0_hat = self.denoise(*self._zeros(batch, nodes), batch, nodes)
        finally:
            self.train(training)
        x = batch.x.where(nodes.fixed, nodes.scaling.restore(x0_hat))
        if after_evaluation is not None:
            after_evaluation(x)
        return x

    def default_sampler(self) -> SamplerSettings:
        return SamplerSettings(steps=1)

    def _zeros(self, batch: Batch, nodes: Nodes) -> tuple[Tensor, Tensor]:
        """x_t [N, W], zero except at fixed nodes, and t [B], zero."""
        xt = nodes.x0 * nodes.fixed
        return xt, batch.ptr.new_zeros(batch.num_graphs)

    def _alpha_bar(self, t: Tensor, batch: Batch) -> Tensor:
        """No share of x0 in x_t: x0_hat is the output of the network."""
        return self.alpha_bar.new_zeros(batch.num_nodes, 1)

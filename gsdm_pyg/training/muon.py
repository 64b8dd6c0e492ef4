"""Muon: orthogonalized momentum for hidden matrices, Adam for everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw


class Muon(torch.optim.Optimizer):
    r"""Muon (Jordan et al., 2024) and AdamW in one optimizer, batched over matrices.

    A hidden matrix moves along the orthogonal factor of its momentum,

    .. math:: W \leftarrow W - \eta\, U V^\top, \qquad
        \operatorname{lerp}(G, M, \mu) = U \Sigma V^\top,

    found by five Newton-Schulz steps. All matrices of one shape are stacked, so that a
    step costs a few batched products in float32 (`torch.optim.Muon` goes one by one in
    bfloat16, which a CPU without such instructions emulates). The other parameters
    follow AdamW.

    Args:
        matrices: Hidden matrices; one of shape [a * D, D] counts as a square blocks.
        others: Parameters for AdamW.
        lr: Learning rate of AdamW.
        matrix_lr: Learning rate of Muon, the length of a step in spectral norm.
        momentum: Momentum of Muon.
        betas: Decay rates of AdamW's moments.
        weight_decay: Decoupled decay of the weights, in both parts.
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        others: Iterable[nn.Parameter],
        lr: float = 1e-3,
        matrix_lr: float = 0.02,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        groups: list[dict[str, Any]] = [
            {"params": list(matrices), "lr": matrix_lr, "momentum": momentum},
            {"params": list(others), "lr": lr, "betas": betas},
        ]
        super().__init__(groups, {"weight_decay": weight_decay})
        for p in self.param_groups[0]["params"]:
            if p.dim() != 2 or p.size(0) % p.size(1):
                raise ValueError(
                    "Muon takes matrices [a * D, D]; pass other parameters to AdamW "
                    f"(got shape {tuple(p.shape)})."
                )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._muon_step(self.param_groups[0])
        self._adamw_step(self.param_groups[1])
        return loss

    def _muon_step(self, group: dict[str, Any]) -> None:
        by_width: dict[int, list[Tensor]] = {}
        for p in group["params"]:
            if p.grad is not None:
                by_width.setdefault(p.size(1), []).append(p)
        for width, matrices in by_width.items():
            square = (-1, width, width)
            for p in matrices:
                if not self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
            buffers = [self.state[p]["momentum"] for p in matrices]
            grads = [p.grad for p in matrices if p.grad is not None]
            grad = torch.cat([g.view(square) for g in grads])  # [a, D, D]
            momentum = torch.cat([buffer.view(square) for buffer in buffers])
            momentum.lerp_(grad, 1 - group["momentum"])
            update = orthogonalize(grad.lerp(momentum, group["momentum"]))
            counts = [p.size(0) // width for p in matrices]
            parts = zip(momentum.split(counts), update.split(counts), strict=True)
            for p, buffer, (m, u) in zip(matrices, buffers, parts, strict=True):
                buffer.copy_(m.view_as(p))
                if group["weight_decay"]:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(u.view_as(p), alpha=-group["lr"])

    def _adamw_step(self, group: dict[str, Any]) -> None:
        params = [p for p in group["params"] if p.grad is not None]
        for p in params:
            if not self.state[p]:
                self.state[p] = {
                    "step": torch.tensor(0.0),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
        adamw(
            params,
            [p.grad for p in params],
            [self.state[p]["exp_avg"] for p in params],
            [self.state[p]["exp_avg_sq"] for p in params],
            [],
            [self.state[p]["step"] for p in params],
            foreach=True,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=1e-8,
            maximize=False,
        )


def orthogonalize(matrices: Tensor) -> Tensor:
    """The orthogonal factor U V^T of each matrix U S V^T, nearly; [B, D, D].

    Five steps of X <- a X + b (X X^T) X + c (X X^T)^2 X bring singular values that are
    not tiny beside the Frobenius norm into about [0.7, 1.2].
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = torch.baddbmm(
            x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a
        )
    return x

"""One optimizer step on the weights of a denoiser (width 64, 12 layers).

    python -m benchmarks.optimizer [--steps 20]

`gsdm_pyg.training.muon.Muon` beside `torch.optim.Muon` and `torch.optim.AdamW`, taking
turns.
"""

from __future__ import annotations

import argparse
import copy
import time
from statistics import median

import torch

from gsdm_pyg import Denoiser
from gsdm_pyg.training.muon import Muon


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps

    model = Denoiser(num_columns=3, num_variables=4)
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    first, second, third = model, copy.deepcopy(model), copy.deepcopy(model)
    for copied in (second, third):
        for p, q in zip(copied.parameters(), model.parameters(), strict=True):
            p.grad = q.grad.clone()
    hidden = {id(p) for p in first.hidden_matrices()}
    optimizers = {
        "gsdm_pyg.training.muon.Muon (and AdamW for the rest)": Muon(
            first.hidden_matrices(),
            [p for p in first.parameters() if id(p) not in hidden],
        ),
        "torch.optim.Muon (hidden matrices only)": torch.optim.Muon(
            second.hidden_matrices()
        ),
        "torch.optim.AdamW, fused (all)": torch.optim.AdamW(
            third.parameters(), fused=True
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in optimizers}
    for _ in range(steps):
        for name, optimizer in optimizers.items():
            start = time.perf_counter()
            optimizer.step()
            times[name].append((time.perf_counter() - start) * 1e3)
    ours = median(next(iter(times.values())))
    print("| optimizer | ms | ratio to ours |")
    print("| --- | --- | --- |")
    for name, values in times.items():
        print(f"| {name} | {median(values):.1f} | {median(values) / ours:.2f} |")


if __name__ == "__main__":
    main()

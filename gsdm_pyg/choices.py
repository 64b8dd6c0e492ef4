"""The modes that settings, problems and layers choose from; what they mean is said
where they are used."""

from __future__ import annotations

from typing import Literal

Embedding = Literal["exchangeable", "auto", "array", "independent", "shared"]
Method = Literal["diffusion", "regression", "vaeac"]
EdgeKinds = Literal["auto", "learned", "ignored"]
Edges = Literal["structured", "complete", "random", "directed"]
ProgramIntermediates = Literal["named", "all"]
Intermediates = Literal["keep", "drop", "unsupervised"]
Observe = Literal["roles", "mixed"]
Schedule = Literal["paper", "linear", "cosine", "shifted"]
DiscreteLoss = Literal["cross_entropy", "squared"]
ContinuousLoss = Literal["x0", "v"]
Scales = Literal["support", "linear"]
Transform = Literal["identity", "log", "probit", "asinh"]
Solver = Literal["ddpm", "ddim", "dpm++", "dpm++_sde"]
SolveMethod = Literal["auto", "sample", "commit"]
Spacing = Literal["time", "logsnr"]
Backend = Literal["auto", "fused", "scatter"]
Flow = Literal["source_to_target", "target_to_source"]

"""NUTS by Pyro (Hoffman and Gelman, 2014) on programs with continuous draws alone."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch
from pydantic import NonNegativeInt
from torch import Tensor
from torch.distributions import Distribution, biject_to

from gsdm_pyg.baselines.density import (
    Conditioned,
    FromPrior,
    Key,
    check_program,
    check_whole,
    classes_of,
    joined,
    run_program,
)
from gsdm_pyg.baselines.program_baseline import ProgramBaseline
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.programs.random_state import seeded
from gsdm_pyg.variables import Role


class NUTS(ProgramBaseline):
    """Hamiltonian Monte Carlo with the step size and the mass that the warm-up finds.

    Values move on unconstrained scales, from which `biject_to` of torch leads to the
    support of each draw. Chains begin at draws from the prior.
    """

    name = "nuts"

    warmup: NonNegativeInt = 500
    """Steps before the first sample, which adapt the kernel."""

    def check(self, problem: Problem) -> None:
        """Raise a ValueError unless every latent draw of the program is continuous."""
        _pyro()
        super().check(problem)
        variables = graph_of(problem).variables
        for key, prior in check_program(problem).priors.items():
            if variables[key[0]].role is not Role.OBSERVED:
                _check_continuous(problem, key, prior)

    def draw(
        self,
        problem: Problem,
        values: Arrays,
        known: Arrays,
        num_samples: int,
        generator: torch.Generator,
    ) -> Mapping[str, Tensor]:
        check_whole(problem, check_program(problem), known)
        chains = min(self.chains, num_samples)
        sizes = [len(part) for part in torch.arange(num_samples).chunk(chains)]
        drawn: list[dict[str, Tensor]] = []
        with seeded(generator):
            for i in range(len(next(iter(known.values())))):
                given: Any = (
                    {name: array[i] for name, array in values.items()},
                    {name: array[i] for name, array in known.items()},
                    classes_of(problem),
                    self.softness,
                )
                parts = [self._chain(problem, given, size) for size in sizes]
                drawn.append({n: torch.cat([p[n] for p in parts]) for n in parts[0]})
        return {name: torch.stack([one[name] for one in drawn]) for name in drawn[0]}

    def _chain(self, problem: Problem, given: Any, num: int) -> dict[str, Tensor]:
        """Samples of one chain, [num, *shape] per variable."""
        first = FromPrior(*given)
        with torch.no_grad():
            run_program(problem, first)
        start = {
            _label(key): biject_to(prior.support).inv(first.values[key])
            for key, prior in first.priors.items()
            if not first.is_given(key) and _check_continuous(problem, key, prior)
        }

        def run(z: Mapping[str, Tensor]) -> _Unconstrained:
            handler = _Unconstrained(z, *given)
            run_program(problem, handler)
            return handler

        mcmc = _pyro().mcmc
        kernel = mcmc.NUTS(potential_fn=lambda z: run(z).energy())
        chain = mcmc.MCMC(
            kernel,
            num_samples=num,
            warmup_steps=self.warmup,
            initial_params=start,
            disable_progbar=True,
        )
        chain.run()
        samples = chain.get_samples()
        with torch.no_grad():
            runs = [run({n: z[i] for n, z in samples.items()}) for i in range(num)]
        return joined(
            {key: torch.stack([r.values[key] for r in runs]) for key in runs[0].values}
        )


class _Unconstrained(Conditioned):
    """Takes draws from unconstrained values z, whose density includes the change.

    What is given whole has no z. Where a part is given, its z has no effect on the
    program and is standard normal.
    """

    def __init__(self, z: Mapping[str, Tensor], *arguments: Any) -> None:
        super().__init__(*arguments)
        self.z = z
        self.change: Tensor | float = 0.0  # log of the volume, and of given z

    def propose(self, key: Key, prior: Distribution, shape: torch.Size) -> Tensor:
        if _label(key) not in self.z:
            return self.entry(self.given, key)
        z, transform = self.z[_label(key)], biject_to(prior.support)
        x = transform(z)
        volume = transform.log_abs_det_jacobian(z, x)
        sites = x.shape[: x.dim() - len(prior.event_shape)]
        fixed = self.entry(self.known, key).reshape(*sites, -1)[
            ..., 0
        ]  # vectors are given whole
        volume = volume.reshape(*sites, -1).sum(-1)
        normal = -z.square().reshape(*sites, -1).sum(-1) / 2
        self.change = self.change + torch.where(fixed, normal, volume).sum()
        return x

    def energy(self) -> Tensor:
        """Minus the log-density of z."""
        draws = [log_prob.sum() for log_prob in self.log_prob.values()]
        return -(torch.stack(draws).sum() + self.likelihood + self.change)


def _check_continuous(problem: Problem, key: Key, prior: Distribution) -> bool:
    """True, or an error if a draw that is not given is discrete."""
    if prior.support.is_discrete:  # type: ignore[union-attr]
        raise ValueError(
            f"NUTS follows gradients, which classes and counts have not: use 'lmh' for "
            f"{problem} (got {type(prior).__name__} for {_label(key)})."
        )
    return True


def _label(key: Key) -> str:
    """A name for Pyro."""
    name, entry = key
    return name if not entry else f"{name}[{', '.join(map(str, entry))}]"


def _pyro() -> ModuleType:
    """pyro.infer, if it is installed."""
    try:
        import pyro.infer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "NUTS needs Pyro: install it by `pip install pyro-ppl`.", name=error.name
        ) from error
    return pyro.infer

"""GSDM: a diffusion model of a problem, from training to samples by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import torch
from torch import Tensor, nn

from gsdm_pyg import model_folder
from gsdm_pyg.checks import check_choice, check_count
from gsdm_pyg.choices import Backend
from gsdm_pyg.data import (
    check_given,
    encode,
    needs_edge_kinds,
    with_simulations,
)
from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.doctor.diagnosing import check_depth
from gsdm_pyg.evaluation import Evaluation, evaluate
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.methods import build
from gsdm_pyg.posterior import (
    MAX_NODES,
    SamplingInterrupted,
    sample_posterior,
)
from gsdm_pyg.problem import (
    Problem,
    ProblemFamily,
    check_source_argument,
    graph_of,
)
from gsdm_pyg.problem_spec import ProblemSpec, draw_values, moments
from gsdm_pyg.programs.program_problem import check_positions
from gsdm_pyg.seeding import as_seed, keyed_generator
from gsdm_pyg.settings import (
    ModelSettings,
    SamplerSettings,
    SearchSettings,
    TrainingSettings,
)
from gsdm_pyg.solving import OnEstimate, Solution, solve
from gsdm_pyg.transforms import Scale
from gsdm_pyg.unseen import unseen

logger = logging.getLogger("gsdm_pyg")


class GSDM(nn.Module):
    """Graphically structured diffusion model of the variables of a problem.

    Make one with `GSDM.from_problem` or `GSDM.from_pretrained`.

    Args:
        spec: The variables of the problem.
        settings: What the model is made of.
        sampler: How to draw by default; what suits the problem if left out.
        backend: How attention is computed, see `StructuredAttentionConv`.
    """

    def __init__(
        self,
        spec: ProblemSpec,
        settings: ModelSettings = ModelSettings(),
        sampler: SamplerSettings | None = None,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        self.diffusion = build(spec, settings, backend)
        num_timesteps = settings.num_timesteps
        sampler = sampler or self.diffusion.default_sampler()
        self.sampler = sampler.within(num_timesteps)
        self.source: Problem | ProblemFamily | None = None  # what to train on
        self._warned: set[str] = set()  # kinds of warnings given

    @property
    def spec(self) -> ProblemSpec:
        return self.diffusion.spec

    @property
    def settings(self) -> ModelSettings:
        return self.diffusion.settings

    @classmethod
    def from_problem(
        cls,
        source: Problem | ProblemFamily,
        *,
        simulations: Mapping[str, Any] | None = None,
        backend: Backend = "auto",
        **settings: Any,
    ) -> Self:
        """A model with fresh weights for a problem or a family of sizes.

        Warns if information cannot travel from every observation to every latent in
        that many layers, see `gsdm_pyg.doctor`.

        Args:
            source: The problem; means and standard deviations come from 256 draws.
            simulations: Instances to take them from, and to train on, instead: an array
                [num, *shape] per variable.
            backend: How attention is computed, see `StructuredAttentionConv`.
            settings: Such as `width=64` or `layers=12`: see `ModelSettings`.
        """
        chosen = ModelSettings.parse(settings, also=("simulations", "backend"))
        if simulations is not None:
            source = _simulated(source, simulations)
        check_positions(check_source_argument(source).largest())
        spec = ProblemSpec.of(source, chosen.graph, chosen.scales)
        if chosen.edge_kinds == "auto":
            needed = needs_edge_kinds(source.largest(), chosen.graph)
            kinds = "learned" if needed else "ignored"
            chosen = chosen.updated({"edge_kinds": kinds})
        model = cls(spec, chosen, backend=backend)
        model.source = source
        largest = graph_of(source.largest(), chosen.graph)
        warning = check_depth(largest, chosen.layers, chosen.graph)
        if warning is not None and chosen.method != "vaeac":  # which has no graph
            logger.warning(warning)
        return model

    def fit(
        self,
        source: Problem | ProblemFamily | None = None,
        *,
        simulations: Mapping[str, Any] | None = None,
        run_dir: str | Path | None = None,
        **settings: Any,
    ) -> Self:
        """Train with Lightning; afterwards the model has the averaged (EMA) weights.

        Ctrl-C ends training after the current step and returns.

        Args:
            source: The problem to train on; the one of `from_problem` by default.
            simulations: Instances to train on instead of those that the problem draws:
                an array [num, *shape] per variable.
            run_dir: A new or empty folder for logs, checkpoints and pictures; nothing
                is written by default.
            settings: Any setting of a config's sections data, optimizer and trainer by
                name, such as `max_time="00:00:10:00"`, `batch_size=16` or `lr=1e-3`;
                a section as a dictionary, such as `evaluation={"steps": 100}` or
                `optimizer={"name": "adamw"}`; and `seed`.
        """
        # Lightning takes a second to import, which samplers need not wait for.
        from gsdm_pyg.training import Training, fit

        source = source or self.source
        if source is None:
            raise ValueError("Pass fit() the problem to train on (got None).")
        check_source_argument(source)
        self.check_problem(source.smallest())
        self.check_problem(source.largest())
        if simulations is not None:
            source = _simulated(source, simulations)
            _check_scale(self.spec, source)
        also = ("source", "simulations", "run_dir")
        chosen = TrainingSettings.from_keywords(settings, also)
        training = Training(self.diffusion, source, chosen, self.sampler)
        fit(training, Path(run_dir) if run_dir else None)
        self.sampler = training.sampler
        return self.eval()

    def sample(
        self,
        problem: Problem,
        given: Mapping[str, Any] | None = None,
        num_samples: int = 1,
        *,
        generator: torch.Generator | int | None = None,
        max_nodes: int = MAX_NODES,
        on_estimate: OnEstimate | None = None,
        **sampler: Any,
    ) -> dict[str, Tensor]:
        """Draw all variables given some: an array [num_samples, *shape] per variable.

        Where `given` holds B instances, arrays [B, *shape], the results are
        [B, num_samples, *shape].

        Args:
            problem: The problem to solve, of any size.
            given: Arrays by name, whole or with NaN for missing entries; nothing given
                means an unconditional sample.
            num_samples: How many samples to draw, of each instance.
            generator: Source of randomness, or a seed. Each sample has randomness of
                its own: the first ten of a hundred are those that asking for ten gives.
            max_nodes: Draw in batches of at most this many nodes, to bound memory.
            on_estimate: Called after each evaluation of the network with the samples
                [b] that it was made for, numbered over all instances, and their
                estimated values [b, N, W]. What it raises ends sampling.
            sampler: Such as `steps=50`, `solver="dpm++"` or `restarts=8`: see
                `SamplerSettings`. Those left out are the model's own.
        """
        check_count("num_samples", num_samples)
        seed, options = as_seed(generator), self.settings.graph
        also = ("given", "num_samples", "generator", "max_nodes", "on_estimate")
        chosen = self._sampler(sampler, also)
        values, known, several = self._check_given(problem, given)

        def repeat(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
            """Each instance `num_samples` times, [B * num_samples, *shape]."""
            return {n: a.repeat_interleave(num_samples, 0) for n, a in arrays.items()}

        instances = encode(problem, repeat(values), repeat(known), options)
        name = next(iter(known))

        def by_instance(samples: dict[str, Tensor]) -> dict[str, Tensor]:
            """[B, num_samples, *shape], of the instances that are complete."""
            num = len(samples[name]) // num_samples * num_samples
            shape = (-1, num_samples)
            return {n: a[:num].unflatten(0, shape) for n, a in samples.items()}

        def randomness(i: int) -> torch.Generator:
            """Of the i-th row: sample i % num_samples of its instance."""
            return keyed_generator("sample", seed, *divmod(i, num_samples))

        def follow(rows: slice, x: Tensor) -> None:
            assert on_estimate is not None
            on_estimate(torch.arange(rows.start, rows.stop), x)

        try:
            drawn = sample_posterior(
                self.diffusion,
                instances,
                chosen,
                randomness,
                max_nodes,
                follow if on_estimate is not None else None,
            )
        except SamplingInterrupted as partial:
            if several:
                partial.samples = by_instance(partial.samples)
            raise
        return by_instance(drawn) if several else drawn

    def solve(
        self,
        problem: Problem,
        given: Mapping[str, Any] | None = None,
        *,
        num_solutions: int = 1,
        generator: torch.Generator | int | None = None,
        max_nodes: int = MAX_NODES,
        return_path: bool = False,
        on_estimate: OnEstimate | None = None,
        **settings: Any,
    ) -> Solution | list[Solution]:
        """Find values that satisfy all constraints of the problem, and verify them.

        Tries until `Problem.violations` finds nothing, at most `tries` times and within
        `max_evaluations`; what is returned as `verified` is. Where `given` holds B
        instances, arrays [B, *shape], the result is a list of B solutions. Ctrl-C
        raises `SolvingInterrupted`, whose `solutions` has what was found so far.

        Args:
            problem: The problem to solve, of any size.
            given: Arrays by name, whole or with NaN for missing entries. What
                contradicts the constraints is rejected.
            num_solutions: How many answers to look for of each instance, each by tries
                of its own; they may coincide.
            generator: Source of randomness, or a seed.
            max_nodes: Draw in batches of at most this many nodes, to bound memory.
            return_path: Whether to keep the estimates of the try that found the
                solution, for pictures.
            on_estimate: Called after each evaluation of the network with the instances
                [b] that it was made for, and their estimated values [b, N, W].
            settings: Such as `tries=8` or `max_evaluations=100`, see `SearchSettings`,
                and those of the sampler, as for `sample`.
        """
        diffusion, method = self.diffusion, self.settings.method
        if not isinstance(diffusion, GraphDiffusion) or method != "diffusion":
            raise ValueError(
                "solve() follows the estimates of a diffusion on its way: draw by "
                f"sample() instead (got a model of method={method!r})."
            )
        check_count("num_solutions", num_solutions)
        seed, names = as_seed(generator), SearchSettings.model_fields
        also = ("given", "num_solutions", "generator", "max_nodes", "return_path")
        of_search = {n: v for n, v in settings.items() if n in names}
        of_sampler = {n: v for n, v in settings.items() if n not in names}
        if "restarts" in of_sampler:
            raise ValueError(
                "solve() draws anew where an answer is not verified: set tries instead "
                f"(got restarts={of_sampler['restarts']!r})."
            )
        search = SearchSettings.parse(of_search)
        sampler = self._sampler(of_sampler, (*also, "on_estimate", *names))
        values, known, several = self._check_given(problem, given)
        solutions = solve(
            diffusion,
            problem,
            values,
            known,
            sampler,
            search,
            seed,
            max_nodes,
            num_solutions,
            return_path,
            on_estimate,
        )
        return solutions if several else solutions[0]

    def evaluate(
        self,
        problem: Problem,
        num_instances: int = 64,
        *,
        seed: int = 0,
        max_nodes: int = MAX_NODES,
        **sampler: Any,
    ) -> Evaluation:
        """Sample one answer for each of `num_instances` fresh instances and score it.

        Args:
            problem: The problem, of any size.
            num_instances: Instances to average over.
            seed: Chooses instances and noise.
            max_nodes: Bound on the nodes of one batch.
            sampler: As for `sample`.
        """
        check_count("num_instances", num_instances)
        also = ("num_instances", "seed", "max_nodes")
        chosen = self._sampler(sampler, also)
        return evaluate(self.diffusion, problem, num_instances, chosen, seed, max_nodes)

    def check_problem(self, problem: Problem) -> GraphicalModel:
        """The graph that this model sees of a problem, if it is one that it knows."""
        return self.spec.graph(problem, self.settings.graph)

    def save_pretrained(self, folder: str | Path, details: str = "") -> None:
        """Write a model folder: config.json, model.safetensors and a card.

        Args:
            folder: The folder, created if needed; a failure leaves it as it was.
            details: Text for the card, in Markdown.
        """
        model_folder.save_model_folder(
            Path(folder),
            self.spec,
            self.settings,
            self.sampler,
            self.diffusion.state_dict(),
            details,
        )

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        map_location: str | torch.device = "cpu",
        backend: Backend = "auto",
        revision: str | None = None,
        token: str | None = None,
    ) -> Self:
        """Load a model folder, or a model of the Hugging Face Hub by its id.

        Args:
            folder: The folder, or `owner/name` on the Hub.
            map_location: The device to load to.
            backend: How attention is computed, see `StructuredAttentionConv`.
            revision: Which version on the Hub; the newest by default.
            token: For private models of the Hub.
        """
        check_choice("backend", backend, Backend)
        device = _check_device(map_location)
        path = model_folder.find(folder, revision, token)
        spec, settings, sampler = model_folder.load_config(path)
        weights = model_folder.load_weights(path)
        try:
            model = cls(spec, settings, sampler, backend)
            model.diffusion.load_state_dict(weights)
        except (RuntimeError, ValueError) as error:
            raise model_folder.damaged(path, error) from error
        return model.to(device).eval()

    def push_to_hub(self, repo_id: str, private: bool | None = None) -> str:
        """Upload the model to the Hugging Face Hub as `owner/name`."""
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return model_folder.push(Path(folder), repo_id, private)

    def _check_given(
        self, problem: Problem, given: Mapping[str, Any] | None
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], bool]:
        """Values and known entries of B instances, and whether there were several.

        Rejects what does not fit or contradicts itself, and warns of what training
        never saw.
        """
        graph, options = self.check_problem(problem), self.settings.graph
        check_positions(problem)
        values, known = check_given(graph, {} if given is None else given, options)
        problem.check_given(values, known)
        warnings = unseen(self.spec, self.settings, problem, values, known)
        for kind, message in warnings.items():
            if kind not in self._warned or kind.startswith("value"):
                self._warned.add(kind)
                logger.warning(message)
        name, variable = next(iter(graph.variables.items()))
        if known[name].dim() > len(variable.shape):  # instances, [B, *shape]
            return values, known, True
        return (
            {name: value[None] for name, value in values.items()},
            {name: mask[None] for name, mask in known.items()},
            False,
        )

    def _sampler(
        self, changes: Mapping[str, Any], also: tuple[str, ...]
    ) -> SamplerSettings:
        """The model's own sampler with some settings changed."""
        sampler = self.sampler.updated(changes, also)
        return sampler.within(self.settings.num_timesteps)


def _simulated(
    source: Problem | ProblemFamily, simulations: Mapping[str, Any]
) -> Problem:
    """The problem with simulations in place of its sampler."""
    check_source_argument(source)
    if source.smallest() != source.largest():
        raise ValueError(
            "simulations have one size: pass the problem of that size "
            f"(got a family from {source.smallest()} to {source.largest()})."
        )
    return with_simulations(source.largest(), simulations)


def _check_scale(spec: ProblemSpec, source: Problem) -> None:
    """Reject simulations on another scale than the one that the model was made for."""
    draws = draw_values(source)
    for known in spec.variables:
        if known.num_classes is not None:
            continue
        loc, scale = moments(known.scaled.apply(draws[known.name]))
        ratio, shift = scale / known.scale, (loc - known.loc) / known.scale
        if not (0.1 < ratio < 10 and abs(shift) < 10):
            after = f" after {known.transform}" if known.scaled != Scale() else ""
            raise ValueError(
                f"simulations[{known.name!r}] are on another scale than the model's, "
                f"mean {known.loc:.3g} and standard deviation {known.scale:.3g}{after}:"
                " make the model by GSDM.from_problem(problem, simulations=...) "
                f"(got {loc:.3g} and {scale:.3g})."
            )


def _check_device(name: str | torch.device) -> torch.device:
    """A device that tensors can be moved to."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, ImportError) as error:
        raise ValueError(
            f"map_location must be a device of this machine, such as 'cpu' "
            f"(got {name!r}: {str(error).splitlines()[0]})."
        ) from error
    return device

"""Models of other graphs: by embedding, edges and intermediates."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
import torch
from pydantic import ValidationError

from gsdm_pyg import GSDM, GraphOptions, ModelSettings, ProblemBatches, Role
from gsdm_pyg.choices import Edges, Embedding, Intermediates
from problems import BCMF
from tests.helpers import CountTask, seeded, tiny_model

PROBLEM = CountTask(n=2)
CHOICES = {"embedding": Embedding, "edges": Edges, "intermediates": Intermediates}
OPTIONS = list(product(*map(get_args, CHOICES.values())))


@pytest.mark.parametrize("key", CHOICES)
def test_an_unknown_choice_is_refused_with_the_known_ones(key):
    with pytest.raises(ValueError) as caught:
        GSDM.from_problem(PROBLEM, **{key: "none"})
    message = str(caught.value)
    assert message.startswith(f"{key}: ") and message.endswith("(got 'none').")
    assert all(f"'{choice}'" in message for choice in get_args(CHOICES[key]))
    with pytest.raises(ValueError, match=key):
        GraphOptions(**{key: "none"})


def test_options_are_frozen_and_hash_by_value():
    options = GraphOptions(edges="random")
    assert len({options, GraphOptions(edges="random"), GraphOptions()}) == 2
    with pytest.raises(ValidationError, match="frozen"):
        options.edges = "complete"


def test_the_options_of_a_model_are_part_of_its_settings():
    settings = ModelSettings(width=8, edges="complete", intermediates="drop")
    assert settings.graph == GraphOptions(edges="complete", intermediates="drop")
    assert type(settings.graph) is GraphOptions


def test_only_unsupervised_intermediates_have_no_values():
    for intermediates, role in product(get_args(Intermediates), Role):
        without = (intermediates, role) == ("unsupervised", Role.INTERMEDIATE)
        assert GraphOptions(intermediates=intermediates).has_values(role) != without


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids="-".join)
def test_a_model_of_every_graph_trains_and_samples(options):
    chosen = dict(zip(CHOICES, options, strict=True))
    model = GSDM.from_problem(PROBLEM, width=8, layers=1, **chosen)
    before = model.diffusion.denoiser.output.weight.clone()
    model.fit(max_steps=2, batch_size=2)
    assert all(p.isfinite().all() for p in model.parameters())
    assert not torch.equal(model.diffusion.denoiser.output.weight, before)
    samples = model.sample(PROBLEM, {"s": torch.ones(2)}, steps=2, generator=seeded(0))
    names = ["x", "c", "s"] if chosen["intermediates"] == "keep" else ["x", "s"]
    assert list(samples) == names
    assert all(value.isfinite().all() for value in samples.values())


# intermediates


@pytest.mark.parametrize("intermediates", ["drop", "unsupervised"])
def test_intermediates_that_are_not_trained_are_neither_given_nor_sampled(
    intermediates,
):
    model = tiny_model(PROBLEM, intermediates=intermediates)
    samples = model.sample(PROBLEM, {"s": torch.ones(2)}, 3, steps=2)
    assert {name: value.shape for name, value in samples.items()} == {
        "x": (3, 2, 2),
        "s": (3, 2),
    }
    assert torch.equal(samples["s"], torch.ones(3, 2))
    with pytest.raises(ValueError, match=r"given takes the variables x, s \(got 'c'\)"):
        model.sample(PROBLEM, {"c": torch.ones(2, 2)})
    result = model.evaluate(PROBLEM, num_instances=2, steps=2)
    assert [list(sample) for sample in result.samples] == [["x", "s"]] * 2
    assert 0 <= result.metrics["wrong"] <= 1


def seen_by_denoiser(model, run):
    """The values [N, W] that the denoiser gets while something runs, call by call."""
    seen = []
    hook = model.diffusion.denoiser.register_forward_pre_hook(
        lambda module, inputs: seen.append(inputs[0].clone())
    )
    run()
    hook.remove()
    return seen


def batch_for(model, problem, **data):
    options = model.settings.graph
    return ProblemBatches(problem, batch_size=3, options=options, **data).batch(0)


def test_the_denoiser_sees_zeros_for_unsupervised_intermediates():
    model = tiny_model(PROBLEM, intermediates="unsupervised")
    batch = batch_for(model, PROBLEM, observe="mixed")
    trained = seen_by_denoiser(model, lambda: model.diffusion.loss(batch))
    sampled = seen_by_denoiser(model, lambda: model.sample(PROBLEM, steps=3))
    assert len(trained) == 1 and len(sampled) == 3
    for x in trained + sampled:
        without = batch.variable_id[: len(x)] == 1
        assert (x[without] == 0).all()
        assert (x[~without] != 0).any(-1).all()


@pytest.mark.parametrize("problem", [PROBLEM, BCMF(m=2, n=3, k=2)], ids=["bits", "C"])
def test_unsupervised_intermediates_have_no_loss(problem):
    model = tiny_model(problem, intermediates="unsupervised", discrete_loss="squared")
    batch = batch_for(model, problem)
    outputs = []
    model.diffusion.denoiser.register_forward_hook(
        lambda *call: outputs.append(call[2])
    )
    (gradient,) = torch.autograd.grad(model.diffusion.loss(batch), outputs)
    role = [v.role for v in problem.graphical_model().variables.values()]
    latent = torch.tensor([role[v] is Role.LATENT for v in batch.variable_id])
    assert (gradient[~latent] == 0).all()
    assert (gradient[latent] != 0).any(-1).all()


def test_unsupervised_intermediates_still_pass_information():
    model = tiny_model(PROBLEM, layers=2, intermediates="unsupervised")
    first, second = (
        model.sample(PROBLEM, {"s": torch.full((2,), s)}, steps=2, generator=seeded(0))
        for s in (0.0, 2.0)
    )
    assert not torch.allclose(first["x"], second["x"])  # s reaches x through c alone


# sizes


def test_a_model_with_independent_embeddings_refuses_another_size():
    model = tiny_model(BCMF(m=2, n=3, k=2), embedding="independent")
    model.sample(BCMF(m=2, n=3, k=2), steps=1)
    for other in (BCMF(m=3, n=2, k=2), BCMF(m=2, n=3, k=1)):  # as many nodes, and fewer
        for refused in (model.sample, model.fit, model.evaluate):
            with pytest.raises(ValueError) as caught:
                refused(other)
            message = str(caught.value)
            assert "one size, A [2, 2], R [2, 3], C [2, 3, 2], E [2, 3]: " in message
            assert f"(got A [{other.m}, {other.k}], " in message
            assert "'array' or 'exchangeable'" in message


def test_independent_embeddings_refuse_a_family_of_sizes():
    family = BCMF.family(m=(1, 2), n=3, k=2)
    with pytest.raises(ValueError, match=r"one size, A \[2, 2\].*\(got A \[1, 2\]"):
        GSDM.from_problem(family, embedding="independent")
    GSDM.from_problem(BCMF.family(m=2, n=3, k=2), embedding="independent")


@pytest.mark.parametrize("embedding", ["exchangeable", "array", "shared"])
def test_other_embeddings_take_any_size(embedding):
    model = tiny_model(CountTask.family(n=(1, 2)), embedding=embedding)
    samples = model.sample(CountTask(n=4), steps=1)
    assert samples["x"].shape == (1, 4, 4)


def test_an_independent_model_has_as_many_vectors_as_nodes():
    model = tiny_model(PROBLEM, embedding="independent", intermediates="drop")
    assert model.diffusion.denoiser.embed_node.weight.shape == (6, 8)
    assert model.spec.shapes == {"x": [2, 2], "s": [2]}

"""Counts in programs: integers that have an order, without an end or with a far one."""

import pytest
import torch
from torch.distributions import Binomial, Gamma, Geometric, NegativeBinomial, Poisson

from gsdm_pyg import (
    GSDM,
    Categorical,
    GraphicalModel,
    Integer,
    graph_of,
    let,
    observe,
    program,
    sample,
)
from gsdm_pyg.programs import from_networkx

HALF = torch.tensor(0.5)


@pytest.mark.parametrize(
    ("distribution", "domain"),
    [
        (Poisson(torch.tensor(3.0)), Integer(0)),
        (Geometric(HALF), Integer(0)),
        (NegativeBinomial(3, HALF), Integer(0)),
        (Binomial(255, HALF), Categorical(256)),
        (Binomial(256, HALF), Integer(0, 256)),
        (Binomial(torch.tensor([300, 700]), HALF), Integer(0, 700)),
    ],
)
def test_a_count_without_an_end_or_with_a_far_one_is_an_integer(distribution, domain):
    @program
    def count():
        sample("n", distribution)

    assert graph_of(count()).variables["n"].domain == domain
    drawn = count().sample_batch(5, torch.Generator().manual_seed(0))
    assert drawn["n"].dtype == torch.int64


def test_a_random_bound_is_no_bound():
    @program
    def thinned():
        n = sample("n", Poisson(torch.tensor(20.0)))
        observe("k", Binomial(n, HALF))

    assert graph_of(thinned()).variables["k"].domain == Integer(0)


def test_a_sum_of_integers_is_declared():
    @program
    def total():
        n = sample("n", Poisson(torch.full((3,), 2.0)))
        let("sum", n.sum().long(), domain=Integer(0))

    assert graph_of(total()).variables["sum"].domain == Integer(0)


def test_networkx_keeps_integers():
    graph = GraphicalModel()
    graph.add_variable("n", (2,), Integer(0, 700))
    problem = from_networkx(graph.to_networkx())
    assert graph_of(problem()).variables["n"].domain == Integer(0, 700)


@program
def two_counts():
    rate = sample("rate", Gamma(torch.tensor(4.0), torch.tensor(0.1)))
    sample("next", Poisson(rate))
    observe("first", Poisson(rate))


@pytest.mark.slow
def test_a_trained_model_knows_the_next_count():
    torch.manual_seed(0)
    problem = two_counts()
    model = GSDM.from_problem(problem, width=32, layers=3)
    transforms = {v.name: v.transform for v in model.spec.variables}
    assert transforms == {"rate": "log", "next": "log", "first": "log"}
    model.fit(max_steps=500, lr=3e-3)
    first = torch.tensor([10, 30, 80])
    samples = model.sample(problem, {"first": first}, 400, generator=1)["next"]
    assert samples.dtype == torch.int64 and samples.min() >= 0
    # Gamma(4 + first, 1.1) given `first`, and so negative binomial
    exact = NegativeBinomial(4.0 + first, torch.tensor(1 / 2.1))
    ratio = samples.double().mean(1) / exact.mean
    spread = samples.double().std(1) / exact.stddev
    assert (ratio - 1).abs().max() < 0.1, ratio
    assert (spread - 1).abs().max() < 0.2, spread

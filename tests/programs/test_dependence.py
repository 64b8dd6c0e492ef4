"""Programs are followed through memory, unnamed draws and distributions."""

import pytest
import torch
from torch import distributions as D
from torch.nn.functional import dropout, softplus

from gsdm_pyg import factor, let, observe, sample
from gsdm_pyg.variables import Continuous
from tests.programs.oracle import graph_of, linked

NORMAL = D.Normal(0.0, 1.0)
EYE3, ALL3 = torch.eye(3, dtype=torch.bool), torch.ones(3, 3, dtype=torch.bool)


def test_views_of_one_memory_share_their_changes():
    def program():
        x, y = sample("x", NORMAL, 3), sample("y", NORMAL, 3)
        buffer = torch.zeros(2, 3)
        row, column = buffer[0], buffer[:, 1]
        row.copy_(x)
        column.add_(y[0])
        observe("z", D.Normal(buffer.flatten(), 1.0))

    graph = graph_of(program)
    expected = torch.zeros(3, 6, dtype=torch.bool)
    expected[:, :3] = EYE3
    assert torch.equal(linked(graph, "x", "z"), expected)
    assert linked(graph, "y", "z").nonzero().tolist() == [[0, 1], [0, 4]]


def test_overwritten_values_are_forgotten():
    def program():
        x = sample("x", NORMAL, 3)
        x.mul_(2)
        x[1] = 0.0
        observe("z", D.Normal(x, 1.0))

    expected = torch.diag(torch.tensor([True, False, True]))
    assert torch.equal(linked(graph_of(program), "x", "z"), expected)


def test_a_named_value_hides_what_it_was_computed_from():
    def program():
        x = sample("x", NORMAL, 3)
        y = let("y", x.cumsum(0))
        observe("z", D.Normal(y, 1.0))

    graph = graph_of(program)
    assert not linked(graph, "x", "z").any()
    assert torch.equal(linked(graph, "y", "z"), EYE3)


def test_the_type_of_memory_may_change():
    def program():
        x = sample("x", NORMAL, 4)
        pairs = torch.view_as_complex(x.view(2, 2))
        pairs[0] = 0
        observe("z", D.Normal(x.view(torch.int32).view(torch.float32), 1.0))

    expected = torch.diag(torch.tensor([False, False, True, True]))
    assert torch.equal(linked(graph_of(program), "x", "z"), expected)


def test_freed_memory_is_not_confused():
    def program():
        x = sample("x", NORMAL, 3)
        for _ in range(50):
            x.exp().sum()  # is freed at once
            constant = torch.ones(3)
        observe("z", D.Normal(constant, 1.0))

    assert not linked(graph_of(program), "x", "z").any()


UNNAMED = {
    "randn": lambda: torch.randn(3),
    "rand": lambda: torch.rand(3) - 0.5,
    "in place": lambda: torch.empty(3).normal_(),
    "bernoulli": lambda: torch.bernoulli(torch.full((3,), 0.5)),
    "binomial": lambda: torch.binomial(torch.full((3,), 4.0), torch.full((3,), 0.5)),
    "poisson": lambda: torch.poisson(torch.ones(3)),
    "randint": lambda: torch.randint(5, (3,)).float(),
    "random_": lambda: torch.empty(3).random_(),
    "dropout": lambda: dropout(torch.ones(3)),
    "Normal": lambda: NORMAL.sample((3,)),
    "Gamma": lambda: D.Gamma(2.0, 1.0).sample((3,)),
    "Categorical": lambda: D.Categorical(torch.ones(4) / 4).sample((3,)).float(),
}
JOINT = {
    "Dirichlet": lambda: D.Dirichlet(torch.ones(3)).sample(),
    "randperm": lambda: torch.randperm(3).float(),
    "without replacement": lambda: torch.multinomial(torch.ones(4), 3).float(),
    "Multinomial": lambda: D.Multinomial(4, torch.ones(3)).sample(),
    "correlated": lambda: D.MultivariateNormal(
        torch.zeros(3), torch.eye(3) + 0.5
    ).sample(),
}


@pytest.mark.parametrize("name", {**UNNAMED, **JOINT})
def test_variables_that_share_an_unnamed_draw_are_linked(name):
    draw = {**UNNAMED, **JOINT}[name]

    def program():
        noise = draw()
        sample("x", D.Normal(noise, 1.0))
        observe("y", D.Normal(2 * noise, 1.0))

    graph = graph_of(program)
    if name == "correlated":  # entry i is a sum of the draws 0..i
        assert linked(graph, "x", "y").all()
        return
    assert torch.equal(linked(graph, "x", "y"), ALL3 if name in JOINT else EYE3)
    same = linked(graph, "x", "x") & ~EYE3
    assert same.any() == (name in JOINT)


def test_conditions_that_share_an_unnamed_draw_link_their_variables():
    def program():
        x, y = sample("x", NORMAL), sample("y", NORMAL)
        threshold = torch.randn(())
        factor(x > threshold)
        factor(y > threshold)

    assert linked(graph_of(program), "x", "y").all()


def test_a_condition_links_all_that_it_depends_on():
    def program():
        x = sample("x", NORMAL, 3)
        factor(x[:-1] < x[1:])

    found = linked(graph_of(program), "x", "x") & ~EYE3
    assert found.nonzero().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]


def test_unnamed_draws_depend_on_their_parameters():
    def program():
        x = sample("x", NORMAL, 3)
        noisy = torch.normal(x, x.exp())
        replaced = x.clone().normal_()  # the old values do not matter
        like = torch.rand_like(x)
        observe("y", D.Normal(noisy, 1.0))
        observe("z", D.Normal(replaced + like, 1.0))

    graph = graph_of(program)
    assert torch.equal(linked(graph, "x", "y"), EYE3)
    assert not linked(graph, "x", "z").any()


def _square(x):
    return x[:, None].expand(3, 3)


def _positive(x):
    return softplus(x) + 0.1


INDEPENDENT = {
    "Normal": lambda x: D.Normal(x, _positive(x)),
    "Bernoulli": lambda x: D.Bernoulli(logits=x),
    "Beta": lambda x: D.Beta(_positive(x), 2.0),
    "Binomial": lambda x: D.Binomial(5, logits=x),
    "Categorical": lambda x: D.Categorical(logits=_square(x) * torch.arange(3)),
    "Cauchy": lambda x: D.Cauchy(x, 1.0),
    "ContinuousBernoulli": lambda x: D.ContinuousBernoulli(logits=x),
    "Exponential": lambda x: D.Exponential(_positive(x)),
    "Gamma": lambda x: D.Gamma(_positive(x), _positive(x)),
    "Geometric": lambda x: D.Geometric(logits=x),
    "Gumbel": lambda x: D.Gumbel(x, 1.0),
    "HalfCauchy": lambda x: D.HalfCauchy(_positive(x)),
    "Independent": lambda x: D.Independent(D.Normal(x, 1.0), 1),
    "Kumaraswamy": lambda x: D.Kumaraswamy(_positive(x), 1.0),
    "Laplace": lambda x: D.Laplace(x, 1.0),
    "LogNormal": lambda x: D.LogNormal(x, 1.0),
    "NegativeBinomial": lambda x: D.NegativeBinomial(3.0, logits=x),
    "mixture": lambda x: D.MixtureSameFamily(
        D.Categorical(torch.ones(3, 3)), D.Normal(_square(x), 1.0)
    ),
    "Pareto": lambda x: D.Pareto(_positive(x), 1.0),
    "Poisson": lambda x: D.Poisson(_positive(x)),
    "StudentT": lambda x: D.StudentT(5.0, x, _positive(x)),
    "Uniform": lambda x: D.Uniform(x, x + 1),
    "VonMises": lambda x: D.VonMises(x, _positive(x)),
    "Weibull": lambda x: D.Weibull(_positive(x), 1.0),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_elements_of_a_distribution_depend_on_their_parameters(name):
    def program():
        x = sample("x", NORMAL, 3)
        observe("y", INDEPENDENT[name](x), 2, domain=Continuous())

    graph = graph_of(program)
    assert torch.equal(linked(graph, "x", "y"), EYE3.repeat(1, 2))
    assert not graph.factor_pairs().size(1)


MULTIVARIATE = {
    "Dirichlet": lambda x: D.Dirichlet(_positive(_square(x))),
    "Multinomial": lambda x: D.Multinomial(4, logits=_square(x) * torch.arange(3)),
    "OneHotCategorical": lambda x: D.OneHotCategorical(
        logits=_square(x) + torch.eye(3)
    ),
    "MultivariateNormal": lambda x: D.MultivariateNormal(
        _square(x), torch.eye(3) + 0.5
    ),
    "LowRankMultivariateNormal": lambda x: D.LowRankMultivariateNormal(
        _square(x), torch.ones(3, 1), torch.ones(3)
    ),
}


@pytest.mark.parametrize("name", MULTIVARIATE)
def test_elements_of_one_multivariate_draw_are_linked_and_batches_are_not(name):
    def program():
        x = sample("x", NORMAL, 3)
        observe("y", MULTIVARIATE[name](x), domain=Continuous())

    graph = graph_of(program)
    block = torch.block_diag(*[torch.ones(3, 3)] * 3).bool()
    own = torch.eye(9, dtype=torch.bool)
    assert torch.equal(linked(graph, "y", "y") | own, block)
    assert torch.equal(linked(graph, "x", "y"), EYE3.repeat_interleave(3, 1))

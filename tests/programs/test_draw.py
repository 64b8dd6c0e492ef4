"""Programs draw the distributions that they state, many instances at once."""

import inspect
import logging

import pytest
import torch
from torch import distributions as D

from gsdm_pyg import factor, let, observe, program, sample
from gsdm_pyg.programs import ProgramError

NUM = 20_000
NORMAL = D.Normal(0.0, 1.0)
MIXTURE = D.MixtureSameFamily(
    D.Categorical(torch.tensor([0.3, 0.7])),
    D.Normal(torch.tensor([-2.0, 1.0]), torch.tensor([0.5, 1.5])),
)
COVARIANCE = torch.tensor([[1.0, 0.8], [0.8, 2.0]])
PROBS = torch.tensor([0.2, 0.5, 0.3])


def _seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def _moments(x):
    """Means, and the covariance of the elements of an instance, [num, n]."""
    x = x.reshape(len(x), -1).double()
    return x.mean(0), x.T.cov() if x.size(1) > 1 else x.var(0)


DISTRIBUTIONS = {
    "Normal": (D.Normal(torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0])), ()),
    "Bernoulli": (D.Bernoulli(torch.tensor([0.1, 0.6])), 2),
    "Categorical": (D.Categorical(PROBS), 3),
    "Gamma": (D.Gamma(torch.tensor([0.5, 4.0]), 2.0), ()),
    "Dirichlet": (D.Dirichlet(torch.tensor([1.0, 2.0, 5.0])), ()),
    "MultivariateNormal": (D.MultivariateNormal(torch.ones(2), COVARIANCE), 2),
    "Multinomial": (D.Multinomial(6, PROBS), ()),
    "mixture": (MIXTURE, 2),
    "Beta": (D.Beta(2.0, 5.0), 2),
    "Binomial": (D.Binomial(7, torch.tensor([0.2, 0.9])), ()),
    "Laplace": (D.Laplace(1.0, 0.5), 2),
    "LogNormal": (D.LogNormal(0.0, 0.3), 2),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_draws_have_the_moments_of_the_distribution(name, caplog):
    distribution, shape = DISTRIBUTIONS[name]

    @program
    def one():
        sample("x", distribution, shape)

    drawn = one().sample_batch(NUM, _seeded())["x"]
    exact = distribution.sample((NUM, *([shape] if shape else [])))
    assert drawn.shape == exact.shape
    assert "instance by instance" not in caplog.text
    (mean, cov), (exact_mean, exact_cov) = _moments(drawn), _moments(exact)
    scale = exact.double().std(0).max()
    # Five standard errors of a difference of means; more for second moments.
    error = 5 * (2 / NUM) ** 0.5
    torch.testing.assert_close(mean, exact_mean, atol=error * scale.item(), rtol=0)
    limit = 4 * error * scale.item() ** 2
    torch.testing.assert_close(cov, exact_cov, atol=limit, rtol=0)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_instances_are_independent(name):
    distribution, shape = DISTRIBUTIONS[name]

    @program
    def one():
        sample("x", distribution, shape)

    x = one().sample_batch(NUM, _seeded())["x"].reshape(NUM, -1)[:, 0].double()
    x = (x - x.mean()) / x.std()
    for lag in (1, 2, NUM // 2):
        assert (x[lag:] * x[:-lag]).mean().abs() < 5 / (NUM - lag) ** 0.5


def test_parameters_of_each_instance_are_its_own():
    @program
    def chain(n):
        x = sample("x", D.Normal(0.0, 10.0), n)
        observe("y", D.Normal(x, 0.01))

    drawn = chain(n=3).sample_batch(1000, _seeded())
    assert (drawn["x"] - drawn["y"]).abs().max() < 0.1


def test_one_generator_gives_the_same_data_and_is_advanced(untouched_random_state):
    @program
    def pair(n):
        x = sample("x", NORMAL, n)
        observe("y", D.Normal(x.exp(), 1.0))

    generator = _seeded(3)
    first = pair(n=3).sample_batch(8, generator)
    second = pair(n=3).sample_batch(8, generator)
    again = pair(n=3).sample_batch(8, _seeded(3))
    assert torch.equal(first["y"], again["y"])
    assert not torch.equal(first["y"], second["y"])


def test_without_a_generator_the_global_one_decides():
    @program
    def one():
        sample("x", NORMAL, 3)

    torch.manual_seed(5)
    first, second = one().sample_batch(4)["x"], one().sample_batch(4)["x"]
    torch.manual_seed(5)
    assert torch.equal(one().sample_batch(4)["x"], first)
    assert not torch.equal(first, second)


def test_the_global_state_is_restored_after_an_error(untouched_random_state):
    @program
    def never():
        factor(sample("x", NORMAL) > 100)

    with pytest.raises(ProgramError):
        never().sample_batch(2, _seeded())


def test_conditions_give_the_conditional_distribution():
    @program
    def sorted_pair():
        x = sample("x", NORMAL, 2)
        factor(x[0] < x[1])
        factor(x[0] > 0)

    x = sorted_pair().sample_batch(NUM, _seeded())["x"]
    exact = torch.randn(8 * NUM, 2).abs().sort(1).values
    assert (x[:, 0] < x[:, 1]).all() and (x > 0).all()
    error = 5 * (1 / NUM) ** 0.5
    torch.testing.assert_close(x.mean(0), exact.mean(0), atol=error, rtol=0)
    torch.testing.assert_close(x.std(0), exact.std(0), atol=error, rtol=0)


def test_a_changed_tensor_keeps_the_value_that_was_named(caplog):
    def drifting():
        x = sample("x", NORMAL, 2)
        y = let("y", 2 * x)
        x += 100
        y.mul_(0)
        observe("z", D.Normal(x, 0.1))

    problem = program(drifting)()
    for num in (1, 5):
        drawn = problem.sample_batch(num, _seeded())
        assert drawn["x"].abs().max() < 10
        torch.testing.assert_close(drawn["y"], 2 * drawn["x"])
        assert (drawn["z"] - drawn["x"] - 100).abs().max() < 1


def test_constants_that_a_program_changes_are_new_in_every_draw(monkeypatch):
    @program
    def scaled():
        x = sample("x", NORMAL, 2)
        factors = torch.ones(2)
        factors += 1
        factors[0] = 7.0
        let("y", factors * x)

    monkeypatch.setattr("gsdm_pyg.programs.recording.OFTEN", 3)
    problem = scaled()
    for _ in range(6):
        drawn = problem.sample_batch(4)
        expected = drawn["x"] * torch.tensor([7.0, 2.0])
        torch.testing.assert_close(drawn["y"], expected)


def unvectorizable():
    x = sample("x", NORMAL, 3)
    total = torch.zeros(2)
    total[0] = x.sum()  # here
    observe("y", D.Normal(total, 0.01))


def test_a_program_that_vmap_cannot_run_is_run_one_by_one(caplog):
    lines, first = inspect.getsourcelines(unvectorizable)
    here = first + next(i for i, line in enumerate(lines) if "# here" in line)
    problem = program(unvectorizable)()
    with caplog.at_level(logging.WARNING, "gsdm_pyg"):
        drawn = problem.sample_batch(50, _seeded())
        problem.sample_batch(50, _seeded())
    (record,) = caplog.records
    message = record.getMessage()
    assert "unvectorizable is run instance by instance" in message.replace("()", "")
    assert f"(test_draw.py, line {here})" in message
    difference = drawn["x"].sum(1) - drawn["y"][:, 0]
    assert difference.abs().max() < 0.1
    assert drawn["x"].unique().numel() == 150


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_validation_of_distributions_is_restored(before, fails):
    @program
    def one():
        x = sample("x", NORMAL)
        factor(x > (100 if fails else -100))

    default = D.Normal(0.0, 1.0)._validate_args
    D.Distribution.set_default_validate_args(before)
    try:
        if fails:
            with pytest.raises(ProgramError):
                one().sample_batch(2)
        else:
            one().sample_batch(2)
        assert D.Normal(0.0, 1.0)._validate_args == before
    finally:
        D.Distribution.set_default_validate_args(default)


def test_entries_of_a_loop_are_joined():
    @program
    def walk(n):
        x = sample("x[0]", NORMAL)
        for t in range(1, n):
            x = sample(f"x[{t}]", D.Normal(x + 10, 0.1))

    drawn = walk(n=4).sample_batch(10, _seeded())["x"]
    assert drawn.shape == (10, 4)
    assert (drawn.diff(dim=1) - 10).abs().max() < 1

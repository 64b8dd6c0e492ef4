"""Pyro models are problems: their graph, their data, what is rejected."""

import functools
import sys

import pytest
import torch

from gsdm_pyg import GSDM, Categorical, Continuous, Role, graph_of
from gsdm_pyg.programs import ProgramError
from gsdm_pyg.programs.pyro import from_pyro
from gsdm_pyg.registry import resolve_problem

pyro = pytest.importorskip("pyro")
dist, poutine = pyro.distributions, pyro.poutine

SIGMA = torch.tensor([15.0, 10.0, 16.0, 11.0])


def schools(sigma, y=None):
    mu = pyro.sample("mu", dist.Normal(0, 5))
    tau = pyro.sample("tau", dist.HalfCauchy(5.0))
    with pyro.plate("J", len(sigma)):
        theta = pyro.sample("theta", dist.Normal(mu, tau))
        pyro.sample("y", dist.Normal(theta, sigma), obs=y)


def edges(problem) -> set[tuple[str, str]]:
    """The edges as pairs of names such as x[0, 1]."""
    graph = graph_of(problem)
    names = [
        f"{v.name}{index.tolist()}" if v.shape else v.name
        for v in graph.variables.values()
        for index in torch.ones(v.shape).nonzero()
    ]
    return {(names[a], names[b]) for a, b in graph.edges().T.tolist()}


def variables(problem) -> dict[str, tuple[int, ...]]:
    return {name: v.shape for name, v in graph_of(problem).variables.items()}


def test_a_plate_gives_the_graph_of_a_hierarchical_model():
    problem = from_pyro(schools, SIGMA, observed=["y"])
    assert edges(problem) == {
        edge
        for j in range(4)
        for edge in [
            ("mu", f"theta[{j}]"),
            ("tau", f"theta[{j}]"),
            (f"theta[{j}]", f"y[{j}]"),
        ]
    }
    graph = graph_of(problem)
    assert graph.variables["tau"].domain == Continuous(0.0)
    assert graph.variables["y"].role is Role.OBSERVED
    assert type(problem).__name__ == "schools"


@pytest.mark.parametrize(
    "model, args",
    [
        (schools, (SIGMA, torch.zeros(4))),
        (poutine.condition(schools, {"y": torch.zeros(4)}), (SIGMA,)),
        (functools.partial(schools, SIGMA), (torch.zeros(4),)),
    ],
)
def test_data_make_a_site_observed_and_are_drawn_anew(model, args):
    problem = from_pyro(model, *args)
    assert edges(problem) == edges(from_pyro(schools, SIGMA, observed="y"))
    assert graph_of(problem).variables["y"].role is Role.OBSERVED
    assert str(problem) == "schools()"
    assert problem.sample()["y"].abs().min() > 0


def test_draws_have_the_moments_of_pyros_own():
    def model():
        a = pyro.sample("a", dist.Gamma(2.0, 1.0))
        with pyro.plate("rows", 3, dim=-2), pyro.plate("columns", 2, dim=-1):
            b = pyro.sample("b", dist.Beta(1 + a, torch.tensor([1.0, 2.0])))
            c = pyro.deterministic("c", 2 * b)
            w = pyro.sample("w", dist.Dirichlet(torch.ones(3)).mask(True))
        pyro.sample("d", dist.Normal(c.sum(-1), a).to_event(1))
        pyro.sample("n", dist.Binomial(7, w[..., 0].mean()))

    num = 4000
    drawn = from_pyro(model).sample_batch(num, torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    expected = pyro.infer.Predictive(model, num_samples=num)()
    for name, values in drawn.items():
        exact = expected[name].double().view(values.shape)  # [num, 1, 1] -> [num]
        error = (values.double().mean(0) - exact.mean(0)).abs() / exact.std(0)
        assert error.max() < 6 / num**0.5, name
        ratio = values.double().std(0) / exact.std(0)
        torch.testing.assert_close(
            ratio, torch.ones_like(ratio), atol=0.15, rtol=0, msg=name
        )


def test_a_chain_is_one_variable_with_its_first_site_apart():
    def chain(T):
        z = pyro.sample("z_0", dist.Normal(0.0, 1.0))
        for t in pyro.markov(range(1, T)):
            z = pyro.sample(f"z_{t}", dist.Normal(z, 1.0))
            pyro.sample(f"x_{t}", dist.Normal(z, 1.0))

    problem = from_pyro(chain, 4, observed=["x"])
    assert variables(problem) == {"z": (4,), "x": (3,)}
    assert edges(problem) == {
        ("z[0]", "z[1]"),
        ("z[1]", "z[2]"),
        ("z[2]", "z[3]"),
        ("z[1]", "x[0]"),
        ("z[2]", "x[1]"),
        ("z[3]", "x[2]"),
    }
    assert graph_of(problem).variables["x"].role is Role.OBSERVED


@pytest.mark.parametrize("T, shape", [(2, (2,)), (1, (1,))])
def test_loops_of_few_rounds_are_arrays_as_at_larger_sizes(T, shape):
    def chain(T):
        z = pyro.sample("z_0", dist.Normal(0.0, 1.0))
        for t in range(1, T):
            z = pyro.sample(f"z_{t}", dist.Normal(z, 1.0))

    def flips(T):
        p = pyro.sample("p", dist.Beta(10.0, 10.0))
        for i in pyro.plate("data", T):
            pyro.sample(f"obs_{i}", dist.Bernoulli(p))

    assert variables(from_pyro(flips, T, observed="obs")) == {"p": (), "obs": shape}
    assert variables(from_pyro(chain, T)) == {"z": shape}


def test_sites_of_a_sequential_plate_are_entries_of_one_variable():
    def flips(data):
        p = pyro.sample("p", dist.Beta(10.0, 10.0))
        for i in pyro.plate("data", len(data)):
            pyro.sample(f"obs_{i}", dist.Bernoulli(p), obs=data[i])

    problem = from_pyro(flips, torch.ones(5))
    assert variables(problem) == {"p": (), "obs": (5,)}
    assert graph_of(problem).variables["obs"].domain == Categorical(2)


def test_only_sites_of_one_statement_become_entries():
    def model():
        a = pyro.sample("beta_0", dist.Normal(0.0, 1.0))
        b = pyro.sample("beta_1", dist.Normal(0.0, 1.0))
        for i in range(2):
            for j in range(3):
                pyro.sample(f"y1_{i}_{j}", dist.Normal(a, 1.0))
        for year in (1990, 1995, 2000):
            pyro.sample(f"x[{year}]", dist.Normal(b, 1.0))
        for i in range(1, 3):
            pyro.sample(f"layer{i}.weight", dist.Normal(b, 1.0).expand([i]).to_event())

    assert variables(from_pyro(model)) == {
        "beta_0": (),
        "beta_1": (),
        "y1": (2, 3),
        "x": (3,),
        "layer1.weight": (1,),  # of two shapes: no array
        "layer2.weight": (2,),
    }


def test_a_hidden_markov_model_depends_on_what_its_state_selects():
    def hmm(T, K=2):
        p = pyro.sample("p", dist.Dirichlet(torch.ones(K, K)).to_event(1))
        z = 0
        for t in pyro.markov(range(T)):
            z = pyro.sample(f"z_{t}", dist.Categorical(p[z]))

    problem = from_pyro(hmm, 3)
    assert ("z[1]", "z[2]") in edges(problem)
    assert {("p[1, 0]", "z[2]"), ("p[0, 1]", "z[2]")} <= edges(problem)
    assert ("p[1, 0]", "z[0]") not in edges(problem)


def test_whole_numbers_are_sizes_that_a_family_draws():
    def mean(n, scale=2.0, groups=3):
        mu = pyro.sample("mu", dist.Normal(0.0, scale).expand([groups]).to_event(1))
        with pyro.plate("data", n):
            pyro.sample("y", dist.Normal(mu.sum(), 1.0))

    problem = from_pyro(mean, 5, observed=["y"])
    assert str(problem) == "mean(n=5, groups=3)"
    family = problem.family(n=(2, 4))
    assert variables(family.largest()) == {"mu": (3,), "y": (4,)}
    assert variables(family.smallest()) == {"mu": (3,), "y": (2,)}


def test_reparametrised_sites_are_intermediates():
    reparam = pytest.importorskip("pyro.infer.reparam")
    config = {"theta": reparam.LocScaleReparam(0.0)}
    problem = from_pyro(poutine.reparam(schools, config), SIGMA, observed="y")
    theta = graph_of(problem).variables["theta"]
    assert theta.role is Role.INTERMEDIATE
    assert ("theta_decentered[2]", "theta[2]") in edges(problem)


def test_modules_with_random_weights_are_models():
    class Regression(pyro.nn.PyroModule):
        def __init__(self):
            super().__init__()
            self.linear = pyro.nn.PyroModule[torch.nn.Linear](2, 1)
            prior = dist.Normal(0.0, 1.0)
            self.linear.weight = pyro.nn.PyroSample(prior.expand([1, 2]).to_event(2))
            self.linear.bias = pyro.nn.PyroSample(prior.expand([1]).to_event(1))

        def forward(self, x):
            mean = self.linear(x).squeeze(-1)
            with pyro.plate("data", len(x)):
                pyro.sample("y", dist.Normal(mean, 1.0))

    x = torch.tensor([[1.0, 2.0], [0.0, 3.0]])
    problem = from_pyro(Regression(), x, observed="y")
    assert str(problem) == "Regression()"
    assert variables(problem) == {
        "linear.weight": (1, 2),
        "linear.bias": (1,),
        "y": (2,),
    }
    assert ("linear.weight[0, 1]", "y[1]") in edges(problem)
    assert ("linear.bias[0]", "y[0]") in edges(problem)


def test_data_that_are_larger_than_the_distribution_are_independent_draws():
    def model(data):
        mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
        pyro.sample("y", dist.Normal(mu, 1.0), obs=data)

    problem = from_pyro(model, torch.zeros(3))
    assert edges(problem) == {("mu", "y[0]"), ("mu", "y[1]"), ("mu", "y[2]")}


def test_observed_sites_may_be_masked():
    def model(data):
        mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
        with poutine.mask(mask=~data.isnan()), pyro.plate("data", len(data)):
            pyro.sample("y", dist.Normal(mu, 1.0), obs=data.nan_to_num())

    problem = from_pyro(model, torch.tensor([0.0, torch.nan]))
    assert problem.sample_batch(5)["y"].isfinite().all()


def test_parameters_are_constants():
    def model():
        scale = pyro.param("scale", torch.tensor(3.0), constraint=positive)
        pyro.sample("x", dist.Normal(0.0, scale))

    positive = dist.constraints.positive
    with pyro.get_param_store().scope():
        x = from_pyro(model).sample_batch(4000, torch.Generator().manual_seed(0))["x"]
    assert x.std().item() == pytest.approx(3, rel=0.1)


def mu_and_y(**data):
    mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
    return pyro.sample("y", dist.Normal(mu, 1.0), **data)


def with_factor():
    pyro.factor("positive", mu_and_y())


def with_scale():
    poutine.scale(mu_and_y, 0.5)()


def with_subsample():
    with pyro.plate("data", 10, subsample_size=5):
        mu_and_y()


def with_sequential_subsample():
    for _ in pyro.plate("data", 10, subsample_size=5):
        mu_and_y()


def with_masked_latent():
    with poutine.mask(mask=torch.tensor(False)):
        mu_and_y()


def with_random_mask():
    mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
    pyro.sample("y", dist.Normal(mu, 1.0).mask(mu > 0), obs=torch.tensor(0.0))


def with_control_flow():
    if pyro.sample("z", dist.Bernoulli(0.5)):
        mu_and_y()


def with_function():
    pyro.sample("x", lambda: torch.zeros(()))


def autoregressive(data):
    for t in range(1, len(data)):
        pyro.sample(f"y_{t}", dist.Normal(data[t - 1], 1.0), obs=data[t])


def with_data_in_python(data):
    mu_and_y(obs=data)
    if data.sum() > 0:
        pyro.sample("z", dist.Normal(0.0, 1.0))


DATA = torch.arange(5.0)
REJECTED = [
    (with_factor, (), "pyro.factor"),
    (with_scale, (), "scaled"),
    (with_subsample, (), "plate 'data' takes a subsample"),
    (with_sequential_subsample, (), "got 5 of 10"),
    (with_masked_latent, (), "'mu' is latent and masked"),
    (with_random_mask, (), "mask of site 'y' cannot depend on a random value"),
    (with_control_flow, (), "cannot follow a random value"),
    (with_function, (), "pass a distribution"),
    (autoregressive, (DATA,), "'y_2' depends on the data of an observed site"),
    (with_data_in_python, (DATA,), "data that a model observes are random values"),
]


@pytest.mark.parametrize("model, args, message", REJECTED)
def test_what_data_cannot_be_drawn_from_is_rejected_with_the_line(model, args, message):
    with pytest.raises(ProgramError, match=message) as raised:
        graph_of(from_pyro(model, *args))
    assert "test_from_pyro.py, line" in str(raised.value)


def test_wrong_calls_say_what_to_pass():
    with pytest.raises(ProgramError, match=r"are mu, tau, theta, y \(got 'z'\)"):
        from_pyro(schools, SIGMA, observed=["z"])
    with pytest.raises(TypeError, match=r"schools\(sigma, y=None\): missing"):
        from_pyro(schools)
    with pytest.raises(TypeError, match="takes a function with statements of Pyro"):
        from_pyro(SIGMA)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyro.distributions", None)
    monkeypatch.delitem(sys.modules, "gsdm_pyg.programs.pyro_sites", raising=False)
    monkeypatch.delattr("gsdm_pyg.programs.pyro_sites", raising=False)
    with pytest.raises(ModuleNotFoundError, match="pip install pyro-ppl"):
        from_pyro(schools, SIGMA)


def test_the_random_state_of_the_user_stays():
    state = torch.random.get_rng_state()
    from_pyro(schools, SIGMA, torch.zeros(4)).sample(torch.Generator())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_examples_have_the_graphs_that_they_promise():
    example = pytest.importorskip("examples.programs.eight_schools")
    problem = from_pyro(example.eight_schools, example.SIGMA, observed=["y"])
    assert variables(problem) == {"mu": (), "tau": (), "theta": (8,), "y": (8,)}
    assert graph_of(problem).variables["theta"].positions  # sigma differs by school
    coin = pytest.importorskip("examples.programs.coin").coin
    problem = from_pyro(coin, 3, observed=["flip"])
    assert variables(problem) == {"fairness": (), "flip": (3,)}
    assert not graph_of(problem).variables["flip"].positions  # flips can be permuted


FILE = """
import pyro, torch
from pyro.distributions import Normal
from gsdm_pyg.programs.pyro import from_pyro

def model(n):
    mu = pyro.sample("mu", Normal(0.0, 1.0))
    with pyro.plate("data", n):
        pyro.sample("y", Normal(mu, 1.0))

Mean = type(from_pyro(model, 4, observed=["y"]))
"""


def test_a_file_names_a_problem_for_the_command_line(tmp_path):
    (tmp_path / "mean.py").write_text(FILE)
    reference = f"{tmp_path / 'mean.py'}:Mean"
    problem = resolve_problem(reference)
    assert problem.reference == reference
    assert variables(problem()) == {"mu": (), "y": (4,)}
    assert variables(problem(n=2)) == {"mu": (), "y": (2,)}


@pytest.mark.slow
def test_a_model_is_trained_and_sampled():
    problem = from_pyro(schools, SIGMA, observed=["y"])
    gsdm = GSDM.from_problem(problem, width=16, layers=3).fit(max_steps=2)
    y = torch.tensor([28.0, 8.0, -3.0, 7.0])
    posterior = gsdm.sample(problem, given={"y": y}, num_samples=3, steps=4)
    assert posterior["theta"].shape == (3, 4)
    torch.testing.assert_close(posterior["y"], y.expand(3, 4))

"""Which indices of programs a model must know."""

import pytest
import torch
from torch.distributions import Bernoulli, Categorical, HalfNormal, Normal, Uniform

from gsdm_pyg import graph_of, let, observe, program, sample
from gsdm_pyg.programs.program_problem import found_positions
from gsdm_pyg.programs.replay import replay
from problems import BCMF, Sorting, Sudoku


@program
def factorization(m, n, k):
    A = sample("A", Uniform(0, 1), (m, k))
    R = sample("R", Bernoulli(0.3), (k, n))
    C = let("C", A[:, None, :] * R.T[None])
    observe("E", C.sum(-1))


@program
def weighted_factorization(m, n, k):
    A = sample("A", Uniform(0, 1), (m, k))
    R = sample("R", Bernoulli(0.3), (k, n))
    C = let("C", A[:, None, :] * R.T[None])
    observe("E", (C * torch.arange(1, k + 1)).sum(-1))


@program
def groups(num_groups, members):
    mean = sample("mean", Normal(0.0, 1.0))
    spread = sample("spread", HalfNormal(1.0))
    effect = sample("effect", Normal(mean, spread), num_groups)
    observe("y", Normal(effect[:, None].expand(-1, members), 1.0))


@program
def unequal_means(n):
    x = sample("x", Normal(torch.arange(n).float(), 1.0))
    observe("y", Normal(x, 1.0))


@program
def unequal_classes(n):
    z = sample("z", Bernoulli(torch.linspace(0.1, 0.9, n)))
    observe("y", Normal(z, 1.0))


TRANSITION = torch.tensor([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])


@program
def hidden_markov(steps):
    z = [sample("z[0]", Categorical(torch.ones(3)))]
    for t in range(1, steps):
        z.append(sample(f"z[{t}]", Categorical(TRANSITION[z[-1]])))
    observe("y", Normal(torch.stack(z).float(), 0.5))


@program
def growing_steps(n):
    x = [sample("x[0]", Normal(0.0, 1.0))]
    for t in range(1, n):
        x.append(sample(f"x[{t}]", Normal(t * x[-1], 1.0)))
    observe("y", Normal(torch.stack(x), 1.0))


@program
def unnamed_noise(n):
    x = sample("x", Normal(0.0, 1.0), n)
    observe("y", x + torch.randn(n))


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (factorization(m=3, n=4, k=2), {}),
        (factorization(m=1, n=1, k=1), {}),  # decided at other sizes
        (weighted_factorization(m=3, n=4, k=2), {"A": (1,), "R": (0,), "C": (2,)}),
        (groups(num_groups=3, members=4), {}),
        (unequal_means(n=4), {"x": (0,), "y": (0,)}),
        (unequal_classes(n=4), {"z": (0,), "y": (0,)}),
        (hidden_markov(steps=6), {}),  # kinds of edges tell the direction of time
        (growing_steps(n=6), {"x": (0,), "y": (0,)}),
        (unnamed_noise(n=4), {"x": (0,), "y": (0,)}),  # cannot be decided
    ],
    ids=str,
)
def test_an_index_needs_a_position_unless_it_can_be_permuted(problem, expected):
    assert found_positions(problem) == expected
    for name, variable in graph_of(problem).variables.items():
        axes = list(expected.get(name, ()))
        every = torch.ones(variable.shape).nonzero()
        assert torch.equal(variable.coordinates, every[:, axes])


def test_declared_positions_are_taken_as_they_are():
    @program(positions={"x": (0,)})
    def declared(n):
        x = sample("x", Normal(0.0, 1.0), n)
        observe("y", Normal(x, 1.0))

    variables = graph_of(declared(n=3)).variables
    assert variables["x"].coordinates.tolist() == [[0], [1], [2]]
    assert variables["y"].coordinates.shape == (3, 0)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (BCMF(m=2, n=3, k=2), {}),
        (Sorting(n=4), {"P": (0,), "C": (0,), "s": (0,)}),
        (Sudoku(), {}),  # any cell can take any other's place
    ],
    ids=str,
)
def test_other_problems_get_positions_from_their_graph(problem, expected):
    assert found_positions(problem) == expected


def test_replay_gives_the_terms_of_the_joint_density():
    problem = groups(num_groups=2, members=3)
    values = problem.sample(torch.Generator().manual_seed(0))
    terms = replay(problem.program, values)
    mean, spread, effect = (values[name] for name in ("mean", "spread", "effect"))
    expected = Normal(mean, spread).log_prob(effect)
    torch.testing.assert_close(terms.log_prob["effect"], expected)
    expected = Normal(effect[:, None], 1.0).log_prob(values["y"])
    torch.testing.assert_close(terms.log_prob["y"], expected)


def test_replay_computes_what_variables_determine():
    problem = factorization(m=2, n=3, k=2)
    values = problem.sample(torch.Generator().manual_seed(0))
    changed = {**values, "C": values["C"] + 1}
    terms = replay(problem.program, changed)
    torch.testing.assert_close(terms.value["C"], values["C"])
    torch.testing.assert_close(terms.value["E"], values["E"] + 2)


@program(intermediates="all")
def unnamed(m, n):
    x = sample("x", Normal(0.0, 1.0), (m, n))
    observe("y", (x.exp() * 2).sum(-1))


def test_all_intermediates_name_every_result():
    graph = graph_of(unnamed(m=2, n=3))
    assert list(graph.variables) == ["x", "exp_1", "mul_1", "y"]
    drawn = unnamed(m=2, n=3).sample_batch(5, torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn["exp_1"], drawn["x"].exp())
    torch.testing.assert_close(drawn["y"], drawn["mul_1"].sum(-1))
    one = unnamed(m=2, n=3).sample(torch.Generator().manual_seed(0))
    torch.testing.assert_close(one["mul_1"], 2 * one["x"].exp())

"""Programs that treat some values of an index differently, and how that is noticed."""

import pytest
import torch
from torch.distributions import Bernoulli, Beta, Dirichlet, Normal, Uniform

from gsdm_pyg import GSDM, factor, graph_of, let, observe, program, sample
from gsdm_pyg.programs import ProgramError
from gsdm_pyg.programs.program_problem import check_positions, found_positions


@program
def two_groups(n):
    x = sample("x", Normal(torch.where(torch.arange(n) < 8, 0.0, 5.0), 0.5))
    observe("y", Normal(x, 3.0))


def test_what_shows_at_large_sizes_only_is_rejected_with_the_declaration():
    check_positions(two_groups(n=8))  # all alike
    declaration = r"positions=\{'x': \(0,\), 'y': \(0,\)\}"
    with pytest.raises(ProgramError, match=declaration):
        GSDM.from_problem(two_groups.family(n=(4, 12)))


@program
def conditioned(n):
    x = sample("x", Normal(0.0, 1.0), n)
    factor(x > torch.where(torch.arange(n) == 2, -1.5, -10.0))
    observe("y", Normal(x, 1.0))


@program
def rare_class(n):
    z = sample("z", Bernoulli(0.02), n)
    w = sample("w", Normal(0.0, 1.0), n)
    observe("y", Normal(w + z * (1 + 9.0 * (torch.arange(n) > 2)), 0.1))


@pytest.mark.parametrize("problem", [conditioned(n=4), rare_class(n=4)], ids=str)
def test_conditions_and_rare_classes_keep_an_index_apart(problem):
    assert set(found_positions(problem)) == set(graph_of(problem).variables)


@program
def multiples_of_four(n):
    assert n % 4 == 0
    x = sample("x", Normal(0.0, 1.0), (n, n // 4))
    observe("y", Normal(x.sum(1), 1.0))


def test_a_program_without_small_sizes_knows_all_indices():
    for n in (4, 8):
        assert found_positions(multiples_of_four(n=n)) == {"x": (0, 1), "y": (0,)}


def test_entries_of_different_bounds_share_a_domain():
    @program
    def growing(n):
        for i in range(n):
            sample(f"x[{i}]", Uniform(-float(i), 1.0 + i))

    domain = graph_of(growing(n=3)).variables["x"].domain
    assert (domain.low, domain.high) == (-2, 3)
    growing(n=3).sample_batch(50, torch.Generator().manual_seed(0))


def test_names_and_defaults_that_a_problem_cannot_have_are_rejected():
    with pytest.raises(ProgramError, match=r"choose another \(got 'family'\)"):
        program(lambda n, family: None)
    with pytest.raises(ProgramError, match=r"such as a tuple \(got \[1, 2\]\)"):
        program(lambda n, weights=[1, 2]: None)


def test_a_named_value_does_not_follow_changes_of_its_source():
    @program
    def renamed(n):
        s = sample("s", Normal(0.0, 1.0), n)
        a = let("a", s)
        s += sample("e", Normal(0.0, 100.0), n)
        observe("y", Normal(a, 0.1))
        observe("z", Normal(s, 0.1))

    for num in (1, 300):
        drawn = renamed(n=2).sample_batch(num, torch.Generator().manual_seed(0))
        assert (drawn["y"] - drawn["s"]).abs().max() < 1
        assert (drawn["z"] - drawn["s"] - drawn["e"]).abs().max() < 1
        assert torch.equal(drawn["a"], drawn["s"])


def seeded_inside(n):
    torch.manual_seed(0)
    sample("x", Normal(0.0, 1.0), n)


def fixed_inside(n):
    design = torch.randn(n, generator=torch.Generator().manual_seed(0))
    observe("y", Normal(sample("x", Normal(0.0, 1.0)) * design, 1.0))


@pytest.mark.parametrize(
    ("function", "message"),
    [(seeded_inside, "does not seed torch"), (fixed_inside, "leave out generator=")],
)
def test_seeds_and_generators_inside_of_a_program_are_rejected(function, message):
    state = torch.random.get_rng_state()
    with pytest.raises(ProgramError, match=message):
        graph_of(program(function)(n=3))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_small_concentrations_do_not_underflow():
    @program
    def sparse(n):
        sample("p", Dirichlet(torch.full((3,), 0.02)), n)
        sample("b", Beta(0.02, 0.02), n)

    drawn = sparse(n=5).sample_batch(2000, torch.Generator().manual_seed(0))
    equal = (drawn["p"] - 1 / 3).abs().amax(-1) < 1e-6
    assert equal.double().mean() < 1e-3
    assert ((drawn["b"] - 0.5).abs() < 1e-6).double().mean() < 1e-3


def test_renorm_depends_on_the_slices_that_it_scales():
    @program
    def scaled(n):
        x = sample("x", Normal(0.0, 1.0), (2, n))
        observe("y", torch.renorm(x, 2, 0, 1.0))

    graph = graph_of(scaled(n=3))
    into_first = graph.edges()[0][graph.edges()[1] == graph.node_ids("y")[0, 0]]
    assert {0, 1, 2} <= set(into_first.tolist())

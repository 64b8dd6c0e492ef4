"""The paper's problems as programs compile to the graphs that are built by hand."""

import pytest
import torch

import problems
from examples.programs import paper
from gsdm_pyg import GSDM, graph_of

PAIRS = [
    (paper.bcmf, problems.BCMF, [(3, 4, 2), (1, 1, 1), (2, 5, 6)]),
    (paper.hierarchical_bcmf, problems.HierarchicalBCMF, [(3, 4, 2), (2, 1, 3)]),
    (paper.Circuit, problems.BooleanCircuit, [(1,), (3,), (5,)]),
    (paper.matrix_inversion, problems.MatrixInversion, [(1,), (3,)]),
    (paper.state_space, problems.StateSpace, [(1,), (2,), (7,)]),
]
CASES = [(program, by_hand, size) for program, by_hand, all_ in PAIRS for size in all_]


def names(graph):
    """The variable and the place in it of every node."""
    return [(v.name, i) for v in graph.variables.values() for i in range(v.num_nodes)]


def linked(graph, pairs):
    node = names(graph)
    return {(node[a], node[b]) for a, b in pairs.t().tolist()}


@pytest.mark.parametrize(("program", "by_hand", "size"), CASES)
def test_a_program_compiles_to_the_graph_built_by_hand(program, by_hand, size):
    ours, theirs = graph_of(program(*size)), graph_of(by_hand(*size))
    assert ours.variables.keys() == theirs.variables.keys()
    for name, variable in theirs.variables.items():
        found = ours.variables[name]
        assert (found.shape, found.domain) == (variable.shape, variable.domain)
        assert found.role == variable.role
        assert torch.equal(found.coordinates, variable.coordinates)
    assert linked(ours, ours.edges()) == linked(theirs, theirs.edges())
    factors = linked(ours, ours.factor_pairs())
    if program is paper.hierarchical_bcmf:
        # Its rows of R have a 1 each, which the graph by hand does not say.
        rows = {
            a[0] == b[0] == "R" and a[1] // size[1] == b[1] // size[1]
            for a, b in factors
        }
        assert rows <= {True}
    else:
        assert factors == linked(theirs, theirs.factor_pairs())


@pytest.mark.parametrize(("program", "by_hand", "sizes"), PAIRS)
def test_a_program_draws_from_the_same_distribution(program, by_hand, sizes):
    num = 4000
    ours, theirs = (
        problem(*sizes[0]).sample_batch(num, torch.Generator().manual_seed(seed))
        for seed, problem in enumerate((program, by_hand))
    )
    for name, expected in theirs.items():
        a, b = (x.double().reshape(num, -1) for x in (ours[name], expected))
        error = (a.var(0) + b.var(0)).div(num).sqrt()
        assert ((a.mean(0) - b.mean(0)).abs() <= 5 * error + 1e-12).all(), name
        squares = (a.square().var(0) + b.square().var(0)).div(num).sqrt()
        off = (a.square().mean(0) - b.square().mean(0)).abs()
        assert (off <= 5 * squares + 1e-12).all(), name


@pytest.mark.slow
def test_a_family_of_programs_trains_saves_and_samples(tmp_path):
    family = paper.bcmf.family(m=(1, 3), n=(1, 3), k=(1, 2))
    model = GSDM.from_problem(family, width=16, layers=4).fit(max_steps=3)
    model.save_pretrained(tmp_path / "model")
    loaded = GSDM.from_pretrained(tmp_path / "model")
    samples = loaded.sample(
        paper.bcmf(m=4, n=5, k=3), {"E": torch.ones(4, 5)}, 2, generator=0, steps=3
    )
    assert samples["R"].shape == (2, 3, 5)
    assert "rmse_A" in loaded.evaluate(paper.bcmf(m=2, n=2, k=1), 2, steps=2).metrics

"""FOPPL programs as problems: graphs, names, data, given values, training."""

from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest
import torch

from gsdm_pyg import GSDM, Problem, Role
from gsdm_pyg.config import load_config
from gsdm_pyg.problem import graph_of
from gsdm_pyg.programs.foppl import from_foppl
from gsdm_pyg.registry import resolve_problem
from problems import BCMF

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"


def example(name):
    return from_foppl(EXAMPLES / f"{name}.foppl")


def generator():
    return torch.Generator().manual_seed(0)


def typed(graph, domains=True):
    """A graph of networkx whose nodes have a kind."""
    network = nx.DiGraph()
    for variable in graph.variables.values():
        kind = (variable.role, variable.domain if domains else None)
        nodes = range(variable.nodes.start, variable.nodes.stop)
        network.add_nodes_from(nodes, kind=kind)
    network.add_edges_from(graph.edges().T.tolist())
    return network


def isomorphic(first, second, domains=True):
    same_kind = nx.algorithms.isomorphism.categorical_node_match("kind", None)
    graphs = typed(first, domains), typed(second, domains)
    return nx.is_isomorphic(*graphs, node_match=same_kind)


def same_nodes(first, second):
    """Whether two graphs are equal after their variables are matched by name."""
    if {n: v.shape for n, v in first.variables.items()} != {
        n: v.shape for n, v in second.variables.items()
    }:
        return False
    ids = torch.empty(first.num_nodes, dtype=torch.long)
    for name in first.variables:
        ids[first.node_ids(name)] = second.node_ids(name)
    edges = {tuple(edge) for edge in ids[first.edges()].T.tolist()}
    return edges == {tuple(edge) for edge in second.edges().T.tolist()}


def test_the_program_of_the_paper_has_the_graph_of_bcmf():
    graph = graph_of(example("bcmf")())
    by_hand = graph_of(BCMF(m=3, n=3, k=2))
    assert isomorphic(graph, by_hand, domains=False)  # the paper's R is continuous
    assert same_nodes(graph, by_hand)
    assert not isomorphic(graph, graph_of(BCMF(m=3, n=2, k=3)), domains=False)


@pytest.mark.parametrize("sizes", [(3, 3, 2), (1, 1, 1), (2, 4, 3), (5, 1, 2)])
def test_sizes_are_the_arguments_of_main(sizes):
    sizes = dict(zip("mnk", sizes, strict=True))
    graph = graph_of(example("bcmf_sizes")(**sizes))
    by_hand = graph_of(BCMF(**sizes))
    assert isomorphic(graph, by_hand) and same_nodes(graph, by_hand)


def test_a_family_draws_sizes():
    family = example("bcmf_sizes").family(m=(1, 3), n=2, k=(1, 2))
    assert family.largest() == example("bcmf_sizes")(m=3, n=2, k=2)
    drawn = family.draw(generator()).sample(generator())
    torch.testing.assert_close(drawn["E"], drawn["A"] @ drawn["R"].float())


def test_a_size_with_a_hyphen_is_a_field_with_an_underscore():
    problem = from_foppl("(defn main [num-rows] (foreach num-rows [] 1))")
    assert problem(num_rows=3).sizes() == {"num_rows": 3}


def test_regression_has_the_moments_of_its_prior():
    drawn = example("regression")().sample_batch(4000, generator())
    x = torch.arange(1.0, 6.0)
    line = drawn["slope"][:, None] * x + drawn["bias"][:, None]
    noise = drawn["y"] - line
    assert abs(noise.mean()) < 0.03 and abs(noise.std() - 1) < 0.03
    for name in ("slope", "bias"):
        assert abs(drawn[name].std() - 10) < 0.5


def test_values_of_the_source_are_given():
    given = example("regression")().given_values
    assert set(given) == {"y"}
    torch.testing.assert_close(given["y"], torch.tensor([2.1, 3.9, 5.3, 7.7, 10.2]))


def test_given_values_of_every_kind():
    problem = from_foppl("""
        (foreach 2 [i [0 1]] (observe "some" (normal 0 1) (if (= i 0) 1.5 nil)))
        (observe "coin" (flip 0.5) true)
        (observe "die" (uniform-discrete 1 7) 6)
        (observe "parts" (dirichlet [1 1]) [0.25 0.75])
        (observe "none" (normal 0 1))
    """)()
    given = problem.given_values
    assert set(given) == {"some", "coin", "die", "parts"}
    assert given["some"][0] == 1.5 and given["some"][1].isnan()
    assert given["coin"] == 1 and given["die"] == 5
    assert given["parts"].tolist() == [0.25, 0.75]


def test_hmm_has_its_transition_frequencies():
    z = example("hmm")(T=6).sample_batch(3000, generator())["z"]
    assert abs(z[:, 0].double().mean() - 0.5) < 0.04
    before, after = z[:, :-1].flatten(), z[:, 1:].flatten()
    for state, chance in ((0, 0.1), (1, 0.7)):
        assert abs(after[before == state].double().mean() - chance) < 0.03


def test_hmm_is_a_chain():
    graph = graph_of(example("hmm")(T=4))
    z, y = graph.node_ids("z").tolist(), graph.node_ids("y").tolist()
    due = {*pairwise(z), *zip(z, y, strict=True)}
    assert {tuple(edge) for edge in graph.edges().T.tolist()} == due


def test_mixture_depends_on_all_means_through_its_index():
    graph = graph_of(example("mixture")(n=2))
    y = graph.node_ids("y")
    parents = graph.edges()[0, graph.edges()[1] == y[0]].tolist()
    due = [*graph.node_ids("means").tolist(), graph.node_ids("z")[0].item()]
    assert sorted(parents) == sorted(due)


def names(text):
    graph = graph_of(from_foppl(text)())
    return {name: variable.shape for name, variable in graph.variables.items()}


def test_a_sample_without_a_name_is_one_variable_of_its_loops():
    assert names("(foreach 2 [] (foreach 3 [] (+ 1 (sample (normal 0 1)))))") == {
        "sample1": (2, 3)
    }
    assert names("(foreach 2 [] (conj [] (observe (dirichlet [1 1 1]) nil)))") == {
        "observe1": (2, 3)
    }


def test_a_let_names_its_samples():
    text = """
        (let [x (sample (normal 0 1))
              x (sample (normal x 1))]
          (sample "x_3" (dirac x)))
    """
    assert names(text) == {"x": (), "x_2": (), "x_3": ()}
    assert names('(let [x (sample (normal 0 1))] (sample "x" (dirac x)))') == {
        "x_2": (),
        "x": (),
    }


def test_calls_in_several_places_make_several_variables():
    text = """
        (defn draw [t state] (let [z (sample (normal state 1))] z))
        (let [a (draw 0 0)] (loop 3 a draw))
    """
    assert names(text) == {"draw1.z": (), "draw2.z": (3,)}


def test_numbers_count_the_statements_without_a_name():
    text = "(let [z (sample (normal 0 1))] [(sample (normal z 1))])"
    assert names(text) == {"z": (), "sample1": ()}


def test_statements_of_one_name_share_a_variable():
    text = """
        (let [first-state (sample ["z" 0] (normal 0 1))]
          (foreach 3 [t (range 1 4)] (sample ["z" t] (normal first-state 1))))
    """
    assert names(text) == {"z": (4,)}


def roles(text):
    variables = graph_of(from_foppl(text)()).variables
    return {name: variable.role for name, variable in variables.items()}


def test_a_dirac_at_the_end_is_a_result():
    start = "(let [x (sample (normal 0 1)) y (sample (dirac (* 2 x)))]"
    due = {"x": Role.LATENT, "y": Role.INTERMEDIATE, "z": Role.OBSERVED}
    assert roles(f'{start} (sample "z" (dirac (+ y 1))))') == due
    assert roles(f'{start} (observe "z" (dirac (+ y 1))))') == due
    due |= {"prediction": Role.LATENT}
    text = f'{start} (observe "z" (normal y 1)) (sample "prediction" (dirac (+ y 1))))'
    assert roles(text) == due


def test_the_value_of_observe_is_the_variable():
    problem = from_foppl("""
        (let [y (observe (normal 0 1) 3)]
          (observe "z" (normal y 0.001)))
    """)()
    drawn = problem.sample_batch(32, generator())
    torch.testing.assert_close(drawn["z"], drawn["y"], atol=0.01, rtol=0)
    assert graph_of(problem).edges().tolist() == [[0], [1]]


def test_a_config_names_a_foppl_file(tmp_path):
    path = str(EXAMPLES / "bcmf_sizes.foppl")
    config = tmp_path / "config.yaml"
    config.write_text(f"problem: {{name: {path}, m: [1, 2], n: 2, k: 1}}\n")
    source = load_config(config).problem.source()
    assert source.problem is resolve_problem(path) is from_foppl(path)
    assert source.problem.reference == path
    with pytest.raises(FileNotFoundError, match="does not exist"):
        resolve_problem("nowhere.foppl")


def test_text_of_a_program_is_a_problem_by_its_name(monkeypatch):
    monkeypatch.setattr(Problem, "registry", dict(Problem.registry))
    problem = from_foppl("; Draws x.\n(sample (normal 0 1))", name="just-x")
    assert problem.__name__ == "just_x" and problem.__doc__ == "Draws x."
    assert str(problem()) == "just_x()"
    assert resolve_problem("just_x") is problem


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "given"),
    [
        ("bcmf", {}, None),
        ("bcmf_sizes", {"m": 2, "n": 3, "k": 2}, None),
        ("hmm", {"T": 4}, None),
        ("mixture", {"n": 3}, None),
        ("regression", {}, "source"),
    ],
)
def test_examples_train_and_sample(name, sizes, given, tmp_path):
    problem = example(name)(**sizes)
    model = GSDM.from_problem(problem, width=16, layers=2, heads=2)
    model.fit(max_steps=2, batch_size=8)
    values = problem.given_values
    if given is None:
        drawn, variables = problem.sample(generator()), graph_of(problem).variables
        observed = [n for n, v in variables.items() if v.role is Role.OBSERVED]
        values = {observed[0]: drawn[observed[0]]}
    posterior = model.sample(problem, given=values, num_samples=2, steps=2)
    for variable, value in values.items():
        torch.testing.assert_close(posterior[variable], value.expand(2, *value.shape))
    model.save_pretrained(tmp_path)
    loaded = GSDM.from_pretrained(tmp_path)
    assert resolve_problem(loaded.spec.name) is type(problem)

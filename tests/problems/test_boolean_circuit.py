"""The Boolean circuit: its gates, its graph, its metrics and its picture."""

import math
from itertools import pairwise, product

import pytest
import torch
from matplotlib.colors import to_rgba

from gsdm_pyg.evaluation import prior_metrics
from problems import BooleanCircuit
from tests.problems.draws import draw_batch, draw_list
from tests.problems.graph_oracle import attention_links, symmetric_with_loops


def node(n, layer, i):
    """The name of node i of a layer, layer 0 being the inputs."""
    if layer == 0:
        return ("x", i)
    return ("y",) if layer == n else ("h", 2**n - 2 ** (n - layer + 1) + i)


def shapes(n):
    inner = {"h": (2**n - 2,)} if n > 1 else {}
    return {"x": (2**n,), **inner, "y": ()}


def all_outputs(problem):
    """The values of each layer, [2^inputs, nodes], one row for every possible input."""
    num_inputs = 2**problem.n
    inputs = torch.arange(2**num_inputs)[:, None] >> torch.arange(num_inputs) & 1
    layers = [inputs.bool()]
    for kinds in problem.gates:
        left, right = layers[-1][:, ::2], layers[-1][:, 1::2]
        layers.append(torch.where(kinds.bool(), left & right, left | right))
    return layers


# gates


def test_there_are_half_as_many_gates_in_each_layer():
    assert [len(layer) for layer in BooleanCircuit(n=4).gates] == [8, 4, 2, 1]


def test_gates_are_a_function_of_the_seed(untouched_random_state):
    circuits = [torch.cat(BooleanCircuit(n=6, gate_seed=s).gates) for s in range(20)]
    again = torch.cat(BooleanCircuit(n=6, gate_seed=7).gates)
    assert torch.equal(circuits[7], again)
    assert torch.stack(circuits).unique(dim=0).size(0) == 20


def test_and_and_or_are_equally_frequent():
    gates = [torch.cat(BooleanCircuit(n=6, gate_seed=s).gates) for s in range(200)]
    kinds = torch.cat(gates).float()
    assert abs(kinds.mean() - 0.5) < 4 * 0.5 / len(kinds) ** 0.5


def test_a_gate_is_nearly_constant_only_if_the_other_kind_would_be_too():
    for seed in range(12):
        layers = all_outputs(BooleanCircuit(n=4, gate_seed=seed))
        for below, above in pairwise(layers):
            left, right = below[:, ::2], below[:, 1::2]
            bias, bias_and, bias_or = (
                (values.double().mean(0) - 0.5).abs()
                for values in (above, left & right, left | right)
            )
            least = torch.minimum(bias_and, bias_or)
            assert (bias <= least.clamp(min=0.5 - 1 / 8) + 1e-12).all()


@pytest.mark.parametrize("n", [3, 9])
def test_outputs_take_both_values(n):
    for seed in range(10):
        problem = BooleanCircuit(n=n, gate_seed=seed)
        y = draw_batch(problem, 200, seed)["y"].float()
        assert 0.05 < y.mean() < 0.95


def test_inputs_are_fair_coins():
    x = draw_batch(BooleanCircuit(n=6), 200)["x"].float()
    assert abs(x.mean() - 0.5) < 4 * 0.5 / x.numel() ** 0.5


def test_a_seed_that_is_no_whole_number_is_rejected():
    for seed in ("abc", "1", -1, 1.5, None, True, [0]):
        with pytest.raises(ValueError, match=r"gate_seed.* at least 0 \(got "):
            BooleanCircuit(n=2, gate_seed=seed)


def test_circuits_too_large_for_any_machine_are_rejected():
    with pytest.raises(ValueError, match=r"2\^n inputs.* at most 24 \(got 100\)"):
        BooleanCircuit(100)


def test_a_seed_may_be_larger_than_64_bits():
    for seed in (2**64, 10**30):
        assert len(BooleanCircuit(n=2, gate_seed=seed).gates) == 2


# graph


@pytest.mark.parametrize("n", [1, 2, 4])
def test_each_gate_is_linked_to_the_two_nodes_that_it_combines(n):
    links = {
        (node(n, layer - 1, 2 * i + side), node(n, layer, i))
        for layer in range(1, n + 1)
        for i in range(2 ** (n - layer))
        for side in (0, 1)
    }
    graph = BooleanCircuit(n=n).graphical_model()
    assert attention_links(graph) == symmetric_with_loops(shapes(n), links)


@pytest.mark.parametrize("n", [1, 4])
def test_without_intermediates_the_output_is_linked_to_every_input(n):
    graph = BooleanCircuit(n=n).graphical_model().without_intermediates()
    kept = {"x": (2**n,), "y": ()}
    links = {(("x", i), ("y",)) for i in range(2**n)}
    assert attention_links(graph) == symmetric_with_loops(kept, links)


# metrics and picture


def scores_of(problem, answers):
    """The metrics of pairs (answer, truth)."""
    return [
        problem.metrics({"y": torch.tensor(y)}, {"y": torch.tensor(true)})
        for y, true in answers
    ]


def test_accuracy_counts_overall_and_for_the_class_that_is_true():
    for guess, truth in product([0, 1], repeat=2):
        (found,) = scores_of(BooleanCircuit(n=1), [(guess, truth)])
        right = float(guess == truth)
        assert found["accuracy"] == found[f"accuracy_at_{truth}"] == right
        assert math.isnan(found[f"accuracy_at_{1 - truth}"])


def test_balanced_accuracy_gives_both_outputs_the_same_weight():
    problem = BooleanCircuit(n=1)
    # Three of four are right where the output is 0, one of two where it is 1.
    answers = [(0, 0), (0, 0), (0, 0), (1, 0), (1, 1), (0, 1)]
    found = problem.summary(scores_of(problem, answers))
    assert found == pytest.approx(
        {
            "accuracy": 4 / 6,
            "accuracy_at_0": 3 / 4,
            "accuracy_at_1": 1 / 2,
            "balanced_accuracy": 5 / 8,
        }
    )


@pytest.mark.parametrize("truth", [0, 1])
def test_balanced_accuracy_is_nan_if_an_output_never_occurs(truth):
    problem = BooleanCircuit(n=1)
    found = problem.summary(scores_of(problem, [(0, truth), (1, truth)]))
    assert found["accuracy"] == found[f"accuracy_at_{truth}"] == 0.5
    assert math.isnan(found["balanced_accuracy"])


def test_independent_answers_are_right_as_often_as_two_draws_agree():
    problem = BooleanCircuit(n=4, gate_seed=2)
    p = all_outputs(problem)[-1].double().mean().item()  # the probability of a 1
    assert abs(p - 0.5) > 0.2  # so that none of the four values equals another
    found = prior_metrics(problem, 4000)
    assert found["accuracy"] == pytest.approx(p**2 + (1 - p) ** 2, abs=0.03)
    assert found["accuracy_at_0"] == pytest.approx(1 - p, abs=0.03)
    assert found["accuracy_at_1"] == pytest.approx(p, abs=0.06)
    assert found["balanced_accuracy"] == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("n", [1, 3])
def test_the_picture_outlines_what_is_wrong_in_red(n):
    problem = BooleanCircuit(n=n)
    (truth,) = draw_list(problem, 1)
    sample = {"y": 1 - truth["y"]}  # a model without intermediates samples only y
    for answer, num_red in [(truth, 0), (sample, 1)]:
        ax = problem.plot(answer, truth).axes[0]
        kinds = ax.collections[1:]  # after the edges: inputs, AND, OR
        outlines = [tuple(c) for kind in kinds for c in kind.get_edgecolors()]
        assert len(outlines) == 2 ** (n + 1) - 1
        assert outlines.count(to_rgba("red")) == num_red
        assert f"output {answer['y']} (truth: {truth['y']})" == ax.get_title()

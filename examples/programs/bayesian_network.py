"""Bayesian networks of pgmpy given any evidence, beside exact inference.

    pip install pgmpy
    python -m examples.programs.bayesian_network --network asia --steps 1000
    python -m examples.programs.bayesian_network --network alarm --steps 4000

Every node of a network is a variable of its own, with its own number of classes. One
model, trained with `observe="mixed"`, samples all nodes given those that are known, and
the marginal probabilities are compared with those of variable elimination. Asia
(Lauritzen and Spiegelhalter, 1988) and Alarm (Beinlich et al., 1989) come from pgmpy,
as do its other networks of discrete nodes.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.distributions import Categorical
from torch.nn.functional import one_hot

from examples.measures import comparison, hide, marginal_errors
from gsdm_pyg import GSDM, Problem, program, sample

if TYPE_CHECKING:
    from pgmpy.models import DiscreteBayesianNetwork


def load(name: str) -> DiscreteBayesianNetwork:
    """A network that pgmpy has, such as "asia" or "alarm"."""
    try:
        from pgmpy.utils import get_example_model
    except ImportError as error:
        raise ImportError(
            f"The networks come from pgmpy: pip install pgmpy (got {error})."
        ) from error
    with warnings.catch_warnings():  # its successor reads files from the Internet
        warnings.simplefilter("ignore", FutureWarning)
        return get_example_model(name)


def tables_of(network: DiscreteBayesianNetwork) -> dict[str, tuple[list[str], Tensor]]:
    """Parents and P(node | parents) [*parents' classes, K], parents before children."""
    import networkx

    tables = {}
    for node in networkx.topological_sort(network):
        table = network.get_cpds(node)
        probabilities = torch.from_numpy(table.values).float().movedim(0, -1)
        tables[node] = (table.variables[1:], probabilities.contiguous())
    return tables


def problem_of(network: DiscreteBayesianNetwork) -> Problem:
    """A problem with a variable per node, named like it; none is observed by role."""
    tables = tables_of(network)

    @program
    def bayesian_network():
        values: dict[str, Tensor] = {}
        for node, (parents, table) in tables.items():
            row = table[tuple(values[parent] for parent in parents)]
            values[node] = sample(node, Categorical(row))

    return bayesian_network()


def exact_marginals(
    network: DiscreteBayesianNetwork, evidence: Mapping[str, int]
) -> dict[str, Tensor]:
    """P(node | evidence) [K] of every node that is not given.

    Args:
        network: The network.
        evidence: The class of each node that is given.
    """
    from pgmpy.inference import VariableElimination

    inference = VariableElimination(network)
    named = {n: network.get_cpds(n).state_names[n][c] for n, c in evidence.items()}
    marginals = {}
    for node in set(network.nodes()) - set(evidence):
        found = inference.query([node], evidence=named, show_progress=False)
        order = network.get_cpds(node).state_names[node]
        rows = [found.get_value(**{node: state}) for state in order]
        marginals[node] = torch.tensor(rows, dtype=torch.double)
    return marginals


def error(
    model: GSDM | None,
    network: DiscreteBayesianNetwork,
    instances: int = 20,
    samples: int = 400,
) -> dict[str, float]:
    """Errors of the marginals of all other nodes given random evidence.

    Without a model, those of exact samples: what so few of them show by chance.

    Args:
        model: The model, or None.
        network: The network.
        instances: How many draws of the network, each with its own nodes given.
        samples: How many samples of each.
    """
    problem, generator = problem_of(network), torch.Generator().manual_seed(1)
    given = hide(problem.sample_batch(instances, generator), generator)
    if model is not None:
        drawn = model.sample(problem, given, samples, generator=2)
    marginals = []
    for i in range(instances):
        known = {node: value[i] for node, value in given.items()}
        evidence = {n: int(v) for n, v in known.items() if not v.isnan()}
        for node, exact in exact_marginals(network, evidence).items():
            if model is None:
                classes = exact.multinomial(samples, True, generator=generator)
            else:
                classes = drawn[node][i]
            found = one_hot(classes, len(exact)).double().mean(0)
            marginals.append((found[None], exact[None]))
    return marginal_errors(marginals)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", default="alarm")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--samples", type=int, default=400, help="given each evidence")
    args = parser.parse_args()
    network = load(args.network)
    model = GSDM.from_problem(problem_of(network), observe="mixed")
    model.fit(max_steps=args.steps, batch_size=64)
    found, chance = (error(m, network, samples=args.samples) for m in (model, None))
    print(f"{args.network}, marginals given random evidence:")
    print(comparison(found, chance))


if __name__ == "__main__":
    main()

"""Programs beside problems written by hand: drawing data, and tracing the graph.

    OMP_NUM_THREADS=1 python -m benchmarks.programs

Both sides draw in turns, from one generator. A program that draws the same number of
instances 200 times is recorded, so the first draws are slower: "first".
"""

import time

import torch

from benchmarks.measure import median_times
from examples.programs import paper
from gsdm_pyg import Problem
from gsdm_pyg.programs.recording import OFTEN
from problems import BCMF, BooleanCircuit, HierarchicalBCMF, MatrixInversion, StateSpace

PAIRS: list[tuple[type[Problem], type[Problem], tuple[int, ...]]] = [
    (paper.bcmf, BCMF, (8, 8, 4)),
    (paper.bcmf, BCMF, (50, 50, 8)),
    (paper.hierarchical_bcmf, HierarchicalBCMF, (8, 8, 4)),
    (paper.Circuit, BooleanCircuit, (4,)),
    (paper.matrix_inversion, MatrixInversion, (5,)),
    (paper.state_space, StateSpace, (20,)),
]


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    print("| problem | instances | first | recorded | by hand | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for program, by_hand, sizes in PAIRS:
        for num in (1, 16, 256):
            draws = [
                lambda problem=kind(*sizes), num=num: problem.sample_batch(
                    num, generator
                )
                for kind in (program, by_hand)
            ]
            (first,) = median_times(draws[:1], 20)
            for _ in range(OFTEN):
                draws[0]()
            ours, theirs = median_times(draws, 50)
            micros = " | ".join(f"{1e6 * t:.0f} µs" for t in (first, ours, theirs))
            print(f"| {by_hand(*sizes)} | {num} | {micros} | {ours / theirs:.1f} |")
    for sizes in ((20, 20, 4), (200, 200, 10)):
        problem, start = paper.bcmf(*sizes), time.perf_counter()
        graph = problem.graphical_model()
        seconds = time.perf_counter() - start
        print(f"{problem}: {graph.num_nodes:,} nodes traced in {seconds:.2f} s")


if __name__ == "__main__":
    main()

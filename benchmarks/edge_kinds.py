"""What it costs that attention knows the kinds of edges, as a share of a step.

    OMP_NUM_THREADS=1 python -m benchmarks.edge_kinds

Training steps with and without kinds, in turns; the tenth fastest of 40 counts. Chains
learn kinds by default; for the other graphs variables or positions tell them, and
they are off.
"""

import time

import torch

from gsdm_pyg import GSDM, Problem, ProblemBatches
from gsdm_pyg.doctor.forecast import training_step
from problems import BCMF, Sorting, StateSpace

CASES: list[tuple[Problem, int]] = [
    (StateSpace(steps=20), 64),
    (StateSpace(steps=200), 16),
    (BCMF(m=10, n=16, k=8), 8),
    (Sorting(n=10), 32),
]


def main(repeats: int = 40) -> None:
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    for problem, batch_size in CASES:
        batch = ProblemBatches(problem, batch_size=batch_size).batch(0)
        times: dict[str, list[float]] = {"ignored": [], "learned": []}
        steps = {
            kinds: training_step(
                GSDM.from_problem(problem, layers=8, edge_kinds=kinds).diffusion
            )
            for kinds in times
        }
        default = GSDM.from_problem(problem, layers=8).settings.edge_kinds
        for round_ in range(repeats + 2):
            for kinds, step in steps.items():
                start = clock()
                step(batch)
                if round_ >= 2:  # the first two warm up
                    times[kinds].append(clock() - start)
        fast = {kinds: sorted(seconds)[9] for kinds, seconds in times.items()}
        ratio = fast["learned"] / fast["ignored"]
        print(f"{problem} x {batch_size}: {ratio:.3f} with kinds; default: {default}")


if __name__ == "__main__":
    main()

"""Other methods (section 4 and its appendices), on the same problems and instances.

Methods that are trained are models. A setting of the model chooses them, so that
configs, checkpoints, model folders, `GSDM.sample` and `GSDM.evaluate` are the same:

    GSDM.from_problem(source, method="regression")                    # Regressor + GS
    GSDM.from_problem(source, method="regression", edges="complete")  # Regressor
    GSDM.from_problem(source, method="vaeac", embedding="independent")  # of one size
    GSDM.from_problem(source, edges="complete", intermediates="drop") # non-sparse

or in a config `model: {method: vaeac, embedding: independent}`. docs/baselines.md
says how each one was checked.

Methods without training are a `Baseline`, by name:

    baseline = create("lmh", warmup=5000)        # settings are checked, see its class
    baseline.sample(problem, {"E": E}, num_samples=10, generator=0)  # as GSDM.sample
    baseline.evaluate(problem, num_instances=64, seed=0).metrics     # as GSDM.evaluate

`evaluate` scores one answer for each of the very instances that `GSDM.evaluate` draws
with that seed, if `observe` is the model's. `names()` has all baselines that are known,
`create(name).check(problem)` raises a ValueError where one cannot solve a problem. A
class that derives from `Baseline` and sets `name` is known as soon as it is imported;
`create` imports `problems.by_hand`, which has those of single problems.

| name | what it is | problems |
| --- | --- | --- |
| prior | a draw that ignores what is given | all |
| marginals | each entry by itself, as from the prior | all |
| lmh | Lightweight Metropolis-Hastings | programs, BCMF, Sorting, Sudoku |
| nuts | NUTS by Pyro | continuous programs |
| kmeans, nmf, greedy | the paper's factorizations by hand | BCMF |
| nmf_least_squares | what a user would pick, with restarts | BCMF |
| search | exact search | Sudoku |
| sort | `torch.sort` | Sorting |
"""

from gsdm_pyg.baselines.baseline import Baseline, create, names
from gsdm_pyg.baselines.lmh import LMH
from gsdm_pyg.baselines.nuts import NUTS
from gsdm_pyg.baselines.prior import Marginals, Prior

__all__ = ["LMH", "NUTS", "Baseline", "Marginals", "Prior", "create", "names"]

"""FOPPL, the language of the paper's appendix, as a front end of programs.

The first-order probabilistic programming language of van de Meent et al., "An
Introduction to Probabilistic Programming" (chapter 2): functions without recursion and
loops with constant counts, so that a program has a graph.

    (defn main [n]                                       ; n is a size
      (let [slope (sample (normal 0 1))                  ; a latent variable
            x (foreach n [] (sample (uniform -1 1)))]    ; x [n]
        (foreach n [x_i x]
          (observe "y" (normal (* slope x_i) 0.1)))))    ; observed, y [n]

Sizes. A program ends in an expression, and is then a problem of one size, or has a
function `main`, whose arguments are the sizes of a family.

Names. `(sample "x" d)` names a variable, as the paper's programs do. Inside of loops
(`foreach`, `loop`, also of callers) it is the entry of x at the indices of all loops,
outermost first. `(sample ["x" t] d)` states the entry itself. Without a name a variable
is called after the `let` that binds it, or by its number (`sample1`, `observe1`); in a
function that is called in several places, after the call too: `step2.z`.

Values. `(observe d v)` observes the value v of the source, `(observe d)` one that is
given later. `problem.given_values` holds the values of the source:
`model.sample(problem, given=problem.given_values)`. The expression itself has the value
that is drawn or given: use it, and not v, where other variables depend on it.

Distributions. Those of the book, and `(poisson rate most)`, which is limited to 0..most
as domains are finite. A variable that `(uniform-discrete low high)` draws holds classes
0..high-low-1, as all discrete variables do; the program sees low..high-1.

Dirac. `(sample (dirac v))` is an intermediate variable, `(observe (dirac v))` an
observed one that others determine. A sampled one on which nothing depends is a result:
observed if the program has no `observe`, and latent otherwise.

Random values. An `if` on a random condition evaluates both branches, and so may draw
from both, but cannot observe. A vector may have a random index. Counts are constant.
"""

from gsdm_pyg.programs.foppl.place import FopplError
from gsdm_pyg.programs.foppl.problem import FopplProblem, from_foppl

__all__ = ["FopplError", "FopplProblem", "from_foppl"]

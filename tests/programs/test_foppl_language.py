"""FOPPL: every special form and every function has a case."""

import math

import pytest
import torch

from gsdm_pyg.problem import graph_of
from gsdm_pyg.programs.foppl import from_foppl
from gsdm_pyg.programs.foppl.builtins import BUILTINS
from gsdm_pyg.programs.foppl.distributions import LAWS
from gsdm_pyg.programs.foppl.evaluate import Run

CONSTANTS = [  # expression, value
    ("(+)", 0),
    ("(+ 1 2 3)", 6),
    ("(- 3)", -3),
    ("(- 3 1 1)", 1),
    ("(* 2 3.5)", 7.0),
    ("(/ 6 2)", 3),
    ("(/ 1 2)", 0.5),
    ("(/ 4)", 0.25),
    ("(pow 2 3)", 8),
    ("(mod 7 3)", 1),
    ("(min 3 1 2)", 1),
    ("(max 3 1 2)", 3),
    ("(abs -2)", 2),
    ("(exp 0)", 1.0),
    ("(log 1)", 0.0),
    ("(sqrt 4)", 2.0),
    ("(sin 0)", 0.0),
    ("(cos 0)", 1.0),
    ("(tanh 0)", 0.0),
    ("(< 1 2 3)", True),
    ("(< 1 3 2)", False),
    ("(> 2 1)", True),
    ("(<= 2 2)", True),
    ("(>= 1 2)", False),
    ("(= 1 1 1)", True),
    ("(= [1 2] [1 2])", True),
    ("(= true 1)", False),
    ('(not= "a" "b")', True),
    ("(and true (> 1 2))", False),
    ("(or false (> 2 1))", True),
    ("(not true)", False),
    ("[1 [2 3]]", (1, (2, 3))),
    ("(vector 1 2)", (1, 2)),
    ("{:a 1 :b 2}", {":a": 1, ":b": 2}),
    ('(hash-map "a" 1)', {"a": 1}),
    ("(get [1 2 3] 1)", 2),
    ("(get {:a 1} :a)", 1),
    ("(get {:a 1} :b 5)", 5),
    ("(get [1] 3 5)", 5),
    ("(put [1 2 3] 1 7)", (1, 7, 3)),
    ("(put {:a 1} :a 2)", {":a": 2}),
    ("(nth [1 2] 0)", 1),
    ("(first [1 2 3])", 1),
    ("(second [1 2 3])", 2),
    ("(last [1 2 3])", 3),
    ("(rest [1 2 3])", (2, 3)),
    ("(conj [1] 2 3)", (1, 2, 3)),
    ("(append [1] 2)", (1, 2)),
    ("(range 3)", (0, 1, 2)),
    ("(range 1 3)", (1, 2)),
    ("(count [1 2 3])", 3),
    ("(count {:a 1})", 1),
    ("(mat-mul [[1 2] [3 4]] [[1] [1]])", ((3,), (7,))),
    ("(mat-add [[1 2]] [[3 4]])", ((4, 6),)),
    ("(mat-transpose [[1 2] [3 4]])", ((1, 3), (2, 4))),
    ("(mat-tanh [[0 0]])", ((0.0, 0.0),)),
    ("(let [a 1 b (+ a 1)] (* a 5) (+ a b))", 3),
    ("(let [a 1] (let [a 2] a))", 2),
    ("(if (< 1 2) :yes :no)", ":yes"),
    ("(if false (get [] 0) 1)", 1),
    ("(foreach 3 [i (range 3) x [5 6 7]] 0 (+ i x))", (5, 7, 9)),
    ("(foreach 2 [] 1)", (1, 1)),
    ("(foreach 0 [] 1)", ()),
    ("(loop 4 0 +)", 6),
    ("(defn f [i sum x] (+ sum (* i x))) (loop 3 10 f 2)", 16),
    ("(defn g [x] (f x)) (defn f [x] (+ x 1)) (g 1)", 2),
    ("(defn first [x] 5) (first [1])", 5),
    ("; a comment\n1.5e1 ; another", 15.0),
    ('"a \\"quoted\\" word"', 'a "quoted" word'),
    ("nil", None),
    ("[-1, +2, .5]", (-1, 2, 0.5)),
]

RANDOM = [  # expression of random x > 0 and y > 0, and the same in torch
    ("(+ x y 1)", lambda x, y: x + y + 1),
    ("(- x)", lambda x, y: -x),
    ("(* 2 x y)", lambda x, y: 2 * x * y),
    ("(/ x y)", lambda x, y: x / y),
    ("(/ 1 x)", lambda x, y: 1 / x),
    ("(pow x 2)", lambda x, y: x**2),
    ("(pow 2 x)", lambda x, y: 2**x),
    ("(mod x 0.5)", lambda x, y: x % 0.5),
    ("(min x y 0.7)", lambda x, y: torch.minimum(x, y).clamp(max=0.7)),
    ("(max x 0.7)", lambda x, y: x.clamp(min=0.7)),
    ("(abs (- x y))", lambda x, y: (x - y).abs()),
    ("(exp x)", lambda x, y: x.exp()),
    ("(log x)", lambda x, y: x.log()),
    ("(sqrt x)", lambda x, y: x.sqrt()),
    ("(sin x)", lambda x, y: x.sin()),
    ("(cos x)", lambda x, y: x.cos()),
    ("(tanh x)", lambda x, y: x.tanh()),
    ("(< 0.5 x y)", lambda x, y: (x > 0.5) & (y > x)),
    ("(> x y)", lambda x, y: x > y),
    ("(<= x y)", lambda x, y: x <= y),
    ("(>= x y)", lambda x, y: x >= y),
    ("(= (> x 1) (> y 1))", lambda x, y: (x > 1) == (y > 1)),
    ("(not= x y)", lambda x, y: x != y),
    ("(and (> x 1) true (> y 1))", lambda x, y: (x > 1) & (y > 1)),
    ("(or (> x 1) (> y 1))", lambda x, y: (x > 1) | (y > 1)),
    ("(not (> x 1))", lambda x, y: x <= 1),
    ("(if (> x y) x 1)", lambda x, y: torch.where(x > y, x, 1.0)),
    ("(get (if (> x y) [1 2] [x y]) 0)", lambda x, y: torch.where(x > y, 1.0, x)),
    ("(get (if (> x y) {:a 1} {:a y}) :a)", lambda x, y: torch.where(x > y, 1.0, y)),
    ("(last (put [x y] 1 (* 2 x)))", lambda x, y: 2 * x),
    ("(get (first (mat-mul [[x y]] [[1] [2]])) 0)", lambda x, y: x + 2 * y),
    ("(first (first (mat-tanh [[x]])))", lambda x, y: x.tanh()),
    ("(second (first (mat-add [[x y]] [[1 x]])))", lambda x, y: x + y),
    ("(first (second (mat-transpose [[x y]])))", lambda x, y: y),
    ("(loop 3 x *)", lambda x, y: x * 0),
    ("(last (foreach 2 [a [x y]] (* a a)))", lambda x, y: y * y),
]

MOMENTS = [  # distribution, mean and standard deviation
    ("(normal 1 2)", 1, 2),
    ("(uniform 1 3)", 2, 2 / math.sqrt(12)),
    ("(uniform-continuous 1 3)", 2, 2 / math.sqrt(12)),
    ("(uniform-discrete 0 4)", 1.5, math.sqrt(15 / 12)),
    ("(bernoulli 0.3)", 0.3, math.sqrt(0.21)),
    ("(flip 0.3)", 0.3, math.sqrt(0.21)),
    ("(discrete [1 1 2])", 1.25, math.sqrt(0.6875)),
    ("(categorical [1 1 2])", 1.25, math.sqrt(0.6875)),
    ("(dirichlet [1 1])", 0.5, 1 / math.sqrt(12)),
    ("(beta 1 1)", 0.5, 1 / math.sqrt(12)),
    ("(gamma 4 2)", 2, 1),
    ("(exponential 2)", 0.5, 0.5),
    ("(laplace 1 2)", 1, math.sqrt(8)),
    ("(student-t 10 1 2)", 1, 2 * math.sqrt(10 / 8)),
    ("(poisson 3 30)", 3, math.sqrt(3)),
    ("(poisson 1.5 1)", 0.6, math.sqrt(0.24)),  # 0 or 1
    ("(dirac 2.5)", 2.5, 0),
]


def draw(text, num=64):
    problem = from_foppl(text)()
    return problem.sample_batch(num, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("text", "value"), CONSTANTS)
def test_constants_are_folded(text, value):
    source = from_foppl(text).source
    found = Run(source, []).run()
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(("text", "function"), RANDOM)
def test_functions_of_random_values_are_those_of_torch(text, function, caplog):
    drawn = draw(
        "(let [x (sample (uniform 0.1 2)) y (sample (uniform 0.1 2))]"
        f' (observe "result" (dirac {text})))'
    )
    due = function(drawn["x"], drawn["y"])
    torch.testing.assert_close(drawn["result"].float(), due.float())
    assert "instance by instance" not in caplog.text


@pytest.mark.parametrize(("text", "mean", "deviation"), MOMENTS)
def test_distributions_have_their_moments(text, mean, deviation):
    x = draw(f'(sample "x" {text})', num=4000)["x"].double()
    assert abs(x.mean() - mean) < 4 * deviation / math.sqrt(4000) + 1e-6
    assert abs(x.std() - deviation) < 0.1 * deviation + 1e-6


def test_all_functions_and_distributions_have_a_case():
    words = " ".join(case[0] for case in (*CONSTANTS, *RANDOM, *MOMENTS))
    for name in (*BUILTINS, *LAWS):
        assert f"({name} " in words, name


def test_a_random_index_selects_numbers_rows_and_distributions():
    drawn = draw("""
        (let [z (sample (discrete [1 1 1]))
              x (sample (normal 0 1))]
          (sample "number" (dirac (get [10 x 30] z)))
          (sample "entry" (dirac (get (get [[1 2] [3 4] [5 6]] z) 1)))
          (sample "near" (get [(normal 10 0.1) (normal 20 0.1) (normal 30 0.1)] z))
          (sample "put" (dirac (put [0 0 0] z 1))))
    """)
    z, x = drawn["z"], drawn["x"]
    tens = torch.full_like(x, 10)
    due = torch.stack([tens, x, 3 * tens], 1).gather(1, z[:, None])[:, 0]
    torch.testing.assert_close(drawn["number"], due)
    torch.testing.assert_close(drawn["entry"], 2.0 + 2 * z)
    assert (drawn["near"] - 10 * (z + 1)).abs().max() < 1
    assert torch.equal(drawn["put"], torch.eye(3)[z])


def test_a_whole_number_stays_an_index_after_dirac():
    drawn = draw("""
        (let [z (sample (uniform-discrete 1 3))
              shifted (sample (dirac (- z 1)))]
          (observe "y" (dirac (get [5 7] shifted))))
    """)
    torch.testing.assert_close(drawn["y"], 5.0 + 2 * drawn["z"])


def test_draws_in_both_branches_of_a_random_if():
    text = """
        (let [c (sample (flip 0.5))
              x (if c (sample "a" (normal 0 1)) (sample "b" (normal 9 1)))]
          (observe "y" (normal x 0.001)))
    """
    drawn = draw(text)
    due = torch.where(drawn["c"].bool(), drawn["a"], drawn["b"])
    torch.testing.assert_close(drawn["y"], due, atol=0.01, rtol=0)
    graph = graph_of(from_foppl(text)())
    parents = {"c", "a", "b"}
    edges = {tuple(edge) for edge in graph.edges().T.tolist()}
    ids = {name: graph.node_ids(name).item() for name in graph.variables}
    assert edges == {(ids[parent], ids["y"]) for parent in parents}


def test_a_constant_if_takes_one_branch():
    drawn = draw('(if (> 1 2) (sample "a" (normal 0 1)) (sample "b" (normal 0 1)))')
    assert set(drawn) == {"b"}


def test_if_chooses_between_distributions():
    drawn = draw("""
        (let [c (sample (flip 0.5))]
          (observe "y" (if c (normal 10 0.1) (normal 20 0.1))))
    """)
    assert (drawn["y"] - 20 + 10 * drawn["c"]).abs().max() < 1

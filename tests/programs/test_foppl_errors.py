"""FOPPL: errors name the file, the line and the column, and what to write instead."""

import pytest
import torch

from gsdm_pyg.programs import ProgramError
from gsdm_pyg.programs.errors import current_line, line_of
from gsdm_pyg.programs.foppl import FopplError, from_foppl
from gsdm_pyg.programs.foppl.place import Place

READING = [  # text, line, column, part of the message
    ("(+ 1 2", 1, 1, r"This \( is never closed"),
    ("(let [x 1]\n  (+ x [2))", 2, 10, r"The \[ of line 2, column 8 is closed by a \]"),
    ("1)", 1, 2, "No open bracket"),
    ('\n "open', 2, 2, "no closing quote"),
    ("12abc", 1, 1, "A number reads"),
    ("(f #(+ 1 2))", 1, 4, "anonymous functions"),
    ("", 1, 1, "got neither"),
    ("(defn f [x] x)", 1, 1, "got neither"),
    ("(defn main [] 1)\n2", 2, 1, "got both"),
    ("(defn f [x])", 1, 1, "defn is written"),
    ("(let [f 1] (defn g [] 1))", 1, 12, "defn is written"),
    ("(defn f [x] x) (defn f [y] y) (f 1)", 1, 22, "f again"),
    ("(defn if [x] x) 1", 1, 7, "special form"),
    ("(defn f [x x] x) 1", 1, 9, "got one twice"),
    ("(defn f [3] 1) 1", 1, 10, "a name is due"),
    ("(let [x] 1)", 1, 6, "values alternate"),
    ("(let [x 1])", 1, 1, "let is written"),
    ("(if true 1)", 1, 1, "if is written"),
    ("(foreach 3 [i] i)", 1, 12, "values alternate"),
    ("(loop 3 0 (+ 1))", 1, 1, "loop is written"),
    ("(sample)", 1, 1, "sample is written"),
    ("(observe 1 2 3 4)", 1, 1, "observe is written"),
    ("(let [slope 1]\n  (+ slop 1))", 2, 6, "Did you mean slope"),
    ("(noraml 0 1)", 1, 2, "Did you mean normal"),
    ("(defn scale [x] x) (scal 1)", 1, 21, "Did you mean scale"),
    ("(let [x 1] (x 2))", 1, 13, "x is a value"),
    ("(1 2)", 1, 1, "begins with the name of a function"),
    ("()", 1, 1, "begins with the name of a function"),
    ("(defn f [x] x) (f 1 2)", 1, 16, r"f takes 1 argument \(got 2\)"),
    ("(defn f [x] x) (loop 3 0 f)", 1, 26, r"f takes 1 argument \(got 2\)"),
    ("(normal 0)", 1, 1, r"normal takes 2 arguments \(got 1\)"),
    ("(-)", 1, 1, "takes 1 or more arguments"),
    ("(student-t)", 1, 1, "takes 1 to 3 arguments"),
    ("(defn f [x] (f x)) (f 1)", 1, 13, "no recursion: f calls itself"),
    ("(defn f [x] (g x))\n(defn g [x] (f x)) (f 1)", 2, 13, "f -> g -> f"),
    ("(defn f [i s] (loop 2 s f)) (f 0 1)", 1, 25, "no recursion"),
    ("(defn main [class] 1)", 1, 1, "got class"),
    ("(defn main [sample] 1)", 1, 1, "got sample"),
]

RUNNING = [
    ("(+ 1\n   (* 2 true))", 2, 4, r"\* takes numbers.*got true"),
    ('(+ 1 "a")', 1, 1, r'\+ takes numbers \(got "a"\)'),
    ("(/ 1 0)", 1, 1, "/ failed: division by zero"),
    ("(log 0)", 1, 1, "log failed"),
    ("(pow -1 0.5)", 1, 1, "no real result"),
    ("(and 1 true)", 1, 1, "and takes conditions"),
    ("(if 1 2 3)", 1, 5, r"if takes a condition.*got 1"),
    ("(get [1 2] 2)", 1, 1, "an index below 2"),
    ("(get [1 2] -1)", 1, 1, "whole number of at least 0"),
    ("(get {:a 1} :b)", 1, 1, r"known: :a \(got :b\)"),
    ("(get 3 0)", 1, 1, "get takes a vector"),
    ("{[1] 2}", 1, 1, "as a key"),
    ("(hash-map 1)", 1, 1, "keys and values in turn"),
    ("(first [])", 1, 1, "a longer vector"),
    ("(range 0.5)", 1, 1, "range takes a constant whole number"),
    ("(count 3)", 1, 1, "count takes a vector"),
    ("(mat-mul [[1 2]] [[1 2]])", 1, 1, "as many columns"),
    ("(mat-add [[1 2]] [[1]])", 1, 1, "of one shape"),
    ("(mat-transpose [[1 2] [1]])", 1, 1, "a matrix"),
    ("(foreach -1 [] 1)", 1, 10, r"count of foreach takes.*got -1"),
    ("(loop 1.5 0 +)", 1, 7, r"count of loop takes.*got 1.5"),
    ("(foreach 3 [x [1 2]] x)", 1, 15, "3 items of each vector"),
    ("(foreach 3 [x 1] x)", 1, 15, "foreach takes a vector"),
    ("(sample 3)", 1, 1, "sample takes a distribution"),
    ("(sample 3 (normal 0 1))", 1, 1, "sample is written"),
    ("(sample [1] (normal 0 1))", 1, 1, "sample takes a name"),
    ('(sample "x[0]" (normal 0 1))', 1, 1, "sample takes a name"),
    ("(sample (normal 0 -1))", 1, 1, "normal failed"),
    ('(sample (normal 0 "a"))', 1, 1, "normal takes numbers"),
    ("(sample (discrete [1]))", 1, 1, "two numbers or more"),
    ("(sample (poisson 3))", 1, 1, "needs a largest value"),
    ("(sample (uniform-discrete 0 1))", 1, 1, "at least 2"),
    ('(sample (dirac "a"))', 1, 1, "numbers and vectors of them"),
    ("(sample (dirac [[1 2] [1]]))", 1, 1, "one length"),
]

TRACING = [
    ("(foreach (sample (discrete [1 1])) [] 1)", 1, 10, "got a random number"),
    (
        "(let [c (sample (flip 0.5))]\n  (if c (observe (normal 0 1) 1) 2))",
        2,
        9,
        "observe inside of an if",
    ),
    (
        "(let [c (sample (flip 0.5))]\n  (if c [1 2] [1]))",
        2,
        3,
        "a vector of 2 and a vector of 1",
    ),
    (
        "(let [c (sample (flip 0.5))]\n  (sample (if c (normal 0 1) (beta 1 1))))",
        2,
        11,
        "the distribution normal and the distribution beta",
    ),
    ("(if (sample (bernoulli 0.5)) 1 2)", 1, 5, "got a random number"),
    ("(get [1 2] (sample (normal 0 1)))", 1, 1, "takes a whole number as an index"),
    ("(+ 1 (sample (flip 0.5)))", 1, 1, "bernoulli draws 0 or 1"),
    ("(= true (sample (normal 0 1)))", 1, 1, "of its kind"),
    ("{(sample (normal 0 1)) 2}", 1, 1, "as a key"),
    (
        '(let [x (sample (normal 0 1))]\n  (observe "y" (normal x 1) x))',
        2,
        3,
        "a constant value",
    ),
    ('(observe "y" (normal 0 1) [1 2])', 1, 1, "like those of its distribution"),
    (
        '(sample "x" (normal 0 1))\n (sample "x" (normal 0 1))',
        2,
        2,
        "x is named before, <foppl>, line 1, column 1",
    ),
    (
        '(sample "x" (normal 0 1))\n(foreach 2 [] (sample "x" (normal 0 1)))',
        2,
        15,
        r"got x\[0\]",
    ),
    (
        "(foreach 3 [i (range 3)]\n  (if (= i 1) (sample (normal 0 1)) 0))",
        2,
        15,
        r"draw sample1\[0\] too",
    ),
    (
        "(foreach 3 [i (range 3)]\n  (foreach (+ i 1) [] (sample (normal 0 1))))",
        2,
        23,
        r"draw sample1\[0, 1\] too",
    ),
    (
        '(sample "x" (normal 0 1))\n(sample ["y" 0] (flip 0.5))'
        '\n(sample ["y" 1] (normal 0 1))',
        3,
        1,
        "kind of domain",
    ),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), READING)
def test_reading_rejects(text, line, column, message):
    with pytest.raises(FopplError, match=message) as caught:
        from_foppl(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(("text", "line", "column", "message"), [*RUNNING, *TRACING])
def test_running_rejects(text, line, column, message):
    with pytest.raises(FopplError, match=message) as caught:
        from_foppl(text)().graphical_model()
    assert (caught.value.line, caught.value.column) == (line, column)


def test_an_error_names_its_file(tmp_path):
    file = tmp_path / "broken.foppl"
    file.write_text("(+ 1\n")
    with pytest.raises(ProgramError, match=r"^broken.foppl, line 1, column 1: "):
        from_foppl(file)


def test_a_missing_file_is_named():
    with pytest.raises(FileNotFoundError, match=r"got 'nowhere\.foppl'"):
        from_foppl("nowhere.foppl")


def test_a_program_without_variables_is_rejected():
    with pytest.raises(ProgramError, match="names no variable"):
        from_foppl("(+ 1 2)")().graphical_model()


def test_the_core_finds_the_line_of_the_source():
    place = Place("folder/file.foppl", 3, 7)
    assert place.call("f", current_line) == "file.foppl, line 3"
    with pytest.raises(FopplError, match="f failed: because") as caught:
        place.call("f", _fail)
    assert line_of(caught.tb) == "file.foppl, line 3"


def _fail():
    raise ValueError("because")


def test_a_random_index_out_of_range_is_an_error():
    problem = from_foppl(
        '(let [z (sample (discrete [0 0 1]))]\n (sample "x" (dirac (get [1 2] z))))'
    )()
    with pytest.raises(FopplError, match="line 2, column 21: get failed"):
        problem.sample_batch(2, torch.Generator())

"""Bad programs get a sentence that names the line."""

import inspect
import logging
import random
import re

import numpy as np
import pytest
import torch
from torch.distributions import Bernoulli, Categorical, Normal, Uniform

from gsdm_pyg import factor, let, observe, program, sample
from gsdm_pyg.programs import ProgramError
from gsdm_pyg.variables import Categorical as Classes

NORMAL = Normal(0.0, 1.0)
MARK = "# here"


def used_twice():
    sample("x", NORMAL)
    observe("x", NORMAL)  # here


def entry_used_twice():
    sample("x[0]", NORMAL)
    sample("x[0]", NORMAL)  # here


def whole_and_entry():
    sample("x", NORMAL, 3)
    sample("x[1]", NORMAL)  # here


def missing_entry():
    for i in (0, 2):
        sample(f"x[{i}]", NORMAL)  # here


def entries_of_two_shapes():
    sample("x[0]", NORMAL, 2)
    sample("x[1]", NORMAL, 3)  # here


def entries_of_two_kinds():
    sample("x[0]", NORMAL)
    sample("x[1]", Bernoulli(0.5))  # here


def bad_name():
    sample("x[i]", NORMAL)  # here


def number_as_name():
    sample(3, NORMAL)  # here


def random_shape():
    n = sample("n", Categorical(torch.ones(3)))
    sample("x", NORMAL, (2, n))  # here


def random_shape_of_torch():
    n = sample("n", Categorical(torch.ones(3)))
    observe("x", Normal(torch.zeros(n + 1), 1.0))  # here


def shape_of_zero():
    sample("x", NORMAL, (2, 0))  # here


def fractional_shape():
    sample("x", NORMAL, (2, 0.5))  # here


def random_float():
    x = sample("x", NORMAL)
    observe("y", Normal(float(x), 1.0))  # here


def random_if():
    x = sample("x", NORMAL)
    if x > 0:  # here
        observe("y", Normal(x, 1.0))


def random_while():
    x = sample("x", NORMAL)
    while x < 3:  # here
        x = x + 1


def random_loop():
    n = sample("n", Categorical(torch.ones(3)))
    for i in range(n):  # here
        sample(f"x[{i}]", NORMAL)


def in_a_helper():
    _helper(sample("x", NORMAL))


def _helper(x):
    return int(x)  # here


def no_domain():
    sample("x", torch.distributions.Binomial(0, torch.tensor(0.5)))  # here


def no_condition():
    x = sample("x", NORMAL)
    factor(x)  # here


def condition_of_python():
    sample("x", NORMAL)
    factor(True)  # here


def constant_condition():
    sample("x", NORMAL)
    factor(torch.tensor(1.0) > 0)  # here


def integers_without_a_domain():
    x = sample("x", Categorical(torch.ones(3)), 4)
    let("y", x.sum())  # here


def sample_of_a_tensor():
    sample("x", torch.zeros(3))  # here


def sample_of_a_class():
    sample("x", Normal)  # here


def let_of_a_distribution():
    let("x", NORMAL)  # here


def let_of_a_list():
    x = sample("x", NORMAL)
    let("y", [x, x])  # here


def observed_tensor_with_a_shape():
    x = sample("x", NORMAL)
    observe("y", x + 1, 3)  # here


def empty_value():
    x = sample("x", NORMAL, 3)
    let("y", x[:0])  # here


BAD = [
    *(used_twice, entry_used_twice, whole_and_entry, missing_entry),
    *(entries_of_two_shapes, entries_of_two_kinds, bad_name, number_as_name),
    *(random_shape, random_shape_of_torch, shape_of_zero, fractional_shape),
    *(random_float, random_if, random_while, random_loop, in_a_helper),
    *(no_domain, no_condition, condition_of_python),
    *(constant_condition, integers_without_a_domain, sample_of_a_tensor),
    *(sample_of_a_class, let_of_a_distribution, let_of_a_list),
    *(observed_tensor_with_a_shape, empty_value),
]


def _line(function):
    """Where the mark is, in the function or in its helper."""
    for source in (function, _helper):
        lines, first = inspect.getsourcelines(source)
        for number, line in enumerate(lines):
            if MARK in line:
                return first + number
    raise AssertionError


@pytest.mark.parametrize("function", BAD, ids=lambda f: f.__name__)
def test_a_bad_program_gets_a_sentence_with_its_line(function):
    with pytest.raises(ProgramError) as caught:
        program(function)().graphical_model()
    message = str(caught.value)
    assert f"test_program_errors.py, line {_line(function)}" in message
    assert re.search(r"\(got .*\)\.$", message, flags=re.S), message


def test_an_error_names_the_line_of_the_first_use_too():
    first = inspect.getsourcelines(used_twice)[1] + 1
    with pytest.raises(ProgramError, match=f"named before, .*line {first}"):
        program(used_twice)().graphical_model()


def test_an_empty_program_is_rejected():
    @program
    def nothing(n):
        torch.zeros(n)

    with pytest.raises(ProgramError, match=r"nothing.* names no variable.*\(got an"):
        nothing(n=3).graphical_model()


@pytest.mark.parametrize(
    "statement",
    [
        lambda: sample("x", NORMAL),
        lambda: let("x", torch.zeros(3)),
        lambda: observe("x", NORMAL),
        lambda: factor(torch.tensor(True)),
    ],
    ids=["sample", "let", "observe", "factor"],
)
def test_a_statement_outside_of_a_program_is_rejected(statement):
    with pytest.raises(RuntimeError, match=r"is a statement of a program.*@program"):
        statement()


def test_statements_are_outside_again_after_an_error():
    with pytest.raises(ProgramError):
        program(random_float)().graphical_model()
    with pytest.raises(RuntimeError, match="is a statement of a program"):
        sample("x", NORMAL)
    assert float(torch.zeros(1).add_(1)) == 1  # torch is not followed any more


def test_a_condition_that_hardly_ever_holds_is_rejected():
    @program
    def rare():
        x = sample("x", Uniform(0.0, 1.0), 8)
        factor(x.sum() < 0.01)

    with pytest.raises(ProgramError, match=r"hardly ever do \(0 of \d+ draws\)"):
        rare().sample_batch(2)


def test_a_variable_that_is_linked_to_no_other_is_named(caplog):
    @program
    def forgotten():
        x = sample("x", NORMAL, 3)
        sample("y", NORMAL, 3)
        observe("z", Normal(x, 1.0))

    with caplog.at_level(logging.WARNING, "gsdm_pyg"):
        forgotten().graphical_model()
    assert [r.args[0] for r in caplog.records] == ["y"]
    assert "linked to no other variable" in caplog.text


def test_one_variable_alone_is_fine(caplog):
    @program
    def alone():
        sample("x", NORMAL, 3)

    alone().graphical_model()
    assert not caplog.records


def test_integers_with_a_domain_are_fine():
    @program
    def counted():
        x = sample("x", Categorical(torch.ones(3)), 4)
        let("y", x.sum(), domain=Classes(9))

    assert counted().graphical_model().variables["y"].domain == Classes(9)


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_other_sources_of_random_numbers_are_rejected(draw):
    @program
    def mixed():
        sample("x", Normal(float(draw()), 1.0))

    with pytest.raises(ProgramError, match=r"draws by torch alone.*\(got a draw by"):
        mixed().graphical_model()


def test_program_takes_functions_only():
    with pytest.raises(TypeError, match=r"goes before a function.*\(got int\)"):
        program(3)


def test_sizes_are_named_arguments():
    with pytest.raises(ProgramError, match=r"sizes, each by its name \(got \*sizes\)"):
        program(lambda *sizes: None)

"""No random value leaves a program unseen: it is followed, or rejected by line."""

import copy
import io
import logging
import math
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Normal

from gsdm_pyg import observe, sample
from gsdm_pyg.programs import ProgramError
from tests.programs.oracle import Input, graph_of, moved, traced


def _index(x):
    return (x[0] > 0).long()


NUMBERS = torch.arange(4.0)

TO_PYTHON = {
    "if": lambda x: 1 if x[0] > 0 else 2,
    "and": lambda x: x[0] > 0 and x[1] > 0,
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "complex": lambda x: complex(x[0]),
    "index of a list": lambda x: [1, 2, 3][_index(x)],
    "range": lambda x: range(_index(x)),
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "iteration": lambda x: [float(e) for e in x],
    "in a tensor": lambda x: 1.0 in x,
    "in a list": lambda x: x[0] in [1.0, 2.0],
    "math": lambda x: math.sin(x[0]),
    "sorted": lambda x: sorted(x),
    "max of Python": lambda x: max(x[0], x[1]),
    "any of Python": lambda x: any(x > 0),
    "equal": lambda x: torch.equal(x, x + 1),
    "allclose": lambda x: torch.allclose(x, x),
    "is_nonzero": lambda x: x[0].is_nonzero(),
    "assert": lambda x: torch._assert(x[0] > 0, "negative"),
}
TO_OTHERS = {
    "numpy": lambda x: x.numpy(),
    "numpy of a view": lambda x: x.detach().view(2, 2).T.numpy(),
    "asarray": lambda x: np.asarray(x),
    "array of a list": lambda x: np.array([x[0], x[1]]),
    "np.sin": lambda x: np.sin(x),
    "np.hstack": lambda x: np.hstack([x, x]),
    "times an array": lambda x: x * np.ones(4),
    "DLPack to NumPy": lambda x: np.from_dlpack(x),
    "DLPack": lambda x: torch.from_dlpack(x),
    "pickle": lambda x: pickle.dumps(x),
    "copy": lambda x: copy.copy(x),
    "save": lambda x: torch.save(x, io.BytesIO()),
    "storage": lambda x: x.untyped_storage()[0],
    "typed storage": lambda x: x.storage().tolist(),
    "address": lambda x: x.data_ptr(),
    "shared memory": lambda x: x.share_memory_(),
    "apply_": lambda x: x.apply_(math.sin),
    "map_": lambda x: torch.zeros(4).map_(x, math.atan2),
    "sparse": lambda x: x.to_sparse(),
    "cond": lambda x: torch.cond(x[0] > 0, torch.sin, torch.cos, (x,)),
}
COPIES = {
    "tensor": lambda x: torch.tensor([x[0], x[1]]),
    "nested tensor": lambda x: torch.tensor([[x[0]], [1.0]]),
    "as_tensor": lambda x: torch.as_tensor([x[0]]),
    "Tensor": lambda x: torch.Tensor([x[0], x[1]]),
    "FloatTensor": lambda x: torch.FloatTensor([x[0]]),
    "new_tensor": lambda x: x.new_tensor([x[0]]),
    "list index": lambda x: NUMBERS[[_index(x), _index(x)]],
    "list set": lambda x: torch.zeros(4).__setitem__([_index(x)], 1.0),
    "full": lambda x: torch.full((2,), x[0]),
    "arange": lambda x: torch.arange(x[0]),
    "alpha": lambda x: torch.add(NUMBERS, 1, alpha=x[0]),
    "in-place parameter": lambda x: torch.empty(3).uniform_(0, x[0].exp()),
}
SHAPES = {
    "unique": lambda x: x.unique(),
    "nonzero": lambda x: x.nonzero(),
    "where": lambda x: torch.where(x > 0),
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "bincount": lambda x: torch.bincount((x > 0).long()),
    "repeat_interleave": lambda x: NUMBERS.repeat_interleave((x > 0).long()),
    "tensor_split": lambda x: NUMBERS.tensor_split((x > 0).long()),
    "one_hot": lambda x: F.one_hot((x > 0).long()),
    "shape": lambda x: torch.zeros(_index(x), 3),
    "view": lambda x: torch.ones(6).view(_index(x) + 1, -1),
    "slice": lambda x: NUMBERS[: _index(x)],
    "roll": lambda x: NUMBERS.roll(_index(x)),
    "dim": lambda x: torch.ones(2, 2).sum(dim=_index(x)),
    "values at a mask": lambda x: torch.zeros(4).__setitem__(x > 0, x[:2]),
    "resize_": lambda x: x.resize_(8),
}
OUTSIDE = torch.zeros(4)
SHARED = {
    "a tensor from outside": lambda x: OUTSIDE.copy_(x),
    "a view from outside": lambda x: OUTSIDE[1:].add_(x[1:]),
    "an array": lambda x: torch.from_numpy(np.zeros(4)).copy_(x),
    "a buffer": lambda x: torch.frombuffer(bytearray(16), dtype=x.dtype).copy_(x),
    "running means": lambda x: F.batch_norm(
        x[:, None], OUTSIDE[:1], OUTSIDE[1:2], training=True
    ),
}
REJECTED = {**TO_PYTHON, **TO_OTHERS, **COPIES, **SHAPES, **SHARED}


@pytest.mark.parametrize("name", REJECTED)
@pytest.mark.filterwarnings("ignore")
def test_taking_a_value_out_is_rejected_with_its_line(name):
    action = REJECTED[name]

    def one():
        action(sample("x", Normal(0.0, 1.0), 4))

    with pytest.raises(ProgramError) as caught:
        graph_of(one)
    line = action.__code__.co_firstlineno
    assert str(caught.value).startswith(f"test_escapes.py, line {line}: ")
    assert str(caught.value).endswith(").")


@pytest.mark.parametrize("name", REJECTED)
@pytest.mark.filterwarnings("ignore")
def test_constants_may_be_taken_out(name):
    if name in (*SHARED, "Tensor", "FloatTensor", "cond", "list index"):
        pytest.skip("this changes memory, or is not possible for constants either")

    def one():
        REJECTED[name](torch.tensor([1.0, 2.0, 0.0, 0.0]))
        sample("x", Normal(0.0, 1.0), 4)

    graph_of(one)


def test_memory_that_numpy_sees_takes_no_random_values():
    def one():
        x = sample("x", Normal(0.0, 1.0), 4)
        buffer = torch.zeros(4)
        array = buffer.numpy()
        buffer.add_(x)
        observe("y", Normal(float(array.sum()), 1.0))

    with pytest.raises(ProgramError, match=r"line \d+: .* memory with NumPy"):
        graph_of(one)


def _gradient(x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x**3).sum(), x)[0]


def _backward(x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (x.sin() * torch.arange(4)).sum().backward()
        return x.grad


@torch.jit.script
def _script(x):
    return torch.sin(x) * 2 + x[0]


@torch.library.custom_op("gsdm_tests::double", mutates_args=())
def _double(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * 2)


@torch.library.custom_op("gsdm_tests::fill", mutates_args=("y",))
def _fill(x: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(x)


def _filled(x):
    y = torch.zeros(4, dtype=x.dtype)
    _fill(x, y)
    return y


def _inference(x):
    with torch.inference_mode():
        return F.linear(x, torch.eye(4, dtype=x.dtype)) + x[0]


FOLLOWED = {
    "data": lambda x: x.data * 2,
    "detach": lambda x: x.detach().flip(0),
    "deepcopy": lambda x: copy.deepcopy([x])[0] + 1,
    "torch.tensor of a tensor": lambda x: x.new_tensor(x),
    "capsule": lambda x: torch.from_dlpack(torch.utils.dlpack.to_dlpack(x)),
    "autograd": _gradient,
    "backward": _backward,
    "func.grad": torch.func.grad(lambda x: (x**3).sum()),
    "func.vmap": torch.func.vmap(lambda v: v * 2 + v.sin()),
    "func.vmap of an index": lambda x: torch.func.vmap(lambda i: x[i])(torch.arange(4)),
    "func.jacrev": torch.func.jacrev(lambda x: x**2),
    "func.hessian": torch.func.hessian(lambda x: (x**3).sum()),
    "script": _script,
    "compile": torch.compile(lambda x: x.sin() + x[0], backend="eager"),
    "inference mode": _inference,
    "custom operator": _double,
    "custom operator in place": _filled,
    "set_data": lambda x: setattr(y := torch.zeros(4), "data", x) or y * 2,
}


@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.filterwarnings("ignore")
def test_other_ways_of_computing_are_followed(name):
    inputs = [Input((4,))]
    expected = moved(FOLLOWED[name], inputs, 5)
    found = traced(FOLLOWED[name], [torch.randn(4, dtype=torch.float64)])
    assert not (expected & ~found).any()
    assert expected.any()


def test_an_unknown_operator_is_named_once_with_its_line(caplog):
    def one():
        x = sample("x", Normal(0.0, 1.0), 4)
        for _ in range(2):
            x = _double(x)
        observe("y", Normal(x, 1.0))

    with caplog.at_level(logging.WARNING, "gsdm_pyg"):
        graph = graph_of(one)
    told = [r.getMessage() for r in caplog.records if "no rule" in r.getMessage()]
    assert len(told) == 1
    assert "gsdm_tests.double" in told[0]
    assert "(test_escapes.py, line" in told[0]
    assert graph.edges().size(1) == 16  # everything on everything


def test_printing_a_value_changes_nothing(capsys):
    def one():
        x = sample("x", Normal(0.0, 1.0), 4)
        print(x, f"{x[0]:.2f}", repr(x.sum()))
        observe("y", Normal(x, 1.0))

    assert graph_of(one).edges().size(1) == 4
    assert "tensor" in capsys.readouterr().out

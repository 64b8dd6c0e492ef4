"""Muon: orthogonalized momentum for matrices, AdamW for the rest."""

import copy

import pytest
import torch
from torch import nn

from gsdm_pyg.training.muon import Muon, orthogonalize


def matrices(*shapes: tuple[int, int]) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def set_gradients(parameters, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for p in parameters:
        p.grad = torch.randn(p.shape, generator=generator)


def test_orthogonalize_keeps_singular_vectors_and_levels_singular_values():
    x = torch.randn(5, 16, 16, generator=torch.Generator().manual_seed(1))
    u, _, vh = torch.linalg.svd(x)
    core = u.mT @ orthogonalize(x) @ vh.mT  # diagonal in the singular basis
    values = core.diagonal(dim1=1, dim2=2)
    off = core - torch.diag_embed(values)
    assert off.abs().max() < 1e-4
    assert values[:, :-2].min() > 0.5 and values.max() < 1.3


def test_muon_moves_along_the_direction_of_torchs_muon():
    ours, theirs = matrices((16, 16)), matrices((16, 16))
    start = ours[0].detach().clone()
    first = Muon(ours, [], matrix_lr=0.1)
    second = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.0)
    for seed in range(3):
        for p, optimizer in ((ours, first), (theirs, second)):
            set_gradients(p, seed)
            optimizer.step()
    moved, expected = ours[0] - start, theirs[0] - start
    torch.testing.assert_close(
        moved, expected, atol=0.02, rtol=0.05
    )  # theirs: bfloat16


def test_stack_of_squares_moves_as_each_square_alone():
    (stacked,), squares = matrices((24, 8)), matrices((8, 8), (8, 8), (8, 8))
    for p, part in zip(squares, stacked.detach().split(8), strict=True):
        p.data.copy_(part)
    together, apart = Muon([stacked], []), Muon(squares, [])
    set_gradients([stacked], 0)
    for p, part in zip(squares, stacked.grad.split(8), strict=True):
        p.grad = part.clone()
    together.step()
    apart.step()
    torch.testing.assert_close(stacked.data, torch.cat([p.data for p in squares]))


def test_other_parameters_follow_adamw():
    ours = [nn.Parameter(torch.linspace(-1, 1, 7))]
    theirs = copy.deepcopy(ours)
    first = Muon([], ours, lr=0.05, weight_decay=0.1)
    second = torch.optim.AdamW(theirs, lr=0.05, weight_decay=0.1)
    for seed in range(5):
        for p, optimizer in ((ours, first), (theirs, second)):
            set_gradients(p, seed)
            optimizer.step()
    torch.testing.assert_close(ours[0], theirs[0])


def test_restored_optimizer_continues_as_if_never_stopped():
    def build():
        hidden, rest = matrices((8, 8)), matrices((3, 5))
        return [*hidden, *rest], Muon(hidden, rest)

    parameters, optimizer = build()
    for seed in range(2):
        set_gradients(parameters, seed)
        optimizer.step()
    restored, other = build()
    for p, q in zip(restored, parameters, strict=True):
        p.data.copy_(q.data)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for p, o in ((parameters, optimizer), (restored, other)):
        set_gradients(p, 7)
        o.step()
    for p, q in zip(restored, parameters, strict=True):
        assert torch.equal(p, q)


def test_only_stacks_of_squares_are_accepted():
    with pytest.raises(ValueError, match=r"got shape \(5, 3\)"):
        Muon(matrices((5, 3)), [])

"""Functions of torch with their inputs: element by element, moves, and indices."""

from typing import NamedTuple

import torch
import torch.nn.functional as F

from tests.programs.oracle import Function, Input


class Case(NamedTuple):
    """A function, its random inputs, and whether its rule is exact."""

    function: Function
    inputs: tuple[Input, ...]
    exact: bool = True


def case(function: Function, *inputs: Input, exact: bool = True) -> Case:
    return Case(function, inputs, exact)


V, W, S = Input((4,)), Input((3,)), Input()
M, N = Input((3, 4)), Input((4, 2))
T = Input((2, 3, 2))
B, K, J = Input((4,), "bool"), Input((4,), "3"), Input((2,), "3")
U = Input((3, 4), "unit")
PLACE = Input((), "4")
MASK = torch.tensor([True, False, True, False])
PICKED = torch.tensor([3, 0, 0])

UNARY = (
    "abs neg exp expm1 sin cos tanh sigmoid square relu sign round floor ceil trunc "
    "frac erf atan sinh asinh sgn positive deg2rad exp2"
)
ON_UNIT = "log log2 log1p sqrt rsqrt reciprocal logit digamma lgamma erfinv acos"
BINARY = "add sub mul maximum minimum lt le gt ge atan2 hypot logaddexp fmax copysign"
DISCRETE = "eq ne isclose logical_and logical_or logical_xor gcd"
ACTIVATIONS = (
    "gelu elu selu silu softplus leaky_relu hardtanh logsigmoid softsign mish relu6 "
    "celu hardsigmoid tanhshrink"
)


def _in_place(x, y):
    z = x + 0
    z.mul_(2).add_(y)
    return z


def _product_in_place(x):
    ones = torch.ones(4, dtype=torch.float64)
    ones *= x
    return ones


def _changed_view(x, y):
    z = x + 0
    z[1:, ::2] *= y[:2].view(1, 2)
    z.T[0] = 5.0
    return z


def _filled(x):
    z = torch.zeros(3, 4, dtype=torch.float64)
    z[0] = x
    z[1:, 2] = x[1:3] + 1
    z[-1].add_(1)
    return z


def _set_at_integers(x, y):
    z = x + 0
    z[[2, 0]] = y[:2]
    z[torch.tensor([3])] += y[2]
    return z


def _set_by_mask(x, y):
    z = x + 0
    z[MASK] = y[:2]
    return z


def _set_below_zero(x):
    z = x + 0
    z[z < 0] = 0.0
    return z


def _set_at_drawn(x, i):
    z = x + 0
    z[i] = 1.0
    return z


def _set_column_at_drawn(x, i, y):
    z = x + 0
    z[..., i] = y
    return z


def _set_drawn_indices(x, i, y):
    z = x + 0
    z[i[:2]] = y[:2]
    return z


def _out(x, y):
    out = torch.empty(4, dtype=torch.float64)
    torch.add(x, y, out=out)
    grown = torch.empty(0, dtype=torch.float64)
    torch.cat([x, y], out=grown)
    return out, grown


def _foreach(x, y):
    return torch._foreach_add(torch._foreach_mul([x, y], 2.0), [y, x])


def _foreach_in_place(x, y):
    z = [torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)]
    torch._foreach_add_(z, [x, y])
    return z


CASES = {
    **{n: case(getattr(torch, n), V) for n in UNARY.split()},
    **{f"{n} on (0, 1)": case(getattr(torch, n), U) for n in ON_UNIT.split()},
    **{f"{n} of two": case(getattr(torch, n), M, V) for n in BINARY.split()},
    **{f"{n} of integers": case(getattr(torch, n), K, K) for n in DISCRETE.split()},
    **{f"F.{n}": case(getattr(F, n), V) for n in ACTIVATIONS.split()},
    "broadcast both": case(lambda x, y: x[:, None] / (y.exp() + 1), W, V),
    "powers": case(lambda x, y: x**2 + 2.0**y, V, V),
    "power": case(torch.pow, U, Input((4,))),
    "floor_divide": case(lambda x: x // 0.7, V),
    "floor_divide of two": case(torch.floor_divide, V, Input((4,), "unit")),
    "remainder": case(lambda x: x % 1.5, V),
    "fmod": case(lambda x: torch.fmod(x, 1.5), V),
    "integers": case(lambda i: (i & 1) + (i << 2) + i // 2, K),
    "booleans": case(lambda b, c: b & ~c | b ^ c, B, B),
    "clamp": case(lambda x: x.clamp(-1, 1), V),
    "clamp to tensors": case(lambda x, a, b: x.clamp(a, a + b**2), V, S, V),
    "lerp": case(torch.lerp, V, V, V),
    "addcmul": case(torch.addcmul, V, V, V),
    "where of a constant": case(lambda x, y: torch.where(MASK, x, y), V, V),
    "where of a mask": case(torch.where, B, V, V),
    "where of numbers": case(lambda b: torch.where(b, 1.0, 2.0), B),
    "where of a comparison": case(lambda x, y: torch.where(x > 0, x, y), V, V),
    "masked_fill": case(lambda x: x.masked_fill(MASK, 0), V),
    "masked_fill by a mask": case(lambda x, b, y: x.masked_fill(b, y), V, B, S),
    "times zero": case(lambda x, y: x * MASK + 0 * y, V, V),
    "nan_to_num": case(lambda x: torch.nan_to_num(x / x.round()), V),
    "heaviside": case(torch.heaviside, K, K),
    "prelu": case(lambda x, a: F.prelu(x[:, None], a.view(1)), V, S),
    "to float": case(lambda x: x.float().to(torch.int32).bool(), V),
    "type_as": case(lambda i, x: i.type_as(x), K, V),
    "complex": case(lambda x, y: torch.complex(x, y).conj(), V, V),
    "view_as_real": case(
        lambda x, y: torch.view_as_real(torch.complex(x, y)), V, V, exact=False
    ),
    "view_as_complex": case(lambda x: torch.view_as_complex(x.view(2, 2)), V),
    "imag": case(lambda x, y: torch.complex(x, y).conj().imag * 2, V, V, exact=False),
    "angle": case(
        lambda x, y: torch.polar(x.abs() + 0.1, y).angle(), V, V, exact=False
    ),
    "real of a product": case(
        lambda x, y: (torch.complex(x, y) * 1j).real, V, V, exact=False
    ),
    "in place": case(_in_place, V, V),
    "product in place": case(_product_in_place, V),
    "product in place with bits": case(_product_in_place, B),
    "changed view": case(_changed_view, M, V),
    "filled by slices": case(_filled, V),
    "set at integers": case(_set_at_integers, V, W),
    "set by a constant mask": case(_set_by_mask, V, V),
    "set by a mask": case(_set_below_zero, V),
    "set at a drawn place": case(_set_at_drawn, V, PLACE),
    "set at a drawn column": case(_set_column_at_drawn, M, PLACE, W),
    "set at drawn places": case(_set_drawn_indices, V, K, V, exact=False),
    "out": case(_out, V, V),
    "foreach": case(_foreach, V, V, exact=False),
    "foreach in place": case(_foreach_in_place, V, V, exact=False),
    "slice": case(lambda x: x[1:3, ::2], M),
    "negative index": case(lambda x: x[-1, -3:], M),
    "None and Ellipsis": case(lambda x: x[None, ..., 1], T),
    "integer array": case(lambda x: x[[2, 0, 0]], M),
    "two integer arrays": case(lambda x: x[[0, 1], [2, 3]], M),
    "apart integer arrays": case(lambda x: x[[0, 1], :, [1, 0]], T),
    "constant mask": case(lambda x: x[:, MASK], M),
    "mask and integers": case(
        lambda x: x[torch.tensor([True, False, True]), [0, 1]], M
    ),
    "drawn index": case(lambda x, i: x[i], V, PLACE),
    "drawn column": case(lambda x, i: x[:, i], M, PLACE),
    "drawn negative index": case(lambda x, i: x[i - 4, None], V, PLACE),
    "drawn index of two": case(
        lambda x, i, j: x[i, j], Input((3, 3)), Input((), "3"), Input((), "3")
    ),
    "drawn indices": case(lambda x, i: x[i], M, J),
    "drawn and constant indices": case(
        lambda x, i: x[i, :, [0, 1]], Input((3, 2, 2)), J
    ),
    "drawn index and mask": case(lambda x, i: x[i[:1], MASK], M, J),
    "index_select": case(lambda x: x.index_select(1, PICKED), M),
    "index_select drawn": case(lambda x, i: x.index_select(0, i), M, J),
    "gather": case(lambda x: x.gather(1, PICKED[:, None]), M),
    "gather drawn": case(lambda x, i: x.gather(0, i[None]), M, K),
    "take": case(lambda x: x.take(PICKED), M),
    "take drawn": case(torch.take, V, K, exact=False),
    "take_along_dim": case(lambda x: x.take_along_dim(PICKED[None], 1), M),
    "embedding": case(lambda x: F.embedding(PICKED, x.T), M),
    "embedding drawn": case(lambda x, i: F.embedding(i, x), M, K),
    "masked_select": case(lambda x: x.masked_select(MASK), M),
    "combinations": case(lambda x: torch.combinations(x, 2), V),
    "scatter": case(lambda x, y: x.scatter(0, PICKED, y), V, W, exact=False),
    "scatter a number": case(lambda x: x.scatter(0, PICKED, 7.0), V),
    "scatter drawn": case(
        lambda i, y: torch.zeros(4, dtype=y.dtype).scatter(0, i, y), K, V, exact=False
    ),
    "scatter_add": case(lambda x, y: x.scatter_add(0, PICKED, y), V, W),
    "scatter_add drawn": case(
        lambda i: torch.zeros(2, 3).scatter_add(1, i, torch.ones(2, 2)),
        Input((2, 2), "3"),
    ),
    "scatter_reduce": case(lambda x, y: x.scatter_reduce(0, PICKED, y, "amax"), V, W),
    "index_add": case(lambda x, y: x.index_add(0, PICKED, y), V, W),
    "index_add drawn": case(
        lambda i, y: torch.zeros(3, dtype=y.dtype).index_add(0, i, y), K, V
    ),
    "index_copy": case(lambda x, y: x.index_copy(1, PICKED[:2], y), M, Input((3, 2))),
    "index_fill": case(lambda x: x.index_fill(1, PICKED, 2.0), M),
    "index_fill by a tensor": case(lambda x, y: x.index_fill(1, PICKED, y), M, S),
    "index_put accumulates": case(lambda x, y: x.index_put((PICKED,), y, True), V, W),
    "masked_scatter": case(lambda x, y: x.masked_scatter(MASK, y), V, V),
    "one_hot": case(lambda i: F.one_hot(i, 3), K),
    "bucketize": case(
        lambda x: torch.bucketize(x, torch.tensor([-1.0, 0, 1]).double()), V
    ),
    "bucketize drawn": case(lambda x, b: torch.bucketize(x, b.sort().values), V, W),
    "searchsorted": case(lambda b, x: torch.searchsorted(b.sort().values, x), V, W),
    "searchsorted by rows": case(
        lambda b, x: torch.searchsorted(b.sort(-1).values, x),
        M,
        Input((3, 2)),
        exact=False,
    ),
}

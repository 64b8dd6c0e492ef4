"""exp2 and log2 inside kernels: by polynomial in float32, by the C library in float64.

A call of the C library would spill every vector register around it.
"""

import torch
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from gsdm_pyg.ops.cpu.vector import F32, F64, I32, I64, constant, emit_load
from gsdm_pyg.ops.cpu.vector_math import FAST, at_most_zero, emit_call, emit_maximum

# Minimax polynomials in float32, highest power first: 2^f = 1 + f P(f) on [-1/2, 1/2]
# to 8e-8 relative, log2(1 + f) = f P(f) on [sqrt(1/2) - 1, sqrt(2) - 1] to 1e-7.
EXP2 = [1.53533605e-4, 1.33988750e-3, 9.61843692e-3, 5.55033237e-2]
EXP2 += [2.40226477e-1, 6.93147182e-1, 1.0]
LOG2 = [-0.145738825, 0.236888140, -0.250070006, 0.286707789]
LOG2 += [-0.360087156, 0.480939418, -0.721357167, 1.44269478]
SMALLEST = -127.0  # 2^x is 0 from here on down
ROUND = 1.5 * 2.0**23 + 127.0  # added to x, leaves round(x) + 127 in the lowest bits
WIDEST = 16  # lanes of the longest vector
# Kernels read these numbers from memory, as operands of their instructions: constants
# in the code would be loaded into registers, which the channels of a head need.
CONSTANTS = torch.tensor(
    [SMALLEST, ROUND, *EXP2, *LOG2], dtype=torch.float32, device="cpu"
)[:, None].repeat(1, WIDEST)
EXP2_AT, LOG2_AT = 2, 2 + len(EXP2)


def _emit_constants(builder, address, kind, first, count):
    """`count` entries of CONSTANTS, in every lane of `kind`."""
    vector = kind if isinstance(kind, ir.VectorType) else ir.VectorType(kind, 1)
    values = []
    for position in range(first, first + count):
        place = builder.add(address, I64(4 * WIDEST * position))
        value = emit_load(builder, place, vector.count, "float32")
        values.append(
            value if vector is kind else builder.extract_element(value, I32(0))
        )
    return values


def _emit_polynomial(builder, coefficients, x):
    """Estrin's scheme: shorter chains of dependent instructions than Horner's."""
    terms = list(reversed(coefficients))
    while len(terms) > 1:
        pairs = []
        for low, high in zip(terms[::2], terms[1::2], strict=False):
            product = builder.fmul(high, x, flags=FAST)
            pairs.append(builder.fadd(low, product, flags=FAST))
        terms = pairs + terms[len(pairs) * 2 :]
        x = builder.fmul(x, x, flags=FAST)
    return terms[0]


@intrinsic
def exp2(typing, x, constants):
    """2^x of a number or vector, for x below 64; `constants`: where CONSTANTS are."""

    def codegen(context, builder, sig, args):
        x, kind = args[0], args[0].type
        is_vector = isinstance(kind, ir.VectorType)
        if F64 in (kind, getattr(kind, "element", None)):
            return emit_call(builder, "exp2", x)
        smallest, rounding = _emit_constants(builder, args[1], kind, 0, 2)
        polynomial = _emit_constants(builder, args[1], kind, EXP2_AT, len(EXP2))
        x = emit_maximum(builder, x, smallest)
        rounded = builder.fadd(x, rounding)
        f = builder.fsub(x, builder.fsub(rounded, rounding))
        bits = ir.VectorType(I32, kind.count) if is_vector else I32
        exponent = builder.shl(builder.bitcast(rounded, bits), constant(bits, 23))
        power = _emit_polynomial(builder, polynomial, f)
        return builder.fmul(power, builder.bitcast(exponent, kind))

    return x(x, types.int64), codegen


@njit
def softmax_weight(logit, log_sum, constants):
    """2^(logit - log_sum), the weight of an edge, computed again for its gradient.

    It is at most 1, although a huge logit is rounded differently the second time.
    """
    return exp2(at_most_zero(logit - log_sum), constants)


@intrinsic
def log2(typing, x, constants):
    """log2 of a positive number; `constants`: where CONSTANTS are."""

    def codegen(context, builder, sig, args):
        if x == types.float64:
            return emit_call(builder, "log2", args[0])
        bits = builder.bitcast(args[0], I32)
        sqrt_half = I32(0x3F3504F3)
        exponent = builder.ashr(builder.sub(bits, sqrt_half), I32(23))
        mantissa = builder.sub(bits, builder.shl(exponent, I32(23)))
        f = builder.fsub(builder.bitcast(mantissa, F32), F32(1.0))
        polynomial = _emit_constants(builder, args[1], F32, LOG2_AT, len(LOG2))
        fraction = builder.fmul(_emit_polynomial(builder, polynomial, f), f, flags=FAST)
        return builder.fadd(fraction, builder.sitofp(exponent, F32), flags=FAST)

    return x(x, types.int64), codegen

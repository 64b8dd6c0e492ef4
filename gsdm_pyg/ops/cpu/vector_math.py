"""Arithmetic on `Vector`s: lane by lane, over the lanes, and rearranging them."""

import operator

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_builtin, type_callable

from gsdm_pyg.ops.cpu.vector import (
    COMPUTED,
    F64,
    I32,
    Vector,
    computed,
    constant,
    emit_broadcast,
    emit_shuffle,
)

FAST = ("reassoc", "contract", "nsz")  # NaN and infinity keep their meaning


def _define_operator(function, instruction):
    """Let `function` (operator.add, ...) work lane by lane; numbers are broadcast."""

    @type_callable(function)
    def type_operator(context):
        def result(left, right):
            vectors = [arg for arg in (left, right) if isinstance(arg, Vector)]
            return vectors[0] if vectors else None

        return result

    def codegen(context, builder, sig, args):
        kind = context.get_value_type(sig.return_type)
        left, right = (emit_broadcast(builder, arg, kind) for arg in args)
        return getattr(builder, instruction)(left, right, flags=FAST)

    lower_builtin(function, Vector, Vector)(codegen)
    lower_builtin(function, Vector, types.Float)(codegen)
    lower_builtin(function, types.Float, Vector)(codegen)


_define_operator(operator.add, "fadd")
_define_operator(operator.sub, "fsub")
_define_operator(operator.mul, "fmul")
_define_operator(operator.truediv, "fdiv")


def emit_call(builder, name, x, first=()):
    """Call the LLVM intrinsic `name` of x, a number or a vector."""
    is_vector = isinstance(x.type, ir.VectorType)
    element = x.type.element if is_vector else x.type
    lanes = f"v{x.type.count}" if is_vector else ""
    kind = element if first else x.type
    function = builder.module.declare_intrinsic(
        f"llvm.{name}.{lanes}{'f64' if element == F64 else 'f32'}",
        fnty=ir.FunctionType(kind, [arg.type for arg in (*first, x)]),
    )
    return builder.call(function, [*first, x], fastmath=FAST)


def emit_maximum(builder, a, b):
    return builder.select(builder.fcmp_ordered("olt", a, b), b, a)


@intrinsic(prefer_literal=True)
def scalar(typing, value, storage):
    """A number in the type that values stored as `storage` compute in."""
    kind = computed(storage.literal_value)

    def codegen(context, builder, sig, args):
        return emit_broadcast(builder, args[0], COMPUTED[kind])

    return kind(types.float64, storage), codegen


@intrinsic(prefer_literal=True)
def full(typing, lanes, value, storage):
    """A vector with `value` in every lane, in the computing type of `storage`."""
    kind = Vector(computed(storage.literal_value), lanes.literal_value)

    def codegen(context, builder, sig, args):
        return emit_broadcast(builder, args[1], context.get_value_type(kind))

    return kind(lanes, types.float64, storage), codegen


@intrinsic
def maximum(typing, a, b):
    """The maximum of two vectors, lane by lane."""

    def codegen(context, builder, sig, args):
        return emit_maximum(builder, *args)

    return a(a, b), codegen


@intrinsic
def at_most_zero(typing, x):
    """min(x, 0) of a number or vector; NaN stays NaN."""

    def codegen(context, builder, sig, args):
        zero = constant(args[0].type, 0.0)
        return builder.select(builder.fcmp_ordered("ogt", args[0], zero), zero, args[0])

    return x(x), codegen


@intrinsic
def reduce_max(typing, vector):
    """The largest lane of a vector of 2, 4, 8, ... lanes."""

    def codegen(context, builder, sig, args):
        (value,) = args
        while value.type.count > 1:
            half, count = value.type.count // 2, value.type.count
            low = emit_shuffle(builder, value, value, range(half))
            high = emit_shuffle(builder, value, value, range(half, count))
            value = emit_maximum(builder, low, high)
        return builder.extract_element(value, I32(0))

    return vector.dtype(vector), codegen


@intrinsic
def reduce_sum(typing, vector):
    """The sum of all lanes."""

    def codegen(context, builder, sig, args):
        zero = constant(args[0].type.element, -0.0)
        return emit_call(builder, "vector.reduce.fadd", args[0], (zero,))

    return vector.dtype(vector), codegen


@intrinsic
def keep_first(typing, vector, count, other):
    """The first `count` lanes of `vector`, then `other`."""

    def codegen(context, builder, sig, args):
        kind = ir.VectorType(I32, vector.lanes)
        lane = ir.Constant(kind, list(range(vector.lanes)))
        count = emit_broadcast(builder, builder.trunc(args[1], I32), kind)
        inside = builder.icmp_signed("<", lane, count)
        return builder.select(
            inside, args[0], emit_broadcast(builder, args[2], args[0].type)
        )

    return vector(vector, types.int64, types.float64), codegen


@intrinsic
def concat(typing, low, high):
    """The lanes of two vectors; a number is broadcast to the other's lanes."""
    part = high if isinstance(high, Vector) else low
    kind = Vector(part.dtype, 2 * part.lanes)

    def codegen(context, builder, sig, args):
        half = context.get_value_type(part)
        low, high = (emit_broadcast(builder, arg, half) for arg in args)
        return emit_shuffle(builder, low, high, range(kind.lanes))

    return kind(low, high), codegen


@intrinsic
def halves(typing, vector):
    """The lower and the upper half of a vector."""
    kind = Vector(vector.dtype, vector.lanes // 2)

    def codegen(context, builder, sig, args):
        (value,) = args
        low = emit_shuffle(builder, value, value, range(kind.lanes))
        high = emit_shuffle(builder, value, value, range(kind.lanes, vector.lanes))
        return context.make_tuple(builder, sig.return_type, (low, high))

    return types.UniTuple(kind, 2)(vector), codegen

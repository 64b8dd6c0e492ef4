"""Arithmetic on the short vectors of `simd`: lanes, edges, exponentials."""


import operator

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin

from gsdm_pyg.ops.simd import (
    F32,
    F64,
    FAST,
    I32,
    I64,
    STORED,
    Vector,
    broadcast,
    call,
    computed,
    constant,
    load_vector,
    store_vector,
)

# 2^f on [-1/2, 1/2] to 2e-8 relative: minimax coefficients of f^6 ... f^0.
EXP2 = (
    0.000154653240,
    0.00133952005,
    0.00961809460,
    0.0555033014,
    0.240226510,
    0.693147182,
    1.0,
)
ROUND = 1.5 * 2.0**23  # adding it rounds a small float32 to an integer


def define_operator(function, instruction):
    """Let `function` (operator.add, ...) work lane by lane; numbers are broadcast."""

    @infer_global(function)
    class Template(AbstractTemplate):
        def generic(self, args, kws):
            vectors = [arg for arg in args if isinstance(arg, Vector)]
            if len(args) == 2 and vectors and not kws:
                return signature(vectors[0], *args)

    def codegen(context, builder, sig, args):
        kind = context.get_value_type(sig.return_type)
        left, right = (broadcast(builder, arg, kind) for arg in args)
        return getattr(builder, instruction)(left, right, flags=FAST)

    lower_builtin(function, Vector, Vector)(codegen)
    lower_builtin(function, Vector, types.Float)(codegen)
    lower_builtin(function, types.Float, Vector)(codegen)


for function, instruction in [("add", "fadd"), ("sub", "fsub"), ("mul", "fmul")]:
    define_operator(getattr(operator, function), instruction)


def emit_exp2(builder, x):
    """2^x for x <= 0 or little above; 0 below the smallest normal number."""
    kind = x.type
    is_vector = isinstance(kind, ir.VectorType)
    if F64 in (kind, getattr(kind, "element", None)):
        return call(builder, "exp2", [x])
    bits = ir.VectorType(I32, kind.count) if is_vector else I32
    tiny = builder.fcmp_ordered("olt", x, constant(kind, -126.0))
    shifted = builder.fadd(x, constant(kind, ROUND))
    f = builder.fsub(x, builder.fsub(shifted, constant(kind, ROUND)))
    power = constant(kind, EXP2[0])
    for coefficient in EXP2[1:]:
        power = builder.fmul(power, f, flags=FAST)
        power = builder.fadd(power, constant(kind, coefficient), flags=FAST)
    exponent = builder.shl(builder.bitcast(shifted, bits), constant(bits, 23))
    one = constant(bits, 127 << 23)
    scale = builder.bitcast(builder.add(exponent, one), kind)
    return builder.select(tiny, constant(kind, 0.0), builder.fmul(power, scale))


@intrinsic
def exp2(typing, x):
    """2^x of a number or a vector, for x that is not far above zero."""

    def codegen(context, builder, sig, args):
        return emit_exp2(builder, args[0])

    return x(x), codegen


def emit_max(builder, a, b):
    return builder.select(builder.fcmp_ordered("olt", a, b), b, a)


@intrinsic
def maximum(typing, bound, vector):
    """The largest of `bound` and the lanes of `vector`."""

    def codegen(context, builder, sig, args):
        value = args[1]
        while value.type.count > 1:
            half = value.type.count // 2
            low, high = (
                builder.shuffle_vector(
                    value, value, ir.Constant(ir.VectorType(I32, half), lanes)
                )
                for lanes in (list(range(half)), list(range(half, 2 * half)))
            )
            value = emit_max(builder, low, high)
        return emit_max(builder, args[0], builder.extract_element(value, I32(0)))

    return vector.dtype(vector.dtype, vector), codegen


@intrinsic
def total(typing, vector):
    """The sum of all lanes."""

    def codegen(context, builder, sig, args):
        zero = constant(args[0].type.element, -0.0)
        return call(builder, "vector.reduce.fadd", [zero, args[0]], zero.type)

    return vector.dtype(vector), codegen


def emit_totals(builder, vectors):
    """The lane sums of B vectors as one vector of B lanes."""
    block, element = len(vectors), vectors[0].type.element

    def shuffle(a, b, lanes):
        return builder.shuffle_vector(
            a, b, ir.Constant(ir.VectorType(I32, len(lanes)), lanes)
        )

    lanes = vectors[0].type.count
    while lanes > block and lanes % 2 == 0:  # fold until B lanes are left
        lanes //= 2
        low, high = list(range(lanes)), list(range(lanes, 2 * lanes))
        vectors = [
            builder.fadd(shuffle(v, v, low), shuffle(v, v, high), flags=FAST)
            for v in vectors
        ]
    if lanes != block:
        result = ir.Constant(ir.VectorType(element, block), ir.Undefined)
        zero = constant(element, -0.0)
        for lane, vector in enumerate(vectors):
            value = call(builder, "vector.reduce.fadd", [zero, vector], element)
            result = builder.insert_element(result, value, I32(lane))
        return result
    while len(vectors) > 1:  # B x B: add and transpose in one
        lanes //= 2
        low = [lane for lane in range(2 * block) if lane // lanes % 2 == 0]
        high = [lane + lanes for lane in low]
        vectors = [
            builder.fadd(shuffle(a, b, low), shuffle(a, b, high), flags=FAST)
            for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]


def lanes_of(builder, vector):
    return [builder.extract_element(vector, I32(b)) for b in range(vector.type.count)]


def row_address(builder, base, stride, index):
    return builder.add(base, builder.mul(stride, index))


@intrinsic(prefer_literal=True)
def positions(typing, first, end, block):
    """first, first + 1, ... as one vector of `block` lanes, none beyond end - 1."""
    kind = Vector(types.int64, block.literal_value)

    def codegen(context, builder, sig, args):
        result = ir.Constant(context.get_value_type(kind), ir.Undefined)
        last = builder.sub(args[1], I64(1))
        for lane in range(kind.lanes):
            position = builder.add(args[0], I64(lane))
            over = builder.icmp_signed(">", position, last)
            position = builder.select(over, last, position)
            result = builder.insert_element(result, position, I32(lane))
        return result

    return kind(types.int64, types.int64, block), codegen


@intrinsic(prefer_literal=True)
def lookup(typing, base, index, storage):
    """The integers `base[index]`, one per lane."""
    kind = STORED[storage.literal_value]

    def codegen(context, builder, sig, args):
        result = ir.Constant(args[1].type, ir.Undefined)
        for lane, position in enumerate(lanes_of(builder, args[1])):
            address = row_address(builder, args[0], I64(kind.width // 8), position)
            value = builder.load(builder.inttoptr(address, kind.as_pointer()))
            value = value if kind is I64 else builder.sext(value, I64)
            result = builder.insert_element(result, value, I32(lane))
        return result

    return index(types.int64, index, storage), codegen


@intrinsic(prefer_literal=True)
def gather(typing, base, stride, index, storage):
    """The number at `base + stride * index`, one per lane."""
    stored = storage.literal_value
    kind = Vector(computed(stored), index.lanes)

    def codegen(context, builder, sig, args):
        result = ir.Constant(context.get_value_type(kind), ir.Undefined)
        for lane, row in enumerate(lanes_of(builder, args[2])):
            address = row_address(builder, args[0], args[1], row)
            value = load_vector(builder, address, 1, stored)
            value = builder.extract_element(value, I32(0))
            result = builder.insert_element(result, value, I32(lane))
        return result

    return kind(types.int64, types.int64, index, storage), codegen


@intrinsic(prefer_literal=True)
def dots(typing, x, base, stride, index, storage):
    """The inner products of x with the rows at `base + stride * index`."""
    stored = storage.literal_value
    kind = Vector(x.dtype, index.lanes)

    def codegen(context, builder, sig, args):
        products = []
        for row in lanes_of(builder, args[3]):
            address = row_address(builder, args[1], args[2], row)
            values = load_vector(builder, address, x.lanes, stored)
            products.append(builder.fmul(args[0], values, flags=FAST))
        return emit_totals(builder, products)

    return kind(x, types.int64, types.int64, index, storage), codegen


@intrinsic(prefer_literal=True)
def accumulate(typing, x, weights, base, stride, index, storage):
    """x plus the weighted sum of the rows at `base + stride * index`."""
    stored = storage.literal_value

    def codegen(context, builder, sig, args):
        result = args[0]
        weight_of = lanes_of(builder, args[1])
        for weight, row in zip(weight_of, lanes_of(builder, args[4]), strict=True):
            address = row_address(builder, args[2], args[3], row)
            values = load_vector(builder, address, x.lanes, stored)
            weight = broadcast(builder, weight, result.type)
            product = builder.fmul(weight, values, flags=FAST)
            result = builder.fadd(result, product, flags=FAST)
        return result

    return x(x, weights, types.int64, types.int64, index, storage), codegen


@intrinsic
def keep_first(typing, x, count, other):
    """The first `count` lanes of x, then `other`."""

    def codegen(context, builder, sig, args):
        kind = ir.VectorType(I64, x.lanes)
        lane = ir.Constant(kind, list(range(x.lanes)))
        inside = builder.icmp_signed("<", lane, broadcast(builder, args[1], kind))
        return builder.select(inside, args[0], broadcast(builder, args[2], args[0].type))

    return x(x, types.int64, types.float64), codegen




@intrinsic(prefer_literal=True)
def scatter(typing, base, stride, index, values, storage):
    """Store each lane at `base + stride * index`; of equal indices the first wins."""
    stored = storage.literal_value

    def codegen(context, builder, sig, args):
        lanes = zip(lanes_of(builder, args[2]), lanes_of(builder, args[3]), strict=True)
        for row, value in reversed(list(lanes)):
            address = row_address(builder, args[0], args[1], row)
            single = broadcast(builder, value, ir.VectorType(value.type, 1))
            store_vector(builder, address, single, stored)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, index, values, storage), codegen

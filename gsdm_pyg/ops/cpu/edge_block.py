"""A block of edges at once: inner products with, and sums over, the rows they reach.

Before the heads of a row are computed, the byte offsets of its neighbors' data go into
tables of one entry per edge, one table per tensor. A block is a few consecutive entries
from the address `entry` on: the row of edge b of the block is at `base` plus the offset
stored at `entry + b * ENTRY`.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gsdm_pyg.ops.cpu.vector import (
    BYTES,
    I32,
    I64,
    Vector,
    computed,
    constant,
    emit_broadcast,
    emit_load,
    emit_shuffle,
    emit_store,
)
from gsdm_pyg.ops.cpu.vector_math import FAST

ENTRY_SIZE = 8  # bytes of a table per edge


def _emit_address(builder, base, entry, edge):
    place = builder.add(entry, I64(edge * ENTRY_SIZE))
    offset = builder.load(builder.inttoptr(place, I64.as_pointer()))
    return builder.add(base, offset)


def _emit_products(builder, x, base, entry, block, storage):
    """x times the row of each edge, folded: see `_emit_folded`."""
    return [
        _emit_folded(builder, x, _emit_address(builder, base, entry, edge), storage)
        for edge in range(block)
    ]


def _emit_folded(builder, x, address, storage):
    """x times the row at the address, in 8 lanes that add up to the inner product.

    Channels are multiplied and added 8 at a time: adding halves of one long product
    would take more instructions.
    """
    channels, result = x.type.count, None
    zero = constant(x.type, 0.0)
    for start in range(0, channels, 8):
        lanes = range(start, min(start + 8, channels))
        place = builder.add(address, I64(start * BYTES[storage]))
        row = emit_load(builder, place, len(lanes), storage)
        part = emit_shuffle(builder, x, zero, lanes)
        product = builder.fmul(part, row, flags=FAST)
        if len(lanes) < 8:
            rest = constant(product.type, 0.0)
            padded = [min(lane, len(lanes)) for lane in range(8)]
            product = emit_shuffle(builder, product, rest, padded)
        if result is not None:
            product = builder.fadd(result, product, flags=FAST)
        result = product
    return result


def _emit_sum_of_four(builder, vectors):
    """Lanes b and 4 + b of the result add up to the sum of all 8 lanes of vector b."""

    def add(x, y, low, high):
        low = emit_shuffle(builder, x, y, low)
        return builder.fadd(low, emit_shuffle(builder, x, y, high), flags=FAST)

    a, b, c, d = vectors
    low, high = (0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15)
    ab, cd = add(a, b, low, high), add(c, d, low, high)
    return add(ab, cd, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))


def _emit_totals(builder, vectors):
    """The sums over the 8 lanes of 4 or 8 vectors, as one vector of 4 or 8 lanes."""
    first = _emit_sum_of_four(builder, vectors[:4])
    if len(vectors) == 4:
        low = emit_shuffle(builder, first, first, range(4))
        high = emit_shuffle(builder, first, first, range(4, 8))
    else:
        second = _emit_sum_of_four(builder, vectors[4:])
        low = emit_shuffle(builder, first, second, (0, 1, 2, 3, 8, 9, 10, 11))
        high = emit_shuffle(builder, first, second, (4, 5, 6, 7, 12, 13, 14, 15))
    return builder.fadd(low, high, flags=FAST)


@intrinsic(prefer_literal=True)
def dots(typing, x, base, entry, block, storage):
    """The inner products of x with the rows of a block of 4 or 8 edges."""
    edges, stored = block.literal_value, storage.literal_value

    def codegen(context, builder, sig, args):
        products = _emit_products(builder, *args[:3], edges, stored)
        return _emit_totals(builder, products)

    kind = Vector(x.dtype, edges)
    return kind(x, types.int64, types.int64, block, storage), codegen


@intrinsic(prefer_literal=True)
def dots_pair(typing, x, x_base, x_entry, y, y_base, y_entry, storage):
    """The inner products of x, then of y, each with rows of a block of 4 edges."""
    stored = storage.literal_value

    def codegen(context, builder, sig, args):
        products = _emit_products(builder, *args[:3], 4, stored)
        products += _emit_products(builder, *args[3:6], 4, stored)
        return _emit_totals(builder, products)

    integers = (types.int64, types.int64)
    return Vector(x.dtype, 8)(x, *integers, y, *integers, storage), codegen


@intrinsic(prefer_literal=True)
def dots_single(typing, x, x_row, y, y_row, z, z_row, w, w_row, storage):
    """The inner products of four vectors with a row each, given by its address."""
    stored = storage.literal_value

    def codegen(context, builder, sig, args):
        products = []
        for vector, address in zip(args[0:8:2], args[1:8:2], strict=True):
            products.append(_emit_folded(builder, vector, address, stored))
        return _emit_totals(builder, products)

    pairs = (x, types.int64) * 4
    return Vector(x.dtype, 4)(*pairs, storage), codegen


@intrinsic(prefer_literal=True)
def accumulate(typing, x, weight, base, entry, storage):
    """x plus the row of one edge times the number stored at the address `weight`."""
    stored = storage.literal_value

    def codegen(context, builder, sig, args):
        x, kind = args[0], args[0].type
        address = _emit_address(builder, args[2], args[3], 0)
        row = emit_load(builder, address, kind.count, stored)
        scalar = builder.load(builder.inttoptr(args[1], kind.element.as_pointer()))
        scaled = builder.fmul(emit_broadcast(builder, scalar, kind), row, flags=FAST)
        return builder.fadd(x, scaled, flags=FAST)

    return x(x, types.int64, types.int64, types.int64, storage), codegen


@intrinsic(prefer_literal=True)
def gather(typing, base, entry, block, storage):
    """One number per edge of a block."""
    edges, stored = block.literal_value, storage.literal_value
    kind = Vector(computed(stored), edges)

    def codegen(context, builder, sig, args):
        result = ir.Constant(context.get_value_type(kind), ir.Undefined)
        for edge in range(edges):
            address = _emit_address(builder, args[0], args[1], edge)
            value = emit_load(builder, address, 1, stored)
            value = builder.extract_element(value, I32(0))
            result = builder.insert_element(result, value, I32(edge))
        return result

    return kind(types.int64, types.int64, block, storage), codegen


@intrinsic(prefer_literal=True)
def gather_pairs(typing, base, entry, storage):
    """Two adjacent numbers per edge of a block of 4, as two vectors."""
    stored = storage.literal_value
    kind = Vector(computed(stored), 4)

    def codegen(context, builder, sig, args):
        a, b, c, d = (
            emit_load(builder, _emit_address(builder, *args[:2], edge), 2, stored)
            for edge in range(4)
        )
        ab = emit_shuffle(builder, a, b, range(4))
        cd = emit_shuffle(builder, c, d, range(4))
        first = emit_shuffle(builder, ab, cd, (0, 2, 4, 6))
        second = emit_shuffle(builder, ab, cd, (1, 3, 5, 7))
        return context.make_tuple(builder, sig.return_type, (first, second))

    return types.UniTuple(kind, 2)(types.int64, types.int64, storage), codegen


@intrinsic(prefer_literal=True)
def scatter(typing, base, entry, values, storage):
    """Store one number per edge of a block."""
    stored = storage.literal_value

    def codegen(context, builder, sig, args):
        single = ir.VectorType(args[2].type.element, 1)
        for edge in range(values.lanes):
            address = _emit_address(builder, args[0], args[1], edge)
            value = builder.extract_element(args[2], I32(edge))
            value = emit_broadcast(builder, value, single)
            emit_store(builder, address, value, stored)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, values, storage), codegen

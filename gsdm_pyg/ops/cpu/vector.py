"""Short vectors for Numba: the channels of a head, or a block of edges, as one value.

A `Vector` is an LLVM vector with a fixed number of lanes. Kernels written with it read
like the formulas and keep every vector in registers: with the number of channels known
at compile time, no loop over channels is left.

Memory is addressed by integers (`tensor.data_ptr()` plus bytes), so tensors are read
and written in place whatever their strides. Half precision is widened to float32 on
load and rounded to nearest even on store. The `emit_*` functions write LLVM code; the
intrinsics are what kernels call.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

LINE = 64  # bytes of a cache line
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}

F32, F64 = ir.FloatType(), ir.DoubleType()
I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
STORED = {"float16": ir.HalfType(), "bfloat16": I16, "float32": F32, "float64": F64}
COMPUTED = {types.float32: F32, types.float64: F64, types.int64: I64}


class Vector(types.Type):
    """`lanes` numbers of Numba type `dtype` (float32 or float64) in registers."""

    def __init__(self, dtype: types.Float, lanes: int):
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Vector({dtype}, {lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.VectorType(COMPUTED[kind.dtype], kind.lanes))


def computed(storage: str) -> types.Float:
    """The type that arithmetic on numbers stored as `storage` runs in."""
    return types.float64 if storage == "float64" else types.float32


def constant(kind, value):
    is_vector = isinstance(kind, ir.VectorType)
    return ir.Constant(kind, [value] * kind.count if is_vector else value)


def emit_shuffle(builder, a, b, lanes):
    """The given lanes of a and b; those of b are counted after those of a."""
    mask = ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))
    return builder.shuffle_vector(a, b, mask)


def emit_broadcast(builder, value, kind):
    """A number converted to the LLVM type `kind`: into every lane of a vector."""
    if isinstance(value.type, ir.VectorType):
        return value
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    if value.type != element:
        wider = isinstance(element, ir.DoubleType)
        value = (builder.fpext if wider else builder.fptrunc)(value, element)
    if element is kind:
        return value
    single = ir.Constant(ir.VectorType(element, 1), ir.Undefined)
    lane = builder.insert_element(single, value, I32(0))
    return emit_shuffle(builder, lane, single, [0] * kind.count)


def emit_load(builder, address, lanes, storage):
    stored = ir.VectorType(STORED[storage], lanes)
    pointer = builder.inttoptr(address, stored.as_pointer())
    value = builder.load(pointer, align=BYTES[storage])
    if storage == "float16":
        return builder.fpext(value, ir.VectorType(F32, lanes))
    if storage == "bfloat16":  # the upper half of a float32
        bits = ir.VectorType(I32, lanes)
        value = builder.shl(builder.zext(value, bits), constant(bits, 16))
        return builder.bitcast(value, ir.VectorType(F32, lanes))
    return value


def emit_store(builder, address, value, storage, align=None):
    """Write a vector; returns the instruction."""
    if storage == "float16":
        value = builder.fptrunc(value, ir.VectorType(STORED[storage], value.type.count))
    if storage == "bfloat16":
        value = _emit_bfloat16(builder, value)
    pointer = builder.inttoptr(address, value.type.as_pointer())
    return builder.store(value, pointer, align=align or BYTES[storage])


def _emit_bfloat16(builder, value):
    bits = ir.VectorType(I32, value.type.count)
    word = builder.bitcast(value, bits)
    odd = builder.and_(builder.lshr(word, constant(bits, 16)), constant(bits, 1))
    rounded = builder.add(builder.add(word, odd), constant(bits, 0x7FFF))
    nan = builder.fcmp_unordered("uno", value, value)
    rounded = builder.select(nan, constant(bits, 0x7FC00000), rounded)
    rounded = builder.lshr(rounded, constant(bits, 16))
    return builder.trunc(rounded, ir.VectorType(I16, value.type.count))


@intrinsic(prefer_literal=True)
def load(typing, address, lanes, storage):
    """The vector of `lanes` numbers stored at `address`."""
    count, stored = lanes.literal_value, storage.literal_value

    def codegen(context, builder, sig, args):
        return emit_load(builder, args[0], count, stored)

    return Vector(computed(stored), count)(types.int64, lanes, storage), codegen


@intrinsic(prefer_literal=True)
def store(typing, address, vector, storage):
    """Write a vector to `address`."""
    stored = storage.literal_value

    def codegen(context, builder, sig, args):
        emit_store(builder, args[0], args[1], stored)
        return context.get_dummy_value()

    return types.void(types.int64, vector, storage), codegen


@intrinsic(prefer_literal=True)
def store_result(typing, address, vector, storage, nontemporal):
    """`store`; if `nontemporal`, whole cache lines past the caches."""
    stored, align = storage.literal_value, LINE if nontemporal.literal_value else None

    def codegen(context, builder, sig, args):
        instruction = emit_store(builder, args[0], args[1], stored, align)
        if align:
            once = builder.module.add_metadata([I32(1)])
            instruction.set_metadata("nontemporal", once)
        return context.get_dummy_value()

    return types.void(types.int64, vector, storage, nontemporal), codegen


@intrinsic
def fence(typing):
    """Wait until other threads see nontemporal stores."""

    def codegen(context, builder, sig, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic(prefer_literal=True)
def read(typing, address, storage):
    """The single number stored at `address`: int64 or a float."""
    name = storage.literal_value
    kind = types.int64 if name == "int64" else computed(name)

    def codegen(context, builder, sig, args):
        if name == "int64":
            return builder.load(builder.inttoptr(args[0], I64.as_pointer()))
        return builder.extract_element(emit_load(builder, args[0], 1, name), I32(0))

    return kind(types.int64, storage), codegen


@intrinsic
def read_int32(typing, address):
    """The int32 stored at `address`, as an int64."""

    def codegen(context, builder, sig, args):
        pointer = builder.inttoptr(args[0], I32.as_pointer())
        return builder.sext(builder.load(pointer), I64)

    return types.int64(types.int64), codegen


@intrinsic
def write(typing, address, value):
    """Store a single number (int64, float32 or float64) at `address`."""

    def codegen(context, builder, sig, args):
        builder.store(args[1], builder.inttoptr(args[0], COMPUTED[value].as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, value), codegen


@intrinsic(prefer_literal=True)
def prefetch_write(typing, address, size):
    """Fetch the cache lines of `size` bytes that will soon be written."""

    def codegen(context, builder, sig, args):
        kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
        for offset in range(0, size.literal_value, LINE):
            address = builder.add(args[0], I64(offset))
            pointer = builder.inttoptr(address, I8.as_pointer())
            builder.call(prefetch, [pointer, I32(1), I32(3), I32(1)])
        return context.get_dummy_value()

    return types.void(types.int64, size), codegen

"""Short vectors for Numba: one value holds the channels of a head or a block of edges.

A `Vector` is an LLVM vector with a fixed number of lanes. Kernels written with it read
like the formulas, and the compiler keeps every vector in registers: with the number of
channels known at compile time, no loop over channels is left.

Memory is addressed by integers (`tensor.data_ptr()` plus bytes), so tensors are read
and written in place whatever their strides. Half precision is widened to float32 on
load and rounded to nearest even on store.
"""


from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}

F32, F64 = ir.FloatType(), ir.DoubleType()
I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
STORED = {"float16": ir.HalfType(), "bfloat16": I16, "float32": F32, "float64": F64}
STORED |= {"int32": I32, "int64": I64}
LLVM = {types.float32: F32, types.float64: F64, types.int64: I64}
FAST = ("reassoc", "contract", "nsz")  # NaN and infinity keep their meaning


class Vector(types.Type):
    """`lanes` numbers of type `dtype` (float32, float64 or int64) in registers."""

    def __init__(self, dtype: types.Number, lanes: int):
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Vector({dtype}, {lanes})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.VectorType(LLVM[kind.dtype], kind.lanes))


def computed(storage: str) -> types.Float:
    """The type that arithmetic on stored numbers runs in."""
    return types.float64 if storage == "float64" else types.float32


def constant(kind, value):
    is_vector = isinstance(kind, ir.VectorType)
    return ir.Constant(kind, [value] * kind.count if is_vector else value)


def broadcast(builder, value, kind):
    """Convert a number to the LLVM type `kind`, into every lane if it is a vector."""
    if isinstance(value.type, ir.VectorType):
        return value
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    if value.type != element:
        wider = isinstance(element, ir.DoubleType)
        value = (builder.fpext if wider else builder.fptrunc)(value, element)
    if element is kind:
        return value
    single = ir.Constant(ir.VectorType(element, 1), ir.Undefined)
    lane0 = builder.insert_element(single, value, I32(0))
    return builder.shuffle_vector(lane0, single, constant(ir.VectorType(I32, kind.count), 0))


def call(builder, name, args, result=None):
    """Call the LLVM intrinsic `name`, overloaded on the type of its last argument."""
    kind = args[-1].type
    is_vector = isinstance(kind, ir.VectorType)
    bits = "f64" if F64 in (kind, getattr(kind, "element", None)) else "f32"
    tag = f"v{kind.count}{bits}" if is_vector else bits
    signature = ir.FunctionType(result or kind, [arg.type for arg in args])
    function = cgutils.get_or_insert_function(
        builder.module, signature, f"llvm.{name}.{tag}"
    )
    return builder.call(function, args, fastmath=FAST)


def load_vector(builder, address, lanes, storage):
    stored = ir.VectorType(STORED[storage], lanes)
    pointer = builder.inttoptr(address, stored.as_pointer())
    value = builder.load(pointer, align=BYTES[storage])
    wide = ir.VectorType(F32, lanes)
    if storage == "float16":
        return builder.fpext(value, wide)
    if storage == "bfloat16":  # the upper half of a float32
        bits = ir.VectorType(I32, lanes)
        return builder.bitcast(
            builder.shl(builder.zext(value, bits), constant(bits, 16)), wide
        )
    return value


def round_to_bfloat16(builder, value):
    bits = ir.VectorType(I32, value.type.count)
    word = builder.bitcast(value, bits)
    odd = builder.and_(builder.lshr(word, constant(bits, 16)), constant(bits, 1))
    rounded = builder.add(builder.add(word, odd), constant(bits, 0x7FFF))
    nan = builder.fcmp_unordered("uno", value, value)
    rounded = builder.select(nan, constant(bits, 0x7FC00000), rounded)
    rounded = builder.lshr(rounded, constant(bits, 16))
    return builder.trunc(rounded, ir.VectorType(I16, value.type.count))


def store_vector(builder, address, value, storage):
    if storage == "float16":
        value = builder.fptrunc(value, ir.VectorType(STORED[storage], value.type.count))
    if storage == "bfloat16":
        value = round_to_bfloat16(builder, value)
    pointer = builder.inttoptr(address, value.type.as_pointer())
    builder.store(value, pointer, align=BYTES[storage])


@intrinsic(prefer_literal=True)
def load(typing, address, lanes, storage):
    """The `lanes` numbers stored at `address`."""
    count, stored = lanes.literal_value, storage.literal_value

    def codegen(context, builder, sig, args):
        return load_vector(builder, args[0], count, stored)

    return Vector(computed(stored), count)(types.int64, lanes, storage), codegen


@intrinsic(prefer_literal=True)
def store(typing, address, vector, storage):
    """Write a vector to `address`."""
    stored = storage.literal_value

    def codegen(context, builder, sig, args):
        store_vector(builder, args[0], args[1], stored)
        return context.get_dummy_value()

    return types.void(types.int64, vector, storage), codegen


@intrinsic(prefer_literal=True)
def zeros(typing, lanes, storage):
    """A vector of zeros, of the type that numbers stored as `storage` compute in."""
    kind = Vector(computed(storage.literal_value), lanes.literal_value)

    def codegen(context, builder, sig, args):
        return constant(context.get_value_type(kind), 0)

    return kind(lanes, storage), codegen


@intrinsic(prefer_literal=True)
def read(typing, address, storage):
    """The single number stored at `address`; int32 widens to int64."""
    name = storage.literal_value
    result = types.int64 if name.startswith("int") else computed(name)

    def codegen(context, builder, sig, args):
        if result != types.int64:
            vector = load_vector(builder, args[0], 1, name)
            return builder.extract_element(vector, I32(0))
        value = builder.load(builder.inttoptr(args[0], STORED[name].as_pointer()))
        return value if name == "int64" else builder.sext(value, I64)

    return result(types.int64, storage), codegen


@intrinsic
def write(typing, address, value):
    """Store a single number (int64, float32 or float64) at `address`."""

    def codegen(context, builder, sig, args):
        builder.store(args[1], builder.inttoptr(args[0], LLVM[value].as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, value), codegen


@intrinsic(prefer_literal=True)
def number(typing, value, storage):
    """A number in the type that values stored as `storage` compute in."""
    kind = computed(storage.literal_value)

    def codegen(context, builder, sig, args):
        return broadcast(builder, args[0], LLVM[kind])

    return kind(types.float64, storage), codegen


@intrinsic
def fetch_add(typing, address, value):
    """Add to the int64 at `address` atomically; returns what it held before."""

    def codegen(context, builder, sig, args):
        pointer = builder.inttoptr(args[0], I64.as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "monotonic")

    return types.int64(types.int64, types.int64), codegen

"""The arguments of a kernel: filled in by Python, read by compiled code."""

import ctypes

from numba import types
from numba.extending import intrinsic

from gsdm_pyg.ops.cpu.vector import F64, I64

NUMBERS = "counter num_items threads workspace_size hubs invalid index_size "
NUMBERS += "num_rows num_cols num_edges heads num_components edge_array_size"
ADDRESSES = "rowptr col perm lse stats constants workspaces slot_rows partials "
ADDRESSES += "components bias factor edge dedge p ds "
ADDRESSES += "x dx y dy weight shift table row_id"  # of norms
TENSORS = "q k v out grad dq dk dv"


class StridedTensor(ctypes.Structure):
    """A tensor [N, H, C] in memory: address and strides of rows and heads, in bytes."""

    _fields_ = [(name, ctypes.c_int64) for name in ("address", "row", "head")]


class Task(ctypes.Structure):
    """Numbers, addresses and tensors; 0 by default."""

    _fields_ = [
        ("scale", ctypes.c_double),
        *((name, ctypes.c_int64) for name in f"{NUMBERS} {ADDRESSES}".split()),
        *((name, StridedTensor) for name in TENSORS.split()),
    ]


def _emit_field(builder, task, name, place=0):
    """A pointer to the field `name` of the task, or to one of the numbers in it."""
    kind = F64 if name == "scale" else I64
    address = builder.add(task, I64(getattr(Task, name).offset + 8 * place))
    return builder.inttoptr(address, kind.as_pointer())


@intrinsic(prefer_literal=True)
def field(typing, task, name):
    """The value of a field: int64, or float64 for the scale."""
    label = name.literal_value
    kind = types.float64 if label == "scale" else types.int64

    def codegen(context, builder, sig, args):
        return builder.load(_emit_field(builder, args[0], label))

    return kind(types.int64, name), codegen


@intrinsic(prefer_literal=True)
def set_field(typing, task, name, value):
    """Store an int64 in a field."""
    label = name.literal_value

    def codegen(context, builder, sig, args):
        builder.store(args[2], _emit_field(builder, args[0], label))
        return context.get_dummy_value()

    return types.void(types.int64, name, types.int64), codegen


@intrinsic(prefer_literal=True)
def fetch_add(typing, task, name, value):
    """Add to a field atomically; returns the value before."""
    label = name.literal_value

    def codegen(context, builder, sig, args):
        pointer = _emit_field(builder, args[0], label)
        return builder.atomic_rmw("add", pointer, args[2], "monotonic")

    return types.int64(types.int64, name, types.int64), codegen


@intrinsic(prefer_literal=True)
def tensor(typing, task, name):
    """(address, stride of rows, stride of heads) of a tensor [N, H, C], in bytes."""
    label = name.literal_value

    def codegen(context, builder, sig, args):
        values = [
            builder.load(_emit_field(builder, args[0], label, place))
            for place in range(3)
        ]
        return context.make_tuple(builder, sig.return_type, values)

    return types.UniTuple(types.int64, 3)(types.int64, name), codegen

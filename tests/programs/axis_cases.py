"""Functions of torch with their inputs: shapes, axes, products and windows."""

import torch
import torch.nn.functional as F

from tests.programs.elementwise_cases import M, N, S, T, V, W, case
from tests.programs.oracle import Input

SIGNAL, IMAGE = Input((1, 2, 6)), Input((1, 2, 4, 4))
PAIR, SQUARE, STACK = Input((2, 2)), Input((3, 3)), Input((2, 2, 2))
KERNEL = torch.tensor([[[1.0, 2, 3], [4, 5, 6]], [[7, 8, 9], [1, 3, 5]]]).double()
BAND = torch.tensor([[1.0, 2, 0], [0, 3, 0], [0, 0, 4], [5, 0, 0]]).double()


def _spd(x):
    return x @ x.mT + 3 * torch.eye(x.size(-1), dtype=x.dtype)


REDUCTIONS = "sum mean prod amax amin argmax argmin std var logsumexp norm"
ALONG = "softmax log_softmax cumsum cumprod logcumsumexp argsort"

CASES = {
    **{
        f"{n} along 1": case(lambda x, n=n: getattr(x, n)(dim=1), M)
        for n in REDUCTIONS.split()
    },
    **{
        f"{n} along 0": case(lambda x, n=n: getattr(x, n)(dim=0), M)
        for n in ALONG.split()
    },
    "sum of all": case(torch.sum, M),
    "sum keeps axes": case(lambda x: x.sum((0, 2), keepdim=True), T),
    "max and its index": case(lambda x: x.max(1), M),
    "min of all": case(torch.min, V),
    "any": case(lambda x: (x > 1).any(1), M),
    "all": case(torch.all, Input((2,), "bool")),
    "median": case(lambda x: x.median(1), M),
    "mode": case(lambda x: x.mode(1), Input((2, 3), "3")),
    "kthvalue": case(lambda x: x.kthvalue(2, 1), M),
    "quantile": case(lambda x: x.quantile(0.3, dim=1), M),
    "count_nonzero": case(lambda x: (x > 0).count_nonzero(0), M),
    "aminmax": case(lambda x: x.aminmax(dim=0), M),
    "std_mean": case(lambda x: torch.std_mean(x, 1), M),
    "vector norm": case(lambda x: torch.linalg.vector_norm(x, 1, dim=0), M),
    "matrix norm": case(torch.linalg.matrix_norm, M),
    "nansum": case(torch.nansum, V),
    "cummax": case(lambda x: x.cummax(1).values, M),
    "cummin and its index": case(lambda x: x.cummin(0), M, exact=False),
    "sort": case(lambda x: x.sort(1), M),
    "sort descending, stable": case(
        lambda x: x.sort(dim=0, descending=True, stable=True), M
    ),
    "topk": case(lambda x: x.topk(2, 1), M),
    "diff": case(torch.diff, M),
    "normalize": case(lambda x: F.normalize(x, dim=1), M),
    "layer_norm": case(lambda x: F.layer_norm(x, (4,)), M),
    "layer_norm with a weight": case(lambda x, w: F.layer_norm(x, (4,), w, w), M, V),
    "batch_norm": case(
        lambda x: F.batch_norm(x, None, None, training=True), M, exact=False
    ),
    "group_norm": case(lambda x: F.group_norm(x, 2), Input((2, 4)), exact=False),
    "fft": case(lambda x: torch.fft.fft(x, dim=1), M),
    "rfft": case(lambda x: torch.fft.irfft(torch.fft.rfft(x)), M, exact=False),
    "trapezoid": case(torch.trapezoid, M),
    "glu": case(lambda x: F.glu(x, 1), M, exact=False),
    "reshape": case(lambda x: x.reshape(2, 6).T, M),
    "transpose": case(lambda x: x.permute(2, 0, 1).contiguous(), T),
    "expand": case(lambda x: x[:, None].expand(3, 2).clone(), W),
    "flip": case(lambda x: x.flip(0, 1), M),
    "roll": case(lambda x: x.roll((1, -1), (0, 1)), M),
    "rot90": case(torch.rot90, M),
    "tril": case(torch.tril, M),
    "triu": case(lambda x: x.triu(1), M),
    "diag": case(torch.diag, SQUARE),
    "diag of a vector": case(torch.diag, W),
    "diag_embed": case(torch.diag_embed, PAIR),
    "diagonal changed": case(lambda x: x.clone().fill_diagonal_(1.0), SQUARE),
    "block_diag": case(lambda x, y: torch.block_diag(x, y), PAIR, W),
    "cat": case(lambda x, y: torch.cat([x, y.T], 1), M, Input((2, 3))),
    "stack": case(lambda x, y: torch.stack([x, y], 1), V, V),
    "chunk": case(lambda x: x.chunk(2, 1), M),
    "split": case(lambda x: x.split([1, 3], 1), M),
    "unbind": case(lambda x: x.unbind(1), M),
    "tensor_split": case(lambda x: x.tensor_split(3, 1), M),
    "repeat": case(lambda x: x.repeat(2, 2), PAIR),
    "tile": case(lambda x: x.tile(3), V),
    "repeat_interleave": case(
        lambda x: x.repeat_interleave(torch.tensor([2, 0, 1])), W
    ),
    "meshgrid": case(lambda x, y: torch.meshgrid(x, y, indexing="ij"), W, V),
    "cartesian_prod": case(torch.cartesian_prod, W, V),
    "unfold": case(lambda x: x.unfold(0, 2, 1) * 2, V),
    "movedim and squeeze": case(lambda x: x[:, None].movedim(0, 1).squeeze(0) + 1, V),
    "as_strided": case(lambda x: x.as_strided((2, 2), (1, 2)) + 0, V),
    "squeeze in place": case(lambda x: (x[None] + 0).squeeze_().unsqueeze_(1), V),
    "vander": case(lambda x: torch.vander(x, 3), W),
    "matmul": case(torch.matmul, M, N),
    "matmul by constants": case(lambda x: x @ BAND, M),
    "sparse constants": case(
        lambda x: torch.sparse.mm(BAND.to_sparse(), x), Input((3, 2))
    ),
    "constants matmul": case(lambda x: BAND @ x, Input((3, 2))),
    "matmul by a triangle": case(lambda x: x @ torch.ones(4, 4).double().tril(), V),
    "bmm": case(torch.bmm, Input((2, 1, 2)), STACK),
    "broadcast matmul": case(torch.matmul, STACK, PAIR),
    "mv": case(torch.mv, M, V),
    "dot": case(torch.dot, V, V),
    "outer": case(torch.outer, V, W),
    "addmm": case(torch.addmm, Input((2,)), M, N),
    "baddbmm": case(torch.baddbmm, S, STACK, STACK),
    "addr": case(torch.addr, M, W, V),
    "linear": case(F.linear, M, Input((2, 4)), Input((2,))),
    "bilinear": case(
        lambda x, y: F.bilinear(x, y, torch.ones(2, 4, 4).double()), M, M, exact=False
    ),
    "tensordot": case(lambda x, y: torch.tensordot(x, y, 1), M, N),
    "kron": case(torch.kron, PAIR, PAIR),
    "einsum ij,jk": case(lambda x, y: torch.einsum("ij,jk->ki", x, y), M, N),
    "einsum ij,ij->i": case(lambda x, y: torch.einsum("ij,ij->i", x, y), M, M),
    "einsum ii": case(lambda x: torch.einsum("ii->i", x), SQUARE),
    "einsum of three": case(
        lambda x, y, z: torch.einsum("i,j,ij->j", x, y, z), W, V, M
    ),
    "einsum with a batch": case(
        lambda x, y: torch.einsum("bij,bj->bi", x, y), STACK, PAIR
    ),
    "cdist": case(torch.cdist, M, Input((2, 4))),
    "pdist": case(F.pdist, SQUARE, exact=False),
    "cross": case(torch.linalg.cross, Input((2, 3)), Input((2, 3)), exact=False),
    "cosine_similarity": case(lambda x, y: F.cosine_similarity(x, y), M, M),
    "attention": case(
        F.scaled_dot_product_attention, *[Input((1, 1, 2, 2))] * 3, exact=False
    ),
    "conv1d": case(lambda x: F.conv1d(x, KERNEL, padding=1), SIGNAL),
    "conv1d strided": case(
        lambda x: F.conv1d(x, KERNEL, stride=2, dilation=2, padding=2), SIGNAL
    ),
    "conv1d of groups": case(lambda x: F.conv1d(x, KERNEL[:, :1], groups=2), SIGNAL),
    "conv1d drawn": case(F.conv1d, Input((1, 2, 4)), Input((2, 2, 2)), Input((2,))),
    "conv2d": case(lambda x: F.conv2d(x, KERNEL[None], padding="same"), IMAGE),
    "conv2d strided": case(
        lambda x, w: F.conv2d(x, w, stride=(2, 1), groups=2), IMAGE, Input((2, 1, 2, 2))
    ),
    "conv_transpose1d": case(
        lambda x: F.conv_transpose1d(x, KERNEL, stride=2, padding=1), SIGNAL
    ),
    "conv_transpose of groups": case(
        lambda x, w: F.conv_transpose1d(x, w, groups=2),
        Input((1, 2, 3)),
        Input((2, 2, 2)),
        exact=False,
    ),
    "conv_transpose2d": case(
        lambda x: F.conv_transpose2d(x, KERNEL[None].mT, output_padding=1, stride=2),
        Input((1, 1, 2, 2)),
    ),
    "avg_pool1d": case(lambda x: F.avg_pool1d(x, 2), SIGNAL),
    "avg_pool2d": case(lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), IMAGE),
    "max_pool1d": case(lambda x: F.max_pool1d(x, 2, stride=1), SIGNAL),
    "max_pool2d": case(lambda x: F.max_pool2d(x, 2, ceil_mode=True), Input((2, 3, 3))),
    "adaptive_avg_pool2d": case(
        lambda x: F.adaptive_avg_pool2d(x, 2), IMAGE, exact=False
    ),
    **{
        f"pad {mode}": case(lambda x, mode=mode: F.pad(x, (1, 2), mode), SIGNAL)
        for mode in ("constant", "reflect", "replicate", "circular")
    },
    "interpolate": case(lambda x: F.interpolate(x, scale_factor=2), SIGNAL),
    "interpolate linearly": case(
        lambda x: F.interpolate(x, size=4, mode="linear"), SIGNAL, exact=False
    ),
    "unfold images": case(lambda x: F.unfold(x, 2), IMAGE),
    "pixel_shuffle": case(lambda x: F.pixel_shuffle(x, 2), Input((1, 4, 1, 2))),
    "inv": case(lambda x: torch.linalg.inv(_spd(x)), STACK),
    "solve": case(lambda x, b: torch.linalg.solve(_spd(x), b), PAIR, Input((2,))),
    "solve a triangle": case(
        lambda x, b: torch.linalg.solve_triangular(_spd(x).tril(), b, upper=False),
        PAIR,
        PAIR,
        exact=False,
    ),
    "cholesky": case(lambda x: torch.linalg.cholesky(_spd(x)), STACK, exact=False),
    "det": case(lambda x: torch.linalg.det(_spd(x)), STACK),
    "slogdet": case(lambda x: torch.linalg.slogdet(_spd(x)), STACK, exact=False),
    "qr": case(lambda x: torch.linalg.qr(_spd(x)), PAIR, exact=False),
    "svd": case(lambda x: torch.linalg.svdvals(_spd(x)), STACK),
    "eigh": case(lambda x: torch.linalg.eigvalsh(_spd(x)), STACK),
    "lstsq": case(
        lambda x, b: torch.linalg.lstsq(_spd(x), b).solution, PAIR, PAIR, exact=False
    ),
    "pinv": case(lambda x: torch.linalg.pinv(_spd(x)), PAIR),
    "matrix_exp": case(lambda x: torch.linalg.matrix_exp(_spd(x) / 9), STACK),
    "matrix_power": case(lambda x: torch.linalg.matrix_power(x, 3), PAIR),
    "matrix_rank": case(
        lambda x: torch.linalg.matrix_rank(x.round().clamp(0, 1)), STACK
    ),
    "trace": case(torch.trace, SQUARE, exact=False),
    "histc": case(lambda x: torch.histc(x, 3, -1, 1), V),
    "cov": case(torch.cov, PAIR),
    **{
        f"{name} {reduction}": case(
            lambda x, y, f=getattr(F, name), r=reduction: f(x, y, reduction=r), V, V
        )
        for name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss")
        for reduction in ("none", "mean", "sum")
    },
    "cross_entropy": case(
        lambda x, i: F.cross_entropy(x, i, reduction="none"),
        M,
        Input((3,), "4"),
        exact=False,
    ),
    "linspace": case(
        lambda x, y: torch.linspace(x, y, 4, dtype=x.dtype), S, S, exact=False
    ),
}

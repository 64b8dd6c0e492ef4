"""The diffusion: noise, predictions and losses by hand; models, step by step."""

import math

import pytest
import torch
from torch.testing import assert_close

from gsdm_pyg import GSDM, GraphDiffusion, ProblemBatches
from gsdm_pyg.diffusion.diffusion import (
    add_noise,
    node_loss,
    predict_x0,
    stratified_steps,
)
from gsdm_pyg.diffusion.scaling import Scaling
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings import SamplerSettings
from problems import BCMF
from tests.helpers import CopyTask, seeded, tiny_model

PROBLEM = BCMF(m=2, n=3, k=2)


# steps


def test_steps_lie_within_the_schedule():
    for num_graphs, num_steps in [(1, 7), (4, 10), (16, 16), (9, 4)]:
        generator = seeded(0)
        drawn = [stratified_steps(num_graphs, num_steps, generator) for _ in range(200)]
        t = torch.stack(drawn)
        assert t.shape == (200, num_graphs) and t.dtype == torch.long
        assert t.min() == 0 and t.max() == num_steps - 1


def test_each_graph_sees_every_step_equally_often(untouched_random_state):
    generator = seeded(0)
    t = torch.stack([stratified_steps(4, 10, generator) for _ in range(4000)])
    for graph in range(4):
        counts = t[:, graph].bincount(minlength=10)
        assert (counts - 400).abs().max() < 4 * (4000 * 0.1 * 0.9) ** 0.5


def test_steps_of_one_batch_are_spread_evenly_in_any_order():
    generator, orders = seeded(0), set()
    for _ in range(100):
        t = stratified_steps(3, 300, generator)
        assert torch.equal(t.sort().values // 100, torch.arange(3))
        orders.add(tuple(t.argsort().tolist()))
    assert len(orders) == 6


# noise


def test_noise_has_the_moments_of_the_forward_process():
    x0 = torch.tensor([[2.0, -1.0]]).expand(40_000, 2)
    eps = torch.randn(x0.shape, generator=seeded(0))
    for alpha_bar in (0.9, 0.5, 0.01):
        xt = add_noise(x0, eps, torch.tensor([[alpha_bar]]))
        assert_close(xt.mean(0), math.sqrt(alpha_bar) * x0[0], rtol=0, atol=0.02)
        assert_close(xt.var(0), torch.tensor([1 - alpha_bar] * 2), rtol=0.03, atol=0)


def test_noise_is_added_at_the_level_of_each_node():
    x0, eps = torch.tensor([[3.0], [3.0]]), torch.tensor([[5.0], [5.0]])
    xt = add_noise(x0, eps, torch.tensor([[0.36], [0.64]]))
    assert_close(xt, torch.tensor([[0.6 * 3 + 0.8 * 5], [0.8 * 3 + 0.6 * 5]]))


# predictions: columns are one real number, then two classes, then three

COLUMNS = torch.tensor([[1, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])
COLUMNS = COLUMNS.bool()
DISCRETE = torch.tensor([[False], [True], [True]])
ALPHA_BAR = torch.tensor([[0.36], [0.5], [0.5]])


def predictions():
    output = torch.tensor(
        [
            [0.5, 9.0, 9.0, 9.0, 9.0, 9.0],
            [9.0, 0.0, math.log(3), 9.0, 9.0, 9.0],
            [9.0, 9.0, 9.0, math.log(1), math.log(2), math.log(5)],
        ]
    )
    xt = torch.tensor([[2.0, 0, 0, 0, 0, 0]]).expand(3, 6)
    return predict_x0(output, xt, ALPHA_BAR, COLUMNS, DISCRETE)


def test_predictions_use_only_a_nodes_own_columns():
    x0_hat, log_prob = predictions()
    expected = torch.tensor(
        [
            [0.6 * 2 + 0.8 * 0.5, 0, 0, 0, 0, 0],
            [0, 0.25, 0.75, 0, 0, 0],
            [0, 0, 0, 0.125, 0.25, 0.625],
        ]
    )
    assert_close(x0_hat, expected)
    assert_close(log_prob[1, 1:3].exp(), torch.tensor([0.25, 0.75]))
    assert_close(log_prob[2, 3:].exp(), torch.tensor([0.125, 0.25, 0.625]))


def targets():
    x0 = torch.zeros(3, 6)
    x0[0, 0], x0[1, 2], x0[2, 3] = 1.0, 1.0, 1.0
    return x0


def losses_of(*losses):
    return node_loss(*predictions(), targets(), ALPHA_BAR, DISCRETE, *losses)


def test_cross_entropy_is_minus_the_log_of_the_true_class():
    loss = losses_of("cross_entropy")
    assert_close(loss, torch.tensor([0.6**2, -math.log(0.75), -math.log(0.125)]))


def test_squared_loss_compares_probabilities_with_the_one_hot_code():
    loss = losses_of("squared")
    third = 0.875**2 + 0.25**2 + 0.625**2
    assert_close(loss, torch.tensor([0.6**2, 2 * 0.25**2, third]))


@pytest.mark.parametrize("discrete_loss", ["cross_entropy", "squared"])
def test_v_divides_the_error_of_continuous_nodes_alone_by_the_noise(discrete_loss):
    plain, v = losses_of(discrete_loss), losses_of(discrete_loss, "v")
    assert_close(v[0], plain[0] / 0.64)
    assert_close(v[1:], plain[1:])


def test_v_is_the_error_of_the_raw_output_at_every_noise_level():
    for alpha_bar in [0.001, 0.5, 0.999]:
        level = torch.full((3, 1), alpha_bar)
        x0, eps = torch.full((3, 6), 0.7) * COLUMNS, torch.full((3, 6), -1.2) * COLUMNS
        xt = add_noise(x0, eps, level)
        exact = (1 - level).sqrt() * x0 - level.sqrt() * eps
        estimates = predict_x0(exact + 0.3, xt, level, COLUMNS, DISCRETE)
        loss = node_loss(*estimates, x0, level, DISCRETE, continuous_loss="v")
        assert_close(loss[0], torch.tensor(0.09), rtol=1e-4, atol=0)


@pytest.mark.parametrize("discrete_loss", ["cross_entropy", "squared"])
@pytest.mark.parametrize("continuous_loss", ["x0", "v"])
def test_gradients_reach_a_nodes_own_columns_and_are_finite(
    discrete_loss, continuous_loss
):
    output = torch.randn(3, 6, requires_grad=True)
    estimates = predict_x0(output, torch.randn(3, 6), ALPHA_BAR, COLUMNS, DISCRETE)
    losses = (discrete_loss, continuous_loss)
    node_loss(*estimates, targets(), ALPHA_BAR, DISCRETE, *losses).sum().backward()
    assert output.grad.isfinite().all()
    assert torch.equal(output.grad != 0, COLUMNS)


def test_cross_entropy_of_confident_mistakes_stays_finite():
    output = torch.tensor([[0.0, 80.0, -80.0, 0.0, 0.0, 0.0]], requires_grad=True)
    columns, discrete = COLUMNS[1:2], DISCRETE[1:2]
    level = torch.ones(1, 1)
    estimates = predict_x0(output, output, level, columns, discrete)
    loss = node_loss(*estimates, targets()[1:2], level, discrete).sum()
    assert_close(loss, torch.tensor(160.0))
    loss.backward()
    assert output.grad.isfinite().all()


# a model


SIZES = {"width": 16, "layers": 1, "heads": 2}


def batch_of(source=PROBLEM, batch_size=3, **arguments):
    return ProblemBatches(source, batch_size=batch_size, **arguments).batch(0)


def loss_and_output_gradient(diffusion, batch):
    """The loss, and its gradient by the denoiser's outputs [N, W]."""
    outputs = []
    hook = diffusion.denoiser.register_forward_hook(
        lambda *call: outputs.append(call[2])
    )
    loss = diffusion.loss(batch, seeded(0))
    hook.remove()
    return loss, torch.autograd.grad(loss, outputs[0])[0]


@pytest.mark.parametrize("discrete_loss", ["cross_entropy", "squared"])
@pytest.mark.parametrize("observe", ["roles", "mixed"])
@pytest.mark.parametrize("continuous_loss", ["x0", "v"])
def test_only_latent_nodes_count(observe, discrete_loss, continuous_loss):
    family = BCMF.family(m=(1, 3), n=(1, 3), k=(1, 3))
    losses = {"discrete_loss": discrete_loss, "continuous_loss": continuous_loss}
    model = GSDM.from_problem(family, **SIZES, **losses)
    batch = batch_of(family, batch_size=12, observe=observe)
    loss, gradient = loss_and_output_gradient(model.diffusion, batch)
    assert loss > 0
    assert 0 < batch.observed.sum() < batch.num_nodes
    assert (gradient[batch.observed] == 0).all()
    assert (gradient[~batch.observed] != 0).any(-1).all()


def test_a_model_is_trained_by_its_continuous_loss():
    x0, v = (
        tiny_model(PROBLEM, continuous_loss=continuous_loss).diffusion
        for continuous_loss in ("x0", "v")
    )
    batch = batch_of()
    assert v.loss(batch, seeded(0)) > x0.loss(batch, seeded(0))  # 1 - alpha_bar < 1


def test_the_loss_is_the_mean_over_latent_nodes():
    diffusion = GSDM.from_problem(PROBLEM, **SIZES).diffusion
    batch = batch_of()
    diffusion.denoiser.forward = lambda x, *_, **__: torch.zeros_like(x)  # says nothing
    discrete = diffusion.scaling(batch.variable_id).discrete[:, 0]
    batch.observed = ~discrete  # latent: R alone, where log 2 is the price of a coin
    assert_close(diffusion.loss(batch), torch.tensor(math.log(2)))
    # and a graph that is observed whole adds nothing to the mean
    batch.observed = ~discrete | (batch.batch == 0)
    assert_close(diffusion.loss(batch), torch.tensor(math.log(2)))
    batch.observed = torch.ones_like(batch.observed)
    assert diffusion.loss(batch) == 0


def test_the_network_sees_observed_values_without_noise():
    diffusion, batch, seen = (
        GSDM.from_problem(PROBLEM, **SIZES).diffusion,
        batch_of(),
        [],
    )
    diffusion.denoiser.register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0])
    )
    for seed in (0, 1):
        diffusion.loss(batch, seeded(seed))
    assert torch.equal(seen[0][batch.observed], seen[1][batch.observed])
    changed = (seen[0] != seen[1]).any(-1)
    assert changed[~batch.observed].all()


def test_the_loss_is_a_function_of_the_generator(untouched_random_state):
    diffusion, batch = tiny_model(PROBLEM).diffusion, batch_of()
    losses = [diffusion.loss(batch, seeded(seed)) for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


# sampling


def test_samples_keep_observed_nodes_and_are_valid_for_every_other_node():
    diffusion, batch = tiny_model(CopyTask(n=3)).diffusion, batch_of(CopyTask(n=3))
    before = batch.x.clone()
    x = diffusion.sample(batch, SamplerSettings(), seeded(0))
    assert torch.equal(batch.x, before)
    assert torch.equal(x[batch.observed], before[batch.observed])
    assert (x[~batch.observed] != before[~batch.observed]).any(-1).all()
    columns = diffusion.scaling(batch.variable_id).columns
    assert x.isfinite().all() and not x[~columns].any()


def test_estimates_are_standardized_and_zero_where_nodes_are_fixed():
    diffusion, batch = tiny_model(PROBLEM).diffusion, batch_of()
    nodes, t = diffusion.nodes(batch), torch.tensor([5, 500, 999])
    x0_hat = diffusion.denoise(torch.randn_like(nodes.x0), t, batch, nodes)
    assert not x0_hat[batch.observed].any()
    classes = x0_hat[batch.variable_id == 1]  # one-hot codes of two classes: -1 and 1
    assert not classes[:, 0].any() and classes.abs().max() <= 1
    assert_close(classes.sum(1), torch.zeros(len(classes)), atol=1e-6, rtol=0)


def test_what_is_constant_per_node_is_gathered_once_per_call(monkeypatch):
    calls = []

    def count(owner, name):
        method = getattr(owner, name)

        def counted(*arguments, **named):
            calls.append(name)
            return method(*arguments, **named)

        monkeypatch.setattr(owner, name, counted)

    count(GraphDiffusion, "nodes")
    count(Scaling, "forward")
    model = tiny_model(PROBLEM, self_conditioning=True)
    batch = batch_of()
    runs = [
        lambda: model.sample(PROBLEM, steps=6, restarts=2),
        lambda: model.diffusion.sample(batch, SamplerSettings()),
        lambda: model.diffusion.loss(batch),
    ]
    for run in runs:
        calls.clear()
        run()
        assert calls == ["nodes", "forward"]


# self-conditioning: the denoiser sees its last estimate of x0


@pytest.fixture
def diffusion():
    return tiny_model(PROBLEM, self_conditioning=True).diffusion


@pytest.fixture
def estimates(diffusion):
    """The estimates that the denoiser is given, in the order of its calls."""
    seen = []
    diffusion.denoiser.register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[-1])
    )
    return seen


def test_training_computes_an_estimate_in_half_of_its_steps(diffusion, estimates):
    batch = batch_of()
    for step in range(40):
        diffusion.loss(batch, keyed_generator("noise", step))
    extra = len(estimates) - 40
    assert 10 <= extra <= 30
    used = [estimate for estimate in estimates if estimate is not None]
    assert len(used) == extra
    for estimate in used:
        assert not estimate.requires_grad
        assert not estimate[batch.observed].any()
        assert estimate[~batch.observed].any(1).all()


def test_the_estimate_changes_the_prediction(diffusion, estimates):
    batch = batch_of()
    for step in range(8):
        with_estimate = diffusion.loss(batch, keyed_generator("noise", step))
        used = estimates[-1] is not None
        weight = diffusion.denoiser.embed_estimate.weight
        before = weight.data.clone()
        weight.data.zero_()
        without = diffusion.loss(batch, keyed_generator("noise", step))
        weight.data.copy_(before)
        assert ((with_estimate - without).abs() > 1e-5) == used


def test_every_parameter_has_a_gradient_with_and_without_an_estimate(
    diffusion, estimates
):
    batch = batch_of()
    for step in range(8):
        diffusion.zero_grad()
        diffusion.loss(batch, keyed_generator("noise", step)).backward()
        assert all(p.grad is not None for p in diffusion.parameters())
    assert 8 < len(estimates) < 16  # some steps had one


@pytest.mark.parametrize("restarts", [0, 2])
def test_sampling_gives_each_estimate_to_the_next_step(diffusion, estimates, restarts):
    sampler = SamplerSettings(steps=5, restarts=restarts)
    diffusion.sample(batch_of(), sampler, seeded(0))
    assert len(estimates) == 5 + 2 * restarts  # a restart goes on from the last one
    assert estimates[0] is None
    assert all(bool(estimate.any()) for estimate in estimates[1:])
    assert not torch.equal(estimates[1], estimates[2])

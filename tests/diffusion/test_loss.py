"""Noising, predictions and losses, on numbers worked out by hand."""

import math

import pytest
import torch
from torch.testing import assert_close

from gsdm_pyg import GSDM, ProblemBatches
from gsdm_pyg.diffusion.loss import (
    add_noise,
    node_loss,
    predict_x0,
    stratified_steps,
)
from problems import BCMF


@pytest.fixture
def seeded():
    return torch.Generator().manual_seed(0)


# steps


@pytest.mark.parametrize("num_graphs, num_steps", [(1, 7), (4, 10), (16, 16), (9, 4)])
def test_steps_lie_within_the_schedule(num_graphs, num_steps, seeded):
    drawn = [stratified_steps(num_graphs, num_steps, seeded) for _ in range(200)]
    t = torch.stack(drawn)
    assert t.shape == (200, num_graphs) and t.dtype == torch.long
    assert t.min() == 0 and t.max() == num_steps - 1


def test_each_graph_sees_every_step_equally_often(seeded, untouched_random_state):
    t = torch.stack([stratified_steps(4, 10, seeded) for _ in range(4000)])
    for graph in range(4):
        counts = t[:, graph].bincount(minlength=10)
        assert (counts - 400).abs().max() < 4 * (4000 * 0.1 * 0.9) ** 0.5


def test_steps_of_one_batch_are_spread_evenly(seeded):
    for _ in range(50):
        t = stratified_steps(5, 1000, seeded).sort().values
        assert torch.equal(t // 200, torch.arange(5))


def test_steps_are_in_no_particular_order(seeded):
    drawn = [stratified_steps(3, 300, seeded).argsort() for _ in range(100)]
    orders = {tuple(order.tolist()) for order in drawn}
    assert len(orders) == 6


# noise


def test_noise_has_the_moments_of_the_forward_process(seeded):
    x0 = torch.tensor([[2.0, -1.0]]).expand(40_000, 2)
    eps = torch.randn(x0.shape, generator=seeded)
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


def judged(*losses):
    return node_loss(*predictions(), targets(), ALPHA_BAR, DISCRETE, *losses)


def test_cross_entropy_is_minus_the_log_of_the_true_class():
    loss = judged("cross_entropy")
    assert_close(loss, torch.tensor([0.6**2, -math.log(0.75), -math.log(0.125)]))


def test_squared_loss_compares_probabilities_with_the_one_hot_code():
    loss = judged("squared")
    third = 0.875**2 + 0.25**2 + 0.625**2
    assert_close(loss, torch.tensor([0.6**2, 2 * 0.25**2, third]))


@pytest.mark.parametrize("discrete_loss", ["cross_entropy", "squared"])
def test_v_divides_the_error_of_continuous_nodes_alone_by_the_noise(discrete_loss):
    plain, v = judged(discrete_loss), judged(discrete_loss, "v")
    assert_close(v[0], plain[0] / 0.64)
    assert_close(v[1:], plain[1:])


@pytest.mark.parametrize("alpha_bar", [0.001, 0.5, 0.999])
def test_v_judges_the_raw_output_alike_at_every_noise_level(alpha_bar):
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


# the loss of a model


def loss_and_output_gradient(model, batch):
    """The loss, and its gradient by the denoiser's outputs [N, W]."""
    outputs = []
    hook = model.denoiser.register_forward_hook(lambda *call: outputs.append(call[2]))
    loss = model.loss(batch, torch.Generator().manual_seed(0))
    hook.remove()
    return loss, torch.autograd.grad(loss, outputs[0])[0]


@pytest.mark.parametrize("discrete_loss", ["cross_entropy", "squared"])
@pytest.mark.parametrize("observe", ["roles", "mixed"])
@pytest.mark.parametrize("continuous_loss", ["x0", "v"])
def test_only_latent_nodes_count(observe, discrete_loss, continuous_loss):
    family = BCMF.family(m=(1, 3), n=(1, 3), k=(1, 3))
    losses = {"discrete_loss": discrete_loss, "continuous_loss": continuous_loss}
    model = GSDM.from_problem(family, width=16, layers=1, heads=2, **losses)
    batch = ProblemBatches(family, batch_size=12, observe=observe).batch(0)
    _, gradient = loss_and_output_gradient(model, batch)
    assert 0 < batch.observed.sum() < batch.num_nodes
    assert (gradient[batch.observed] == 0).all()
    assert (gradient[~batch.observed] != 0).any(-1).all()


def test_a_model_is_trained_by_its_continuous_loss():
    problem = BCMF(m=2, n=3, k=2)
    batch = ProblemBatches(problem, batch_size=3).batch(0)

    def loss(continuous_loss):
        torch.manual_seed(0)
        sizes = {"width": 16, "layers": 1, "heads": 2}
        model = GSDM.from_problem(problem, continuous_loss=continuous_loss, **sizes)
        return model.loss(batch, torch.Generator().manual_seed(0))

    assert loss("v") > loss("x0")  # as 1 - alpha_bar is below 1


def test_the_loss_is_the_mean_over_latent_nodes():
    problem = BCMF(m=2, n=3, k=2)
    model = GSDM.from_problem(problem, width=16, layers=1, heads=2)
    batch = ProblemBatches(problem, batch_size=3).batch(0)
    model.denoiser.forward = lambda x, *_: torch.zeros_like(x)  # says nothing
    discrete = model.scaling.discrete[batch.variable_id][:, 0]
    batch.observed = ~discrete  # latent: R alone, where log 2 is the price of a coin
    assert_close(model.loss(batch), torch.tensor(math.log(2)))
    # and a graph that is observed whole adds nothing to the mean
    batch.observed = ~discrete | (batch.batch == 0)
    assert_close(model.loss(batch), torch.tensor(math.log(2)))


def test_a_batch_observed_whole_has_no_loss():
    problem = BCMF(m=2, n=3, k=2)
    model = GSDM.from_problem(problem, width=16, layers=1, heads=2)
    batch = ProblemBatches(problem, batch_size=2).batch(0)
    batch.observed = torch.ones_like(batch.observed)
    assert model.loss(batch) == 0


def test_the_network_sees_observed_values_without_noise():
    problem = BCMF(m=2, n=3, k=2)
    model = GSDM.from_problem(problem, width=16, layers=1, heads=2)
    batch = ProblemBatches(problem, batch_size=2).batch(0)
    seen = []
    model.denoiser.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    for seed in (0, 1):
        model.loss(batch, torch.Generator().manual_seed(seed))
    assert torch.equal(seen[0][batch.observed], seen[1][batch.observed])
    changed = (seen[0] != seen[1]).any(-1)
    assert changed[~batch.observed].all()


def test_the_loss_is_a_function_of_the_generator(untouched_random_state):
    problem = BCMF(m=2, n=2, k=2)
    with torch.random.fork_rng(devices=[]):
        model = GSDM.from_problem(problem, width=16, layers=1, heads=2)
    batch = ProblemBatches(problem, batch_size=2).batch(0)
    losses = [model.loss(batch, torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]

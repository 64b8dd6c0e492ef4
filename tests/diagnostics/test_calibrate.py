"""`calibrate` on samplers in closed form: the level, the power, what fails and why."""

import pytest
import torch
from scipy.stats import binom

from gsdm_pyg import keyed_generator
from gsdm_pyg.diagnostics import Quantity, calibrate, judge
from gsdm_pyg.diagnostics.calibrating import NUM_INSTANCES, NUM_SAMPLES
from gsdm_pyg.diagnostics.holm import holm
from tests.diagnostics.samplers import Coins, CoinSampler, GaussianSampler, Regression
from tests.helpers import seeded

BOTH = ("roles", "mixed")


def rejections(spread, num_quantities, repetitions=200):
    """How often conjugate Gaussian posteriors with this spread are rejected.

    x ~ N(0, 1) and y = x + N(0, 1), so that x | y ~ N(y / 2, 1 / 2).
    """
    rejected = 0
    for seed in range(repetitions):
        generator = keyed_generator("test", seed)
        shape = (num_quantities, NUM_INSTANCES, 1)
        x = torch.randn(shape, generator=generator, dtype=torch.double)
        y = x + torch.randn(shape, generator=generator, dtype=torch.double)
        noise = torch.randn(
            *shape[:2], NUM_SAMPLES, generator=generator, dtype=torch.double
        )
        draws = torch.cat([x, y / 2 + spread * 0.5**0.5 * noise], 2)
        quantities = [
            Quantity(str(i), draws[i], y[i], key=(seed, i))
            for i in range(num_quantities)
        ]
        result = judge({("Conjugate", "roles"): quantities}, num_resamples=1999)
        rejected += not result.passed
    return rejected


MANY = pytest.param(4, marks=pytest.mark.slow)


@pytest.mark.parametrize("num_quantities", [1, MANY])
def test_exact_sampler_is_rejected_at_the_nominal_rate(num_quantities):
    """At most 5%, by Bonferroni and Holm; and not never, as a blind test would."""
    rejected = rejections(1.0, num_quantities)
    assert binom.ppf(0.001, 200, 0.02) <= rejected <= binom.ppf(0.999, 200, 0.05)


@pytest.mark.parametrize("num_quantities", [1, MANY])
def test_spread_15_percent_too_narrow_is_rejected_in_95_percent(num_quantities):
    assert rejections(0.85, num_quantities) >= 190


def test_exact_conditionals_pass_at_every_pattern_and_size(untouched_random_state):
    result = calibrate(GaussianSampler(), [Regression(2), Regression(6)], patterns=BOTH)
    names = ["x", "all (TARP)", "x", "y", "all (TARP)"]
    assert [check.name for check in result.checks] == 2 * names
    assert result.passed
    assert "10 of 10 checks pass" in result.verdict


def test_narrow_samples_are_called_narrow():
    result = calibrate(GaussianSampler(spread=0.7), Regression(3), patterns=("roles",))
    assert not result.passed
    check = result.checks[0]
    assert check.reason.startswith("samples too narrow, 0.")
    assert check.quantity.spread() == pytest.approx(0.7, abs=0.06)


@pytest.mark.parametrize(("shift", "said"), [(0.3, "high"), (-0.3, "low")])
def test_shifted_samples_are_called_too_high_or_low(shift, said):
    sampler = GaussianSampler(shift=shift)
    result = calibrate(sampler, Regression(3), patterns=("roles",))
    assert result.failed[0].reason.startswith(f"samples too {said}")


def test_random_patterns_reveal_that_a_part_of_the_evidence_is_ignored():
    """Its ranks are uniform all the same: only their dependence on x shows it."""
    sampler = GaussianSampler(ignore_x=True)
    result = calibrate(sampler, Regression(4), patterns=BOTH)
    assert {(c.pattern, c.name) for c in result.failed} == {("mixed", "y")}
    check = result.failed[0]
    assert check.reason == "evidence ignored or misused"
    assert check.pvalues["ranks"] > 0.01


class PriorSampler:
    """Ignores all that is given."""

    def sample(self, problem, given=None, num_samples=1, *, generator=None):
        num = len(given["x"])
        draws = problem.sample_batch(num * num_samples, generator)
        x = draws["x"].unflatten(0, (num, num_samples))
        y = given["y"][:, None].expand(-1, num_samples, -1)
        return {"x": x, "y": y}


def test_samples_from_the_prior_have_uniform_ranks_and_are_rejected():
    result = calibrate(PriorSampler(), Regression(3), patterns=("roles",))
    check = result.checks[0]
    assert check.pvalues["ranks"] > 0.01
    assert not check.passed


def test_exact_probabilities_of_discrete_variables_pass():
    assert calibrate(CoinSampler(), Coins()).passed


def test_overconfident_probabilities_are_rejected():
    result = calibrate(CoinSampler(sharpness=1.8), Coins())
    (check,) = [c for c in result.failed if c.name == "z"]
    assert "overconfident" in check.reason


def test_function_of_several_entries_finds_a_wrong_joint_distribution():
    """Both entries of x have exact marginals; their dependence is lost."""

    class Shuffled(GaussianSampler):
        def sample(self, *arguments, generator=None):
            drawn = super().sample(*arguments, generator=generator)
            x = drawn["x"].clone()
            x[..., 1] = x[..., 1].roll(1, 1)
            return {**drawn, "x": x}

    functions = {"sum": lambda s: s["x"].sum(1), "seen": lambda s: s["y"].sum(1)}
    design = Regression(1)  # y = x[0] + x[1] + noise
    result = calibrate(Shuffled(), design, patterns=("roles",), functions=functions)
    passed = {check.name: check.passed for check in result.checks}
    assert passed["x"]
    assert not passed["sum"]
    assert "seen" not in passed  # it is known


def test_only_instances_where_something_is_unknown_count():
    result = calibrate(
        GaussianSampler(), Regression(2), num_instances=100, patterns=("mixed",)
    )
    counts = {check.name: check.quantity.num_instances for check in result.checks}
    assert counts["x"] < 100
    assert counts["y"] < 100


def test_quantities_with_few_instances_are_named_and_not_judged():
    result = calibrate(
        GaussianSampler(), Regression(2), num_instances=10, patterns=("roles",)
    )
    assert result.checks == []
    assert result.too_few[0] == "x of Regression(n=2), pattern roles (10)"
    assert "Nothing could be checked" in result.verdict


def test_same_seed_same_result():
    first, second = (
        calibrate(GaussianSampler(), Regression(2), num_instances=50, seed=3)
        for _ in range(2)
    )
    assert first.to_dict() == second.to_dict()


def test_holm_by_hand():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.6]) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"num_instances": 1}, r"num_instances is .* \(got 1\)"),
        ({"num_samples": 2.5}, r"num_samples is .* \(got 2.5\)"),
        ({"alpha": 1.5}, r"alpha is .* \(got 1.5\)"),
        ({"patterns": "roles"}, r"patterns is a sequence .* \(got 'roles'\)"),
        ({"patterns": ["all"]}, r"pattern .* \(got 'all'\)"),
        ({"functions": {"x": len}}, r"no variable has \(got 'x'\)"),
        ({"functions": {"f": lambda s: s["x"]}}, r"got the shape \(31, 2\) for S=31"),
    ],
)
def test_wrong_arguments_are_named(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        calibrate(GaussianSampler(), Regression(2), **arguments)


def test_no_problem_is_refused():
    with pytest.raises(ValueError, match="at least one problem"):
        calibrate(GaussianSampler(), [])


def test_pvalues_of_all_tests_are_valid_for_an_exact_sampler():
    """Each test of its own rejects at most its level, also for heavy tails."""
    rejected: dict[str, int] = {}
    for seed in range(200):
        draws = torch.randn(60, 21, generator=seeded(seed)).double() ** 3
        features = torch.randn(60, 3, generator=seeded(seed + 1000))
        quantity = Quantity("x", draws, features, key=(seed,))
        for test, p in quantity.pvalues(199).items():
            rejected[test] = rejected.get(test, 0) + (p <= 0.1)
    assert len(rejected) == 5
    for test, count in rejected.items():
        assert count <= binom.ppf(0.9995, 200, 0.1), test
        assert count >= binom.ppf(0.0005, 200, 0.05), test

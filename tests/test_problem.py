"""Problems and families: sizes, what is observed, one instance and many."""

import math
from collections import Counter
from dataclasses import FrozenInstanceError
from functools import partial
from io import BytesIO
from itertools import product

import numpy as np
import pytest
import torch

from gsdm_pyg import GraphicalModel, GraphOptions, Problem, Role, Size
from gsdm_pyg.evaluation import prior_metrics
from gsdm_pyg.plotting import comparison_figure
from gsdm_pyg.problem import graph_of
from problems import BCMF, Sudoku
from tests.helpers import CopyTask, assert_identical, seeded

PROBLEM = BCMF(m=2, n=3, k=2)


@pytest.fixture(autouse=True)
def _restored_registry(monkeypatch):
    monkeypatch.setattr(Problem, "registry", dict(Problem.registry))


# sizes


def test_family_draws_every_size_with_equal_chance_and_no_other():
    family, generator = BCMF.family(m=(1, 4), n=[2, 3], k=5), seeded(0)
    draws = [family.draw(generator) for _ in range(2000)]
    assert {p.k for p in draws} == {5}
    counts = Counter((p.m, p.n) for p in draws)  # drawn independently
    assert counts.keys() == set(product((1, 2, 3, 4), (2, 3)))
    assert_equal_chance(counts, 2000)


def test_draw_many_draws_every_size_with_equal_chance_and_groups_equal_sizes():
    family, counts = BCMF.family(m=(1, 4), n=[2, 3], k=5), Counter()
    for seed in range(20):
        problems, which = family.draw_many(100, seeded(seed))
        assert which.shape == (100,)
        assert len(set(problems)) == len(problems)
        assert which.unique().tolist() == list(range(len(problems)))
        assert {p.k for p in problems} == {5}
        counts.update((problems[i].m, problems[i].n) for i in which)
    assert counts.keys() == set(product((1, 2, 3, 4), (2, 3)))
    assert_equal_chance(counts, 2000)


def assert_equal_chance(counts, num):
    share = 1 / len(counts)
    tolerance = 4 * (num * share * (1 - share)) ** 0.5
    assert max(abs(count - num * share) for count in counts.values()) < tolerance


def test_draws_of_draw_many_are_independent():
    problems, which = BCMF.family(m=(1, 2), n=(1, 2), k=1).draw_many(4000, seeded(0))
    drawn = torch.tensor([[problem.m, problem.n] for problem in problems])[which]
    drawn = drawn.double()
    assert abs(torch.corrcoef(drawn.t())[0, 1]) < 4 / 4000**0.5
    pairs = torch.stack([drawn[:-1, 0], drawn[1:, 0]])
    assert abs(torch.corrcoef(pairs)[0, 1]) < 4 / 4000**0.5


def test_family_draws_depend_on_the_generator_alone(untouched_random_state):
    family = BCMF.family(m=(1, 9), n=(1, 9), k=(1, 9))
    first = [family.draw(seeded(seed)) for seed in range(20)]
    assert first == [family.draw(seeded(seed)) for seed in range(20)]
    assert len(set(first)) > 10
    (problems, which), again = (family.draw_many(20, seeded(0)) for _ in range(2))
    assert problems == again[0] and torch.equal(which, again[1])


def test_the_smallest_and_largest_problem_have_every_size_at_one_end():
    family = BCMF.family(m=(1, 4), n=7, k=[2, 3])
    assert family.smallest() == BCMF(m=1, n=7, k=2)
    assert family.largest() == BCMF(m=4, n=7, k=3)


def test_a_problem_is_a_family_of_one_size():
    problem = BCMF(m=1, n=2, k=3)
    assert problem.draw(seeded(0)) is problem
    for source in (problem, BCMF.family(m=1, n=2, k=3)):
        problems, which = source.draw_many(3, seeded(0))
        assert problems == [problem] and which.tolist() == [0, 0, 0]
    assert problem.smallest() is problem.largest() is problem
    assert problem.sizes() == {"m": 1, "n": 2, "k": 3}


def test_a_problem_refuses_what_is_not_a_size():
    for size in [0, -3, 2.0, 2.5, "3", None, True, [2]]:
        with pytest.raises(ValueError, match=r"BCMF\.k is a size.*at least 1 \(got "):
            BCMF(m=2, n=2, k=size)


def test_a_family_refuses_what_is_not_a_size_before_it_draws():
    for size in [0, -3, 2.5, "3", (0, 3), [-2, 3]]:
        with pytest.raises(ValueError, match=r"BCMF\.k is a size.*at least 1"):
            BCMF.family(m=2, n=2, k=size)


def test_a_family_refuses_a_malformed_range():
    for size in [(3, 1), (1.5, 3), (1, 2, 3), [1], (), ("1", "3")]:
        with pytest.raises(ValueError, match=r"range of k is \[low, high\].*got \["):
            BCMF.family(m=2, n=2, k=size)


def test_a_family_names_the_sizes_when_one_is_misspelt():
    with pytest.raises(ValueError, match=r"BCMF takes m, n, k, given \(got 'kk'\)"):
        BCMF.family(m=2, n=2, kk=2)


def test_problems_are_frozen_and_hash_by_value():
    problem = BCMF(m=1, n=2, k=3)
    with pytest.raises(FrozenInstanceError):
        problem.m = 5
    assert problem == BCMF(m=1, n=2, k=3) and problem != BCMF(m=1, n=3, k=2)
    assert len({problem, BCMF(m=1, n=2, k=3), BCMF(m=2, n=2, k=3)}) == 2


def test_problems_of_two_classes_differ_even_at_one_size():
    class Other(BCMF):
        pass

    assert Other(m=1, n=2, k=3) != BCMF(m=1, n=2, k=3)
    assert graph_of(Other(m=1, n=2, k=3)) is not graph_of(BCMF(m=1, n=2, k=3))


def test_the_graph_of_a_size_is_built_once():
    calls = []

    class Counted(BCMF):
        def graphical_model(self) -> GraphicalModel:
            calls.append(self)
            return super().graphical_model()

    for m in (1, 2, 1, 2):
        graph_of(Counted(m=m, n=1, k=1))
    assert [p.m for p in calls] == [1, 2]


def test_options_share_a_graph_unless_they_drop_intermediates():
    problem = BCMF(m=2, n=1, k=1)
    whole, dropped = graph_of(problem), GraphOptions(intermediates="drop")
    for options in ({"embedding": "array"}, {"edges": "random"}):
        assert graph_of(problem, GraphOptions(**options)) is whole
    assert list(graph_of(problem, dropped).variables) == ["A", "R", "E"]
    assert graph_of(problem, dropped) is graph_of(problem, dropped)


# observe


def test_observing_by_roles_gives_the_observed_variables_whole(untouched_random_state):
    problem = BCMF(m=2, n=3, k=4)
    masks = problem.observe(torch.Generator(), "roles")
    assert {name: tuple(mask.shape) for name, mask in masks.items()} == {
        "A": (2, 4),
        "R": (4, 3),
        "C": (2, 3, 4),
        "E": (2, 3),
    }
    assert all(mask.dtype == torch.bool for mask in masks.values())
    assert masks["E"].all()
    assert not any(masks[name].any() for name in "ARC")
    batch = problem.observe_batch(2, torch.Generator(), "roles")
    for i in range(2):
        assert_identical({name: mask[i] for name, mask in batch.items()}, masks)


@pytest.mark.parametrize("together", [True, False], ids=["batch", "one by one"])
def test_mixed_observation_has_its_distribution_per_instance(
    together, untouched_random_state
):
    problem, num, generator = BCMF(m=4, n=4, k=3), 2000, seeded(0)
    if together:
        masks = problem.observe_batch(num, generator, "mixed")
    else:
        num = 600
        draws = [problem.observe(generator, "mixed") for _ in range(num)]
        masks = {name: torch.stack([draw[name] for draw in draws]) for name in "ARCE"}
    shares = {name: mask.flatten(1).double().mean(1) for name, mask in masks.items()}
    by_role = (shares["E"] == 1) & (shares["A"] + shares["R"] + shares["C"] == 0)
    # half by role, and by chance 1/3^4 of the quarter whose kinds are drawn
    assert abs(by_role.double().mean() - 0.5 - 0.25 / 81) < 4 * 0.5 / num**0.5
    rest = int((~by_role).sum())
    for name, share in shares.items():
        share, size = share[~by_role], masks[name][0].numel()
        # A third each of one quarter; of the other, and of random entries, as many as
        # give all or none of them by chance.
        whole = (1 / 3 + 1 / 3 / (size + 1) + 1 / (size + 1)) / 2
        for kind in (share == 0, share == 1):
            assert abs(kind.double().mean() - whole) < 0.03 + 2 / rest**0.5, name
        some = (share > 0) & (share < 1)
        assert abs(share[some].mean() - 0.5) < 2 / some.sum() ** 0.5  # any share
        assert share[some].std() > 0.2
    # in a quarter, half of what is left, all variables have one share
    partly = ~by_role & (shares["C"] > 0) & (shares["C"] < 1)
    alike = (shares["C"] - shares["E"])[partly].abs() < 0.25
    assert alike.double().mean() > 0.6
    # in the other the kinds of two variables are independent
    kinds = ~by_role & ((shares["C"] == 0) | (shares["C"] == 1))
    hidden = torch.stack([shares[name][kinds] == 0 for name in "RC"]).double()
    assert abs(torch.corrcoef(hidden)[0, 1]) < 0.1 + 4 / kinds.sum() ** 0.5
    # and instances are drawn independently
    following = torch.stack([by_role[:-1], by_role[1:]]).double()
    assert abs(torch.corrcoef(following)[0, 1]) < 4 / num**0.5


def test_mixed_observation_is_a_function_of_the_generator():
    problem = BCMF(m=3, n=3, k=3)
    for method in (problem.observe, partial(problem.observe_batch, 4)):
        for seed in range(5):
            first, again = (method(seeded(seed), "mixed") for _ in range(2))
            assert all(torch.equal(first[name], again[name]) for name in first)


def test_an_unknown_way_to_observe_is_refused():
    for method in (PROBLEM.observe, partial(PROBLEM.observe_batch, 2)):
        with pytest.raises(ValueError, match=r"observe is one of.*\(got 'mix'\)"):
            method(None, "mix")


# what a problem need not define


def test_default_metrics_are_the_errors_of_latent_variables():
    problem = BCMF(m=2, n=2, k=2)
    truth = problem.sample(seeded(0))
    sample = {name: value.clone() for name, value in truth.items()}
    exact = Problem.metrics(problem, sample, truth)
    assert exact == {"rmse_A": 0, "wrong_R": 0}  # neither C, an intermediate, nor E
    sample["A"] = truth["A"] + torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    sample["R"][0, 0] = 1 - sample["R"][0, 0]
    scores = Problem.metrics(problem, sample, truth)
    assert scores == pytest.approx({"rmse_A": 2.5, "wrong_R": 0.25})


def test_default_metrics_leave_out_what_was_observed():
    class Default(CopyTask):
        metrics = Problem.metrics

    problem = Default(n=4)
    truth = problem.sample(seeded(0))
    observed = problem.observe()
    observed["y"] = torch.tensor([True, True, False, False])
    sample = {**truth, "y": truth["y"] + torch.tensor([9.0, 9.0, 1.0, -1.0])}
    scores = problem.metrics(sample, truth, observed)
    assert scores == pytest.approx({"rmse_y": 1, "wrong_z": 0})
    observed["y"] = torch.ones(4, dtype=torch.bool)  # nothing is left to score
    nothing = problem.metrics(sample, truth, observed)
    assert math.isnan(nothing["rmse_y"])
    assert problem.summary([scores, nothing]) == pytest.approx(scores)


def test_default_metrics_are_told_what_was_observed():
    class Default(CopyTask):
        metrics = Problem.metrics

    found = prior_metrics(Default(n=3), num_instances=16, observe="mixed")
    assert found["rmse_y"] > 1 and 0 < found["wrong_z"] < 1


def test_default_picture_shows_every_variable_beside_the_truth():
    problem = BCMF(m=2, n=3, k=4)
    truth, sample = (problem.sample(seeded(seed)) for seed in range(2))
    del sample["C"]  # as for unsupervised intermediates
    figure = Problem.plot(problem, sample, truth)
    panels = [ax for ax in figure.axes if ax.get_title()]
    titles = [ax.get_title() for ax in panels]
    assert titles == [f"{n}, {of}" for n in "ARE" for of in ("truth", "sample")]
    for ax, values in zip(panels[:2], (truth, sample), strict=True):
        np.testing.assert_allclose(ax.images[0].get_array(), values["A"])
    assert panels[0].images[0].get_clim() == panels[1].images[0].get_clim()
    figure.savefig(BytesIO())


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (1, 1)])
def test_default_picture_shows_arrays_of_any_shape(shape):
    array = torch.randn(shape, generator=seeded(0))
    figure = comparison_figure({"x": (array, array.round().long())})
    image = figure.axes[0].images[0].get_array()
    assert image.size == array.numel()
    figure.savefig(BytesIO())


def test_a_problem_accepts_any_given_values_by_default():
    assert PROBLEM.check_given({}, {}) is None


def test_a_problem_is_named_by_its_class_and_sizes():
    assert str(PROBLEM) == "BCMF(m=2, n=3, k=2)"
    assert str(BCMF(m=2, n=3, k=2, given="nothing")).endswith("k=2, given='nothing')")
    assert str(Sudoku()) == "Sudoku(a=3, b=3)"


# one instance, or many at once


class Base(Problem):
    """x is uniform, s its sum; subclasses say how to draw them."""

    n: Size

    def graphical_model(self):
        graph = GraphicalModel()
        x = graph.add_variable("x", (self.n,))
        graph.connect(x, graph.add_variable("s", (), role=Role.OBSERVED))
        return graph

    def metrics(self, sample, truth):
        return {}

    def plot(self, sample, truth):
        raise NotImplementedError


class One(Base):
    """Defines `sample` alone."""

    def sample(self, generator=None):
        x = torch.rand(self.n, generator=generator)
        return {"x": x, "s": x.sum()}


class Many(Base):
    """Defines `sample_batch` alone."""

    def sample_batch(self, num, generator=None):
        x = torch.rand(num, self.n, generator=generator)
        return {"x": x, "s": x.sum(1)}


def test_a_problem_without_a_sampler_says_what_is_missing_when_it_is_asked_to_draw():
    problem = Base(n=1)
    for draw in (problem.sample, lambda: problem.sample_batch(2)):
        with pytest.raises(TypeError, match=r"Base cannot draw.*define sample\(gener"):
            draw()


def test_sample_batch_loops_over_sample():
    batch, generator = One(n=3).sample_batch(4, seeded(0)), seeded(0)
    for i in range(4):
        one = One(n=3).sample(generator)
        assert_identical({name: value[i] for name, value in batch.items()}, one)
    assert batch["x"].shape == (4, 3) and batch["s"].shape == (4,)
    with_name = One(n=3).sample_batch(num=4, generator=seeded(0))
    assert_identical(with_name, batch)


def test_a_loop_over_sample_stacks_numbers_too():
    class Numbers(One):
        def sample(self, generator=None):
            return {"x": torch.ones(self.n), "s": float(self.n)}

    assert Numbers(n=2).sample_batch(3)["s"].tolist() == [2.0, 2.0, 2.0]


def test_sample_is_a_batch_of_one():
    batch = Many(n=3).sample_batch(1, seeded(0))
    one = Many(n=3).sample(seeded(0))
    assert_identical(one, {name: value[0] for name, value in batch.items()})
    assert_identical(Many(n=3).sample(generator=seeded(0)), one)


def test_a_class_that_defines_both_keeps_both():
    class Both(Many):
        def sample(self, generator=None):
            return {"x": torch.ones(self.n), "s": torch.tensor(1.0)}

        def sample_batch(self, num, generator=None):
            return {"x": torch.zeros(num, self.n), "s": torch.zeros(num)}

    assert Both(n=2).sample()["x"].all()
    assert not Both(n=2).sample_batch(2)["x"].any()


@pytest.mark.parametrize("parent", [One, Many])
def test_a_subclass_that_overrides_sample_is_used_in_batches(parent):
    class Doubled(parent):
        def sample(self, generator=None):
            return {name: 2 * v for name, v in super().sample(generator).items()}

    generator = seeded(0)
    expected = [parent(n=3).sample(generator)["x"] for _ in range(4)]
    found = Doubled(n=3).sample_batch(4, seeded(0))["x"]
    torch.testing.assert_close(found, 2 * torch.stack(expected))


@pytest.mark.parametrize("parent", [One, Many])
def test_a_subclass_that_overrides_sample_batch_is_used_for_one(parent):
    class Doubled(parent):
        def sample_batch(self, num, generator=None):
            batch = super().sample_batch(num, generator)
            return {name: 2 * value for name, value in batch.items()}

    expected = parent(n=3).sample(seeded(0))["x"]
    assert torch.equal(Doubled(n=3).sample(seeded(0))["x"], 2 * expected)


def test_overrides_are_used_through_several_generations():
    class Doubled(Many):
        def sample(self, generator=None):
            return {name: 2 * v for name, v in super().sample(generator).items()}

    class Negated(Doubled):
        def sample_batch(self, num, generator=None):
            batch = super().sample_batch(num, generator)
            return {name: -value for name, value in batch.items()}

    class Heir(Negated):
        pass

    expected = -2 * Many(n=3).sample(seeded(0))["x"]
    for problem in (Negated(n=3), Heir(n=3)):
        assert torch.equal(problem.sample(seeded(0))["x"], expected)
        assert torch.equal(problem.sample_batch(1, seeded(0))["x"][0], expected)


@pytest.mark.parametrize("mode", ["roles", "mixed"])
def test_a_class_that_overrides_observe_is_used_in_batches(mode):
    class First(One):
        def observe(self, generator=None, mode="roles"):
            masks = super().observe(generator, mode)
            masks["x"][0] = True
            return masks

    generator = seeded(0)
    found = First(n=3).observe_batch(5, seeded(0), mode)
    assert found["x"][:, 0].all() and found["s"].shape == (5,)
    for i in range(5):
        one = First(n=3).observe(generator, mode)
        assert_identical({name: mask[i] for name, mask in found.items()}, one)


@pytest.mark.parametrize("mode", ["roles", "mixed"])
def test_a_class_that_overrides_observe_batch_is_used_for_one(mode):
    class Last(Many):
        def observe_batch(self, num, generator=None, mode="roles"):
            masks = super().observe_batch(num, generator, mode)
            masks["x"][:, -1] = True
            return masks

    class LastAndFirst(Last):
        def observe(self, generator=None, mode="roles"):
            masks = super().observe(generator, mode)
            masks["x"][0] = True
            return masks

    one, batch = Last(n=3).observe(seeded(0), mode), Last(n=3).observe_batch
    first = {name: mask[0] for name, mask in batch(1, seeded(0), mode).items()}
    assert one["x"][-1]
    assert_identical(one, first)
    assert LastAndFirst(n=3).observe_batch(4, seeded(0), mode)["x"][:, [0, -1]].all()


class Doubled:
    """A mixin that is no problem: it doubles what a problem draws."""

    def sample(self, generator=None):
        drawn = super().sample(generator)
        return {name: 2 * value for name, value in drawn.items()}


def test_a_mixin_before_the_problem_is_used_in_batches():
    class Mixed(Doubled, CopyTask):
        pass

    plain, doubled = CopyTask(n=2), Mixed(n=2)
    expected = 2 * plain.sample(torch.Generator().manual_seed(0))["x"]
    for drawn in (
        doubled.sample(torch.Generator().manual_seed(0))["x"],
        doubled.sample_batch(1, torch.Generator().manual_seed(0))["x"][0],
    ):
        assert torch.equal(drawn, expected)


def test_a_batch_that_loops_over_what_follows_from_it_is_refused():
    class Looping(CopyTask):
        def sample_batch(self, num, generator=None):
            drawn = [self.sample(generator) for _ in range(num)]
            return {n: torch.stack([d[n] for d in drawn]) for n in drawn[0]}

    problem = Looping(n=2)
    for draw in (problem.sample, lambda: problem.sample_batch(3)):
        with pytest.raises(TypeError, match=r"calls sample\(\), which follows from it"):
            draw()

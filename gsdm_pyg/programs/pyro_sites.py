"""The sites of a Pyro model as statements of a program; needs the package pyro-ppl."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro.distributions as dist
import torch
from pyro.distributions.torch_distribution import MaskedDistribution
from pyro.poutine.messenger import Messenger, unwrap
from torch import Tensor, nn
from torch.distributions import Distribution, Independent

from gsdm_pyg.programs.dependence import Dependence
from gsdm_pyg.programs.errors import ProgramError, current_line, error
from gsdm_pyg.programs.rows import identity
from gsdm_pyg.programs.sites import let, observe, sample
from gsdm_pyg.variables import Role

Message = dict[str, Any]  # what Pyro passes to a messenger


@dataclass(frozen=True, eq=False)
class PyroSite:
    """A site as one run of the model reaches it."""

    name: str
    line: str
    role: Role
    shape: torch.Size
    discrete: bool
    data: Tensor | None  # what `obs=` holds

    @property
    def kind(self) -> tuple[Role, torch.Size, bool]:
        """What all entries of one variable have in common."""
        return self.role, self.shape, self.discrete


@dataclass(frozen=True)
class Plan:
    """What the sites of a model become."""

    variables: Mapping[str, str]  # by site: "x" or, for one of many, "x[3]"
    observed: Collection[str]  # sites


def unwrapped(model: Any) -> Any:
    """The function that handlers of Pyro wrap, which has the name and the arguments."""
    inner = unwrap(model) if type(model).__module__.startswith("pyro.") else model
    return inner.forward if isinstance(inner, nn.Module) else inner


class Recorder(Messenger):
    """Lists the sites of a model, and rejects those that no data can be drawn from."""

    def __init__(self) -> None:
        super().__init__()
        self.sites: list[PyroSite] = []

    def _pyro_post_sample(self, message: Message) -> None:
        name, fn, value = message["name"], message["fn"], message["value"]
        if not isinstance(fn, Distribution):
            _check_plate(name, fn, value)
            return
        role = _role(message)
        if isinstance(fn, dist.Unit):
            raise error(
                f"pyro.factor({name!r}) weights instances, and data cannot be drawn by "
                "weight: write the model by distributions alone, or condition on an "
                f"observed variable (got {name!r})."
            )
        if not torch.as_tensor(message["scale"]).eq(1).all():
            raise error(
                f"Site {name!r} is scaled, which fits no distribution that data can be "
                "drawn from: leave out poutine.scale and subsampling "
                f"(got scale {message['scale']})."
            )
        if role is Role.LATENT and not all(map(_keeps_all, _masks(message))):
            raise error(
                f"Site {name!r} is latent and masked, so that its masked entries have "
                "no distribution: mask observed sites only (got a mask that is not "
                "True everywhere)."
            )
        discrete = bool(getattr(fn, "has_enumerate_support", False))
        computed = role is Role.INTERMEDIATE
        shape = value.shape if computed else _expanded(message).shape()
        given = role is Role.OBSERVED and isinstance(value, Tensor)
        data = value if given else None
        self.sites.append(PyroSite(name, current_line(), role, shape, discrete, data))


class DataCheck(Messenger):
    """Rejects a model whose distributions depend on the data of `obs=`.

    Training draws these data anew, and a distribution that reads the old ones would
    not notice.
    """

    def __init__(self, data: Iterable[Tensor]) -> None:
        super().__init__()
        self.dependence = Dependence()
        for values in data:
            first = self.dependence.add_nodes(values.numel())
            self.dependence.write(values, identity(first, values.numel()))
        self.num_data = self.dependence.num_nodes

    def _pyro_sample(self, message: Message) -> None:
        if not isinstance(message["fn"], Distribution):
            return
        value = _computed(message)
        if (self.dependence.rows(value).node < self.num_data).any():
            raise error(
                f"Site {message['name']!r} depends on the data of an observed site, "
                "which training draws anew: use what pyro.sample(..., obs=data) "
                "returns in place of the data, or pass a copy of the data as another "
                "argument if they are to be constants (got data of obs=)."
            )
        with self.dependence.pause():
            message["value"] = value.clone()  # what follows does not depend on it
        message["done"] = True


class Statements(Messenger):
    """Lets sample(), let() and observe() decide what the sites of a model are."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan

    def _pyro_sample(self, message: Message) -> None:
        name, fn = message["name"], message["fn"]
        if not isinstance(fn, Distribution):
            return
        variable = self.plan.variables.get(name)
        if variable is None:
            raise error(
                f"Site {name!r} was not there when the model was run before: its sites "
                "and their names cannot depend on random values "
                f"(known: {', '.join(self.plan.variables)})."
            )
        for mask in _masks(message):
            _check_mask(name, mask)
        observed = name in self.plan.observed
        if _is_delta(fn):
            message["value"] = (observe if observed else let)(
                variable, _computed(message)
            )
        else:
            statement = observe if observed else sample
            message["value"] = statement(variable, _unmasked(_expanded(message)))
        message["done"] = True


def plan_of(
    sites: Sequence[PyroSite], larger: Sequence[PyroSite], observed: Iterable[str]
) -> Plan:
    """Names and roles of the sites of a model.

    Args:
        sites: As a recorder lists them.
        larger: The same at larger sizes, which tell what is a loop.
        observed: More observed ones, by site or by variable.
    """
    variables = entry_names(sites, larger)
    chosen = {site.name for site in sites if site.role is Role.OBSERVED}
    for name in observed:
        found = {
            site
            for site, variable in variables.items()
            if name in (site, variable, variable.partition("[")[0])
        }
        if not found:
            known = dict.fromkeys(v.partition("[")[0] for v in variables.values())
            raise ProgramError(
                "observed= names sites of the model, which are "
                f"{', '.join(known)} (got {name!r})."
            )
        chosen |= found
    return Plan(variables, chosen)


def entry_names(
    sites: Sequence[PyroSite], larger: Sequence[PyroSite]
) -> dict[str, str]:
    """Site -> "x", or "x[3]" if it is one of many that a loop makes.

    Sites belong to one variable if one statement makes several of them, under names
    that differ in numbers only; a site of another statement, such as the first of a
    chain, joins if its name fits. Entries are in the order of their numbers.
    """
    names = {site.name: site.name for site in sites}
    taken = set(names)
    for line, template in _loops(larger):
        variable = _SEPARATED.sub("", template).strip(" _.-")
        pattern = re.compile(re.escape(template).replace(r"\#", r"(\d+)"))
        fitting = {s: m for s in sites if (m := pattern.fullmatch(s.name))}
        made = [site for site in fitting if site.line == line]
        first = next(iter(made or fitting), None)
        if first is None or names[first.name] != first.name:
            continue  # it has not been reached, or another template has it
        numbers = {
            site.name: tuple(map(int, match.groups()))
            for site, match in fitting.items()
            if site.kind == first.kind
        }
        entries = _ranks(list(numbers.values()))
        if entries is None or not variable or variable in taken:
            continue
        taken.add(variable)
        for name, entry in zip(numbers, entries, strict=True):
            names[name] = f"{variable}[{', '.join(map(str, entry))}]"
    return names


def _loops(sites: Sequence[PyroSite]) -> list[tuple[str, str]]:
    """Statements that make several sites: their line, and the names with # for i."""
    made: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for site in sites:
        made[site.line, site.kind, _NUMBER.sub("#", site.name)].append(site.name)
    found = ((line, _template(names)) for (line, *_), names in made.items())
    return [(line, template) for line, template in found if "#" in template]


_NUMBER = re.compile(r"\d+")
_SEPARATED = re.compile(r"[\s_.-]*[\[(]?#[\])]?")  # a number with what sets it off


def _template(names: Sequence[str]) -> str:
    """The names with # for each number in which they differ."""
    numbers = np.array([_NUMBER.findall(name) for name in names])
    varies = iter((numbers != numbers[:1]).any(0))
    return _NUMBER.sub(lambda m: "#" if next(varies) else m[0], names[0])


def _ranks(numbers: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]] | None:
    """Numbers -> 0, 1, ... in each place; None if they are not a whole grid."""
    places = [sorted(set(place)) for place in zip(*numbers, strict=True)]
    if len(set(numbers)) != np.prod([len(place) for place in places]):
        return None
    return [
        tuple(place.index(n) for place, n in zip(places, entry, strict=True))
        for entry in numbers
    ]


def _role(message: Message) -> Role:
    computed = _is_delta(message["fn"])
    if computed and isinstance(message["fn"], MaskedDistribution):
        return Role.INTERMEDIATE  # pyro.deterministic
    if message["is_observed"]:
        return Role.OBSERVED
    return Role.INTERMEDIATE if computed else Role.LATENT


def _computed(message: Message) -> Tensor:
    """The value that `pyro.deterministic` names, or else a draw.

    Plates enlarge the distribution of pyro.deterministic, but not its value.
    """
    named = _role(message) is Role.INTERMEDIATE and message["value"] is not None
    return message["value"] if named else message["fn"].sample()


def _expanded(message: Message) -> Any:
    """The distribution of a site, as large as the data of `obs=`.

    Pyro broadcasts data against a smaller distribution, which means independent draws.
    """
    fn, value = message["fn"], message["value"]
    if not (message["is_observed"] and isinstance(value, Tensor)):
        return fn
    batch = value.shape[: value.dim() - len(fn.event_shape)]
    with suppress(RuntimeError):  # data that do not fit: Pyro will say so
        batch = torch.broadcast_shapes(batch, fn.batch_shape)
    return fn if batch == fn.batch_shape else fn.expand(batch)


def _unmasked(fn: Any) -> Any:
    """The distribution without masks, which change no draw."""
    while isinstance(fn, MaskedDistribution):
        fn = fn.base_dist
    return fn


def _is_delta(fn: Distribution) -> bool:
    while isinstance(fn, MaskedDistribution | Independent):
        fn = fn.base_dist
    return isinstance(fn, dist.Delta)


def _masks(message: Message) -> list[Any]:
    """The masks of a site, by `poutine.mask` and by `distribution.mask`."""
    masks, fn = [message["mask"]], message["fn"]
    while isinstance(fn, MaskedDistribution | Independent):
        # The mask of a distribution has no public name.
        masks.append(getattr(fn, "_mask", None))
        fn = fn.base_dist
    return [mask for mask in masks if mask is not None]


def _keeps_all(mask: Tensor | bool) -> bool:
    return bool(torch.as_tensor(mask).all())


def _check_mask(name: str, mask: Tensor | bool) -> None:
    """Reject a mask that depends on a random value, which reading it finds."""
    try:
        _keeps_all(mask)
    except (ProgramError, RuntimeError) as failure:
        raise error(
            f"The mask of site {name!r} cannot depend on a random value: write "
            "torch.where in its distribution (got a random mask)."
        ) from failure


def _check_plate(name: str, fn: Any, indices: Any) -> None:
    size = getattr(fn, "size", None)
    if size is None:
        raise error(
            f"Site {name!r} draws from a function: pass a distribution of "
            f"pyro.distributions (got {type(fn).__name__})."
        )
    if len(indices) != size:
        raise error(
            f"The plate {name!r} takes a subsample, and an instance has all of its "
            "variables: leave out subsample_size and subsample "
            f"(got {len(indices)} of {size})."
        )

import pytest
from prometheus_client import CollectorRegistry

from deuz_proxy.observe import catalog
from deuz_proxy.sinks.families import Bounds, Factory

MODELS = {"gpt-x", "other"}


def factory(**names: frozenset[str]) -> Factory:
    bounds = Bounds(known_model=lambda m: m if m in MODELS else "other", **names)
    return Factory(CollectorRegistry(), bounds)


def series(make: Factory) -> list[dict[str, str]]:
    return [
        sample.labels
        for family in make.registry.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    ]


def test_same_labels_are_the_same_series() -> None:
    family = factory(routes=frozenset({"chat"})).counter(catalog.TOKENS)

    assert family["chat", "gpt-x", "output"] is family["chat", "gpt-x", "output"]


def test_unknown_value_becomes_other_in_each_label() -> None:
    make = factory(routes=frozenset({"chat"}))
    family = make.counter(catalog.TOKENS)

    family["nowhere", "gpt-typo", "imaginary"].inc()

    assert series(make) == [{"route": "other", "model": "other", "type": "other"}]


def test_five_thousand_model_names_make_one_series() -> None:
    make = factory(routes=frozenset({"chat"}))
    family = make.counter(catalog.TOKENS)

    for number in range(5_000):
        family["chat", f'junk "{number}"\n', "output"].inc()

    assert len(series(make)) == 1
    assert len(family) == 1


@pytest.mark.parametrize(
    ("status", "label"), [("200", "200"), ("599", "599"), ("0", "other"), ("", "other")]
)
def test_status_is_a_code_or_other(status: str, label: str) -> None:
    make = factory(routes=frozenset({"chat"}))

    make.counter(catalog.REQUESTS)["chat", "anthropic", status, "ok"].inc()

    assert series(make)[0]["status"] == label


def test_route_of_a_reload_is_known_at_once() -> None:
    make = factory()
    family = make.counter(catalog.PREFIX_MUTATIONS)
    family[("new",)].inc()

    make.bounds.routes = frozenset({"new"})
    family[("new",)].inc()

    assert series(make) == [{"route": "other"}, {"route": "new"}]

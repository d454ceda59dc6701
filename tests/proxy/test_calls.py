from dataclasses import replace

import msgspec

from deuz_proxy.calls import header
from deuz_testing.bodies import anthropic_body, user
from deuz_testing.conversation import admitted
from deuz_testing.line import Told, make_config, make_runtime
from deuz_testing.scripted import GivenRequest


def test_a_header_is_found_by_its_name_in_any_case_the_first_wins() -> None:
    lines = [(b"X-A", b"1"), (b"x-a", b"2")]

    assert header(lines, b"x-a") == b"1"
    assert header(lines, b"x-b") is None


async def test_a_shadow_route_has_ledger_keys_of_its_own() -> None:
    runtime = make_runtime(make_config(), Told())
    call = await admitted(runtime, GivenRequest(anthropic_body([user("q")])))
    shadow = msgspec.structs.replace(call, target=replace(call.target, mode="shadow"))

    assert call.ledger_keys == call.chain
    assert len(shadow.ledger_keys) == 1
    assert shadow.ledger_keys != call.chain

from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.demo.provider.sse import data_event, deltas, named_event


def test_an_event_is_named_like_its_type() -> None:
    assert named_event({"type": "ping"}) == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_a_line_break_in_the_text_stays_inside_one_data_line() -> None:
    assert data_event({"text": "a\nb"}) == b'data: {"text":"a\\nb"}\n\n'


@given(st.text())
def test_deltas_make_the_text(text: str) -> None:
    assert "".join(deltas(text)) == text

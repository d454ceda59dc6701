from deuz_compiler.wires.framing import JSON_OBJECTS, SERVER_SENT
from deuz_compiler.wires.sse import ServerEvent


def test_an_event_is_read_from_its_lines_and_an_object_is_all_data() -> None:
    assert SERVER_SENT.read(b"event: a\ndata: {}") == ServerEvent(b"a", b"{}")
    assert JSON_OBJECTS.read(b'{"a":1}') == ServerEvent(b"", b'{"a":1}')


def test_a_framing_makes_a_new_cutter_each_time() -> None:
    for framing in (SERVER_SENT, JSON_OBJECTS):
        assert framing.cutter() is not framing.cutter()


def test_what_ends_a_chunk_ends_a_block() -> None:
    assert b'data: {"a":{}}\n\n'.endswith(SERVER_SENT.ends)
    assert b'{"a":{}}\n'.endswith(JSON_OBJECTS.ends)
    assert not b'{"a":{}'.endswith(JSON_OBJECTS.ends)

import json

from deuz_compiler.wires.writing import framed


def test_an_escaped_text_becomes_a_json_string_in_its_frame() -> None:
    text = json.dumps('say "no" \\ \u00e9 %s').encode()[1:-1]

    out = framed((b'{"role":"user","content":', b"}"), text)

    assert json.loads(out) == {"role": "user", "content": 'say "no" \\ \u00e9 %s'}

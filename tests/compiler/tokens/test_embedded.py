import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.tokens.embedded import split_media
from deuz_compiler.tokens.estimate import estimate_bytes

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (300).to_bytes(4, "big") + b"\0\0\0\xfa"
LARGE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1024).to_bytes(4, "big") + b"\0\0\x04\0"


def encoded(head: bytes, size: int = 600) -> str:
    return base64.b64encode(head.ljust(size, b"\1")).decode()


def data_url(head: bytes, size: int = 600, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{encoded(head, size)}"


def price(value: Any) -> int:
    return split_media(json.dumps(value).encode())[1]


def base64_image(head: bytes, size: int = 600) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": encoded(head, size)}
    return {"type": "image", "source": source}


@pytest.mark.parametrize(
    "source",
    [
        {"type": "base64", "media_type": "image/png", "data": ""},
        {"data": "", "media_type": "image/png", "type": "base64"},
    ],
)
def test_media_are_taken_out_wherever_the_marker_stands(source: dict[str, str]) -> None:
    block = {"source": source}
    text = json.dumps([block, block]).replace(
        '"data": ""', f'"data" : "{encoded(PNG)}"'
    )

    plain, tokens = split_media(text.encode())

    assert tokens == 200
    assert json.loads(plain) == [block, block]


@pytest.mark.parametrize("name", ["mimeType", "mime_type"])
def test_media_of_gemini_are_taken_out_in_both_spellings(name: str) -> None:
    picture = {name: "image/png", "data": encoded(PNG)}

    plain, tokens = split_media(json.dumps({"inlineData": picture}).encode())

    assert tokens == price(base64_image(PNG))
    assert b'"data": ""' in plain


@pytest.mark.parametrize(
    ("images", "count"),
    [
        ([encoded(PNG)], 1),
        ([encoded(PNG), encoded(PNG)], 2),
        ([encoded(PNG), "not a picture", encoded(PNG)], 1),
        ([encoded(PNG), "A" * 20], 1),
        (["a picture", encoded(PNG)], 0),
        ([], 0),
    ],
)
def test_bare_pictures_in_a_list_are_taken_out_one_by_one(
    images: list[str], count: int
) -> None:
    assert price({"images": images}) == count * price(base64_image(PNG))


def test_a_list_of_pictures_that_is_cut_off_is_text() -> None:
    raw = b'{"images": ["' + encoded(PNG).encode()

    assert split_media(raw) == (raw, 0)


def test_the_signature_of_a_thought_costs_what_it_hides() -> None:
    sealed = encoded(b"", 2_000)

    for name in ("signature", "thoughtSignature", "thought_signature"):
        assert price({name: sealed}) == price({"signature": sealed}) > 0


def test_data_urls_and_audio_are_taken_out() -> None:
    url = json.dumps({"url": data_url(PNG)}).encode()
    audio = json.dumps({"data": encoded(b"RIFF"), "format": "wav"}).encode()

    assert split_media(url) == (b'{"url": "data:image/png;base64,"}', 255)
    assert split_media(audio) == (b'{"data": "", "format": "wav"}', 1_600)


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        (base64_image(PNG), 100),
        ({"type": "image_url", "image_url": {"url": data_url(LARGE)}}, 765),
        ({"type": "input_image", "image_url": data_url(LARGE), "detail": "auto"}, 765),
        ({"type": "input_image", "image_url": data_url(LARGE), "detail": "low"}, 85),
        ({"type": "input_image", "detail": "low", "image_url": data_url(LARGE)}, 85),
        (
            {
                "type": "image_url",
                "image_url": {"detail": "low", "url": data_url(LARGE)},
            },
            85,
        ),
        (
            {
                "type": "input_file",
                "file_data": data_url(b"%PDF-1.7", 100_000, "application/pdf"),
            },
            4_000,
        ),
    ],
)
def test_embedded_media_cost_by_size_and_detail(
    block: dict[str, Any], tokens: int
) -> None:
    assert price([block]) == tokens
    assert price([block, {"type": "text", "text": "t"}, block]) == 2 * tokens


def test_detail_of_the_neighbour_does_not_count() -> None:
    low = {
        "type": "image_url",
        "image_url": {"url": data_url(LARGE), "detail": "low"},
    }
    high = {"type": "image_url", "image_url": {"url": data_url(LARGE)}}

    assert price([low, high, low]) == 85 + 765 + 85


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        ({"type": "image", "source": {"type": "url", "url": "https://x/y"}}, 1_600),
        ({"type": "image", "source": {"type": "file", "file_id": "f"}}, 1_600),
        ({"type": "document", "source": {"type": "url", "url": "https://x"}}, 2_000),
        ({"type": "image_url", "image_url": {"url": "https://x/y"}}, 765),
        (
            {"type": "image_url", "image_url": {"url": "https://x", "detail": "low"}},
            85,
        ),
        ({"type": "image_url", "image_url": "https://x"}, 765),
        ({"type": "input_image", "image_url": "https://x", "detail": "low"}, 85),
        ({"type": "input_image", "file_id": "f", "detail": "high"}, 765),
        ({"type": "file", "file": {"file_id": "f"}}, 2_000),
        ({"type": "input_file", "file_url": "https://x", "detail": "low"}, 2_000),
    ],
)
def test_media_by_address_have_a_flat_price(block: dict[str, Any], tokens: int) -> None:
    raw = json.dumps({"content": [block]}).encode()

    plain, found = split_media(raw)

    assert found == tokens
    assert b"https" not in plain
    assert json.loads(plain)["content"][0]["type"] == block["type"]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "base64", "data": "short"}},
        {"type": "image", "source": 7},
        {"type": "image_url", "image_url": {"url": "data:image/png,x"}},
        {"type": "document", "source": {"type": "text", "data": "plain text"}},
        {"type": "text", "text": '{"type":"image","url":"https://x"}'},
        {"kind": {"type": "image"}, "url": "https://x"},
        {"type": ["image"], "kind": {"type": "image"}, "url": "https://x"},
    ],
)
def test_what_names_no_picture_is_text(block: dict[str, Any]) -> None:
    raw = json.dumps([block]).encode()

    assert split_media(raw) == (raw, 0)


def test_broken_text_with_a_picture_in_it_is_counted_not_refused() -> None:
    cut = b'[{"type":"image","source":{"url":"https://x"}'
    deep = b'[{"type":"image"},%b]' % (b"[" * 9_000 + b"]" * 9_000)
    # Half of a pair is no text that can be decoded.
    half = b'[{"type":"input_image","image_url":"https://\\ud800"}]'

    assert [split_media(raw) for raw in (cut, deep, half)] == [
        (cut, 0),
        (deep, 0),
        (half, 0),
    ]


def test_body_of_nothing_but_addresses_or_markers_is_read_once() -> None:
    # Quadratic, each of these would take many seconds.
    pictures = [
        {"type": "input_image", "image_url": f"https://x/{n}"} for n in range(20_000)
    ]
    noise = json.dumps(";base64," * 100_000).encode()

    assert price(pictures) == 20_000 * 765
    assert split_media(noise) == (noise, 0)


def test_pictures_deep_inside_a_result_are_found() -> None:
    result = {"type": "tool_result", "content": [base64_image(PNG)]}
    screen = {"type": "input_image", "image_url": "https://x"}

    assert price([{"content": [result]}]) == 100
    assert price({"type": "function_call_output", "output": [screen, screen]}) == 1_530


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "encrypted_content": "g" * 8_000},
        {"type": "compaction", "encrypted_content": "g" * 8_000},
        {"type": "thinking", "thinking": "hm", "signature": "g" * 8_000},
        {"type": "redacted_thinking", "data": "g" * 8_000},
    ],
)
def test_sealed_text_costs_what_it_hides_not_what_it_looks_like(
    item: dict[str, str],
) -> None:
    raw = json.dumps(item).encode()

    # 8000 characters of base64 are 6000 bytes, 5350 without the envelope.
    assert split_media(raw)[1] == 1_338
    assert estimate_bytes(raw) < 1_400


@pytest.mark.parametrize(
    "raw",
    [
        b'{"input":{"data":"%b"}}' % (b"A" * 900),
        b'{"type":"base64","data":"%b"}' % (b"words and " * 90),
        b'{"type":"base64","data":"short"}',
        b'{"type":"base64","data":7}',
        b'{"type":"base64","data"',
        b'{"type":"base64","data":["x"]}',
        b"data:image/png;base64,AAAA",
        b'{"arguments":"{\\"encrypted_content\\":\\"%b\\"}"}' % (b"A" * 900),
    ],
)
def test_what_the_model_reads_stays_text(raw: bytes) -> None:
    assert split_media(raw) == (raw, 0)


@pytest.mark.parametrize("shape", ["base64", "url"])
def test_price_does_not_grow_with_the_encoding_and_grows_with_the_number(
    shape: str,
) -> None:
    def block(size: int) -> dict[str, Any]:
        if shape == "base64":
            return base64_image(PNG, size)
        return {"type": "input_image", "image_url": data_url(PNG, size)}

    small, large = (price([block(size)]) for size in (1_000, 400_000))

    assert small == large
    assert price([block(1_000)] * 5) == 5 * small


@given(st.binary(max_size=60), st.sampled_from([b'"data":"', b";base64,", b'"type":"']))
def test_any_bytes_are_split(noise: bytes, marker: bytes) -> None:
    raw = b'{"type":"image",' + marker + noise + b"A" * 300 + b'"' + noise

    plain, tokens = split_media(raw)

    assert len(plain) <= len(raw)
    assert tokens >= 0

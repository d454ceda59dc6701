import gzip
import zlib

import aiohttp
import brotli  # It ships no stubs.
import pytest

from deuz_proxy.demo.provider.receiving import unpack_body
from deuz_proxy.observe.zstandard import zstd
from deuz_testing.provider import running_provider

BODY = b'{"model": "fake"}' * 100


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("", BODY),
        ("identity", BODY),
        ("gzip", gzip.compress(BODY, mtime=0)),
        ("deflate", zlib.compress(BODY)),
        ("zstd", zstd.compress(BODY)),
        ("BR", brotli.compress(BODY)),
    ],
)
def test_a_coding_is_undone(coding: str, packed: bytes) -> None:
    assert unpack_body(packed, coding) == BODY


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br", "compress"])
def test_a_body_that_does_not_match_its_coding_is_an_error(coding: str) -> None:
    with pytest.raises(ValueError, match="coding"):
        unpack_body(BODY, coding)


async def test_a_body_that_is_no_object_is_refused() -> None:
    async with running_provider() as provider, aiohttp.ClientSession() as client:
        url = provider.url + "/v1/chat/completions"
        async with client.post(url, data=b"[1]") as response:
            pass

    assert response.status == 400
    assert provider.requests[0].rule == "not_json"

from deuz_proxy.demo.provider.exchange import LoggedRequest, TokenCount


def test_counts_of_the_input_are_disjoint() -> None:
    counts = TokenCount(
        uncached=1, cache_read=2, cache_write_short=4, cache_write_long=8, output=16
    )

    assert (counts.cache_write, counts.input_total) == (12, 15)


def test_a_logged_request_has_no_status_before_its_answer() -> None:
    logged = LoggedRequest("POST", "/", (), b"")

    assert (logged.status, logged.rule, logged.is_complete) == (None, None, False)

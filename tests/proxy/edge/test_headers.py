from deuz_proxy.edge.headers import request_headers, response_headers


def test_request_lines_cross_in_order_with_case_and_repetition() -> None:
    lines = [(b"B", b"1"), (b"a", b"2"), (b"b", b"3"), (b"B", b"1")]

    assert request_headers(lines) == lines


def test_lines_that_belong_to_one_hop_stay_behind() -> None:
    hop = [b"Connection", b"Keep-Alive", b"Proxy-Connection", b"TE", b"Trailer"]
    hop += [b"Transfer-Encoding", b"Upgrade", b"Host", b"Expect", b"Content-Length"]

    assert request_headers([(name, b"x") for name in hop]) == []


def test_lines_that_connection_names_stay_behind_in_both_directions() -> None:
    lines = [(b"Connection", b"close, X-One"), (b"connection", b" x-two "), (b"X", b"")]
    named = [(b"x-one", b"1"), (b"X-Two", b"2")]

    assert request_headers(lines + named) == [(b"X", b"")]
    assert response_headers(lines + named) == [(b"X", b"")]


def test_lines_addressed_to_the_sidecar_end_here_in_any_case() -> None:
    lines = [(b"X-DEUZ-Scope", b"s"), (b"x-deuz-", b""), (b"x-deuzer", b"kept")]

    assert request_headers(lines) == [(b"x-deuzer", b"kept")]


def test_an_answer_keeps_its_length_and_lines_of_ours_are_the_upstreams() -> None:
    lines = [(b"Content-Length", b"9"), (b"X-Deuz-A", b"1"), (b"Host", b"h")]

    assert response_headers(lines) == lines


def test_credentials_cross_untouched() -> None:
    lines = [(b"Authorization", b"Bearer k"), (b"Cookie", b"c"), (b"x-api-key", b"k")]

    assert request_headers(lines) == lines


def test_this_hops_lines_stand_where_the_clients_stood() -> None:
    lines = [(b"A", b"1"), (b"hOST", b"sidecar"), (b"A", b"2"), (b"EXPECT", b"x")]

    assert request_headers(lines, {b"host": b"up"}) == [
        (b"A", b"1"),
        (b"hOST", b"up"),
        (b"A", b"2"),
    ]


def test_lines_the_client_did_not_send_stand_at_the_ends() -> None:
    lines = [(b"Host", b"sidecar"), (b"A", b"1")]

    assert request_headers(lines, {b"host": b"up", b"content-length": b"9"}) == [
        (b"Host", b"up"),
        (b"A", b"1"),
        (b"Content-Length", b"9"),
    ]
    assert request_headers([(b"A", b"1")], {b"host": b"up"}) == [
        (b"Host", b"up"),
        (b"A", b"1"),
    ]

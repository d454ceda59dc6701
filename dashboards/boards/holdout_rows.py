"""What added context changes: conversations with it beside those held out from it."""

from dashboards.boards.values import ROUTE, Panel, Query, Row, rate_by

_REQUESTS = rate_by("group", "deuz_holdout_requests_total", ROUTE)
_FAILED = rate_by(
    "group",
    "deuz_holdout_requests_total",
    f'{ROUTE}, outcome!~"ok|client_closed"',
)
_READ = rate_by("group", "deuz_holdout_tokens_total", f'{ROUTE}, type="cache_read"')
_INPUT = rate_by("group", "deuz_holdout_tokens_total", f'{ROUTE}, type!="output"')
_TOKENS = rate_by("group, type", "deuz_holdout_tokens_total", ROUTE)

HOLDOUT = Row(
    "What difference does added context make?",
    (
        Panel(
            "Tokens of a request, by group",
            "What does a request use with added context, and what without?",
            (
                Query(
                    f"{_TOKENS} / on (group) group_left () {_REQUESTS}",
                    "{{group}}: {{type}}",
                ),
            ),
        ),
        Panel(
            "Cache hit ratio, by group",
            "Is as much of the input read from the cache as without added context?",
            (Query(f"{_READ} / {_INPUT}", "{{group}}"),),
            unit="percentunit",
        ),
        Panel(
            "Requests that fail, by group",
            "Do more requests fail with added context than without?",
            # Without a failure the series is not there: that is a share of 0.
            (Query(f"({_FAILED} or {_REQUESTS} * 0) / {_REQUESTS}", "{{group}}"),),
            unit="percentunit",
        ),
    ),
)

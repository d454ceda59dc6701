"""The first questions: is the prefix stable, and what does a request cost?"""

from dashboards.boards.values import (
    ROUTE,
    ROUTE_MODEL,
    Panel,
    Query,
    Row,
    quantiles,
    rate_by,
    total,
    total_by,
)

INPUT_TYPES = 'type=~"input_uncached|cache_read|cache_write"'
KEPT = 'verdict=~"extended|unchanged|returned"'
JUDGED = 'verdict!~"first|side_call"'


def _hit_ratio(by: str, window: str) -> str:
    # A ratio of sums, not a mean of ratios: small requests must not weigh as much.
    read = f'deuz_tokens_total{{{ROUTE_MODEL}, type="cache_read"}}[{window}]'
    whole = f"deuz_tokens_total{{{ROUTE_MODEL}, {INPUT_TYPES}}}[{window}]"
    return f"sum{by}(increase({read})) / sum{by}(increase({whole}))"


def _count_requests(verdicts: str) -> str:
    matchers = f"{ROUTE_MODEL}, {verdicts}"
    return f"sum(increase(deuz_prefix_requests_total{{{matchers}}}[$__range]))"


PREFIX = Row(
    "Is the prefix stable?",
    (
        Panel(
            "Changes that the sidecar caused",
            "Did the sidecar itself break a prefix? It must stay 0: anything else is a "
            "bug to report.",
            (Query(total("deuz_prefix_sidecar_mutations_total", ROUTE)),),
            kind="number",
            width=6,
            bad_from=1,
        ),
        Panel(
            "Requests that kept their prefix",
            "How often could the provider reuse what it had? First requests and side "
            "calls are left out.",
            (
                Query(
                    f"{_count_requests(KEPT)} / {_count_requests(JUDGED)}",
                ),
            ),
            kind="number",
            unit="percentunit",
            width=6,
        ),
        Panel(
            "Cache hit ratio, by tokens",
            "Which share of all input tokens was read from the provider's cache?",
            (Query(_hit_ratio("", "$__range")),),
            kind="number",
            unit="percentunit",
            width=6,
        ),
        Panel(
            "Tokens lost to breaks",
            "How many reusable tokens were paid for again because a prefix broke?",
            (Query(total("deuz_prefix_lost_tokens_total", ROUTE)),),
            kind="number",
            width=6,
        ),
        Panel(
            "Verdicts",
            "What became of the prefix, request by request?",
            (
                Query(
                    rate_by("verdict", "deuz_prefix_requests_total", ROUTE_MODEL),
                    "{{verdict}}",
                ),
            ),
            kind="areas",
            unit="reqps",
        ),
        Panel(
            "Breaks by owner",
            "Who has to act: the client, the sidecar, the provider, or is it time that "
            "ran out?",
            (Query(rate_by("owner", "deuz_prefix_breaks_total", ROUTE), "{{owner}}"),),
            kind="areas",
            unit="reqps",
        ),
        Panel(
            "Cache hit ratio over time",
            "Since when does the cache hit less, and for which model?",
            (Query(_hit_ratio(" by (model) ", "$__rate_interval"), "{{model}}"),),
            unit="percentunit",
        ),
        Panel(
            "Breaks by cause",
            "What exactly changed in front of the break?",
            (
                Query(
                    total_by(
                        "segment, cause, owner", "deuz_prefix_breaks_total", ROUTE
                    ),
                    "{{segment}}: {{cause}} ({{owner}})",
                ),
            ),
            kind="bars",
        ),
        Panel(
            "Tokens lost by cause",
            "Which cause costs most, so that it is worth mending first?",
            (
                Query(
                    total_by("cause, owner", "deuz_prefix_lost_tokens_total", ROUTE),
                    "{{cause}} ({{owner}})",
                ),
            ),
            kind="bars",
        ),
        Panel(
            "Expected and missed cache reads",
            "Of what the prefix let one expect, how much did the provider not read?",
            (
                Query(
                    rate_by("model", "deuz_cache_expected_tokens_total", ROUTE_MODEL),
                    "{{model}} expected",
                ),
                Query(
                    rate_by("model", "deuz_cache_missed_tokens_total", ROUTE_MODEL),
                    "{{model}} missed",
                ),
            ),
        ),
    ),
)

COST = Row(
    "What does it cost?",
    (
        Panel(
            "Tokens by type",
            "Where do the tokens go: uncached input, cache reads and writes, output?",
            (Query(rate_by("type", "deuz_tokens_total", ROUTE_MODEL), "{{type}}"),),
            kind="areas",
            width=6,
        ),
        Panel(
            "Tokens by route and model",
            "Which service and which model spend them?",
            (
                Query(
                    total_by("route, model", "deuz_tokens_total", ROUTE_MODEL),
                    "{{route}} {{model}}",
                ),
            ),
            kind="bars",
            width=6,
        ),
        Panel(
            "Answers by usage report",
            "Can the counts be trusted? An answer without usage is not counted as 0.",
            (
                Query(
                    rate_by("status", "deuz_usage_reports_total", ROUTE), "{{status}}"
                ),
            ),
            kind="areas",
            unit="reqps",
            width=6,
        ),
        Panel(
            "Reported over estimated input",
            "How good is the sidecar's own estimate of tokens? 1 is exact.",
            quantiles("model", "deuz_estimate_ratio", 'model=~"$model"'),
            width=6,
        ),
    ),
)

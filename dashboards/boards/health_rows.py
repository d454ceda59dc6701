"""Whether the sidecar itself is well: what it serves, what it adds, what it stores."""

from dashboards.boards.values import ROUTE, Panel, Query, Row, quantiles, rate_by, total

_OURS = f'{ROUTE},code!="unknown_upstream"'

HEALTH = Row(
    "Is the sidecar healthy?",
    (
        Panel(
            "Requests by outcome",
            "Do requests end well, and if not, on whose side?",
            (Query(rate_by("outcome", "deuz_requests_total", ROUTE), "{{outcome}}"),),
            kind="areas",
            unit="reqps",
        ),
        Panel(
            "Answers by status code",
            "What do clients get to see?",
            (Query(rate_by("status", "deuz_requests_total", ROUTE), "{{status}}"),),
            kind="areas",
            unit="reqps",
        ),
        Panel(
            "Requests in flight",
            "How much is going on at once, and does anything hang?",
            (
                Query(
                    f"sum by (route) (deuz_requests_in_flight{{{ROUTE}}})", "{{route}}"
                ),
            ),
        ),
        Panel(
            "Overhead by stage, median and p99",
            "How much time does the sidecar itself add, and in which stage?",
            quantiles("stage", "deuz_overhead_seconds", ROUTE),
            unit="s",
            width=12,
        ),
        Panel(
            "Time to the first byte",
            "How long do clients wait for the answer to begin?",
            quantiles("route", "deuz_time_to_first_byte_seconds", ROUTE),
            unit="s",
            width=6,
        ),
        Panel(
            "Request duration",
            "How long do answers take as a whole?",
            quantiles("route", "deuz_request_duration_seconds", ROUTE),
            unit="s",
            width=6,
        ),
        Panel(
            "Requests passed through untouched",
            "Why was a body left as it came?",
            (Query(rate_by("reason", "deuz_passthrough_total", ROUTE), "{{reason}}"),),
            kind="areas",
            unit="reqps",
        ),
        Panel(
            "Faults of the sidecar",
            "Did anything of ours go wrong, also behind requests that went well?",
            # A healthy sidecar has no series here: 0 is an answer, "no data" is none.
            # A client that asks for what is not there has not found a fault of ours.
            (Query(f"{total('deuz_faults_total', _OURS)} or vector(0)"),),
            kind="number",
            bad_from=1,
        ),
        Panel(
            "Workers that serve",
            "How many processes take requests, and does one fail again and again?",
            (
                Query("sum(deuz_workers)", "serving"),
                Query(
                    f"{total('deuz_worker_failures_total', '')} or vector(0)",
                    "failed in this range",
                ),
            ),
            width=12,
        ),
        Panel(
            "Events lost by workers",
            "Are these numbers whole, or did a worker die before it told all?",
            (Query(f"{total('deuz_events_lost_total', '')} or vector(0)"),),
            kind="number",
            bad_from=1,
            width=12,
        ),
        Panel(
            "Ledger operations",
            "Does the ledger answer, and does it evict what is still needed?",
            (
                Query(
                    rate_by("op, status", "deuz_ledger_operations_total", ""),
                    "{{op}} {{status}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            "Conversations that lost what the ledger put out",
            "Are the ledger's bounds too small for the conversations that live?",
            (
                Query(
                    "sum(increase(deuz_prefix_breaks_total"
                    '{cause="evicted"}[$__rate_interval])) or vector(0)',
                    "breaks by eviction",
                ),
            ),
            width=12,
        ),
        Panel(
            "Ledger availability",
            "Is the store asked, or left alone since it did not answer?",
            (Query("min by (store, op) (deuz_ledger_available)", "{{store}} {{op}}"),),
            width=12,
        ),
        Panel(
            "Ledger entries",
            "How many placements and folds are remembered?",
            (Query("sum by (store) (deuz_ledger_entries)", "{{store}}"),),
            width=12,
        ),
        Panel(
            "Ledger size",
            "How much memory or disk do they take?",
            (Query("sum by (store) (deuz_ledger_bytes)", "{{store}}"),),
            unit="bytes",
            width=12,
        ),
    ),
)

"""What the sidecar adds behind the prefix, and what it takes away when all is full."""

from dashboards.boards.values import (
    ROUTE,
    Panel,
    Query,
    Row,
    quantiles,
    rate_by,
    total_by,
)

CONTEXT = Row(
    "What context is added, and from where?",
    (
        Panel(
            "Compiles by reason",
            "Why was context compiled: first turn, fresh turn, asked for?",
            (
                Query(
                    rate_by("refresh_reason", "deuz_context_compiles_total", ROUTE),
                    "{{refresh_reason}}",
                ),
            ),
            kind="areas",
            unit="reqps",
        ),
        Panel(
            "Compiles by fallback",
            "How often did a compile have to do without something, and without what?",
            (
                Query(
                    rate_by("fallback", "deuz_context_compiles_total", ROUTE),
                    "{{fallback}}",
                ),
            ),
            kind="areas",
            unit="reqps",
        ),
        Panel(
            "Tokens added by a compile",
            "How large is what is added?",
            quantiles("", "deuz_context_tokens", ROUTE),
        ),
        Panel(
            "Shadow: what would become of the prefix",
            "Would the prefix stay if context were added, and who would break it?",
            (
                Query(
                    rate_by("prefix", "deuz_shadow_requests_total", ROUTE),
                    "{{prefix}}",
                ),
            ),
            kind="areas",
            unit="reqps",
            width=12,
        ),
        Panel(
            "Shadow: tokens that would be added, and read",
            "What would context cost, and how much would the cache give?",
            (
                Query(
                    rate_by("type", "deuz_shadow_tokens_total", ROUTE),
                    "{{type}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "Records by decision",
            "Why was a record taken or left out?",
            (
                Query(
                    total_by("decision, reason", "deuz_context_records_total", ""),
                    "{{decision}}: {{reason}}",
                ),
            ),
            kind="bars",
            width=12,
        ),
        Panel(
            "Selected records by source",
            "Which source is worth its place?",
            (
                Query(
                    rate_by(
                        "source", "deuz_context_records_total", 'decision="selected"'
                    ),
                    "{{source}}",
                ),
            ),
            kind="areas",
            width=12,
        ),
        Panel(
            "Source answers by status",
            "Do the sources answer, and in time?",
            (
                Query(
                    rate_by("source, status", "deuz_source_queries_total", ""),
                    "{{source}} {{status}}",
                ),
            ),
            kind="areas",
            unit="reqps",
            width=12,
        ),
        Panel(
            "Source latency",
            "Which source holds a request up?",
            quantiles("source", "deuz_source_duration_seconds", ""),
            unit="s",
            width=12,
        ),
    ),
)

OVERFLOW = Row(
    "Does the window overflow, and what is done about it?",
    (
        Panel(
            "Overflows by outcome",
            "Where was an overflow noticed, and did the client see it?",
            (
                Query(
                    rate_by("stage, outcome", "deuz_overflow_total", ROUTE),
                    "{{stage}}: {{outcome}}",
                ),
            ),
            kind="areas",
            unit="reqps",
        ),
        Panel(
            "Compactions by layer",
            "Which layers made requests smaller, and what set them off?",
            (
                Query(
                    rate_by("layer, trigger", "deuz_compaction_total", ROUTE),
                    "{{layer}} ({{trigger}})",
                ),
            ),
            kind="areas",
            unit="reqps",
        ),
        Panel(
            "Tokens removed by layer",
            "How much did each layer take out?",
            (
                Query(
                    total_by("layer", "deuz_compaction_removed_tokens_total", ROUTE),
                    "{{layer}}",
                ),
            ),
            kind="bars",
        ),
    ),
)

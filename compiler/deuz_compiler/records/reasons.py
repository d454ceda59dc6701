"""The closed list of reasons: each candidate ends in the manifest with exactly one.

Selected:
- `mandatory`, `required`: needed by its class, or named by this call.
- `ranked`: won its place by rank; `reallocated`: likewise, from other kinds' shares.
- `dependency`: a selected record needs it.

Excluded:
- `already-placed`: on the surface from an earlier pass.
- `scope-ineligible`, `freshness-ineligible`, `authority-ineligible`: a verdict said no.
- `below-floor`: the form is less complete than the record allows.
- `expired`: its time is over.
- `duplicate-content`: another form, or the same text, is in.
- `dependency-blocked`: something it needs, or its group, cannot enter.
- `missing-dependency`: something it needs was never offered.
- `over-budget`: it, with all it needs, costs more than is left.
- `below-threshold`: too low a score, and it covers nothing new.
- `render-overrun`: dropped because the rendered block came out too large.
- `duplicate-record`: the same key was offered before; the first one counts.
- `malformed`: its own fields break the rules.
- `refused`: the whole compile was refused before or after it was decided.
"""

MANDATORY = "mandatory"
REQUIRED = "required"
RANKED = "ranked"
REALLOCATED = "reallocated"
DEPENDENCY = "dependency"

ALREADY_PLACED = "already-placed"
SCOPE_INELIGIBLE = "scope-ineligible"
FRESHNESS_INELIGIBLE = "freshness-ineligible"
AUTHORITY_INELIGIBLE = "authority-ineligible"
BELOW_FLOOR = "below-floor"
EXPIRED = "expired"
DUPLICATE_CONTENT = "duplicate-content"
DEPENDENCY_BLOCKED = "dependency-blocked"
MISSING_DEPENDENCY = "missing-dependency"
OVER_BUDGET = "over-budget"
BELOW_THRESHOLD = "below-threshold"
RENDER_OVERRUN = "render-overrun"
DUPLICATE_RECORD = "duplicate-record"
MALFORMED = "malformed"
REFUSED = "refused"

SELECTED_REASONS: tuple[str, ...] = (
    MANDATORY,
    REQUIRED,
    RANKED,
    REALLOCATED,
    DEPENDENCY,
)

EXCLUDED_REASONS: tuple[str, ...] = (
    ALREADY_PLACED,
    SCOPE_INELIGIBLE,
    FRESHNESS_INELIGIBLE,
    AUTHORITY_INELIGIBLE,
    BELOW_FLOOR,
    EXPIRED,
    DUPLICATE_CONTENT,
    DEPENDENCY_BLOCKED,
    MISSING_DEPENDENCY,
    OVER_BUDGET,
    BELOW_THRESHOLD,
    RENDER_OVERRUN,
    DUPLICATE_RECORD,
    MALFORMED,
    REFUSED,
)

REASONS: tuple[str, ...] = SELECTED_REASONS + EXCLUDED_REASONS

"""deuz_compiler thinks: pure functions from bytes and values to bytes and values.

This is the front door: the only names the proxy may use.
"""

from deuz_compiler.canonical import digest_text
from deuz_compiler.causes import CAUSES
from deuz_compiler.compaction.fold import Folded, FoldRun
from deuz_compiler.compaction.history import view_turns
from deuz_compiler.compaction.plan import CompactionPolicy, Plan, plan_recovery
from deuz_compiler.compaction.summary import (
    accept_summary,
    render_summary,
    summary_request_text,
)
from deuz_compiler.compilation import Compilation, compile_context, explain
from deuz_compiler.errors import CompilerError, MalformedInput, NotLifted
from deuz_compiler.lineage import chain, scope_root, seed_of
from deuz_compiler.operations import (
    Append,
    Bare,
    Fold,
    Operation,
    Prune,
    TailCopy,
    digest_held,
    shortens,
)
from deuz_compiler.pieces import Ours
from deuz_compiler.placement.block import (
    BlockRecord,
    escape_json_string,
    render_block,
    render_pieces,
)
from deuz_compiler.placement.laws import (
    PART,
    TURN,
    place_for_context,
    place_for_tail,
)
from deuz_compiler.prediction import predict_read
from deuz_compiler.prefix import (
    Prefix,
    Shared,
    plain_prefix,
    tokens_with,
    with_surface,
)
from deuz_compiler.profiles.json_form import compile_json
from deuz_compiler.profiles.project_context.form import compile_profile
from deuz_compiler.progress import (
    Progress,
    Resumed,
    kept_seconds,
    progress_of,
    progress_up_to,
)
from deuz_compiler.reading import Held, Reading, block_text
from deuz_compiler.records.candidate import Candidate, Eligibility
from deuz_compiler.records.facts import CompileFacts, PlacedRecord, SourceReport
from deuz_compiler.records.manifest import Manifest, context_warnings
from deuz_compiler.records.policy import Overhead, Policy, Share
from deuz_compiler.records.reasons import REASONS
from deuz_compiler.redaction import (
    records_of,
    redact_operations,
    was_redacted,
    was_unfolded,
)
from deuz_compiler.refreshing.decide import (
    Decision as RefreshDecision,
)
from deuz_compiler.refreshing.decide import (
    RefreshLimits,
    Step,
    forget_records,
    place_step,
    request_refresh,
    retry_step,
    start_step,
)
from deuz_compiler.refreshing.state import (
    RefreshState,
    new_state,
    read_state,
    write_state,
)
from deuz_compiler.resting import Resting, rest, wake
from deuz_compiler.selection.budget import AddedBudget, added_budget, exact_ratio
from deuz_compiler.selection.budget import Window as BudgetWindow
from deuz_compiler.selection.budget import weigh as weigh_shares
from deuz_compiler.selection.explain import Explanation
from deuz_compiler.shares import SegmentShare, judged_shares, segment_shares
from deuz_compiler.standing import (
    Standing,
    gone_on,
    prefix_again,
    put_again,
    put_back,
    put_more,
    standing_of,
    standing_up_to,
    surface_again,
)
from deuz_compiler.surface import (
    Ending,
    Surface,
    kept_turns,
    project,
)
from deuz_compiler.tokens.calibrate import Calibration, calibrated, observe_usage
from deuz_compiler.tokens.estimate import estimate_pieces, estimate_text
from deuz_compiler.tokens.estimator import (
    Estimator,
    estimator_for,
    tokenizer_estimator,
)
from deuz_compiler.verdict import (
    Baseline,
    Verdict,
    judge,
    matching_baseline,
    weigh_usage,
)
from deuz_compiler.wires.condensing import asks_to_condense
from deuz_compiler.wires.envelope import (
    Edit,
    Envelope,
    PathFacts,
    Span,
    Spliced,
    lower,
    outbound_offset,
    splice,
)
from deuz_compiler.wires.overflow import (
    OverflowSignal,
    recognise_blank,
    recognise_finish,
    recognise_overflow,
    recognise_silent,
)
from deuz_compiler.wires.own import summary_body
from deuz_compiler.wires.parts import Part
from deuz_compiler.wires.reply import (
    ReplyFacts,
    ReplyMeter,
    error_body,
    error_event,
    open_meter,
)
from deuz_compiler.wires.requests import (
    ask_once,
    lift,
    may_read_cache,
    part_span,
    read_parts,
    said_text,
    user_text,
)
from deuz_compiler.wires.scanner import load_scanner
from deuz_compiler.wires.starts import Starts, starts_of
from deuz_compiler.wires.turns import Turn, Turns
from deuz_compiler.wires.usage import Usage
from deuz_compiler.working_memory.patch import Patched, apply_patch, create_snapshot
from deuz_compiler.working_memory.snapshot import (
    Snapshot,
    read_snapshot,
    write_snapshot,
)
from deuz_compiler.working_memory.tail import Tail, render_tail

__all__ = [
    "CAUSES",
    "PART",
    "REASONS",
    "TURN",
    "AddedBudget",
    "Append",
    "Bare",
    "Baseline",
    "BlockRecord",
    "BudgetWindow",
    "Calibration",
    "Candidate",
    "CompactionPolicy",
    "Compilation",
    "CompileFacts",
    "CompilerError",
    "Edit",
    "Eligibility",
    "Ending",
    "Envelope",
    "Estimator",
    "Explanation",
    "Fold",
    "FoldRun",
    "Folded",
    "Held",
    "MalformedInput",
    "Manifest",
    "NotLifted",
    "Operation",
    "Ours",
    "OverflowSignal",
    "Overhead",
    "Part",
    "Patched",
    "PathFacts",
    "PlacedRecord",
    "Plan",
    "Policy",
    "Prefix",
    "Progress",
    "Prune",
    "Reading",
    "RefreshDecision",
    "RefreshLimits",
    "RefreshState",
    "ReplyFacts",
    "ReplyMeter",
    "Resting",
    "Resumed",
    "SegmentShare",
    "Share",
    "Shared",
    "Snapshot",
    "SourceReport",
    "Span",
    "Spliced",
    "Standing",
    "Starts",
    "Step",
    "Surface",
    "Tail",
    "TailCopy",
    "Turn",
    "Turns",
    "Usage",
    "Verdict",
    "accept_summary",
    "added_budget",
    "apply_patch",
    "ask_once",
    "asks_to_condense",
    "block_text",
    "calibrated",
    "chain",
    "compile_context",
    "compile_json",
    "compile_profile",
    "context_warnings",
    "create_snapshot",
    "digest_held",
    "digest_text",
    "error_body",
    "error_event",
    "escape_json_string",
    "estimate_pieces",
    "estimate_text",
    "estimator_for",
    "exact_ratio",
    "explain",
    "forget_records",
    "gone_on",
    "judge",
    "judged_shares",
    "kept_seconds",
    "kept_turns",
    "lift",
    "load_scanner",
    "lower",
    "matching_baseline",
    "may_read_cache",
    "new_state",
    "observe_usage",
    "open_meter",
    "outbound_offset",
    "part_span",
    "place_for_context",
    "place_for_tail",
    "place_step",
    "plain_prefix",
    "plan_recovery",
    "predict_read",
    "prefix_again",
    "progress_of",
    "progress_up_to",
    "project",
    "put_again",
    "put_back",
    "put_more",
    "read_parts",
    "read_snapshot",
    "read_state",
    "recognise_blank",
    "recognise_finish",
    "recognise_overflow",
    "recognise_silent",
    "records_of",
    "redact_operations",
    "render_block",
    "render_pieces",
    "render_summary",
    "render_tail",
    "request_refresh",
    "rest",
    "retry_step",
    "said_text",
    "scope_root",
    "seed_of",
    "segment_shares",
    "shortens",
    "splice",
    "standing_of",
    "standing_up_to",
    "start_step",
    "starts_of",
    "summary_body",
    "summary_request_text",
    "surface_again",
    "tokenizer_estimator",
    "tokens_with",
    "user_text",
    "view_turns",
    "wake",
    "was_redacted",
    "was_unfolded",
    "weigh_shares",
    "weigh_usage",
    "with_surface",
    "write_snapshot",
    "write_state",
]

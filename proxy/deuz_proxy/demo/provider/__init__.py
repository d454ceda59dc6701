"""A provider that needs no key and no network, and refuses what real ones refuse.

Model names that start with `fake` choose a behaviour, see `traits`; a `Script` chooses
any other. Tests read `FakeProvider.requests`; `judge_body` asks the rules alone.
"""

from deuz_proxy.demo.provider.exchange import (
    LoggedRequest,
    ProviderRequest,
    RawReply,
    Refusal,
    Reply,
    Script,
    Text,
    Thinking,
    TokenCount,
    ToolCall,
)
from deuz_proxy.demo.provider.judging import count_body, judge_body
from deuz_proxy.demo.provider.server import FakeProvider, run_provider

__all__ = [
    "FakeProvider",
    "LoggedRequest",
    "ProviderRequest",
    "RawReply",
    "Refusal",
    "Reply",
    "Script",
    "Text",
    "Thinking",
    "TokenCount",
    "ToolCall",
    "count_body",
    "judge_body",
    "run_provider",
]

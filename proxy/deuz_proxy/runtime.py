"""Everything the line needs, in one value that a reload swaps as a whole."""

from collections.abc import Callable
from dataclasses import dataclass

from deuz_proxy import ports
from deuz_proxy.config.model import Config
from deuz_proxy.config.windows import Models
from deuz_proxy.memory.forgetting import Memory
from deuz_proxy.memory.working import WorkingMemory
from deuz_proxy.observe.events import Event, Trace


@dataclass(frozen=True, slots=True)
class Runtime:
    """The parts of one running sidecar. `clock` is Unix time, `monotonic` for spans."""

    config: Config
    upstreams: ports.Upstreams
    ledger: ports.Ledger
    sources: tuple[ports.Source, ...]
    breakers: ports.Breakers
    tracker: ports.Tracker
    checkpoints: ports.Checkpoints
    estimates: ports.Estimates
    models: Models
    notice: Callable[[Event], None]
    clock: Callable[[], float]
    monotonic: Callable[[], float]
    new_id: Callable[[], str]
    new_trace: Callable[[str | None], Trace] | None = None
    shared: ports.SharedTracker | None = None
    memory: Memory | None = None
    notes: WorkingMemory | None = None
    archives: tuple[ports.Archive, ...] = ()

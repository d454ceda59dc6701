"""Mistakes that only show when two places of a config are looked at together.

Rules:
- Checks read the raw tree, not the model: they also run when a type is wrong
  somewhere, so that all mistakes are told at once. Malformed parts are passed over.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from deuz_proxy.config.ledger import is_tls
from deuz_proxy.config.memory import POSTGRES
from deuz_proxy.config.model import BUILT_IN_UPSTREAMS, Config
from deuz_proxy.config.nodes import Document, Place, Tree
from deuz_proxy.config.places import check_places
from deuz_proxy.config.values import nearest, path_below, split_address

Fault = tuple[Place, str]
_KIND_OF_TYPE = {
    "static": "memory",
    "files": "rag",
    "http": "rag",
    "store": "memory",
    "mcp": "rag",
    "transcript": "transcript",
    "skills": "skills",
}


def check_all(document: Document, folder: Path) -> None:
    """Add what is wrong between the document's places to its mistakes."""
    told = {mistake.place for mistake in document.mistakes}
    for check in _CHECKS:
        for place, text in check(document, folder):
            if place not in told:
                document.blame(place, text)


def _route_upstreams(document: Document, _: Path) -> Iterator[Fault]:
    known = list(BUILT_IN_UPSTREAMS)
    known += [name for name in _mapping(document, "upstreams") if name not in known]
    for place, route in _items(document, "routes"):
        name = route.get("upstream")
        if isinstance(name, str) and name not in known:
            hint = nearest(name, known)
            allowed = ", ".join(known)
            yield (
                (*place, "upstream"),
                f"names no configured upstream{hint} (allowed: {allowed})",
            )


def _routes_once(document: Document, _: Path) -> Iterator[Fault]:
    labels: dict[str, int] = {}
    rules: dict[tuple[str, str], int] = {}
    for place, route in _items(document, "routes"):
        path, name = _text(route, "path"), _text(route, "name")
        line = document.line(place)
        rule = (path, _text(route, "upstream"))
        if rule in rules:
            yield place, f"is never reached: line {rules[rule]} has the same path"
        elif name and name in labels:
            yield (*place, "name"), f"is given twice, first on line {labels[name]}"
        rules.setdefault(rule, line)
        labels.setdefault(name or path, line)


def _source_ids(document: Document, _: Path) -> Iterator[Fault]:
    ids: dict[str, int] = {}
    for place, source in _items(document, "context", "sources"):
        kind = _text(source, "kind") or _KIND_OF_TYPE.get(_text(source, "type"), "")
        source_id = _text(source, "id") or kind
        # Ids are told apart in metrics and spans in this form only.
        shown = re.sub(r"[^a-z0-9_-]", "_", source_id.lower())
        line = document.line(place)
        if shown and shown in ids:
            yield (
                (*place, "id"),
                f"is the id of a second source, first on line {ids[shown]} "
                "(allowed: one source per id, letter case and dots aside)",
            )
        ids.setdefault(shown, line)


def _record_ids(document: Document, _: Path) -> Iterator[Fault]:
    for source_place, _source in _items(document, "context", "sources"):
        ids: dict[str, int] = {}
        for place, record in _items(document, *source_place, "records"):
            record_id, line = _text(record, "id"), document.line(place)
            if record_id and record_id in ids:
                yield (*place, "id"), f"is given twice, first on line {ids[record_id]}"
            ids.setdefault(record_id, line)


def _folders(document: Document, folder: Path) -> Iterator[Fault]:
    seen: dict[Path, int] = {}
    for place, source in _items(document, "context", "sources"):
        if _text(source, "type") not in ("files", "skills") or not _text(
            source, "path"
        ):
            continue
        path = _path(folder, _text(source, "path"))
        inner, line = (*place, "path"), document.line(place)
        if path is None or not path.is_dir():
            yield inner, "is not a folder that exists (allowed: a folder)"
        elif (whole := path.resolve()) in seen:
            first = seen[whole]
            yield inner, f"is the folder of a second source, first on line {first}"
        else:
            seen[whole] = line


def _certificates(document: Document, folder: Path) -> Iterator[Fault]:
    sections = [*_items(document, "context", "sources")]
    ledger = document.at(("ledger",))
    if isinstance(ledger, dict):
        sections.append((("ledger",), ledger))
        if _text(ledger, "ca_file") and not is_tls(_text(ledger, "url")):
            # Who names certificates believes that they are looked at.
            yield (
                ("ledger", "ca_file"),
                "is for rediss:// and valkeys:// alone (allowed: none)",
            )
    for place, section in sections:
        named = _text(section, "ca_file")
        path = _path(folder, named)
        if named and (path is None or not path.is_file()):
            yield (*place, "ca_file"), "is not a file that exists (allowed: a file)"
        elif named and not _holds_certificates(path):
            yield (
                (*place, "ca_file"),
                "holds no certificate, or cannot be read (allowed: a file in PEM)",
            )


def _holds_certificates(path: Path | None) -> bool:
    # Only who names one pays for it.
    import ssl  # noqa: PLC0415

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=path)
    except (OSError, ValueError):
        return False
    return bool(context.cert_store_stats()["x509"])


def _one_store(document: Document, _: Path) -> Iterator[Fault]:
    first = 0
    for place, source in _items(document, "context", "sources"):
        if _text(source, "type") != "store":
            continue
        if first:
            yield (
                (*place, "type"),
                f"is a second source over the one memory store, first on line {first}",
            )
        first = first or document.line(place)


def _extras(document: Document, _: Path) -> Iterator[Fault]:
    for place, source in _items(document, "context", "sources"):
        if _text(source, "type") == "mcp" and find_spec("mcp") is None:
            yield (
                (*place, "type"),
                "needs the package mcp (install it: pip install 'deuz-sidecar[mcp]')",
            )
    memory = document.at(("memory", "url"))
    scheme = memory.partition(":")[0] if isinstance(memory, str) else ""
    if scheme in POSTGRES and find_spec("asyncpg") is None:
        yield (
            ("memory", "url"),
            "needs the package asyncpg "
            "(install it: pip install 'deuz-sidecar[postgres]')",
        )


def _shares(document: Document, _: Path) -> Iterator[Fault]:
    shares = _mapping(document, "context", "budget", "shares")
    numbers = [number for number in map(_decimal, shares.values()) if number]
    total = sum(numbers, Decimal(0))
    if total > 1 and all(0 <= number <= 1 for number in numbers):
        yield (
            ("context", "budget", "shares"),
            f"add up to {total.normalize():f} (allowed: 1 or less together)",
        )


def _tenant_keys(document: Document, _: Path) -> Iterator[Fault]:
    owners: dict[str, str] = {}
    for tenant in _mapping(document, "tenants"):
        keys = document.at(("tenants", tenant, "keys"))
        for index, key in enumerate(keys if isinstance(keys, list) else ()):
            if isinstance(key, str) and key in owners:
                place: Place = ("tenants", tenant, "keys", index)
                yield place, f"is already a key of tenant {owners[key]}"
            elif isinstance(key, str):
                owners[key] = tenant


def _addresses(document: Document, _: Path) -> Iterator[Fault]:
    listen = _address(document, ("listen",), Config().listen)
    admin = _address(document, ("admin", "listen"), Config().admin.listen)
    if listen is None:
        return
    if listen == admin and listen[1]:
        yield ("admin", "listen"), "is the address of `listen` (allowed: another one)"
    for name in _mapping(document, "upstreams"):
        place: Place = ("upstreams", name, "url")
        if listen[1] and _url_address(document.at(place)) == listen:
            yield place, "is the sidecar's own address"


def _windows(document: Document, _: Path) -> Iterator[Fault]:
    for model in _mapping(document, "models"):
        window = _decimal(document.at(("models", model, "context_window")))
        output = _decimal(document.at(("models", model, "max_output_tokens")))
        if window is not None and output is not None and output > window:
            yield (
                ("models", model, "max_output_tokens"),
                "is larger than the context window (allowed: at most context_window)",
            )


_Check = Callable[[Document, Path], Iterator[Fault]]
_CHECKS: tuple[_Check, ...] = (
    _route_upstreams,
    _routes_once,
    _source_ids,
    _record_ids,
    _folders,
    check_places,
    _certificates,
    _extras,
    _one_store,
    _shares,
    _tenant_keys,
    _addresses,
    _windows,
)


def _mapping(document: Document, *place: str | int) -> dict[str, Tree]:
    value = document.at(place)
    return value if isinstance(value, dict) else {}


def _items(
    document: Document, *place: str | int
) -> Iterator[tuple[Place, dict[str, Tree]]]:
    values = document.at(place)
    for index, item in enumerate(values if isinstance(values, list) else ()):
        if isinstance(item, dict):
            yield (*place, index), item


def _text(mapping: dict[str, Tree], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""


def _path(folder: Path, named: str) -> Path | None:
    with suppress(ValueError):
        return path_below(folder, Path(named))
    return None


def _decimal(value: Tree) -> Decimal | None:
    try:
        number = Decimal(value) if isinstance(value, str) else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


def _address(document: Document, place: Place, default: str) -> tuple[str, int] | None:
    value = document.at(place)
    try:
        return split_address(value if isinstance(value, str) else default)
    except ValueError:
        return None


def _url_address(value: Tree) -> tuple[str, int] | None:
    try:
        url = urlsplit(value if isinstance(value, str) else "")
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        return None
    host = "127.0.0.1" if url.hostname == "localhost" else url.hostname
    return (host, port) if host else None

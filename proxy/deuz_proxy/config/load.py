"""From a file to a valid config, or to the list of everything that is wrong with it.

Rules:
- Read, decode, validate everything; nothing is put in force here.
- A mistake reads `FILE:LINE: key.path: what is wrong (allowed: …)`.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from deuz_proxy.config.checks import check_all
from deuz_proxy.config.mistakes import blame_all
from deuz_proxy.config.model import Config
from deuz_proxy.config.nodes import Document, Mistake, Place, read_document
from deuz_proxy.errors import ConfigInvalid

TOKEN_VARIABLE = "DEUZ_ADMIN_TOKEN"  # noqa: S105  # The variable's name, not a token.


def load_config(path: Path | None, environ: Mapping[str, str]) -> Config:
    """Return the config of the file, or the defaults without one.

    Raises:
        ConfigInvalid: the file has mistakes; all are listed, by line.
    """
    if path is None:
        return parse_config("", name="defaults", folder=Path(), environ=environ)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ConfigInvalid((f"{path}: cannot be read: {reason}",)) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigInvalid((f"{path}:{line}: is not UTF-8 text",)) from error
    return parse_config(text, name=str(path), folder=path.parent, environ=environ)


def parse_config(
    text: str, *, name: str, folder: Path, environ: Mapping[str, str]
) -> Config:
    """Return the config of the text; `name` stands for the file in mistakes.

    Raises:
        ConfigInvalid: the text has mistakes; all are listed, by line.
    """
    document = read_document(text, environ)
    if document.tree is None and document.mistakes:
        raise _invalid(document, name)
    config = _validated(document, folder, environ)
    check_all(document, folder)
    if config is None or document.mistakes:
        raise _invalid(document, name)
    return config


def _validated(
    document: Document, folder: Path, environ: Mapping[str, str]
) -> Config | None:
    tree = _with_token({} if document.tree is None else document.tree, environ)
    try:
        return Config.model_validate(tree, context={"folder": folder})
    except ValidationError as error:
        blame_all(document, Config, error)
        return None


def _with_token(tree: object, environ: Mapping[str, str]) -> object:
    """Take the admin token from its variable when the file does not set one."""
    token = environ.get(TOKEN_VARIABLE)
    admin = tree.get("admin", {}) if isinstance(tree, dict) else None
    if not token or not isinstance(tree, dict) or not isinstance(admin, dict):
        return tree
    return {**tree, "admin": {"token": token, **admin}}


def _invalid(document: Document, name: str) -> ConfigInvalid:
    found = sorted(document.mistakes, key=lambda mistake: mistake.line)
    return ConfigInvalid(tuple(dict.fromkeys(_line(name, each) for each in found)))


def _line(name: str, mistake: Mistake) -> str:
    column = "" if mistake.column is None else f":{mistake.column}"
    place = f"{key_path(mistake.place)}: " if mistake.place else ""
    return f"{name}:{mistake.line}{column}: {place}{mistake.text}"


def key_path(place: Place) -> str:
    """Return the place in the form `context.sources[0].id`; odd keys are quoted."""
    path = ""
    for step in place:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            word = step if re.fullmatch(r"[\w-]+", step) else f'"{step[:80]}"'
            path += f".{word}" if path else word
    return path

"""The options of an Engine: every field of its actors' configurations, by its bare name."""

from __future__ import annotations

import difflib
import os
from pathlib import PurePath
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from optimist.actors.config import EngineConfig, GatewayConfig
from optimist.messages.errors import ConfigError
from optimist.plain_words import plain_words

REMOVED: dict[str, str] = {}
"""Options that were removed, and what to use in their place."""

FILLED_IN = frozenset({("worker", "proposer"), ("worker", "most_drafts")})
"""Sections' fields that follow from other options when actors are built."""


def engine_config(
    model: str | os.PathLike[str] | None, placement: str, options: dict[str, Any]
) -> EngineConfig:
    """The configuration that the options of an Engine describe.

    An option that several actors have, such as block_size, is set in all of them. Raises ConfigError
    naming an option that is unknown, with the nearest one, or that has a value of the wrong type.
    """
    known = option_names()
    tree: dict[str, Any] = msgspec.to_builtins(EngineConfig())
    given = {"placement": placement, **options}
    if model is not None:
        given["model"] = os.fspath(model)
    for name, value in given.items():
        if name not in known:
            raise ConfigError(_unknown(name, list(known)))
        for section in known[name]:
            (tree[section] if section else tree)[name] = _plain(value)
        _checked(tree, name, value)
    return _checked(tree, "", None)


def with_model(config: EngineConfig) -> EngineConfig:
    """The same, with the installed default model where none is named. Raises ConfigError without one."""
    if config.gateway.model:
        return config
    from optimist.models.default import default_model

    replace, path = msgspec.structs.replace, str(default_model())
    return replace(
        config,
        gateway=replace(config.gateway, model=path),
        worker=replace(config.worker, model=config.worker.model or path),
    )


def model_name(config: GatewayConfig) -> str:
    """What clients call the model: as configured, or its file's name without suffix."""
    return config.model_name or PurePath(config.model).stem or "default"


def option_names() -> dict[str, tuple[str, ...]]:
    """Every option, with the sections of EngineConfig that have it; "" is EngineConfig itself."""
    names: dict[str, tuple[str, ...]] = {}
    for field in msgspec.structs.fields(EngineConfig):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            for inner in msgspec.structs.fields(field.type):
                if (field.name, inner.name) not in FILLED_IN:
                    names[inner.name] = (*names.get(inner.name, ()), field.name)
        else:
            names[field.name] = (*names.get(field.name, ()), "")
    return names


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _checked(tree: dict[str, Any], name: str, value: object) -> EngineConfig:
    try:
        return msgspec.convert(tree, EngineConfig)
    except msgspec.ValidationError as error:
        reason = plain_words(str(error), _choices(name), repr(value))
        raise ConfigError(f"{name}: {reason}") from None


def _choices(name: str) -> tuple[object, ...]:
    """The values that an option may have, where its type lists them: all, or beside numbers."""
    section = option_names()[name][0]
    kinds = {field.name: field.type for field in msgspec.structs.fields(EngineConfig)}
    owner = kinds[section] if section else EngineConfig
    hint = next(field.type for field in msgspec.structs.fields(owner) if field.name == name)
    kinds_of_it = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    named = [
        value for kind in kinds_of_it if get_origin(kind) is Literal for value in get_args(kind)
    ]
    return (*named, "a whole number") if named and int in kinds_of_it else tuple(named)


def _unknown(name: str, known: list[str]) -> str:
    if name in REMOVED:
        return f"{name}: was removed; use {REMOVED[name]}"
    near = difflib.get_close_matches(name, known, n=1)
    return f"{name}: no such option of Engine" + (f"; the nearest is {near[0]}" if near else "")

"""Tokenizers and chat templates of Hugging Face folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tokenizers
from pa_spec import InputUnusable

from pa_models.chat_template import ChatTemplate
from pa_models.checkpoint import read_json
from pa_models.fields import Fields
from pa_models.tokenizer import Tokenizer

_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")


def read_folder_tokenizer(folder: Path) -> Tokenizer:
    """Read tokenizer.json, with what tokenizer_config.json says of the beginning of a text.

    Raises InputUnusable when the file is missing, broken, or decodes in a way nobody knows here.
    """
    path = folder / "tokenizer.json"
    if not path.exists():
        raise InputUnusable(str(folder), "holds no tokenizer.json")
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise InputUnusable(str(path), f"not a tokenizer ({error})") from error
    config = _tokenizer_config(folder)
    bos = _special_tokens(config).get("bos_token")
    has_rule = "add_bos_token" in config and bos is not None
    add_bos = config.flag("add_bos_token", default=False) if has_rule else None
    return Tokenizer(backend, str(path), bos_token=bos, add_bos=add_bos)


def read_folder_chat_template(folder: Path) -> ChatTemplate | None:
    """Read chat_template.jinja, else the template in tokenizer_config.json; None without one."""
    config = _tokenizer_config(folder)
    special = _special_tokens(config)
    file = folder / "chat_template.jinja"
    if file.exists():
        try:
            return ChatTemplate(file.read_text(encoding="utf-8"), special)
        except (OSError, UnicodeDecodeError) as error:
            raise InputUnusable(str(file), f"{error}", "a file of UTF-8 text") from error
    source = config.raw("chat_template")
    if isinstance(source, list):
        wanted = [each for each in source if isinstance(each, Mapping)]
        if len(wanted) < len(source):
            allowed = "objects with a name and a template"
            raise InputUnusable(f"{config.name}.chat_template", f"{source!r:.80}", allowed)
        defaults = [each.get("template") for each in wanted if each.get("name") == "default"]
        source = defaults[0] if defaults else None
    if source is None:
        return None
    if not isinstance(source, str):
        raise InputUnusable(f"{config.name}.chat_template", f"{source!r}", "a string")
    return ChatTemplate(source, special)


def _tokenizer_config(folder: Path) -> Fields:
    file = folder / "tokenizer_config.json"
    return read_json(file) if file.exists() else Fields(file.name, {})


def _special_tokens(config: Fields) -> dict[str, str]:
    """Return the special tokens that have a name; each is a string or an object with one."""
    found: dict[str, str] = {}
    for name in _SPECIAL:
        value = config.raw(name)
        content = value.get("content") if isinstance(value, Mapping) else value
        if isinstance(content, str):
            found[name] = content
    return found

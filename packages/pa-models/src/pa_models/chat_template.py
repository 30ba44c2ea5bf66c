"""Chat templates: conversations to the exact text that a model was trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, final

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pa_spec import InputUnusable

Message = Mapping[str, Any]
"""One message: "role", "content", and whatever else its template reads."""

# Stands for an assistant's answer when only the text around it is wanted; plain letters, so that
# templates that trim or escape leave it alone.
_ANSWER = "PLACEHOLDERxANSWERxTEXT"


@final
class ChatTemplate:
    """A jinja2 chat template in a sandbox.

    special_tokens: variables such as bos_token and eos_token that the template may read.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str] | None = None) -> None:
        self.source = source
        self._special_tokens = dict(special_tokens or {})
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise InputUnusable("chat template", f"line {error.lineno}: {error.message}") from error

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """Write a conversation as text; variables (tools, …) are the template's own.

        Raises InputUnusable when the template refuses the conversation.
        """
        values = {"tools": None, "documents": None, **self._special_tokens, **variables}
        values |= {"messages": list(messages), "add_generation_prompt": add_generation_prompt}
        try:
            return self._template.render(values)
        except Exception as error:  # a template is a program: it may raise anything
            raise InputUnusable("chat template", f"{error}") from error

    def closing(self, messages: Sequence[Message]) -> str:
        """Return the text that follows an answer to these messages, up to the next message.

        The engine keeps no end-of-sequence token, so a conversation that goes on starts its next
        turn with this text (or with `continuation`, which contains it).
        """
        answer = {"role": "assistant", "content": _ANSWER}
        return self._after_answer(self.render([*messages, answer], add_generation_prompt=False))

    def continuation(self, messages: Sequence[Message], following: Sequence[Message]) -> str:
        """Return what to append after the answer to `messages` so that `following` is asked next.

        That is the answer's closing text, the following messages and the generation prompt.
        """
        answer = {"role": "assistant", "content": _ANSWER}
        return self._after_answer(self.render([*messages, answer, *following]))

    def _after_answer(self, text: str) -> str:
        parts = text.split(_ANSWER)
        if len(parts) != 2:
            problem = f"writes an assistant's content {len(parts) - 1} times"
            raise InputUnusable("chat template", problem, "once")
        return parts[1]


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - templates pass these by position
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Write JSON without HTML escapes, unlike jinja2's own filter."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)

"""Conversations as tokens: the first turn, and how each answer is closed before the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from pa_models.chat_template import ChatTemplate, Message
from pa_models.tokenizer import Tokenizer

_ANY_QUESTION: Sequence[Message] = ({"role": "user", "content": "?"},)


@final
class Chat:
    """A tokenizer and its chat template.

    An engine keeps a conversation as tokens and does not keep the token that ended an answer, nor
    what the template writes behind it. So a first turn is `prompt`, and every later one
    `next_turn`, which starts with `closing_tokens`.
    """

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self.tokenizer = tokenizer
        self.template = template

    def prompt(self, messages: Sequence[Message], **variables: Any) -> list[int]:
        """Return the tokens of a conversation that now asks for an answer."""
        return self._tokens(self.template.render(messages, **variables))

    def closing_tokens(self, messages: Sequence[Message] = _ANY_QUESTION) -> list[int]:
        """Return what must follow an answer before anything else can be said.

        Usually the end-of-turn token and a line break; the same whether the answer ended by
        itself or by a limit. messages: the conversation before the answer, for the rare template
        whose closing depends on it.
        """
        return self._tokens(self.template.closing(messages))

    def next_turn(self, messages: Sequence[Message], following: Sequence[Message]) -> list[int]:
        """Return the tokens of a further turn, after an answer to `messages`.

        following: what is said next, usually one message of the user.
        """
        return self._tokens(self.template.continuation(messages, following))

    def _tokens(self, text: str) -> list[int]:
        # The template has written the start token itself, if the model wants one.
        return self.tokenizer.encode(text, add_special=False)

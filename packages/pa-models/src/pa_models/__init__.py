"""Decoders of real model families on paged attention, and their checkpoints."""

from pa_models._version import __version__
from pa_models.chat import Chat
from pa_models.chat_template import ChatTemplate, Message
from pa_models.contract import IMPLEMENTS_CONTRACT
from pa_models.decoder import LlamaDecoder
from pa_models.generation import GenerationDefaults
from pa_models.load import SMALL_MODEL, LoadedModel, find_model, load_decoder, load_model
from pa_models.model_config import FAMILIES, ModelConfig
from pa_models.stream import StreamDecoder
from pa_models.tokenizer import Tokenizer

__all__ = [
    "FAMILIES",
    "IMPLEMENTS_CONTRACT",
    "SMALL_MODEL",
    "Chat",
    "ChatTemplate",
    "GenerationDefaults",
    "LlamaDecoder",
    "LoadedModel",
    "Message",
    "ModelConfig",
    "StreamDecoder",
    "Tokenizer",
    "__version__",
    "find_model",
    "load_decoder",
    "load_model",
]

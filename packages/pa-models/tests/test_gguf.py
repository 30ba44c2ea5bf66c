"""GGUF files say the same as the folder with the same weights; damaged ones are refused."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pa_models
import pytest
import torch
from gguf import GGUFWriter
from pa_models.fields import Fields
from pa_models.gguf_config import read_gguf_config
from pa_models.gguf_file import GgufFile, half_split_rows
from pa_models.model_config import ModelConfig, read_model_config
from pa_models.rope import depends_on_length, rotary_frequencies
from pa_models.testing import PagedRun, random_tensors, tiny_config, write_checkpoint, write_gguf
from pa_spec import InputUnusable
from torch import Tensor

PROMPT = [[3, 1, 4, 1, 5, 9, 2, 6]]


def tiny(family: str = "llama", **changes: Any) -> tuple[ModelConfig, dict[str, Tensor]]:
    config = read_model_config(Fields("config.json", tiny_config(family, **changes)))
    return config, random_tensors(config)


def written(path: Path, changes: dict[str, Any] | None = None, family: str = "llama") -> Path:
    write_gguf(path, *tiny(family), changes)
    return path


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [False, True])
def test_gguf_and_folder_give_equal_logits(tmp_path: Path, family: str, *, tied: bool) -> None:
    config = tiny_config(family, tie_word_embeddings=tied)
    tensors = write_checkpoint(tmp_path / "folder", config)
    write_gguf(tmp_path / "m.gguf", read_model_config(Fields("c", config)), tensors)

    from_file = PagedRun(pa_models.load_decoder(tmp_path / "m.gguf"), 1, 16).step(PROMPT)
    from_folder = PagedRun(pa_models.load_decoder(tmp_path / "folder"), 1, 16).step(PROMPT)

    assert torch.equal(from_file, from_folder)


def test_rows_are_reordered_within_each_head() -> None:
    rows = torch.arange(16).view(16, 1)  # two heads of eight rows

    reordered = half_split_rows(rows, 2).flatten().tolist()

    assert reordered == [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15]


def test_metadata_becomes_the_same_configuration(tmp_path: Path) -> None:
    model = pa_models.load_model(written(tmp_path / "tiny.gguf"))
    expected, _ = tiny()

    config = model.decoder.model_config

    assert config.windows == expected.windows
    assert config.rope.theta == expected.rope.theta
    assert config.norm_epsilon == pytest.approx(expected.norm_epsilon)
    assert (config.num_heads, config.kv_num_heads, config.head_size) == (4, 2, 16)
    assert model.name == "tiny"
    assert model.decoder.config.eos_token_ids == (257,)
    assert model.generation_defaults.eos_token_ids == (257,)
    assert model.chat_template is None
    with pytest.raises(InputUnusable, match="no chat template"):
        _ = model.chat


def test_every_id_that_ends_a_turn_counts(tmp_path: Path) -> None:
    path = written(tmp_path / "m.gguf", {"tokenizer.ggml.eot_token_id": 256})

    assert pa_models.load_decoder(path).config.eos_token_ids == (257, 256)


@pytest.mark.parametrize("pre", ["smollm", "gpt-2", "llama-bpe", "qwen2"])
def test_tokenizer_comes_from_the_metadata(tmp_path: Path, pre: str) -> None:
    changes = {"tokenizer.ggml.pre": pre, "tokenizer.ggml.add_bos_token": True}
    tokenizer = pa_models.load_model(written(tmp_path / "m.gguf", changes)).tokenizer
    text = "the year 1984 <|end|>, naïve 😀"

    tokens = tokenizer.encode(text)

    assert tokens[0] == 256
    assert 257 in tokens
    assert tokenizer.decode(tokens) == text.replace("<|end|>", "")
    assert tokenizer.decode(tokens, skip_special=False) == f"<|start|>{text}"


def test_digits_stay_single_for_smollm(tmp_path: Path) -> None:
    tokenizer = pa_models.load_model(written(tmp_path / "m.gguf")).tokenizer

    assert len(tokenizer.encode("1984")) == 4


def test_chat_template_comes_from_the_metadata(tmp_path: Path) -> None:
    source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    model = pa_models.load_model(written(tmp_path / "m.gguf", {"tokenizer.chat_template": source}))

    assert model.chat_template is not None
    text = model.chat_template.render([{"role": "user", "content": "hi"}])

    assert text == "<|start|>hi<|end|>"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokenizer.ggml.model": "t5"}, ["tokenizer.ggml.model", "'t5'", "gpt2, llama"]),
        ({"tokenizer.ggml.pre": "tekken"}, ["tokenizer.ggml.pre", "'tekken'", "llama-bpe"]),
        ({"tokenizer.ggml.eos_token_id": 999}, ["eos_token_id", "999"]),
        ({"llama.expert_count": 8}, ["mixture of experts"]),
        ({"llama.block_count": None}, ["llama.block_count", "missing"]),
        ({"llama.block_count": 3}, ["blk.2.", "missing"]),
        ({"llama.feed_forward_length": 57}, ["mlp.gate_proj", "[56, 32]", "[57, 32]"]),
        ({"llama.attention.head_count_kv": 3}, ["3 key heads"]),
        ({"llama.rope.scaling.type": "magic"}, ["'magic'", "yarn"]),
        ({"llama.rope.dimension_count": 17}, ["dimension_count 17"]),
        ({"llama.context_length": "long"}, ["context_length", "'long'"]),
    ],
)
def test_unusable_metadata_is_named(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    path = written(tmp_path / "m.gguf", changes)

    with pytest.raises(InputUnusable) as caught:
        pa_models.load_model(path)

    for word in words:
        assert word in str(caught.value)


def test_unsupported_architecture_is_named(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "m.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    with pytest.raises(InputUnusable, match=r"'mamba'.*llama, qwen2, qwen3"):
        pa_models.load_model(tmp_path / "m.gguf")


def test_truncated_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.gguf").read_bytes()
    path = tmp_path / "cut.gguf"

    for cut in [0, 3, 4, 8, 16, 23, *range(24, len(whole) - 64, len(whole) // 40)]:
        path.write_bytes(whole[:cut])
        with pytest.raises(InputUnusable, match=r"cut\.gguf"):
            pa_models.load_model(path)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"GGUG\x03\0\0\0", "GGUF"),
        (b"GGUF\x01\0\0\0", "version 1"),
        (b"GGUF\0\0\0\x03", "version 50331648"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 2**60, 2**60), "damaged"),
    ],
)
def test_bad_header_is_refused(tmp_path: Path, header: bytes, words: str) -> None:
    path = written(tmp_path / "m.gguf")
    path.write_bytes(header + path.read_bytes()[len(header) :])

    with pytest.raises(InputUnusable, match=words):
        pa_models.load_model(path)


def test_flipped_bytes_never_escape_as_other_errors(tmp_path: Path) -> None:
    """Damage in the header part either loads or is refused; nothing else is raised."""
    path = written(tmp_path / "m.gguf")
    whole = path.read_bytes()
    generator = torch.Generator().manual_seed(1)
    refused = 0

    for place in torch.randint(8, 9000, (150,), generator=generator).tolist():
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            pa_models.load_model(path)
        except InputUnusable:
            refused += 1

    assert refused > 10


class TestRope:
    def config(self, path: Path, changes: dict[str, Any], **tensors: Tensor) -> ModelConfig:
        config, weights = tiny()
        write_gguf(path, config, weights, changes, tensors)
        return read_gguf_config(GgufFile(path))

    def test_linear_and_yarn_come_from_the_scaling_keys(self, tmp_path: Path) -> None:
        scaling = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
        linear = self.config(tmp_path / "l.gguf", scaling)
        scaling = {
            "llama.rope.scaling.type": "yarn",
            "llama.rope.scaling.factor": 4.0,
            "llama.rope.scaling.original_context_length": 512,
        }
        yarn = self.config(tmp_path / "y.gguf", scaling)

        assert (linear.rope.kind, linear.rope.factor) == ("linear", 4.0)
        assert yarn.context_tokens == 2048
        assert rotary_frequencies(yarn.rope)[1] == pytest.approx(1.13863, rel=1e-5)

    def test_stored_divisors_divide_the_frequencies(self, tmp_path: Path) -> None:
        divisors = torch.arange(1.0, 9.0)
        plain = self.config(tmp_path / "p.gguf", {})

        divided = self.config(tmp_path / "d.gguf", {}, **{"rope_freqs.weight": divisors})

        found, factor = rotary_frequencies(divided.rope)
        torch.testing.assert_close(found, rotary_frequencies(plain.rope)[0] / divisors)
        assert factor == 1.0
        assert not depends_on_length(divided.rope)
        assert divided.context_tokens == plain.context_tokens
        with pytest.raises(InputUnusable, match=r"rope_freqs\.weight has 7"):
            self.config(tmp_path / "e.gguf", {}, **{"rope_freqs.weight": divisors[:7]})

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"llama.rope.scaling.type": "mrope"}, ["'mrope'", "yarn", "longrope"]),
            ({"llama.rope.dimension_count": 15}, ["dimension_count 15", "from 2 to 16"]),
            ({"llama.rope.dimension_count": 18}, ["dimension_count 18", "from 2 to 16"]),
            (
                {"llama.rope.scaling.type": "dynamic", "llama.rope.dimension_count": 2},
                ["dimension_count 2", "from 4 to 16"],
            ),
        ],
    )
    def test_a_rope_without_meaning_is_named(
        self, tmp_path: Path, changes: dict[str, Any], words: list[str]
    ) -> None:
        with pytest.raises(InputUnusable, match=r"m\.gguf") as caught:
            self.config(tmp_path / "m.gguf", changes)

        for word in words:
            assert word in str(caught.value)

    def test_divisors_that_divide_by_nothing_are_named(self, tmp_path: Path) -> None:
        divisors = torch.arange(8.0)

        with pytest.raises(InputUnusable, match=r"rope_freqs\.weight has 0\.0"):
            self.config(tmp_path / "m.gguf", {}, **{"rope_freqs.weight": divisors})

    def test_longrope_lists_are_tensors(self, tmp_path: Path) -> None:
        scaling = {
            "llama.rope.scaling.type": "longrope",
            "llama.rope.scaling.original_context_length": 64,
        }
        lists = {
            "rope_factors_short.weight": torch.full((8,), 2.0),
            "rope_factors_long.weight": torch.full((8,), 4.0),
        }

        rope = self.config(tmp_path / "m.gguf", scaling, **lists).rope

        ratio = rotary_frequencies(rope, 64)[0] / rotary_frequencies(rope, 65)[0]
        assert torch.equal(ratio, torch.full((8,), 2.0))

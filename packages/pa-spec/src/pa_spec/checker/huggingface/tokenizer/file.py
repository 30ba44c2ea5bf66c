"""A folder's tokenizer files: which there are, what their vocabulary is, what ends a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.huggingface.tokenizer.vocabulary import Vocabulary, read_vocab, read_vocabulary
from pa_spec.checker.source import read_bytes, read_json
from pa_spec.checker.text import shown

TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
DECODER = "added_tokens_decoder"
SPECIAL_TOKENS = "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"
TEMPLATE = "chat_template.jinja"
TEMPLATE_JSON = "chat_template.json"
BINARIES = ("tokenizer.model", "tekken.json", "tiktoken.model", "spiece.model", "vocab.txt")
"""Vocabularies that are looked at for being there and readable only."""

VOCAB = "vocab.json"
MERGES = "merges.txt"
VOCABULARIES = (TOKENIZER, VOCAB, *BINARIES)
MAX_BINARY_BYTES = 64 * 2**20
MAX_TEMPLATE_CHARACTERS = 2**18
MAX_SPECIALS = 2000
MAX_ENTRIES = 100_000
_LFS_START = b"version https://git-lfs"


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """What the files say together.

    vocabulary: None when it stands in a file that is not looked into. eos_id: of eos_token, None =
    not said, or not known. is_eos_unknown: no file has a token of that text. eos_file and
    template_file: the files that say so, "" = none does.
    """

    vocabulary: Vocabulary | None = None
    eos_token: str = ""
    eos_id: int | None = None
    eos_file: str = ""
    is_eos_unknown: bool = False
    template: str = ""
    template_file: str = ""

    def template_end(self, ids: set[int]) -> str | None:
        """Say what special tokens the chat template writes when none of them is among the ids.

        None: there is nothing to object to, or nothing can be said.
        """
        vocabulary, text = self.vocabulary, self.template
        if vocabulary is None or not text or len(text) > MAX_TEMPLATE_CHARACTERS:
            return None
        endings = [each for each in map(vocabulary.text_of, sorted(ids)) if each]
        if "eos_token" in text or not endings or any(each in text for each in endings):
            return None
        specials = [each for each in vocabulary.specials if each and each in text]
        if not specials or len(vocabulary.specials) > MAX_SPECIALS:
            return None
        last = max(specials, key=text.rfind)
        return f"{shown(last)} and not {shown(endings[0])}"


def read_tokenizer(folder: Path, vocab_size: int | None, findings: Findings) -> TokenizerFacts:
    """Read and check a folder's tokenizer files.

    vocab_size: rows of the embedding, None = unknown, then ids are not compared with it.
    """
    names = _names(folder)
    if not any(name in VOCABULARIES or name.endswith(".tiktoken") for name in names):
        findings.add("tokenizer.absent", Place(), "tokenizer", "none")
        return TokenizerFacts()
    vocabulary = _vocabulary(folder, names, findings)
    if vocabulary is not None and vocab_size is not None:
        vocabulary.check_ids(vocab_size, findings)
    settings = _optional_json(folder, names, CONFIG, findings)
    others = _optional_json(folder, names, SPECIAL_TOKENS, findings) or {}
    added = _optional_json(folder, names, ADDED_TOKENS, findings)
    # Where the tokens themselves are not looked into, added ones may be known all the same.
    known = Vocabulary({}, CONFIG) if vocabulary is None else vocabulary
    known.add_decoder((settings or {}).get(DECODER), Place(CONFIG, DECODER), findings)
    known.add_further(added or {}, Place(ADDED_TOKENS), findings)
    template, template_file = _template(folder, names, settings, findings)
    eos_token, eos_file = _eos_token(settings or {}, others)
    eos_id = known.id_of(eos_token) if eos_token else None
    is_whole = None not in (vocabulary, settings, added)
    return TokenizerFacts(
        vocabulary,
        eos_token,
        eos_id,
        eos_file,
        is_whole and eos_token != "" and eos_id is None,
        template,
        template_file,
    )


def _vocabulary(folder: Path, names: set[str], findings: Findings) -> Vocabulary | None:
    """Read the first vocabulary that there is, in the order in which readers prefer them."""
    if TOKENIZER in names:
        document = read_json(folder / TOKENIZER, findings, TOKENIZER)
        return None if document is None else read_vocabulary(document, TOKENIZER, findings)
    for name in sorted(names & set(BINARIES)):
        data = read_bytes(folder / name, findings, name, MAX_BINARY_BYTES)
        if data is not None and (not data or data.startswith(_LFS_START)):
            actual = "a Git LFS pointer in the file's place" if data else "an empty file"
            findings.add("tokenizer.no_vocabulary", Place(name), "vocabulary", actual)
    if VOCAB not in names:
        return None
    if MERGES not in names:
        findings.add("tokenizer.no_merges", Place(VOCAB), MERGES, "no such file")
    document = read_json(folder / VOCAB, findings, VOCAB)
    return None if document is None else read_vocab(document, VOCAB, findings)


def _names(folder: Path) -> set[str]:
    # A folder that cannot be listed is reported where its weights are looked for.
    try:
        return {each.name for each in islice(folder.iterdir(), MAX_ENTRIES)}
    except OSError:
        return set()


def _optional_json(
    folder: Path, names: set[str], name: str, findings: Findings
) -> Mapping[str, Any] | None:
    """Return a file's values, none where it is absent; None after reporting why not."""
    return read_json(folder / name, findings, name) if name in names else {}


def _eos_token(*documents: Mapping[str, Any]) -> tuple[str, str]:
    for document, file in zip(documents, (CONFIG, SPECIAL_TOKENS), strict=True):
        written = document.get("eos_token")
        if isinstance(written, dict):
            written = written.get("content")
        if isinstance(written, str) and written:
            return written, file
    return "", ""


def _template(
    folder: Path, names: set[str], settings: Mapping[str, Any] | None, findings: Findings
) -> tuple[str, str]:
    """Return the chat template and its file; a list of named ones counts as all of them.

    settings: tokenizer_config.json, None = it could not be read, so it may have one.
    """
    if TEMPLATE in names:
        return _template_file(folder, findings)
    file = CONFIG
    if settings is not None and settings.get("chat_template") is None:
        settings, file = _optional_json(folder, names, TEMPLATE_JSON, findings), TEMPLATE_JSON
    if settings is None:
        return "", ""
    written = settings.get("chat_template")
    if isinstance(written, list):
        parts = [each.get("template") for each in written if isinstance(each, dict)]
        written = "\n".join(each for each in parts if isinstance(each, str))
    if isinstance(written, str) and written:
        return written, file
    if written in (None, ""):
        findings.add("tokenizer.no_chat_template", Place(CONFIG), "chat_template", "none")
    else:
        actual = shown(written)
        findings.add("tokenizer.template_not_text", Place(file), "chat_template", actual)
    return "", ""


def _template_file(folder: Path, findings: Findings) -> tuple[str, str]:
    data = read_bytes(folder / TEMPLATE, findings, TEMPLATE, MAX_BINARY_BYTES)
    if data is None:
        return "", ""
    try:
        return data.decode("utf-8"), TEMPLATE
    except UnicodeDecodeError as error:
        actual = f"byte 0x{data[error.start]:02x} at {error.start}"
        findings.add("tokenizer.template_not_text", Place(TEMPLATE), "template", actual)
        return "", ""

"""Goal: a path is what it holds, and what cannot be checked is refused with what was found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pa_spec import Severity
from pa_spec.checker import Findings, TargetKind, Verdict, check_model
from pa_spec.checker.target import Target, find_target

ONNX_HEAD = b"\x08\x0a\x12\x08pa-tests:\x00"


def target_of(path: Path) -> Target:
    findings = Findings()
    found = find_target(path, findings)
    assert [str(each) for each in findings] == []
    return found


def refusal(path: Path) -> tuple[str, str]:
    """Return id and text of the only finding at a path that cannot be checked."""
    report = check_model(path)
    assert report.verdict is Verdict.UNREADABLE
    assert report.kind is TargetKind.UNKNOWN
    (found,) = report.findings
    return found.id, found.actual


def write(folder: Path, **files: bytes | str) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_folder_is_what_its_configuration_says(tmp_path: Path) -> None:
    write(tmp_path, config__json="{}", model__safetensors=b"")
    assert target_of(tmp_path) == Target(TargetKind.HUGGINGFACE_FOLDER, tmp_path)

    # An export may hold the model's own configuration as well.
    write(tmp_path, genai_config__json="{}", model__onnx=b"")
    assert target_of(tmp_path) == Target(TargetKind.EXPORTED_FOLDER, tmp_path)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("config.json", TargetKind.HUGGINGFACE_FOLDER),
        ("generation_config.json", TargetKind.HUGGINGFACE_FOLDER),
        ("model.safetensors", TargetKind.HUGGINGFACE_FOLDER),
        ("genai_config.json", TargetKind.EXPORTED_FOLDER),
    ],
)
def test_file_of_a_folder_stands_for_the_folder(
    tmp_path: Path, name: str, kind: TargetKind
) -> None:
    write(tmp_path, config__json="{}", generation_config__json="{}", model__safetensors=b"")
    write(tmp_path, genai_config__json="{}")

    assert target_of(tmp_path / name) == Target(kind, tmp_path)


def test_folder_with_one_onnx_file_is_that_file(tmp_path: Path) -> None:
    write(tmp_path, model__onnx=b"x", model__onnx__data=b"", README__md="hello")

    assert target_of(tmp_path) == Target(
        TargetKind.ONNX_FILE, tmp_path / "model.onnx", "model.onnx"
    )


@pytest.mark.parametrize("name", ["model.onnx", "MODEL.ONNX", "no_suffix", "model.pb"])
def test_onnx_file_is_known_by_its_name_or_its_first_bytes(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(ONNX_HEAD)

    assert target_of(path) == Target(TargetKind.ONNX_FILE, path)


def test_configuration_under_another_name_is_known_by_its_keys(tmp_path: Path) -> None:
    write(tmp_path, a__json='{"model_type": "llama"}', b__json='{"engine": {}}', c='{"search": {}}')
    write(tmp_path, d__toml="num_blocks = 4")

    kinds = [target_of(tmp_path / name).kind for name in ("a.json", "b.json", "c", "d.toml")]

    engine = TargetKind.ENGINE_CONFIGURATION
    assert kinds == [TargetKind.HUGGINGFACE_FOLDER, engine, engine, engine]


def test_folder_without_a_model_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    assert refusal(tmp_path) == ("file.no_model", "a folder with nothing")

    write(tmp_path, **{f"f{index}": b"" for index in range(8)})
    (tmp_path / "a folder").mkdir()
    assert refusal(tmp_path) == (
        "file.no_model",
        "a folder with a folder, f0, f1, f2, f3, f4 and 3 more",
    )


def test_folder_with_several_onnx_files_is_refused_with_their_names(tmp_path: Path) -> None:
    write(tmp_path, decoder__onnx=b"", encoder__onnx=b"")

    assert refusal(tmp_path) == ("file.several_models", "decoder.onnx, encoder.onnx")


def test_gguf_is_refused_with_who_reads_it(tmp_path: Path) -> None:
    write(tmp_path, model__gguf=b"GGUF\x03\0\0\0", renamed=b"GGUF\x03\0\0\0")

    for path in (tmp_path / "model.gguf", tmp_path / "renamed"):
        assert refusal(path) == ("file.gguf", "a GGUF file")
    (found,) = check_model(tmp_path).findings
    assert "`pa` reads GGUF files" in found.expected
    assert found.actual == "a folder with model.gguf, renamed"


@pytest.mark.parametrize(
    ("name", "content", "actual"),
    [
        ("a.txt", b"", "an empty file"),
        ("a.txt", b"hello", "a file of another kind"),
        ("a.bin", b"\0" * 100, "a file of another kind"),
        ("a.json", b"{}", "the keys nothing"),
        ("a.json", b'{"x": 1, "y": 2}', "the keys x, y"),
        ("a.json", b'{"\x7f\xe2\x80\xae": 1}', "the keys \\x7f\\u202e"),
        ("a.toml", b"", "the keys nothing"),
        (
            "a.json",
            b'{"model": {"decoder": {}}, "engine": {}}',
            "a model configuration that is not named genai_config.json",
        ),
    ],
)
def test_file_of_unknown_kind_is_refused_with_what_was_found(
    tmp_path: Path, name: str, content: bytes, actual: str
) -> None:
    (tmp_path / name).write_bytes(content)

    assert refusal(tmp_path / name) == ("file.unknown_kind", actual)


def test_configuration_that_cannot_be_read_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")

    assert refusal(tmp_path / "a.json")[0] == "file.not_json"


@pytest.mark.parametrize("kind", ["missing", "loop", "pipe", "device", "no name", "long name"])
def test_path_that_is_neither_file_nor_folder_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.onnx"
    if kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    paths = {"device": "/dev/zero", "no name": "a\0b", "long name": "a" * 5000}

    assert refusal(Path(paths.get(kind, path))) == (
        "file.no_target",
        {
            "missing": "No such file or directory",
            "loop": "Too many levels of symbolic links",
            "pipe": "a named pipe",
            "device": "a device",
            "no name": "embedded null byte",
            "long name": "File name too long",
        }[kind],
    )


@pytest.mark.parametrize("name", ["config.json", "genai_config.json"])
@pytest.mark.parametrize("kind", ["loop", "pipe", "folder"])
def test_configuration_that_is_no_file_is_reported_by_its_part(
    tmp_path: Path, name: str, kind: str
) -> None:
    path = tmp_path / name
    if kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()

    found = check_model(tmp_path).findings

    unreadable = [each for each in found if each.severity is Severity.UNREADABLE]
    assert [(each.id, each.place.file) for each in unreadable] == [("file.unreadable", name)]

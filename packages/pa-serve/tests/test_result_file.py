from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pa_serve.result_file import ResultFile, check_target, write_file
from pa_spec import InputUnusable


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_published_lines_replace_the_target_and_leave_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("old\n")
    target.chmod(0o640)
    file = ResultFile(target)

    file.write("one")
    assert target.read_text() == "old\n"
    file.write("two")
    file.publish()

    assert target.read_text() == "one\ntwo\n"
    assert target.stat().st_mode & 0o777 == 0o640
    assert names_in(tmp_path) == ["out.jsonl"]


def test_kept_lines_become_the_target_where_there_was_none(tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "out.jsonl")
    file.write("one")

    assert file.keep() == tmp_path / "out.jsonl"
    assert names_in(tmp_path) == ["out.jsonl"]


def test_kept_lines_stay_beside_an_older_target(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("old\n")
    file = ResultFile(target)
    file.write("one")

    kept = file.keep()

    assert target.read_text() == "old\n"
    assert kept is not None
    assert kept.read_text() == "one\n"
    assert names_in(tmp_path) == ["out.jsonl", "out.jsonl.partial"]


def test_nothing_is_kept_of_nothing(tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "out.jsonl")

    assert file.keep() is None
    assert names_in(tmp_path) == []


def test_written_lines_survive_a_killed_process(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys; from pa_serve.result_file import ResultFile\n"
        "ResultFile(pathlib.Path(sys.argv[1])).write('one'); os._exit(9)"
    )

    subprocess.run([sys.executable, "-c", script, tmp_path / "out.jsonl"], check=False)

    (left,) = tmp_path.iterdir()
    assert left.name.endswith(".partial")
    assert left.read_text() == "one\n"


def test_a_full_disk_is_said_in_one_line_and_keeps_whole_lines() -> None:
    file = ResultFile(Path("/dev/full"))

    with pytest.raises(InputUnusable, match="No space left"):
        file.write("one")

    assert file.num_lines == 0
    file.keep()


def test_a_line_that_the_disk_took_half_of_is_not_kept(tmp_path: Path) -> None:
    script = (
        "import pathlib, resource, sys; from pa_serve.result_file import ResultFile\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "file = ResultFile(pathlib.Path(sys.argv[1])); file.write('12345')\n"
        "try: file.write('123456789')\n"
        "except Exception as error: print(error)\n"
        "file.keep()"
    )
    target = tmp_path / "out.jsonl"

    ran = subprocess.run(
        [sys.executable, "-c", script, target], capture_output=True, text=True, check=True
    )

    assert "File too large" in ran.stdout
    assert target.read_text() == "12345\n"


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "out.jsonl"
    link.symlink_to(tmp_path / "elsewhere" / "real.jsonl")

    write_file(link, "text")

    assert link.is_symlink()
    assert (tmp_path / "elsewhere" / "real.jsonl").read_text() == "text\n"


def test_a_target_that_cannot_become_a_file_is_refused(tmp_path: Path) -> None:
    read_only = tmp_path / "old.jsonl"
    read_only.write_text("old\n")
    read_only.chmod(0o444)
    source = tmp_path / "in.jsonl"
    source.write_text("x\n")
    (tmp_path / "same.jsonl").hardlink_to(source)

    for path, found in (
        (tmp_path, "is a folder"),
        (tmp_path / "missing" / "out.jsonl", "folder does not exist"),
        (read_only, "is read-only"),
        (source, "is the same file as"),
        (tmp_path / "same.jsonl", "is the same file as"),
        (tmp_path / "x" / ".." / "in.jsonl", "folder does not exist|is the same file as"),
    ):
        with pytest.raises(InputUnusable, match=found):
            check_target(path, "--output", (source,))
    check_target(tmp_path / "new.jsonl", "--output", (source,))


def test_a_device_is_written_through_and_stays() -> None:
    device = Path("/dev/null")
    before = device.stat().st_rdev

    write_file(device, "text")

    assert device.is_char_device()
    assert device.stat().st_rdev == before


def test_what_an_earlier_interrupted_run_saved_is_not_written_over(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("old\n")
    (tmp_path / "out.jsonl.partial").write_text("precious\n")

    file = ResultFile(target)
    file.write("new")
    place = file.keep()

    assert place == tmp_path / "out.jsonl.partial-2"
    assert (tmp_path / "out.jsonl.partial-2").read_text() == "new\n"
    assert (tmp_path / "out.jsonl.partial").read_text() == "precious\n"
    assert target.read_text() == "old\n"

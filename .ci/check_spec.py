"""Check spec/: every file obeys the schema that schemas/index.toml names, and ids are unique.

python .ci/check_spec.py [FOLDER]
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, SchemaError


def main(arguments: list[str]) -> int:
    """Print what is wrong and return 1, or print what was checked and return 0."""
    root = Path(__file__).resolve().parent.parent
    folder = Path(arguments[0]) if arguments else root / "spec"
    found = list(faults_in(folder))
    for each in found:
        print(each, file=sys.stderr)
    if not found:
        print(f"{len(data_files(folder))} files obey their schemas, ids are unique")
    return 1 if found else 0


def faults_in(folder: Path) -> Iterator[str]:
    """Yield every fault: a schema's, a file's, an id that two entries share."""
    rows = tomllib.loads((folder / "schemas" / "index.toml").read_text("utf-8"))["schema"]
    schemas = {
        row["schema"]: json.loads(
            (folder / "schemas" / f"{row['schema']}.schema.json").read_text("utf-8")
        )
        for row in rows
    }
    faulty = list(faults_of_schemas(schemas))
    if faulty:
        yield from faulty
        return
    ids: dict[str, Counter[str]] = {name: Counter() for name in schemas}
    for path in data_files(folder):
        name = path.relative_to(folder).as_posix()
        matching = [row["schema"] for row in rows if fnmatchcase(name, row["pattern"])]
        if len(matching) != 1:
            yield f"{name}: obeys {matching or 'no schema'}, must obey exactly one"
            continue
        data = load(path)
        for error in Draft202012Validator(schemas[matching[0]]).iter_errors(data):
            yield f"{name}: {error.json_path}: {error.message}"
        ids[matching[0]].update(ids_in(data))
    for schema, count in ids.items():
        yield from (f"{schema}: id {each} is given {n} times" for each, n in count.items() if n > 1)


def faults_of_schemas(schemas: dict[str, Any]) -> Iterator[str]:
    """Yield what makes a schema no schema."""
    for name, schema in schemas.items():
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            yield f"{name}.schema.json: {error.message}"


def data_files(folder: Path) -> list[Path]:
    """Return the normative files, schemas left out."""
    found = [*folder.rglob("*.toml"), *folder.rglob("*.json")]
    return sorted(each for each in found if folder / "schemas" not in each.parents)


def load(path: Path) -> Any:
    """Read a TOML or JSON file."""
    text = path.read_text("utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def ids_in(data: Any) -> Iterator[str]:
    """Yield the ids of the entries of a file, in its lists of tables."""
    lists = [value for value in data.values() if isinstance(value, list)] if data else []
    for entry in (each for entries in lists for each in entries):
        if isinstance(entry, dict) and "id" in entry:
            yield str(entry["id"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

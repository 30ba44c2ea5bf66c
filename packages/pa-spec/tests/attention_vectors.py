"""Writes spec/vectors/attention.json and attention_sizes.json from the drafts and the evaluator.

`python packages/pa-spec/tests/attention_vectors.py` renews the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_drafts import BASIC_DRAFTS
from attention_evaluator import Evaluator
from further_drafts import FURTHER_DRAFTS
from size_cases import evaluated
from size_drafts import SIZE_DRAFTS
from slot_drafts import SLOT_DRAFTS
from vector_text import vector_text

VECTORS = Path(__file__).resolve().parents[3] / "spec" / "vectors"

DESCRIPTION = (
    "Calls of the operator and what they must give, for any implementation (section 8). inputs: "
    "as the operator's, numbers in the element type of the call; every case holds for each of "
    "element_types, since all numbers are exact in them. key_cache, value_cache: shape, element "
    "type when it is not the query's, and the slots [K, D] that hold a token (int8: codes); all "
    "others may hold anything, NaN included, and keep it. expected: output [T, H*Dv], output_qk "
    "[H, T, context] in float32, and the slots that the call writes. Slots are exact unless rounds "
    "says that the keys went through a rotation or a norm. is_strided: query, key and value are "
    "column slices of one array. Words stand for numbers that JSON has not; a shape stands for an "
    "empty array. Expected numbers are computed in float64 from the formulas alone."
)
SIZES_DESCRIPTION = (
    "As attention.json, in sizes that models and engines have. {shape, drawn}: an array of drawn "
    "numbers; its element of flat index i, row-major from 0 on, with salt s = drawn is, in "
    "unsigned 32-bit arithmetic, a = (i + s * 1000003) * 2654435761; "
    "b = (a xor (a >> 15)) * 2246822519; ((b >> 16) mod 25 - 12) / 8. A cache is drawn so as "
    "[N*S, K, D] (int8: codes, the numbers times 8) and holds tokens in runs, slots from a first "
    "up to an end that is left out; all other slots may hold anything, NaN included, and keep it. "
    "{step, values} under expected: values are the elements of flat index 0, step, 2 * step, ...; "
    "none of the others is NaN. key_cache, value_cache of expected: slots are what the call "
    "writes, in the order of values [slots, K, D]."
)
TOLERANCES = (
    {
        "element_type": "float32",
        "absolute": 1e-5,
        "relative": 1e-5,
        "reason": "ten sums and an exponential of logits up to 10: 10 * 2^-24 each, rounded up",
    },
    {
        "element_type": "float16",
        "absolute": 6e-3,
        "relative": 6e-3,
        "reason": "rotated or normalized heads, probabilities and output are rounded to 2^-11",
    },
    {
        "element_type": "bfloat16",
        "absolute": 4e-2,
        "relative": 4e-2,
        "reason": "as float16 with 2^-8",
    },
)


def attention_file() -> dict[str, Any]:
    """Return the content of the file."""
    cases = []
    for draft in (*BASIC_DRAFTS, *SLOT_DRAFTS, *FURTHER_DRAFTS):
        case = draft.case()
        cases.append(case | {"expected": Evaluator(case).evaluate()})
    return {
        "description": DESCRIPTION,
        "cites": ["E101", "E103"],
        "tolerances": list(TOLERANCES),
        "cases": cases,
    }


def sizes_file() -> dict[str, Any]:
    """Return the content of the file of larger calls."""
    reason = "twice that of attention.json: sums of up to 2100 keys, heads of up to 576 channels"
    wider = {"absolute": 2e-5, "relative": 2e-5, "reason": reason}
    return {
        "description": SIZES_DESCRIPTION,
        "cites": ["E101", "E103"],
        "tolerances": [TOLERANCES[0] | wider, *TOLERANCES[1:]],
        "cases": [evaluated(draft.case()) for draft in SIZE_DRAFTS],
    }


FILES = {"attention.json": attention_file, "attention_sizes.json": sizes_file}

if __name__ == "__main__":
    for name, content in FILES.items():
        (VECTORS / name).write_text(vector_text(content()), "utf-8")

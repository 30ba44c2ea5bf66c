"""Drafts of spec/vectors/attention.json: where tokens are stored, and who sees them."""

from __future__ import annotations

from attention_cases import Draft

SLOT_DRAFTS = (
    Draft(
        "slot_not_stored",
        "a token with slot -1 attends, and its place keeps what is there",
        [(2, 3)],
        [[1]],
        inputs={"slot_mapping": [-1, 19, -1]},
        extra_slots=[18, 20],
    ),
    Draft(
        "slot_elsewhere",
        "a token is stored where slot_mapping says, not where its place would be",
        [(1, 2), (0, 1)],
        [[0], [1]],
        inputs={"slot_mapping": [1, 9, 16]},
        extra_slots=[2],
    ),
    Draft(
        "unmapped_block",
        "places of a block -1 are masked",
        [(17, 1)],
        [[-1, 1]],
    ),
    Draft(
        "unmapped_write",
        "tokens whose block is unmapped are stored nowhere",
        [(15, 2), (0, 1)],
        [[0, -1], [1, -1]],
    ),
    Draft(
        "ids_outside_the_pool",
        "block ids below -1 and from N on are unmapped",
        [(16, 1), (17, 1), (1, 1)],
        [[-9, 1], [2, 0], [1000000, -1]],
    ),
    Draft(
        "padding_row",
        "a row without blocks yields zeros and stores nothing",
        [(2, 1), (0, 1)],
        [[1], [-1]],
    ),
    Draft(
        "row_without_tokens",
        "a row with no tokens changes nothing",
        [(1, 1), (3, 0), (2, 1)],
        [[0], [1], [2]],
        blocks=3,
    ),
    Draft("no_tokens", "a call with T = 0", [(3, 0)], [[1]]),
    Draft(
        "shared_prefix",
        "two rows read one block and write their own",
        [(16, 1), (16, 1)],
        [[1, 0], [1, 2]],
        blocks=3,
    ),
    Draft(
        "nan_query_stays",
        "a NaN in one row's query spoils that row alone",
        [(1, 1), (1, 1)],
        [[0], [1]],
        inputs={"query": [["nan", 1, 0.5, -1, 0, 0.25, 1, 1], [1, -0.5, 0, 0.75, 1, 0, 0.5, -1]]},
    ),
    Draft(
        "nan_value_stays",
        "a NaN in one channel of a value spoils that channel of the tokens that see it",
        [(0, 2), (1, 1)],
        [[0], [1]],
        inputs={
            "value": [
                [1, 0.5, -1, 0.25, 0, 1, 1, -0.5],
                [0.5, 0.5, "nan", 1, -1, 0, 0.25, 1],
                [-1, 0, 0.75, 1, 0.5, 0.5, 1, 0],
            ]
        },
    ),
    Draft(
        "stores_first",
        "a row sees what another row of the call writes into a shared block",
        [(2, 1), (0, 2)],
        [[1], [1]],
    ),
)

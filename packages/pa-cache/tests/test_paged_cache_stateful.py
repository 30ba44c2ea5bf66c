from __future__ import annotations

from random import Random

import pytest
from cache_machine import CacheMachine
from cache_steps import Row, ids, plan_of, publish
from hypothesis import settings
from pa_cache import CacheGeometry, PagedCacheManager
from pa_spec import StepId

TestCacheMachine = pytest.mark.spec("E64", "E82", "E84")(CacheMachine.TestCase)
TestCacheMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


@pytest.mark.spec("E64")
@pytest.mark.parametrize("block_size", [16, 64])
def test_blocks_are_conserved_over_200_random_steps(block_size: int) -> None:
    source = Random(block_size)
    cache = PagedCacheManager(CacheGeometry(40, block_size, 8, 12))
    tokens: dict[int, int] = {}

    for step_id in range(1, 201):
        rows = []
        for resident in source.sample(range(8), source.randint(1, 8)):
            past = tokens.get(resident, 0)
            count = source.choice([1, 1, 1, source.randint(1, 3 * block_size)])
            room = cache.geometry.table_columns * block_size - past
            rows.append(Row(resident, resident, past, min(count, room), resident not in tokens))
        needed = sum(
            -(-row.target // block_size) - int(cache.tables.num_blocks[row.resident])
            for row in rows
        )
        if needed > cache.usage.free or any(row.tokens < 1 for row in rows):
            victim = source.choice(sorted(tokens))
            cache.release(ids(victim), StepId(step_id))
            del tokens[victim]
        else:
            reservation = cache.reserve(StepId(step_id), plan_of(rows))
            if source.random() < 0.2:
                reservation.discard()
            else:
                publish(reservation)
                tokens |= {row.resident: row.target for row in rows}
        cache.end_step(StepId(step_id))

        assert cache.audit.check_all() == []
        use = cache.usage
        assert use.free + use.reserved + use.committed == use.total == 40
        assert use.committed == sum(-(-each // block_size) for each in tokens.values())

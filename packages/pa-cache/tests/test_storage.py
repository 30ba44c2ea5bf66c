from __future__ import annotations

import pytest
import torch
from pa_cache import CacheGeometry, PagedCacheManager, allocate_state
from pa_spec import (
    ElementType,
    EngineConfig,
    GroupKind,
    InputUnusable,
    StateGroup,
    StateManifest,
)


def manifest(element_type: ElementType, caches: int = 2, v_head_size: int = 0) -> StateManifest:
    kind = GroupKind.PAGED_KV
    return StateManifest((StateGroup(kind, (1, 4), (2, 8), element_type, caches, v_head_size),))


@pytest.mark.spec("E2")
def test_every_layer_of_the_group_gets_its_own_key_and_value() -> None:
    state = allocate_state(manifest(ElementType.BFLOAT16), 3, 16)

    assert state is not None
    assert (state.num_blocks, state.block_size) == (3, 16)
    assert list(state.paged) == [1, 4]
    tensors = [each for layer in state.paged.values() for each in (layer.key, layer.value)]
    assert all(each is not None and each.shape == (3, 16, 2, 8) for each in tensors)
    assert len({each.data_ptr() for each in tensors if each is not None}) == 4
    assert {each.dtype for each in tensors if each is not None} == {torch.bfloat16}


def test_values_can_have_another_width_or_be_absent() -> None:
    wide = allocate_state(manifest(ElementType.FLOAT32, v_head_size=16), 3, 16)
    latent = allocate_state(manifest(ElementType.INT8, caches=1), 3, 16)

    assert wide is not None
    assert wide.paged[1].value is not None
    assert wide.paged[1].value.shape == (3, 16, 2, 16)
    assert latent is not None
    assert latent.paged[1].value is None
    assert latent.paged[1].key.dtype == torch.int8


def test_a_decoder_without_paged_state_gets_none() -> None:
    assert allocate_state(StateManifest(()), 3, 16) is None


def test_an_element_type_that_no_cache_has_is_refused() -> None:
    with pytest.raises(InputUnusable, match="cache of float64; allowed: float32, float16"):
        allocate_state(manifest(ElementType.FLOAT64), 3, 16)


def test_memory_that_cannot_be_had_is_refused_with_its_size() -> None:
    with pytest.raises(InputUnusable, match="blocks need 2748779069440000 B on cpu"):
        allocate_state(manifest(ElementType.FLOAT16), 2_684_354_560_000 // 2, 16)


def test_a_cache_for_a_decoder_has_its_tensors_and_its_size() -> None:
    config = EngineConfig(num_blocks=5, max_batch_size=2)

    cache = PagedCacheManager.for_manifest(manifest(ElementType.FLOAT32), config, 48)

    assert cache.geometry == CacheGeometry(5, 16, 2, 3)
    assert cache.decoder_state is not None
    assert cache.decoder_state.num_blocks == cache.num_blocks == 5
    assert cache.block_size == 16
    assert cache.max_sequence_tokens == 48


def test_a_cache_without_storage_has_no_tensors() -> None:
    assert (
        PagedCacheManager.for_manifest(StateManifest(()), EngineConfig(), 48).decoder_state is None
    )
    assert PagedCacheManager(CacheGeometry(5, 16, 2, 3)).decoder_state is None

"""The state operators in torch's library: torch.ops.pa.varlen_causal_conv and gated_delta_net.

Importing this module registers them. They are the functions of the same name with flat arguments:
the inputs by position or name, a pool as pool, read_rows and write_rows, the attributes by name.
The second result is the final state, empty where a pool takes it. Calls are checked while they are
traced where every extent is known, and when they run. They have no backward: torch refuses to
differentiate through them.
"""

from __future__ import annotations

import torch
from pa_spec import InputUnusable
from torch import Tensor

from pa_kernels.state.checks import check_activation, check_causal_conv, check_gated_delta_net
from pa_kernels.state.conv import varlen_causal_conv
from pa_kernels.state.delta import gated_delta_net
from pa_kernels.state.inputs import (
    CausalConvInputs,
    GatedDeltaNetAttributes,
    GatedDeltaNetInputs,
    StateOutputs,
    StatePool,
)

_CONV_INPUTS = ("input", "weight", "cumulative_sequence_length", "bias", "initial_state")
_DELTA_INPUTS = (
    "query",
    "key",
    "value",
    "cumulative_sequence_length",
    "decay",
    "beta",
    "initial_state",
    "a_log",
    "dt_bias",
)
_POOL = ("pool", "read_rows", "write_rows")


def _schema(names: tuple[str, ...], required: int, attributes: str) -> str:
    arguments = [f"Tensor {name}" for name in names[:required]]
    arguments += [f"Tensor? {name}=None" for name in names[required:]]
    arguments += ["Tensor(a!)? pool=None", "Tensor? read_rows=None", "Tensor? write_rows=None"]
    return f"({', '.join(arguments)}, *, {attributes}) -> (Tensor, Tensor)"


def _causal_conv(*tensors: Tensor | None, activation: str = "none") -> tuple[Tensor, Tensor]:
    given = dict(zip(_CONV_INPUTS + _POOL, tensors, strict=False))
    pool = _take_pool(given)
    inputs = CausalConvInputs(**given, pool=pool)  # type: ignore[arg-type]
    return _pair(varlen_causal_conv(inputs, activation), inputs.input.dtype)


def _fake_causal_conv(*tensors: Tensor | None, activation: str = "none") -> tuple[Tensor, Tensor]:
    given = dict(zip(_CONV_INPUTS + _POOL, tensors, strict=False))
    pool = _take_pool(given)
    inputs = CausalConvInputs(**given, pool=pool)  # type: ignore[arg-type]
    check_activation(activation)
    if _is_static(tensors):
        check_causal_conv(inputs, activation)
    x, weight, boundaries = inputs.input, inputs.weight, inputs.cumulative_sequence_length
    output = x.new_empty(x.shape)
    if pool is not None:
        return output, x.new_empty(0)
    return output, x.new_empty(boundaries.shape[0] - 1, x.shape[1], weight.shape[-1] - 1)


def _gated_delta(
    *tensors: Tensor | None,
    scale: float = 0.0,
    qk_l2norm: bool = False,
    l2norm_epsilon: float = 1e-6,
) -> tuple[Tensor, Tensor]:
    given = dict(zip(_DELTA_INPUTS + _POOL, tensors, strict=False))
    pool = _take_pool(given)
    inputs = GatedDeltaNetInputs(**given, pool=pool)  # type: ignore[arg-type]
    attributes = GatedDeltaNetAttributes(scale, qk_l2norm, l2norm_epsilon)
    return _pair(gated_delta_net(inputs, attributes), torch.float32)


def _fake_gated_delta(
    *tensors: Tensor | None,
    scale: float = 0.0,
    qk_l2norm: bool = False,
    l2norm_epsilon: float = 1e-6,
) -> tuple[Tensor, Tensor]:
    given = dict(zip(_DELTA_INPUTS + _POOL, tensors, strict=False))
    pool = _take_pool(given)
    inputs = GatedDeltaNetInputs(**given, pool=pool)  # type: ignore[arg-type]
    if _is_static(tensors):
        attributes = GatedDeltaNetAttributes(scale, qk_l2norm, l2norm_epsilon)
        check_gated_delta_net(inputs, attributes)
    query, value = inputs.query, inputs.value
    output = value.new_empty(value.shape)
    if pool is not None:
        return output, value.new_empty(0, dtype=torch.float32)
    rows = inputs.cumulative_sequence_length.shape[0] - 1
    shape = (rows, *value.shape[1:], query.shape[2])
    return output, value.new_empty(shape, dtype=torch.float32)


def _is_static(tensors: tuple[Tensor | None, ...]) -> bool:
    """Tell whether checks may compare: of an extent that varies, that would fix it for the graph.

    The call itself checks in any case.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    return all(isinstance(each, int) for one in given for each in (*one.shape, *one.stride()))


def _take_pool(given: dict[str, Tensor | None]) -> StatePool | None:
    # The dispatcher leaves out trailing arguments that have their default.
    states, read_rows, write_rows = (given.pop(name, None) for name in _POOL)
    if states is None and read_rows is None and write_rows is None:
        return None
    if states is None or read_rows is None or write_rows is None:
        raise InputUnusable("pool", "a part of it is missing", "pool, read_rows and write_rows")
    return StatePool(states, read_rows, write_rows)


def _pair(result: StateOutputs, state_dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    if result.final_state is not None:
        return result.output, result.final_state
    return result.output, result.output.new_empty(0, dtype=state_dtype)


_conv_definition = torch.library.custom_op(
    "pa::varlen_causal_conv",
    _causal_conv,
    mutates_args=("pool",),
    schema=_schema(_CONV_INPUTS, 3, 'str activation="none"'),
)
_conv_definition.register_fake(_fake_causal_conv)

_delta_definition = torch.library.custom_op(
    "pa::gated_delta_net",
    _gated_delta,
    mutates_args=("pool",),
    schema=_schema(
        _DELTA_INPUTS, 6, "float scale=0.0, bool qk_l2norm=False, float l2norm_epsilon=1e-6"
    ),
)
_delta_definition.register_fake(_fake_gated_delta)

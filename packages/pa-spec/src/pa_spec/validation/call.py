"""What the checks know of one call: derived sizes, and the list of violations."""

from __future__ import annotations

from pa_spec.contract.rule import rules
from pa_spec.element_type import ElementType
from pa_spec.errors import ContractViolation
from pa_spec.operator import CallSignature, TensorSignature

ACTIVATION_TYPES = (ElementType.FLOAT16, ElementType.BFLOAT16, ElementType.FLOAT32)
QUANTIZED_TYPES = (ElementType.INT8, ElementType.FLOAT8E4M3FN)


class Call:
    """One call under validation.

    tokens (T), rows (B) and head_size (D) are None where an earlier rule already failed, so that
    one mistake is not reported again by every check that depends on it.
    """

    __slots__ = (
        "attributes",
        "head_size",
        "inputs",
        "latent",
        "rows",
        "separate",
        "signature",
        "tokens",
        "violations",
    )

    def __init__(self, signature: CallSignature) -> None:
        attributes = signature.attributes
        inputs = signature.inputs
        self.signature = signature
        self.attributes = attributes
        self.inputs = inputs
        self.latent = attributes.kv_cache_layout == "LATENT"
        self.separate = attributes.kv_cache_layout == "SEPARATE"
        query = inputs.query.shape
        self.tokens = query[0] if len(query) == 2 else None
        lengths = inputs.cumulative_sequence_length.shape
        self.rows = lengths[0] - 1 if len(lengths) == 1 and lengths[0] >= 2 else None
        heads = self._query_heads()
        self.head_size: int | None = None
        if heads and self.tokens is not None and query[1] > 0 and query[1] % heads == 0:
            self.head_size = query[1] // heads
        self.violations: list[ContractViolation] = []

    def _query_heads(self) -> int:
        """Heads side by side in a row of query, 0 when the attributes do not say."""
        heads, kv_heads = self.attributes.num_heads, self.attributes.kv_num_heads
        if heads <= 0 or kv_heads <= 0:
            return 0
        key, value = self.inputs.key is not None, self.inputs.value is not None
        if self.latent or (self.separate and key and value):
            return heads
        if self.separate and not key and not value:
            return heads + 2 * kv_heads
        return 0

    def report(
        self, rule_id: str, name: str, actual: object, case: str = "", /, **values: object
    ) -> None:
        """Record a violation of a rule, in the words of spec/rules.toml."""
        violation = rules()[rule_id].violation(name, str(actual), case, **values)
        self.violations.append(violation)

    def require(
        self, rule_id: str, name: str, tensor: TensorSignature | None, shape: tuple[int, ...]
    ) -> None:
        """Record a violation unless the tensor is absent or has exactly that shape."""
        if tensor is not None and tensor.shape != shape:
            values = {"T": self.tokens, "B": self.rows, "D": self.head_size}
            values["num_heads"] = self.attributes.num_heads
            self.report(rule_id, name, shape_text(tensor.shape), **values)


def shape_text(shape: tuple[int, ...]) -> str:
    """Write a shape as errors show it: "[2, 8]"."""
    return f"[{', '.join(map(str, shape))}]"


def presence(tensor: TensorSignature | None) -> str:
    """Write what is there of a tensor that should be there, or should not."""
    return "none" if tensor is None else shape_text(tensor.shape)


def allowed(types: tuple[ElementType, ...]) -> str:
    """Write a list of element types as errors show it."""
    return " or ".join(each.value for each in types)

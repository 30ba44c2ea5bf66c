"""Validation of operator calls against the rules of spec/rules.toml."""

from pa_spec.validation.length import check_lengths
from pa_spec.validation.manifest import check_manifest
from pa_spec.validation.signature import check, validate

__all__ = ["check", "check_lengths", "check_manifest", "validate"]

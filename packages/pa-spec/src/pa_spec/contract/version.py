"""The contract's own version, and the check that an implementation fits it."""

from __future__ import annotations

from pa_spec.errors import ContractViolation

# Equals spec/VERSION, as a test proves; written here so that importing the package reads no file.
CONTRACT_VERSION = "1.0"
"""Version of the contract in this package: "<major>.<minor>"."""


def check_contract_version(name: str, implemented: str) -> None:
    """Accept an implementation of this contract's major version, not newer in the minor.

    name: the implementation, for the message. implemented: its IMPLEMENTS_CONTRACT.

    Raises ContractViolation that names both versions.
    """
    major, minor = _numbers(CONTRACT_VERSION)
    expected = f"contract {major}.0 to {major}.{minor}"
    try:
        its_major, its_minor = _numbers(implemented)
    except ValueError as error:
        raise ContractViolation("VERSION", name, expected, repr(implemented)) from error
    if its_major != major or its_minor > minor:
        raise ContractViolation("VERSION", name, expected, f"contract {implemented}")


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise ValueError(version)
    return int(major), int(minor)

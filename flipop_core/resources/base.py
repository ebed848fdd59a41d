"""What the types of the custom resources are made with."""

from __future__ import annotations

import msgspec


class Resource(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Base of every part of a custom resource: camel case outside, absent members at their defaults."""


def cel_rule(rule: str, message: str, field_path: str = "") -> dict[str, str]:
    """Return a CEL rule; ``field_path`` is the field to blame, where it is not the one that has the rule."""
    return {"rule": rule, "message": message} | ({"fieldPath": field_path} if field_path else {})


def cel_rules(*rules: dict[str, str]) -> dict[str, list[dict[str, str]]]:
    """Return the schema keyword that holds CEL rules."""
    return {"x-kubernetes-validations": list(rules)}

"""The label selector grammar of Kubernetes: ``a=b``, ``a!=b``, ``a in (x,y)``, ``a notin (x)``, ``a``, ``!a``, ``a>1``.

Grammar and character rules: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from flipop_core.errors import shortened

_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_TOKEN = re.compile(r"\s*(==|!=|=|!|\(|\)|,|<|>|[^\s,()=!<>]+)")
_INTEGER = re.compile(r"[0-9]{1,18}")  # what fits into 64 bits however it is written


class SelectorError(ValueError):
    """The text is no label selector; the message says where and why."""


class Requirement(msgspec.Struct, frozen=True, gc=False, order=True):
    """One term. ``operator`` is ``in``, ``notin``, ``exists``, ``!``, ``<`` or ``>``; ``values`` are sorted.

    The last two compare integers, of which ``values`` is one.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether ``labels`` satisfy this term; ``notin`` is also satisfied by a missing key, as in Kubernetes.

        A label that is no integer is neither less nor greater than one.
        """
        if self.operator == "exists":
            return self.key in labels
        if self.operator == "!":
            return self.key not in labels
        if self.operator == "in":
            return labels.get(self.key) in self.values
        if self.operator == "notin":
            return labels.get(self.key) not in self.values
        label = labels.get(self.key, "")
        if not _INTEGER.fullmatch(label):
            return False
        return int(label) > int(self.values[0]) if self.operator == ">" else int(label) < int(self.values[0])

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        if self.operator in ("<", ">"):
            return f"{self.key}{self.operator}{self.values[0]}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator == 'in' else '!='}{self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(self.values)})"


class Selector(msgspec.Struct, frozen=True, gc=False):
    """All ``requirements`` must hold; none matches everything. ``str`` gives the canonical text."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether ``labels`` satisfy every term."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


def parse_selector(text: str) -> Selector:
    """Parse ``text``; an empty or blank one matches everything. Raises SelectorError."""
    tokens = _tokenize(text)
    requirements = []
    position = 0
    while position < len(tokens):
        requirement, position = _parse_requirement(tokens, position)
        requirements.append(requirement)
        if position < len(tokens):
            if tokens[position] != ",":
                raise SelectorError(f"expected ',' before {shortened(tokens[position])}")
            position += 1
            if position == len(tokens):
                raise SelectorError("nothing after the last ','")
    return Selector(tuple(sorted(set(requirements))))


def _tokenize(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:  # every character starts some token, so this is a defect
            raise SelectorError(f"cannot read {shortened(text[position:])}")
        tokens.append(match[1])
        position = match.end()
    return tokens


def _parse_requirement(tokens: list[str], position: int) -> tuple[Requirement, int]:
    if tokens[position] == "!":
        key = _key(_token(tokens, position + 1, "a label key after '!'"))
        return Requirement(key, "!"), position + 2
    key = _key(tokens[position])
    operator = tokens[position + 1] if position + 1 < len(tokens) else ","
    if operator in ("=", "==", "!="):
        value, position = _value_after(tokens, position + 2)
        return Requirement(key, "notin" if operator == "!=" else "in", (value,)), position
    if operator in ("<", ">"):
        return Requirement(key, operator, (_integer(_token(tokens, position + 2, "an integer")),)), position + 3
    if operator in ("in", "notin"):
        values, position = _value_list(tokens, position + 2, operator)
        return Requirement(key, operator, values), position
    return Requirement(key, "exists"), position + 1


def _value_after(tokens: list[str], position: int) -> tuple[str, int]:
    if position >= len(tokens) or tokens[position] == ",":
        return "", position
    return _value(tokens[position]), position + 1


def _value_list(tokens: list[str], position: int, operator: str) -> tuple[tuple[str, ...], int]:
    if _token(tokens, position, f"'(' after '{operator}'") != "(":
        raise SelectorError(f"expected '(' after '{operator}', found {shortened(tokens[position])}")
    position += 1
    values: set[str] = set()
    while True:  # a value, which may be empty, and what follows it
        word = _token(tokens, position, "a value or ')'")
        if word in (",", ")"):
            values.add("")
        else:
            values.add(_value(word))
            position += 1
        end = _token(tokens, position, "',' or ')'")
        if end not in (",", ")"):
            raise SelectorError(f"expected ',' or ')' before {shortened(end)}")
        position += 1
        if end == ")":
            return tuple(sorted(values)), position


def _token(tokens: list[str], position: int, expected: str) -> str:
    if position >= len(tokens):
        raise SelectorError(f"expected {expected}, found the end")
    return tokens[position]


def _key(text: str) -> str:
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        raise SelectorError(f"{shortened(prefix)} is no DNS subdomain, as the part of a label key before '/' must be")
    if not _NAME.fullmatch(name):
        raise SelectorError(
            f"{shortened(text)} is no label key: at most 63 letters, digits, '-', '_' and '.', a letter or digit at "
            "both ends"
        )
    return text


def _integer(text: str) -> str:
    if not _INTEGER.fullmatch(text):
        raise SelectorError(f"{shortened(text)} is no integer of at most 18 digits")
    return text


def _value(text: str) -> str:
    if not _VALUE.fullmatch(text):
        raise SelectorError(
            f"{shortened(text)} is no label value: at most 63 letters, digits, '-', '_' and '.', a letter or digit at "
            "both ends"
        )
    return text

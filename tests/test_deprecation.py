"""Retired names: what is said, where it points, and how often."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from flipop_core.deprecation import Deprecation, deprecated, deprecated_names, warn_deprecated

OLD = Deprecation("0.3", "0.5", "use new_name")


@deprecated(OLD)
def old_name(value: int, *, twice: bool = False) -> int:
    """Documented."""
    return value * 2 if twice else value


@deprecated(OLD)
class OldClass:
    def __init__(self, value: int) -> None:
        self.value = value

    @classmethod
    def of(cls, value: int) -> OldClass:
        return cls(value)

    @deprecated(Deprecation("0.4", "1.0", "read value"))
    def get(self) -> int:
        return self.value


def takes(new: int = 0, old: int | None = None) -> int:
    if old is not None:
        warn_deprecated("the argument old of takes()", OLD)
        return old
    return new


def line_of(marker: str) -> int:
    return next(number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if marker in line)


@pytest.fixture
def caught() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_a_function_goes_on_to_work_and_warns(caught: list[warnings.WarningMessage]) -> None:
    assert old_name(2, twice=True) == 4  # marker: function
    (warning,) = caught
    assert str(warning.message) == (
        f"{__name__}.old_name is deprecated since flipop 0.3 and will be removed in 0.5: use new_name"
    )
    assert warning.category is DeprecationWarning
    assert (warning.filename, warning.lineno) == (__file__, line_of("# marker: " + "function"))
    assert (old_name.__name__, old_name.__doc__) == ("old_name", "Documented.")


def test_once_for_each_line(caught: list[warnings.WarningMessage]) -> None:
    for _ in range(3):
        old_name(1)
    assert len(caught) == 1
    old_name(1)
    assert len(caught) == 2


def test_a_class_stays_one(caught: list[warnings.WarningMessage]) -> None:
    class Heir(OldClass):
        pass

    assert isinstance(OldClass(3), OldClass)  # marker: class
    assert (caught[0].filename, caught[0].lineno) == (__file__, line_of("# marker: " + "class"))
    assert "OldClass is deprecated since flipop 0.3" in str(caught[0].message)
    assert isinstance(Heir(3), OldClass)
    assert len(caught) == 2


def test_a_method(caught: list[warnings.WarningMessage]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        instance = OldClass(4)
    assert instance.get() == 4
    assert "OldClass.get is deprecated since flipop 0.4 and will be removed in 1.0: read value" in str(
        caught[-1].message
    )


def test_an_argument(caught: list[warnings.WarningMessage]) -> None:
    assert takes(1) == 1
    assert caught == []
    assert takes(old=5) == 5  # marker: argument
    assert (caught[0].filename, caught[0].lineno) == (__file__, line_of("# marker: " + "argument"))


MODULE = """
from flipop_core.deprecation import Deprecation, deprecated_names
__getattr__ = deprecated_names(
    __name__,
    {
        "Mapping": Deprecation("0.2", "0.4", "import it from collections.abc", "collections.abc:Mapping"),
        "Gone": Deprecation("0.2", "0.4", "do without", "collections.abc:NoSuchThing"),
    },
)
"""


@pytest.fixture
def module_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    package = tmp_path / "retired_package"
    package.mkdir()
    (package / "__init__.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "retired_package"
    sys.modules.pop("retired_package", None)


def test_a_name_of_a_module(module_name: str, caught: list[warnings.WarningMessage]) -> None:
    from collections.abc import Mapping

    module = importlib.import_module(module_name)
    for _ in range(2):
        assert module.Mapping is Mapping  # marker: attribute
    (warning,) = caught
    assert str(warning.message) == (
        "retired_package.Mapping is deprecated since flipop 0.2 and will be removed in 0.4: "
        "import it from collections.abc"
    )
    assert (warning.filename, warning.lineno) == (__file__, line_of("# marker: " + "attribute"))


def test_a_name_that_is_imported_warns_once(module_name: str, caught: list[warnings.WarningMessage]) -> None:
    from retired_package import Mapping  # type: ignore[import-not-found]  # marker: import; made by the fixture

    assert Mapping is importlib.import_module("collections.abc").Mapping
    (warning,) = caught
    assert (warning.filename, warning.lineno) == (__file__, line_of("# marker: " + "import"))


def test_names_that_are_not_there(module_name: str) -> None:
    module = importlib.import_module(module_name)
    with pytest.raises(AttributeError, match="module 'retired_package' has no attribute 'Other'"):
        _ = module.Other
    with pytest.warns(DeprecationWarning, match="do without"), pytest.raises(AttributeError, match="NoSuchThing"):
        _ = module.Gone


def test_as_an_error_it_is_raised_where_it_points() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning, match="use new_name"):
            old_name(1)


def test_the_helpers_are_typed_through(caught: list[warnings.WarningMessage]) -> None:
    value: int = old_name(1)
    assert value == 1
    assert deprecated_names("m", {}).__name__ == "getattr_of_module"

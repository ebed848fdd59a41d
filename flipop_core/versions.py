"""The version of the plugin API, and whether a plugin that was written for another one can be used.

It counts by itself, apart from the version of the distribution: the first number changes when plugins have to be
changed, the second when they may use something new. A plugin's module says which one it was written for::

    flipop_api_version = "1.0"
"""

from __future__ import annotations

import re

PLUGIN_API_VERSION = "1.0"
"""What this flipop-core offers to plugins."""

OLDEST_PLUGIN_API_VERSION = "1.0"
"""The oldest version whose plugins still work."""

ATTRIBUTE = "flipop_api_version"

_VERSION = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})", re.ASCII)


def plugin_api_problem(plugin: object, distribution: str = "") -> str:
    """Say why a plugin (a module or an object) cannot be used with this core, empty when it can.

    One that declares nothing was written for 1.0, since there was nothing to declare before. ``distribution`` is what
    to upgrade or to replace, if that is known.
    """
    try:
        declared = getattr(plugin, ATTRIBUTE, "1.0")
    except Exception as error:
        return f"its {ATTRIBUTE} cannot be read: {type(error).__name__}: {error}"
    if not isinstance(declared, str) or _VERSION.fullmatch(declared) is None:
        return f'its {ATTRIBUTE} is {repr(declared)[:60]}: it must be a text such as "{PLUGIN_API_VERSION}"'
    plugins = distribution or "the plugin"
    if _numbers(declared) > _numbers(PLUGIN_API_VERSION):
        return (
            f"it is too new: it was written for plugin API {declared}, and this flipop-core offers "
            f"{PLUGIN_API_VERSION}: upgrade flipop-core, or install an older release of {plugins}"
        )
    if _numbers(declared) < _numbers(OLDEST_PLUGIN_API_VERSION):
        return (
            f"it is too old: it was written for plugin API {declared}, and this flipop-core offers "
            f"{PLUGIN_API_VERSION} and takes plugins from {OLDEST_PLUGIN_API_VERSION} on: upgrade {plugins}"
        )
    return ""


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)

"""How all commands behave: flags, errors, exit codes, logging, plugins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from flipop_core.config import Secrets, Settings, missing_credentials, redact
from flipop_core.errors import ConfigError, FlipopError

if TYPE_CHECKING:
    from flipop_core.registry import ProviderRegistry

_DEBUG = "flipop.debug"
_FACTORIES = "flipop.factories"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def section(title: str, *lines: str) -> str:
    """Return a part of a help text whose lines are not wrapped."""
    return "\n".join(["\b", f"{title}:", *(f"  {line}" for line in lines), "", ""])


class Command(click.Command):
    """A command whose flags also take a value, as Go's do: ``--debug=true``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, after ``--flag=true`` has become ``--flag`` and ``--flag=false`` nothing."""
        return super().parse_args(ctx, list(_without_flag_values(self.params, args)))


class Group(click.Group):
    """The root: wrong usage exits with 1, since 2 is an answer of `flipop plan`; errors are one line each."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, after ``--flag=true`` has become ``--flag`` and ``--flag=false`` nothing."""
        return super().parse_args(ctx, list(_without_flag_values(self.params, args)))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the root's arguments."""
        with _usage_errors_exit_with_1():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An expected error is one line, a defect a log line with its traceback."""
        try:
            with _usage_errors_exit_with_1():
                return super().invoke(ctx)
        except FlipopError as error:
            if debugging(ctx):
                _log_defect("the command failed")
            secrets = Secrets.of_environment(os.environ, ctx.meta.get(_FACTORIES, ()))
            click.echo(f"flipop: {redact(str(error), secrets)}", err=True)
            ctx.exit(1)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception:
            _log_defect("flipop has a defect and ends")
            ctx.exit(1)


class _WrongUsage(click.UsageError):
    exit_code = 1


@contextmanager
def _usage_errors_exit_with_1() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        raise _WrongUsage(error.format_message(), error.ctx) from error


def _without_flag_values(params: Iterable[click.Parameter], args: Sequence[str]) -> Iterator[str]:
    flags = {name for param in params if isinstance(param, click.Option) and param.is_flag for name in param.opts}
    for index, argument in enumerate(args):
        if argument == "--":
            yield from args[index:]
            return
        name, equals, value = argument.partition("=")
        if not equals or name not in flags or value not in _TRUE | _FALSE:
            yield argument
        elif value in _TRUE:
            yield name


def _log_defect(message: str) -> None:
    """Log the exception at hand with its traceback, through the redaction of all logs."""
    import structlog

    if not structlog.is_configured():
        from flipop_core.cli.logs import configure_logging

        configure_logging()
    structlog.get_logger(__name__).critical(message, exc_info=True)


def debugging(ctx: click.Context) -> bool:
    """Whether --debug was given, to this command or to the root."""
    return bool(ctx.meta.get(_DEBUG, False))


def note_debug(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    """Remember --debug, at whatever level it was given, for how errors are shown."""
    ctx.meta[_DEBUG] = value or ctx.meta.get(_DEBUG, False)
    return debugging(ctx)


def load_registry(ctx: click.Context, settings: Settings, *, quiet: bool) -> ProviderRegistry:
    """Set up logging and load the plugins; whatever they call a credential is kept out of the logs."""
    from flipop_core.cli.logs import configure_logging, log_what_nobody_catches
    from flipop_core.registry import ProviderRegistry

    configure_logging(debug=settings.debug, quiet=quiet)
    log_what_nobody_catches()
    registry = ProviderRegistry(timeout_seconds=settings.provider_timeout_seconds)
    registry.discover()
    factories = [factory for plugin in registry.plugins for factory in plugin.factories]
    ctx.meta[_FACTORIES] = factories
    configure_logging(debug=settings.debug, quiet=quiet, secrets=Secrets.of_environment(os.environ, factories))
    return registry


def load_usable_registry(ctx: click.Context, settings: Settings, *, quiet: bool) -> ProviderRegistry:
    """Load the plugins; log which failed, and if none has its credentials. Raises ConfigError when there is none."""
    import structlog

    log = structlog.get_logger(__name__)
    registry = load_registry(ctx, settings, quiet=quiet)
    for plugin in registry.plugins:
        if plugin.error is not None:
            log.error("plugin failed", plugin=plugin.name, error=str(plugin.error))
    factories = [factory for plugin in registry.plugins for factory in plugin.factories]
    if not factories:
        raise ConfigError(
            "no provider is installed: pip install 'flipop-core[digitalocean]', and see `flipop providers`"
        )
    asking = [factory for factory in factories if any(spec.required for spec in factory.credentials)]
    if asking and all(missing_credentials(factory, os.environ) for factory in asking):
        missing = {spec.variable for factory in asking for spec in missing_credentials(factory, os.environ)}
        others = sorted({factory.name for factory in factories if factory not in asking})
        text = "no provider that needs credentials in the environment has them: see `flipop providers`"
        log.warning(text, missing=sorted(missing), **({"others": others} if others else {}))
    return registry

"""How all commands behave: flags, errors, exit codes, logging, plugins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from flipop_core.config import Secrets, Settings, missing_credentials, redact
from flipop_core.errors import ConfigError, FlipopError, one_line

if TYPE_CHECKING:
    from flipop_core.registry import ProviderRegistry

_DEBUG = "flipop.debug"
_FACTORIES = "flipop.factories"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


EXIT_CODES: Mapping[str, Mapping[int, str]] = {
    "run": {0: "it was stopped by a signal", 1: "it could not start", 2: "wrong usage, or a flag's value is bad"},
    "plan": {
        0: "there is nothing to do",
        1: "it could not be found out, or wrong usage",
        2: "there is something to do",
    },
    "status": {
        0: "everything is ready",
        1: "the cluster cannot be read, or wrong usage",
        2: "something is not ready",
    },
    "validate": {0: "nothing is wrong", 1: "something is wrong", 2: "a file cannot be read, or wrong usage"},
    "providers": {0: "done", 1: "--verify: credentials are refused or could not be verified", 2: "wrong usage"},
    "crds": {0: "done", 1: "the files could not be written", 2: "wrong usage"},
    "demo": {0: "done", 1: "a step did not end as it should", 2: "wrong usage"},
    "completion": {0: "done", 2: "wrong usage"},
    "version": {0: "done", 2: "wrong usage"},
}
"""What each command's exit codes mean. `plan` and `status` answer with 2, so that their wrong usage is 1."""

_ANSWER_2 = ("plan", "status")


class BadInput(ConfigError):
    """What was given on the command line cannot be used: exit code 2."""


def exit_codes(command: str) -> str:
    """Return the part of a command's help that says what its exit codes mean."""
    return section("Exit code", *(f"{code}  {meaning}" for code, meaning in EXIT_CODES[command].items()))


def section(title: str, *lines: str) -> str:
    """Return a part of a help text whose lines are not wrapped."""
    return "\n".join(["\b", f"{title}:", *(f"  {line}" for line in lines), "", ""])


class Command(click.Command):
    """A command whose flags also take a value, as Go's do: ``--debug=true``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, after ``--flag=true`` has become ``--flag`` and ``--flag=false`` nothing."""
        return super().parse_args(ctx, list(_without_flag_values(self.params, args)))


class Group(click.Group):
    """The root: errors are one line each, with the exit codes of `EXIT_CODES`."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, after ``--flag=true`` has become ``--flag`` and ``--flag=false`` nothing."""
        return super().parse_args(ctx, list(_without_flag_values(self.params, args)))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; guess what one that does not exist was to be."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            if guesses := difflib.get_close_matches(args[0], self.list_commands(ctx), n=1):
                text = f"{error.message.rstrip('.')}. Did you mean {guesses[0]!r}?"
                raise click.UsageError(text, ctx) from error
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An expected error is one line, a defect a log line with its traceback."""
        try:
            with _usage_errors_exit_as_documented():
                return super().invoke(ctx)
        except FlipopError as error:
            if debugging(ctx):
                _log_defect("the command failed")
            secrets = Secrets.of_environment(os.environ, ctx.meta.get(_FACTORIES, ()))
            click.echo(f"flipop: {one_line(redact(str(error), secrets))}", err=True)
            ctx.exit(2 if isinstance(error, BadInput) else 1)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception:
            _log_defect("flipop has a defect and ends")
            ctx.exit(1)


class _WrongUsage(click.UsageError):
    exit_code = 1


@contextmanager
def _usage_errors_exit_as_documented() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        if error.ctx is not None and error.ctx.info_name in _ANSWER_2:
            raise _WrongUsage(error.format_message(), error.ctx) from error
        raise


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
    from flipop_core.cli.structured import structlog

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
    secrets = Secrets.of_environment(os.environ, factories)
    configure_logging(debug=settings.debug, quiet=quiet, secrets=secrets, kept=registry.secrets)
    return registry


def load_usable_registry(ctx: click.Context, settings: Settings, *, quiet: bool) -> ProviderRegistry:
    """Load the plugins; log which failed, and if none has its credentials. Raises ConfigError when there is none."""
    from flipop_core.cli.structured import structlog

    log = structlog.get_logger(__name__)
    registry = load_registry(ctx, settings, quiet=quiet)
    for plugin in registry.plugins:
        if plugin.error is not None:
            log.error("plugin failed", plugin=plugin.name, error=str(plugin.error))
        if plugin.slowness:
            log.warning("plugin is slow", plugin=plugin.name, problem=plugin.slowness)
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

"""The commands. Each imports what it needs when it runs, so that help and `flipop version` answer at once."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flipop_core.config import Secrets, Settings, redact
from flipop_core.errors import ConfigError, FlipopError

if TYPE_CHECKING:
    from flipop_core.registry import ProviderRegistry

_DEBUG = "flipop.debug"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})

F = TypeVar("F", bound=Callable[..., Any])


def main() -> None:
    """Run the command `flipop` with the process's arguments, and exit."""
    cli(prog_name="flipop")


# -- how all commands behave -----------------------------------------------------------------------------------------


class _Command(click.Command):
    """A command whose flags also take a value, as Go's do: ``--debug=true``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_without_flag_values(self.params, args)))


class _Group(click.Group):
    """The root: wrong usage exits with 1, since 2 is an answer of `flipop plan`; errors are one line each."""

    command_class = _Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_without_flag_values(self.params, args)))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _usage_errors_exit_with_1():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _usage_errors_exit_with_1():
                return super().invoke(ctx)
        except FlipopError as error:
            if ctx.meta.get(_DEBUG):
                _log_defect("the command failed")
            secrets = Secrets.of_environment(os.environ, ctx.meta.get("flipop.factories", ()))
            click.echo(f"flipop: {redact(str(error), secrets)}", err=True)
            ctx.exit(1)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception:
            _log_defect("flipop has a defect and ends")
            ctx.exit(1)


@contextmanager
def _usage_errors_exit_with_1() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        error.exit_code = 1
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
    import structlog

    if not structlog.is_configured():
        from flipop_core.cli.logs import configure_logging

        configure_logging()
    structlog.get_logger(__name__).critical(message, exc_info=True)


def _note_debug(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    ctx.meta[_DEBUG] = value or ctx.meta.get(_DEBUG, False)
    return bool(ctx.meta[_DEBUG])


_debug = click.option(
    "--debug", is_flag=True, callback=_note_debug, help="Log more, and show the traceback of an error."
)
_kubeconfig = click.option(
    "--kubeconfig",
    metavar="PATH",
    default="",
    help="Kubeconfig file. Default: $KUBECONFIG, else the pod's service account, else ~/.kube/config.",
)
_context = click.option("--context", metavar="NAME", default="", help="Context of the kubeconfig. Default: current.")
_output = click.option(
    "-o", "--output", type=click.Choice(["human", "json"]), default="human", show_default=True, help="Output format."
)


def _controller_options(command: F) -> F:
    """Add the flags of the original, in the order of the help."""
    for option in (
        click.option(
            "--keep-last-record",
            is_flag=True,
            help="Accepted for compatibility, and always on: a DNS record is never emptied for lack of addresses.",
        ),
        click.option(
            "--metrics-bind-addr",
            metavar="ADDR",
            default=":8080",
            show_default=True,
            help="Where /metrics, /healthz and /readyz are served. Empty: nowhere.",
        ),
        _debug,
        _kubeconfig,
    ):
        command = option(command)
    return command


def _registry(ctx: click.Context, settings: Settings, *, quiet: bool) -> ProviderRegistry:
    """Set up logging and load the plugins; whatever they call a credential is kept out of the logs."""
    from flipop_core.cli.logs import configure_logging, log_what_nobody_catches
    from flipop_core.registry import ProviderRegistry

    configure_logging(debug=settings.debug, quiet=quiet)
    log_what_nobody_catches()
    registry = ProviderRegistry(timeout_seconds=settings.provider_timeout_seconds)
    registry.discover()
    factories = [factory for plugin in registry.plugins for factory in plugin.factories]
    ctx.meta["flipop.factories"] = factories
    configure_logging(debug=settings.debug, quiet=quiet, secrets=Secrets.of_environment(os.environ, factories))
    return registry


def _usable_registry(ctx: click.Context, settings: Settings, *, quiet: bool) -> ProviderRegistry:
    """Load the plugins and log which of them failed. Raises ConfigError when none provides anything."""
    import structlog

    registry = _registry(ctx, settings, quiet=quiet)
    for plugin in registry.plugins:
        if plugin.error is not None:
            structlog.get_logger(__name__).error("plugin failed", plugin=plugin.name, error=str(plugin.error))
    if not any(plugin.factories for plugin in registry.plugins):
        raise ConfigError(
            "no provider is installed: pip install 'flipop-core[digitalocean]', and see `flipop providers`"
        )
    return registry


# -- commands --------------------------------------------------------------------------------------------------------


@click.group(
    cls=_Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@_controller_options
@click.pass_context
def cli(ctx: click.Context, **options: Any) -> None:
    """Keep floating IPs on healthy Kubernetes nodes.

    Without a command, flipop runs the controller: `flipop --kubeconfig PATH` is `flipop run --kubeconfig PATH`.

    \b
    Examples:
      flipop demo                     watch it work; nothing is called, nothing is charged
      flipop providers                what is installed, and which credentials are set
      flipop crds | kubectl apply -f -
      flipop plan                     what `run` would do now
      flipop run                      do it, and keep at it
    """
    if ctx.invoked_subcommand is None:
        ctx.exit(_run(ctx, options))
    default = click.core.ParameterSource.DEFAULT
    given = {name: value for name, value in options.items() if ctx.get_parameter_source(name) is not default}
    ctx.default_map = dict.fromkeys(cli.commands, given)


@cli.command()
@_controller_options
@_context
@click.option(
    "--cluster-name",
    metavar="NAME",
    default="",
    help="Tells the addresses of several clusters in one account apart, where the provider has tags.",
)
@click.option(
    "--recheck-seconds",
    metavar="SECONDS",
    type=float,
    default=300.0,
    show_default=True,
    help="How often pools at rest are compared with the provider.",
)
@click.option(
    "--lease-namespace",
    "namespace",
    metavar="NAME",
    default="",
    help="Namespace of the leader lease. Default: that of the kubeconfig's context or of the pod.",
)
@click.option(
    "--no-leader-election",
    is_flag=True,
    help="Act without a lease. Two such processes would fight over the addresses: for development only.",
)
@click.pass_context
def run(ctx: click.Context, **options: Any) -> None:
    """Run the controller until SIGTERM or Ctrl-C.

    Several may run: one leads, and another takes over when it ends. The first signal lets what is in flight finish
    and gives the lease away, the second exits at once.

    \b
    Examples:
      flipop run                                    in a pod, or with ~/.kube/config
      flipop run --kubeconfig ./kubeconfig --debug
      flipop run --metrics-bind-addr 127.0.0.1:9090
    """
    ctx.exit(_run(ctx, options))


def _run(ctx: click.Context, options: dict[str, Any]) -> int:
    del options["keep_last_record"]  # always so
    settings = Settings(leader_election=not options.pop("no_leader_election", False), **options)
    from flipop_core.cli.stopping import stop_on_signals

    stop = threading.Event()
    with stop_on_signals(stop):
        registry = _usable_registry(ctx, settings, quiet=False)
        from flipop_core.runtime.manager import run_controller

        return run_controller(settings, registry, stop)


@cli.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-n", "--namespace", metavar="NAME", default="", help="Pools of this namespace only. Default: all.")
@_output
@_debug
@_context
@_kubeconfig
@click.pass_context
def plan(
    ctx: click.Context,
    names: tuple[str, ...],
    namespace: str,
    output: str,
    debug: bool,
    context: str,
    kubeconfig: str,
) -> None:
    """Print what `run` would do now, and do none of it.

    Reads the cluster and the providers. Give names to see only these pools.

    \b
    Exit code:
      0  there is nothing to do
      1  it could not be found out
      2  there is something to do

    \b
    Examples:
      flipop plan
      flipop plan -n ingress ingress-pool -o json
    """
    settings = Settings(kubeconfig=kubeconfig, context=context, debug=debug, metrics_bind_addr="")
    registry = _usable_registry(ctx, settings, quiet=True)
    from flipop_core.cli.output import plan_exit_code, plans_as_json, plans_as_text
    from flipop_core.runtime.manager import make_plans

    plans = make_plans(settings, registry, namespace, names)
    click.echo(plans_as_json(plans) if output == "json" else plans_as_text(plans))
    ctx.exit(plan_exit_code(plans))


@cli.command()
@_output
@_debug
@click.pass_context
def providers(ctx: click.Context, output: str, debug: bool) -> None:
    """List the installed providers, and which of their credentials are set.

    A plugin that failed to load is listed with its error.

    \b
    Examples:
      flipop providers
      flipop providers -o json | jq '.providers[].name'
    """
    registry = _registry(ctx, Settings(debug=debug), quiet=True)
    from flipop_core.cli.output import as_json, describe_providers, print_providers

    described = describe_providers(registry, os.environ)
    if output == "json":
        click.echo(as_json(described))
    else:
        print_providers(described)


@cli.command()
@click.option(
    "--output-dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file for each into DIR instead of printing them.",
)
def crds(output_dir: Path | None) -> None:
    """Print the CustomResourceDefinitions as YAML.

    \b
    Examples:
      flipop crds | kubectl apply -f -
      flipop crds --output-dir deploy/crds
    """
    from flipop_core.resources.schema import custom_resource_definitions, to_yaml

    definitions = custom_resource_definitions()
    if output_dir is None:
        click.echo(to_yaml(*definitions), nl=False)
        return
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
        for definition in definitions:
            path = output_dir / f"{definition['spec']['names']['plural']}.yaml"
            path.write_text(to_yaml(definition), encoding="utf-8")
            click.echo(path)
    except OSError as error:
        raise ConfigError(
            f"--output-dir: {error.filename}: {error.strerror}: choose a directory to write to"
        ) from error


@cli.command()
@click.option("--once", is_flag=True, help="Print a plain transcript of one round and end, for a pipe.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="How fast the simulated time passes: 2 is twice as fast.",
)
@click.pass_context
def demo(ctx: click.Context, once: bool, speed: float) -> None:
    """Watch floating IPs follow healthy nodes, in a simulated cluster with a simulated provider.

    The controller is the real one; the API server and the provider live in this process. Nothing is called and
    nothing is charged. Ctrl-C ends it.

    \b
    Examples:
      flipop demo
      flipop demo --once | less
    """
    from flipop_core.cli.logs import configure_logging
    from flipop_core.demo import run_demo

    configure_logging(debug=bool(ctx.meta.get(_DEBUG)), quiet=True)
    ctx.exit(run_demo(once=once, speed=speed))


@cli.command()
def version() -> None:
    """Print the version."""
    from flipop_core import __version__

    python = ".".join(str(part) for part in sys.version_info[:3])
    click.echo(f"flipop {__version__} (Python {python})")

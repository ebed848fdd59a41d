"""The commands. Each imports what it needs when it runs, so that help and `flipop version` answer at once."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from flipop_core import __version__
from flipop_core.cli.completion import SHELLS, completion_script
from flipop_core.cli.frame import (
    BadInput,
    Group,
    debugging,
    exit_codes,
    load_registry,
    load_usable_registry,
    section,
)
from flipop_core.cli.options import context_option, controller_options, debug_option, output_option, reading_options
from flipop_core.cli.terminal import progress
from flipop_core.config import Settings
from flipop_core.errors import ConfigError

_VERSION = f"flipop {__version__} (Python {'.'.join(str(part) for part in sys.version_info[:3])})"


def main() -> None:
    """Run the command `flipop` with the process's arguments, and exit."""
    cli(prog_name="flipop")


def _check_found(names: Collection[str], found: Collection[str], namespace: str) -> None:
    if unknown := sorted(set(names).difference(found)):
        where = f"namespace {namespace}" if namespace else "any namespace"
        raise ConfigError(f"there is no pool, RoutedIP or record set {', '.join(unknown)} in {where}")


# -- commands --------------------------------------------------------------------------------------------------------


@click.group(
    cls=Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=section(
        "Examples",
        "flipop demo                      watch it work; nothing is called, nothing is charged",
        "flipop providers                 what is installed, and which credentials are set",
        "flipop crds | kubectl apply -f -",
        "flipop plan                      what `run` would do now",
        "flipop run                       do it, and keep at it",
        "flipop status                    what has become of it, and why",
    )
    + section(
        "Exit code",
        "0  done, and nothing is wrong",
        "1  it failed; or `flipop validate` has found something",
        "2  wrong usage; but of `plan`: there is something to do, of `status`: something is not ready",
    )
    + section(
        "Environment",
        "NO_COLOR, FORCE_COLOR   never, or always, write colours",
        "KUBECONFIG              kubeconfig files, as for kubectl",
        "Credentials             see `flipop providers`",
    ),
)
@controller_options
@click.version_option(__version__, message=_VERSION, help="Print the version.")
@click.pass_context
def cli(ctx: click.Context, /, **options: Any) -> None:
    """Keep floating IPs on healthy Kubernetes nodes.

    Without a command, flipop runs the controller: `flipop --debug` is `flipop run --debug`.
    """
    if ctx.invoked_subcommand is None:
        ctx.exit(_run(ctx, options))
    ctx.default_map = dict.fromkeys(cli.commands, options)  # what the command does not say itself, the root has said


@cli.command(
    epilog=exit_codes("run")
    + section(
        "Examples",
        "flipop run                                      in a pod, or with ~/.kube/config",
        "flipop run --kubeconfig ./kubeconfig --debug",
        "flipop run --metrics-bind-addr 127.0.0.1:9090",
    )
)
@controller_options
@context_option
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
    "--max-moves-per-minute",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="How many addresses of all pools may move from node to node within a minute. 0: any number.",
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
def run(ctx: click.Context, /, **options: Any) -> None:
    """Run the controller until SIGTERM or Ctrl-C.

    Several may run: one leads, and another takes over when it ends. The first signal lets what is in flight finish
    and gives the lease away, the second exits at once.
    """
    ctx.exit(_run(ctx, options))


def _run(ctx: click.Context, options: dict[str, Any]) -> int:
    del options["keep_last_record"]  # always so
    try:
        settings = Settings(leader_election=not options.pop("no_leader_election", False), **options)
    except ConfigError as error:
        raise BadInput(str(error)) from error
    from flipop_core.cli.stopping import stop_on_signals

    stop = threading.Event()
    with stop_on_signals(stop):
        gc.disable()  # until all is imported: collections among imports take a fifth of the start, and find nothing
        try:
            registry = load_usable_registry(ctx, settings, quiet=False)
            from flipop_core.runtime.process import run_controller

            return run_controller(settings, registry, stop)
        finally:
            gc.enable()


@cli.command(
    epilog=exit_codes("plan")
    + section(
        "Examples",
        "flipop plan",
        "flipop plan -n ingress ingress-pool -o json",
    )
)
@reading_options("Pools")
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
    """
    settings = Settings(kubeconfig=kubeconfig, context=context, debug=debug, metrics_bind_addr="")
    registry = load_usable_registry(ctx, settings, quiet=True)
    from flipop_core.cli.output import plan_exit_code, planned_resource, plans_as_json, plans_as_text
    from flipop_core.runtime.planning import make_plans

    with progress("reading the cluster and the providers"):
        plans = make_plans(settings, registry, namespace, names)
    _check_found(names, {planned_resource(plan).rpartition("/")[2] for plan in plans}, namespace)
    click.echo(plans_as_json(plans) if output == "json" else plans_as_text(plans))
    ctx.exit(plan_exit_code(plans))


@cli.command(
    short_help="Show pools, addresses, nodes and DNS, and why something is not ready.",
    epilog=exit_codes("status")
    + section(
        "Examples",
        "flipop status",
        "flipop status -n ingress ingress-pool",
        "FORCE_COLOR=1 watch --color flipop status",
        "flipop status -o json | jq '.pools[] | select(.ready | not)'",
    ),
)
@reading_options("Resources")
@click.pass_context
def status(
    ctx: click.Context,
    names: tuple[str, ...],
    namespace: str,
    output: str,
    debug: bool,
    context: str,
    kubeconfig: str,
) -> None:
    """Show pools, addresses, nodes and DNS as the controller last reported them, and why something is not ready.

    Reads the cluster alone; no provider is asked. `flipop plan` tells what would be done about it.
    """
    from flipop_core.cli.logs import configure_logging
    from flipop_core.cli.output import as_json
    from flipop_core.cli.status import print_status, status_exit_code
    from flipop_core.runtime.overview import read_overview

    configure_logging(debug=debug, quiet=True)
    refused: list[str] = []
    with progress("reading the cluster"):
        overview = read_overview(kubeconfig, context, namespace, names, refused)
    for right in refused:
        click.echo(f"flipop: {right}", err=True)
    _check_found(names, {row["name"] for rows in overview.values() for row in rows}, namespace)
    if output == "json":
        click.echo(as_json(overview))
    else:
        print_status(overview)
    ctx.exit(status_exit_code(overview))


@cli.command(
    epilog=exit_codes("providers")
    + section(
        "Examples",
        "flipop providers",
        "flipop providers --verify",
        "flipop providers -o json | jq '.providers[].name'",
    )
)
@click.option(
    "--verify",
    is_flag=True,
    help="Ask each provider whose credentials are set if it accepts them; reads only, one or two calls each.",
)
@output_option
@debug_option
@click.pass_context
def providers(ctx: click.Context, verify: bool, output: str, debug: bool) -> None:
    """List providers and whether credentials are set.

    A plugin that failed to load is listed with its error. With --verify the credentials that are set are tried out.
    """
    registry = load_registry(ctx, Settings(debug=debug), quiet=True)
    from flipop_core.cli.output import as_json, describe_providers, print_providers

    described = describe_providers(registry, os.environ)
    good = True
    if verify:
        from flipop_core.cli.verify import GOOD, verify_providers, with_verdicts

        with progress("asking the providers"):
            verdicts = verify_providers(registry, os.environ)
        described = with_verdicts(described, verdicts)
        good = all(verdict == GOOD for verdict in verdicts.values())
    if output == "json":
        click.echo(as_json(described))
    else:
        print_providers(described)
    ctx.exit(0 if good else 1)


@cli.command(
    epilog=exit_codes("validate")
    + section(
        "Examples",
        "flipop validate pool.yaml",
        "flipop validate manifests/*.yaml",
        "helm template . | flipop validate -",
    )
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(dir_okay=False, allow_dash=True))
@debug_option
@click.pass_context
def validate(ctx: click.Context, files: tuple[str, ...], debug: bool) -> None:
    """Check manifests without a cluster.

    Finds unknown fields, values that make no sense, and what no installed provider has; other kinds of objects are
    passed over. `-` is standard input. The rules across fields are the API server's: kubectl apply --dry-run=server.
    """
    registry = load_registry(ctx, Settings(debug=debug), quiet=True)
    from flipop_core.cli.output import counted, printable
    from flipop_core.cli.validate import check_file

    checked, unread = [], 0
    for file in files:
        try:
            checked.append(check_file(file, registry))
        except BadInput as error:
            unread += 1
            click.echo(f"flipop: {printable(str(error))}", err=True)
    findings = [finding for each in checked for finding in each.findings]
    for finding in findings:
        click.echo(printable(str(finding)))
    resources, others = sum(each.resources for each in checked), sum(each.others for each in checked)
    passed_over = f", {counted(others, 'other object')} passed over" if others else ""
    click.echo(f"{resources} checked, {counted(len(findings), 'problem')}{passed_over}", err=True)
    ctx.exit(2 if unread else 1 if findings else 0)


@cli.command(
    epilog=exit_codes("crds")
    + section(
        "Examples",
        "flipop crds | kubectl apply -f -",
        "flipop crds --output-dir deploy/crds",
    )
)
@click.option(
    "--output-dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file for each into DIR instead of printing them.",
)
def crds(output_dir: Path | None) -> None:
    """Print the CustomResourceDefinitions as YAML."""
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
        where = f"--output-dir: {error.filename}: {error.strerror}"
        raise ConfigError(f"{where}: choose a directory to write to") from error


@cli.command(epilog=exit_codes("demo") + section("Examples", "flipop demo", "flipop demo --once | less"))
@click.option("--once", is_flag=True, help="Print a plain transcript of one round and end, for a pipe.")
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 50),
    metavar="FACTOR",
    default=1.0,
    show_default=True,
    help="How fast the pauses and the provider are: 2 is twice as fast.",
)
@click.pass_context
def demo(ctx: click.Context, once: bool, speed: float) -> None:
    """Watch it work in a simulated cluster with a simulated provider.

    The controller is the real one; the API server and the provider live in this process. Nothing is called and
    nothing is charged. Ctrl-C ends it.
    """
    from flipop_core.cli.logs import configure_logging
    from flipop_core.demo import run_demo

    configure_logging(debug=debugging(ctx), quiet=True)
    ctx.exit(run_demo(once=once, speed=speed))


@cli.command(
    epilog=exit_codes("completion")
    + section(
        "Examples",
        "flipop completion bash > /etc/bash_completion.d/flipop",
        'flipop completion zsh > "${fpath[1]}/_flipop"',
        "flipop completion fish > ~/.config/fish/completions/flipop.fish",
    )
    + section("For this shell only", 'eval "$(flipop completion bash)"')
)
@click.argument("shell", metavar="SHELL", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print the script that lets a shell complete commands and flags.

    SHELL is bash (4.4 or newer), zsh or fish.
    """
    click.echo(completion_script(cli, shell), nl=False)


@cli.command(epilog=exit_codes("version"))
def version() -> None:
    """Print the version."""
    click.echo(_VERSION)

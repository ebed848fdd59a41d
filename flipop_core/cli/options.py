"""The options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from flipop_core.cli.frame import note_debug

F = TypeVar("F", bound=Callable[..., Any])

debug_option = click.option(
    "--debug", is_flag=True, callback=note_debug, help="Log more, and show the traceback of an error."
)
kubeconfig_option = click.option(
    "--kubeconfig",
    metavar="PATH",
    default="",
    help="Kubeconfig file. Default: $KUBECONFIG, else the pod's service account, else ~/.kube/config.",
)
context_option = click.option(
    "--context", metavar="NAME", default="", help="Context of the kubeconfig. Default: current."
)
output_option = click.option(
    "-o", "--output", type=click.Choice(["human", "json"]), default="human", show_default=True, help="Output format."
)


def controller_options(command: F) -> F:
    """Add the flags of the original."""
    return _with_options(
        command,
        kubeconfig_option,
        debug_option,
        click.option(
            "--metrics-bind-addr",
            metavar="ADDR",
            default=":8080",
            show_default=True,
            help="Where the status page, at /, and /metrics, /healthz and /readyz are served. Empty: nowhere.",
        ),
        click.option(
            "--keep-last-record",
            is_flag=True,
            help="Accepted for compatibility, and always on: a DNS record is never emptied for lack of addresses.",
        ),
    )


def reading_options(resources: str) -> Callable[[F], F]:
    """Add what says which ``resources`` are read, from where, and how they are shown."""

    def add(command: F) -> F:
        return _with_options(
            command,
            click.argument("names", metavar="[NAME]...", nargs=-1),
            click.option(
                "-n",
                "--namespace",
                metavar="NAME",
                default="",
                help=f"{resources} of this namespace only. Default: all.",
            ),
            output_option,
            debug_option,
            context_option,
            kubeconfig_option,
        )

    return add


def _with_options(command: F, *options: Callable[[F], F]) -> F:
    """Add the options in the order of the help."""
    for option in reversed(options):
        command = option(command)
    return command

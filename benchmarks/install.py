"""What an installation costs: size, import time and memory of the core alone, with each plugin, and with all.

The distributions are built, and installed from their wheels into clean environments, with byte code compiled as pip and
the image do; last, the example of a plugin by somebody else beside all of them.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, Options
from tests.packaging.distributions import (
    EXAMPLE_DIRECTORY,
    PLUGINS,
    Distributions,
    Environment,
    add,
    build,
    create,
    installed_bytes,
)

#: The peak in KiB. Not that of getrusage, which starts with what the parent had at the fork.
_RESIDENT = "{}\nprint(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM:')))"
_DISCOVER = "from flipop_core.registry import ProviderRegistry; r = ProviderRegistry(); r.discover()"
_RUNTIME = "import flipop_core.runtime.process, flipop_core.runtime.kube, kubernetes.client"
_BUILD = (
    "from flipop_core.registry import ProviderRegistry\n"
    "r = ProviderRegistry({'DIGITALOCEAN_ACCESS_TOKEN': 'x', 'CLOUDFLARE_TOKEN': 'x', 'AWS_ACCESS_KEY_ID': 'x',"
    " 'AWS_SECRET_ACCESS_KEY': 'x', 'AWS_REGION': 'us-east-1', 'NIMBUS_TOKEN': 'x'})\n"
    "r.discover()\n"
    "built = [getattr(r, f'{role}_provider')(each.name, region='us-east-1')"
    " for plugin in r.plugins for role, offered in plugin.roles.items() for each in offered]"
)
_MIB = 2**20
_WITH_EXAMPLE = "core, all and the example"


def install(options: Options) -> list[Figure]:
    """Return the figures; see the module."""
    everything = tuple(PLUGINS)
    combinations = {"core alone": (), **{f"core, {name}": (name,) for name in PLUGINS}, "core, all": everything}
    combinations[_WITH_EXAMPLE] = everything
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="flipop-install-") as temporary:
        distributions = build(Path(temporary) / "dist")
        figures += _wheels(distributions)
        for number, (title, extras) in enumerate(combinations.items()):
            environment = create(Path(temporary) / f"env-{number}", distributions, extras)
            if title == _WITH_EXAMPLE:
                add(environment, EXAMPLE_DIRECTORY, Path(temporary) / "example")
            size = installed_bytes(environment) / _MIB
            _compile(environment)
            figures.append(Figure(f"{title}: size without byte code", "MiB", (size,)))
            figures += _costs(title, environment, options.repetitions(10))
    return figures


def _wheels(distributions: Distributions) -> list[Figure]:
    names = sorted(distributions.directory.glob("*.whl"))
    return [Figure(f"wheel {path.name.split('-')[0]}", "KiB", (path.stat().st_size / 1024,)) for path in names]


def _compile(environment: Environment) -> None:
    command: list[str | Path] = [environment.python, "-m", "compileall", "-q", "-j", "0", environment.directory / "lib"]
    subprocess.run(command, check=True, capture_output=True)


def _costs(title: str, environment: Environment, repetitions: int) -> list[Figure]:
    codes = {"import flipop_core": "import flipop_core", "find plugins": _DISCOVER}
    figures = []
    for name, code in codes.items():
        times = [_import_milliseconds(environment, code) for _ in range(repetitions)]
        figures.append(Figure(f"{title}: {name}", "ms", tuple(wall for wall, _ in times)))
        figures.append(Figure(f"{title}: {name}, CPU", "ms", tuple(cpu for _, cpu in times)))
    commands = tuple(_command_milliseconds(environment) for _ in range(repetitions))
    figures.append(Figure(f"{title}: flipop version", "ms", commands))
    resident = {**codes, "controller and SDKs": f"{_RUNTIME}\n{_BUILD}"}
    for name, code in resident.items():
        memory = _resident_mebibytes(environment, code)
        figures.append(Figure(f"{title}: {name}, RSS", "MiB", (memory,)))
    return figures


def _import_milliseconds(environment: Environment, code: str) -> tuple[float, float]:
    """Return what ``code`` takes in a new interpreter, without that one's own start: by the clock, and of a CPU.

    On a busy machine the second tells more.
    """
    clocks = "time.perf_counter(), time.process_time()"
    script = f"import time; w, c = {clocks}; {code}; v, d = {clocks}; print([v - w, d - c])"
    wall_seconds, cpu_seconds = environment.evaluate(script)
    return wall_seconds * 1000, cpu_seconds * 1000


def _command_milliseconds(environment: Environment) -> float:
    """Return what the command takes from the start of the process to its end."""
    started = time.perf_counter()
    environment.call("flipop", "version").check_returncode()
    return (time.perf_counter() - started) * 1000


def _resident_mebibytes(environment: Environment, code: str) -> float:
    return float(environment.evaluate(_RESIDENT.format(code))) / 1024

"""The command group: loads a subcommand when it is asked for, and turns mistakes into one line."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper

import click

from bcrbench import __version__
from bcrbench.errors import RunFailed, UserError, inert, unknown

COMMANDS = {
    "prefill": "bcrbench.cli.prefill:prefill",
    "reuse": "bcrbench.cli.reuse:reuse",
    "repair": "bcrbench.cli.repair:repair",
    "sweep": "bcrbench.cli.sweep:sweep",
    "grade": "bcrbench.cli.grade:grade",
    "bench": "bcrbench.cli.bench:bench",
    "stats": "bcrbench.cli.stats:stats",
    "verify": "bcrbench.cli.verify:verify",
    "conditions": "bcrbench.cli.conditions:conditions",
}


class LazyGroup(click.Group):
    """Imports a subcommand's module only when that command or its help is wanted."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Names in the order in which work is done."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of a name; raises UserError with the nearest match."""
        if name not in COMMANDS:
            raise unknown("command", name, COMMANDS)
        module, _, attribute = COMMANDS[name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="bcrbench")
def cli() -> None:
    """Measure what KV-cache reuse costs a multi-agent workload, and what repairing it buys back.

    \b
    bcrbench sweep --gamma 0.3,0.5,0.7,1.0        run Dense and KVComm on the bundled model
    bcrbench stats runs/*.jsonl --vs dense        paired statistics from the logs
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line; exit codes: 0, 1 a run failed, 2 a mistake in what was given, 130 stopped."""
    # No hub is asked unless a person names a hub id; the tokenizers' thread pool would only fight over cores.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # else each try of an unreachable hub is three more lines
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file's name or text that the terminal cannot show
    try:
        code = cli.main((sys.argv[1:] if args is None else args) or ["--help"], standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _stop(error.format_message(), 2)
    except UserError as error:
        _stop(str(error), 2)
    except RunFailed as error:
        _stop(str(error), 1)
    except (click.Abort, KeyboardInterrupt):
        _stop("stopped", 130)
    except BrokenPipeError:  # the reader of our output went away (`| head`)
        _drop_output()
        sys.exit(1)
    except OSError as error:
        _drop_output()
        _stop(f"{error.filename or 'output'}: {error.strerror or error}", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _drop_output() -> None:
    """What could not be written stays unwritten: Python would try again at exit, and complain."""
    with suppress(OSError, ValueError, AttributeError):  # closed, or no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stop(message: str, code: int) -> None:
    click.echo(f"bcrbench: {inert(' '.join(message.split()))}", err=True)
    sys.exit(code)

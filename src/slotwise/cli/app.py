"""The commands together, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from slotwise.cli import interrupt
from slotwise.cli.bound import bound
from slotwise.cli.compare import compare
from slotwise.cli.convert import convert
from slotwise.cli.explain import explain
from slotwise.cli.fit import fit
from slotwise.cli.inspect import inspect
from slotwise.cli.policies import policies
from slotwise.cli.quote import quote
from slotwise.cli.reproduce import reproduce
from slotwise.cli.simulate import simulate
from slotwise.errors import InvalidInput, SlotwiseError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Online scheduling of distributed machine-learning training.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_INTERRUPTED = 130


def _version(wanted: bool) -> None:
    if wanted:
        from slotwise import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app.command()(simulate)
app.command()(compare)
app.command()(policies)
app.command()(explain)
app.command()(reproduce)
app.command()(bound)
app.command()(quote)
app.command()(fit)
app.command()(inspect)
app.command()(convert)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        0 done, 1 failure, 2 usage or bad input, 130 interrupted.
    """
    if arguments is not None:
        return _run(arguments)
    interrupt.listen()
    code = _run(sys.argv[1:])
    interrupt.done()
    return code


def _run(arguments: Sequence[str]) -> int:
    given = list(arguments)
    try:
        code = app(args=given or ["--help"], prog_name="slotwise", standalone_mode=False)
    except typer.Abort:
        return _fail("interrupted", _INTERRUPTED)
    except typer.TyperException as error:
        return _fail(error.format_message(), 2)
    except InvalidInput as error:
        return _fail(str(error), 2)
    except SlotwiseError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return _fail("interrupted", _INTERRUPTED)
    except SystemError as error:
        # A compiled kernel that is interrupted reports the interrupt in this disguise, sometimes without its cause.
        if "exception set" in str(error):
            return _fail("interrupted", _INTERRUPTED)
        raise
    except MemoryError:
        return _fail("out of memory; use a longer --slot, a shorter --horizon or a smaller --cluster-share", 1)
    except SystemExit:
        # Rich ends so when whoever read our output has seen enough.
        return 0
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(f"output must go somewhere that takes it: {error.strerror}", 1)
    if code == _INTERRUPTED:
        return _fail("interrupted", _INTERRUPTED)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    print("slotwise: " + " ".join(message.split()), file=sys.stderr)
    return code

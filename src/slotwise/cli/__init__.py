"""The command line. Heavy libraries are imported where they are used, so that ``--help`` answers at once."""

from slotwise.cli.app import app, main

__all__ = ["app", "main"]

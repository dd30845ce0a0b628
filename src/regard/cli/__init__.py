"""The command `regard`, one command per file."""

from regard.cli.app import app as app


def main() -> None:
    """Run the command."""
    app(prog_name="regard")

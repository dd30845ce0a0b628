"""`regard` as a user types it: what a command answers, and what it complains about."""

from typer.testing import CliRunner

from regard.cli import app


def run(*arguments, given=None, columns=200):
    """The command with these arguments, standard input and width of the terminal."""
    typed, env = [str(one) for one in arguments], {"COLUMNS": str(columns)}
    return CliRunner().invoke(app, typed, input=given, prog_name="regard", env=env)


def answer(*arguments, **more):
    """What it prints, when all is well."""
    done = run(*arguments, **more)
    assert done.exit_code == 0, done.output
    return done.stdout


def complaint(*arguments, **more):
    """The one line on standard error with which it refuses."""
    done = run(*arguments, **more)
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), done.output
    assert done.stdout == "" and "Traceback" not in done.output, done.output
    return done.stderr.splitlines()[-1]

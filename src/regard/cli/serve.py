"""regard serve: a local page where one types a sentence and sees what runs say and where they look."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli.app import app, aside, complain, console
from regard.cli.train import chosen
from regard.core.errors import RunError, SettingsError, WeightsError

Runs = Annotated[list[Path], Argument(metavar="RUN…", help="Folders of trained runs.")]
Host = Annotated[str, Option(help="Where to listen; any but loopback demands a token.")]
Port = Annotated[int, Option(min=0, max=65535, help="0 is any that is free.")]
Longest = Annotated[int, Option(min=1, help="Tokens of a text; longer ones are refused.")]
Seconds = Annotated[float, Option(min=0.1, help="An answer may take, once it is its turn.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]


@app.command()
def serve(
    runs: Runs,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    longest: Longest = 512,
    seconds: Seconds = 20.0,
    device: Device = "auto",
) -> None:
    """Serve a page that shows what runs say, where they look, and what changes without a word.

    It is for this machine alone. With another --host every request must bring a token: that in REGARD_TOKEN,
    or one that is drawn; it stands in the address that is printed. The API is described at
    /api/openapi.json.

    Examples:

    - `regard serve runs/demo`

    - `regard serve runs/en-de runs/en-de-entmax15 --port 8080`

    - `regard serve runs/sst`: of a classifier, its words by weight or by any explanation
    """
    try:
        from regard.serve.server import serve as start
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("fastapi", "uvicorn", "starlette", "pydantic", "h11"):
            raise
        complain("serving needs fastapi and uvicorn: pip install 'regard[serve]'")
    from regard.serve import Bounds, open_runs

    try:
        found = open_runs(runs, chosen(device))
        aside().print(f"serving {', '.join(found)}; Ctrl-C stops it", soft_wrap=True, markup=False)
        start(found, host=host, port=port, bounds=Bounds(longest=longest, seconds=seconds), say=say)
    except (RunError, SettingsError, WeightsError, ImportError, ValueError) as error:
        complain(error)
    except OSError as error:
        complain(f"cannot listen at {host}, port {port}: {error.strerror or error}.")


def say(address: str) -> None:
    """Print the address, at once: others may wait for it."""
    console().print(address, soft_wrap=True, markup=False)

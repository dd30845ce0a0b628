"""regard serve: a local page that shows what runs answer to a text and where they attend."""

import os
from pathlib import Path

from typer import Argument, Option

from regard.cli.app import app, fail, remark, say
from regard.cli.common import Device, exit_on_error, resolve_device


@app.command()
def serve(
    runs: list[Path] = Argument(..., metavar="RUN…", help="Folders of trained runs."),
    host: str = Option("127.0.0.1", help="Where to listen; any but loopback demands a token."),
    port: int = Option(8000, min=0, max=65535, help="0 is any that is free."),
    longest: int = Option(512, min=1, help="Tokens of a text; longer ones are refused."),
    seconds: float = Option(20.0, min=0.1, help="That an answer may take; then it is ended."),
    device: Device = "auto",
) -> None:
    """Serve a page that shows what runs answer, where they attend, and what changes without a word.

    It is for this machine alone. With another --host every request must have a token: that in REGARD_TOKEN,
    or one that is drawn; it is in the address that is printed. The API is described at /api/openapi.json.

    Examples:

    - `regard serve runs/demo`

    - `regard serve runs/en-de runs/en-de-entmax15 --port 8080`

    - `regard serve runs/sst`
    """
    try:
        from regard.serve.server import serve as start
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("fastapi", "uvicorn", "starlette", "pydantic", "h11"):
            raise
        fail("serving needs fastapi and uvicorn: pip install 'regard[serve]'")
    from regard.serve import Bounds, open_runs

    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # looking for CUDA must not begin to use it: we fork
    bounds = Bounds(longest=longest, seconds=seconds)
    with exit_on_error("regard serve"):
        there = resolve_device(device)
        if there == "mps":
            remark("answers come from worker processes, which cannot use mps: they use the CPU")
            there = "cpu"
        found = open_runs(runs)
        remark(f"serving {', '.join(found)}; Ctrl-C stops it")
        try:
            start(found, host=host, port=port, bounds=bounds, device=there, say=say)
        except OSError as error:
            fail(f"cannot listen at {host}, port {port}: {error.strerror or error}.")

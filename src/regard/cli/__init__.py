"""The command `regard`, one command per file."""

from regard.cli import bench_attention as bench_attention
from regard.cli import bench_maps as bench_maps
from regard.cli import demo as demo
from regard.cli import maps as maps
from regard.cli import scores as scores
from regard.cli.app import app as app


def main() -> None:
    """Run the command."""
    app(prog_name="regard")

"""The command `regard`, one command per file."""

from regard.cli import align as align
from regard.cli import audit as audit
from regard.cli import bench_attention as bench_attention
from regard.cli import bench_decoding as bench_decoding
from regard.cli import bench_drawing as bench_drawing
from regard.cli import bench_flow as bench_flow
from regard.cli import bench_maps as bench_maps
from regard.cli import bench_serving as bench_serving
from regard.cli import bench_structured as bench_structured
from regard.cli import bench_training as bench_training
from regard.cli import classify as classify
from regard.cli import demo as demo
from regard.cli import evaluate as evaluate
from regard.cli import explain as explain
from regard.cli import heads as heads
from regard.cli import maps as maps
from regard.cli import probe as probe
from regard.cli import scores as scores
from regard.cli import serve as serve
from regard.cli import train as train
from regard.cli import train_aligner as train_aligner
from regard.cli import train_classification as train_classification
from regard.cli import translate as translate
from regard.cli import view as view
from regard.cli.app import app as app


def main() -> None:
    """Run the command."""
    app(prog_name="regard")

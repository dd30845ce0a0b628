"""The commands of `regard bench`."""

from regard.cli import bench_attention as bench_attention
from regard.cli import bench_decoding as bench_decoding
from regard.cli import bench_drawing as bench_drawing
from regard.cli import bench_flow as bench_flow
from regard.cli import bench_maps as bench_maps
from regard.cli import bench_serving as bench_serving
from regard.cli import bench_structured as bench_structured
from regard.cli import bench_training as bench_training

"""Serving: a local page that shows what runs answer and where they attend, and the API behind it."""

from regard.serve.guard import Bounds as Bounds
from regard.serve.served_run import ServedRun as ServedRun
from regard.serve.served_run import open_runs as open_runs

"""Serving: a local page that shows what runs say and where they look, and the API behind it."""

from regard.serve.bounds import Bounds as Bounds
from regard.serve.looked import Looked as Looked
from regard.serve.looked import look as look
from regard.serve.run import Run as Run
from regard.serve.run import open_runs as open_runs

"""Serving: a local page that shows what runs say and where they look, and the API behind it."""

from regard.serve.bounds import Bounds as Bounds
from regard.serve.classifier_run import ClassifierRun as ClassifierRun
from regard.serve.explaining import scored as scored
from regard.serve.judged import Judged as Judged
from regard.serve.judged import judge as judge
from regard.serve.looked import Looked as Looked
from regard.serve.looked import look as look
from regard.serve.opening import open_runs as open_runs
from regard.serve.run import Run as Run

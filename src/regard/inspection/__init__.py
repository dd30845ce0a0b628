"""Inspection: what a system answers, with which weights, and what changes when words are masked or deleted.

`regard view`, the page and notebooks show what is here. Systems are known by the names of `tasks/system.py`.
"""

from regard.inspection.control import Control as Control
from regard.inspection.control import controls as controls
from regard.inspection.control import resolve_options as resolve_options
from regard.inspection.description import describe as describe
from regard.inspection.inspected import Inspected as Inspected
from regard.inspection.inspected import InvalidRequest as InvalidRequest
from regard.inspection.inspected import inspect as inspect
from regard.inspection.inspected import self_attention as self_attention
from regard.inspection.method_scores import word_scores as word_scores
from regard.inspection.pictures import draw as draw

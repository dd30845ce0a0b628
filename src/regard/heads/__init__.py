"""Multi-head attention."""

from regard.heads.context import Context as Context
from regard.heads.convert import from_torch as from_torch
from regard.heads.convert import to_torch as to_torch
from regard.heads.multi_head import MultiHead as MultiHead

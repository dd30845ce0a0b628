"""Masks: which keys each query may attend to. True = may be attended to."""

from regard.masks.block_mask import Blocks as Blocks
from regard.masks.causal import Causal as Causal
from regard.masks.converters import from_additive as from_additive
from regard.masks.converters import from_hidden as from_hidden
from regard.masks.converters import to_hidden as to_hidden
from regard.masks.documents import Documents as Documents
from regard.masks.lengths import Lengths as Lengths
from regard.masks.mask import Mask as Mask
from regard.masks.mask import as_mask as as_mask
from regard.masks.prefix import Prefix as Prefix
from regard.masks.window import Window as Window

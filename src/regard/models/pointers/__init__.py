"""Models that point: the output is a sequence of positions of the input. POINTERS has them by name."""

from regard.models.entries import POINTERS as POINTERS
from regard.models.pointers.attentive_seq2seq import AttentiveSeq2Seq as AttentiveSeq2Seq
from regard.models.pointers.pointer_model import PointerModel as PointerModel
from regard.models.pointers.pointer_network import PointerNetwork as PointerNetwork

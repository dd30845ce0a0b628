"""Models, one per file, readable beside their paper. TRANSLATORS has the translation models by name."""

from regard.models.bahdanau import Bahdanau as Bahdanau
from regard.models.entries import TRANSLATORS as TRANSLATORS
from regard.models.entries import Entry as Entry
from regard.models.entries import register_translator as register_translator
from regard.models.lstmn_fusion import LSTMNFusion as LSTMNFusion
from regard.models.luong import Luong as Luong
from regard.models.rnn import RNN as RNN
from regard.models.sequence_model import Rows as Rows
from regard.models.sequence_model import SequenceModel as SequenceModel
from regard.models.transformer import Transformer as Transformer

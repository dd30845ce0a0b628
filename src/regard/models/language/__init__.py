"""Language models, one per file, readable beside their paper. LANGUAGE_MODELS has them by name."""

from regard.models.entries import LANGUAGE_MODELS as LANGUAGE_MODELS
from regard.models.language.adaptive_span import AdaptiveSpan as AdaptiveSpan
from regard.models.language.adaptively_sparse import AdaptivelySparse as AdaptivelySparse
from regard.models.language.attentive_rnn import AttentiveRNN as AttentiveRNN
from regard.models.language.bert import BERT as BERT
from regard.models.language.compressive import Compressive as Compressive
from regard.models.language.gpt import GPT as GPT
from regard.models.language.language_model import LanguageModel as LanguageModel
from regard.models.language.lstmn import LSTMN as LSTMN
from regard.models.language.pointer_sentinel import PointerSentinel as PointerSentinel
from regard.models.language.recurrent import Recurrent as Recurrent
from regard.models.language.sparse_transformer import SparseTransformer as SparseTransformer
from regard.models.language.transformer_xl import TransformerXL as TransformerXL

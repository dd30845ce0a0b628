"""Text classifiers with attention over the words. CLASSIFIERS has them by name."""

from regard.models.classifiers.attentive_bilstm import AttentiveBiLSTM as AttentiveBiLSTM
from regard.models.classifiers.attentive_cnn import AttentiveCNN as AttentiveCNN
from regard.models.classifiers.attentive_mlp import AttentiveMLP as AttentiveMLP
from regard.models.classifiers.classifier_model import ClassifierModel as ClassifierModel
from regard.models.classifiers.hierarchical import Hierarchical as Hierarchical
from regard.models.classifiers.rationalizer_entmax import RationalizerEntmax as RationalizerEntmax
from regard.models.classifiers.rationalizer_hardkuma import RationalizerHardKuma as RationalizerHardKuma
from regard.models.classifiers.rationalizer_reinforce import RationalizerReinforce as RationalizerReinforce
from regard.models.classifiers.self_attentive import SelfAttentive as SelfAttentive
from regard.models.classifiers.transformer_encoder import TransformerEncoder as TransformerEncoder
from regard.models.entries import CLASSIFIERS as CLASSIFIERS

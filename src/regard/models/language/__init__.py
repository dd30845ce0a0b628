"""Language models, one per file, readable beside their paper. LANGUAGE_MODELS has them by name."""

from regard.models.entries import LANGUAGE_MODELS as LANGUAGE_MODELS
from regard.models.language.gpt import GPT as GPT
from regard.models.language.language_model import LanguageModel as LanguageModel
from regard.models.language.recurrent import Recurrent as Recurrent

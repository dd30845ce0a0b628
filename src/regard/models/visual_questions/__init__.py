"""Models that answer a question about a picture; one architecture per file."""

from regard.models.entries import QUESTION_MODELS as QUESTION_MODELS
from regard.models.visual_questions.stacked_attention import StackedAttention as StackedAttention

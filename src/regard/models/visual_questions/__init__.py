"""Models that answer a question about a picture; one architecture per file."""

from regard.models.entries import VISUAL_QUESTION_MODELS as VISUAL_QUESTION_MODELS
from regard.models.visual_questions.stacked_attention import StackedAttention as StackedAttention

"""Explanations: a score for each word of a text. METHODS has the methods by name; `explain` calls them."""

from regard.explanations.attention_weights import attention as attention
from regard.explanations.attention_x_gradient import attention_x_gradient as attention_x_gradient
from regard.explanations.diffmask import diffmask as diffmask
from regard.explanations.diffmask import learn_gates as learn_gates
from regard.explanations.effective_attention import effective_attention as effective_attention
from regard.explanations.explained_texts import Explanation as Explanation
from regard.explanations.explained_texts import explain_texts as explain_texts
from regard.explanations.explained_texts import to_words as to_words
from regard.explanations.flow_network import flow as flow
from regard.explanations.gradient import gradient as gradient
from regard.explanations.gradient_x_input import gradient_x_input as gradient_x_input
from regard.explanations.integrated_gradients import completeness_error as completeness_error
from regard.explanations.integrated_gradients import integrated_gradients as integrated_gradients
from regard.explanations.leave_one_out import leave_one_out as leave_one_out
from regard.explanations.methods import METHODS as METHODS
from regard.explanations.methods import explain as explain
from regard.explanations.norms import norms as norms
from regard.explanations.null_space import freedom as freedom
from regard.explanations.null_space import other_weights as other_weights
from regard.explanations.rollout import rollout as rollout
from regard.models.token_identity import identified as identified
from regard.models.token_identity import linear_map as linear_map

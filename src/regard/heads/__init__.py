"""Heads: attentions side by side."""

from regard.heads.multi_head import MultiHead as MultiHead

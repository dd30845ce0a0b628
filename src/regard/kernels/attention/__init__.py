"""Kernels and operators of whole attentions: sparse attention, dropout of weights, attention flow."""

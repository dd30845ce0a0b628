"""Kernels of decoding: attention of beams, the best next tokens."""

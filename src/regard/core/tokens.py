"""The four tokens that every vocabulary begins with."""

PAD, BOS, EOS, UNK = range(4)  # padding, beginning and end of a sequence, unknown

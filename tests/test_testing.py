"""The leak tests pass on what is right, fail on planted leaks, and name the position."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard import testing
from regard.core.recorders import Attentive, show
from regard.masks import Causal, Lengths
from regard.swap import swap

B, N, D = 2, 6, 8
LENGTHS = torch.tensor([6, 3])
REAL = torch.arange(N) < LENGTHS[:, None]


def floats(seed=0):
    return torch.randn(B, N, D, generator=torch.Generator().manual_seed(seed))


def softmax_attention(x, mask, fill=-math.inf):
    """Self-attention under a boolean mask that is filled into the scores."""
    return (x @ x.mT / D**0.5).masked_fill(~mask, fill).softmax(-1) @ x


def below(k=0, n=N):
    return torch.ones(n, n, dtype=torch.bool).tril(k)


class Words(nn.Module):
    """A language model of tokens (b, n), its attention a MultiHead."""

    def __init__(self, mask):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.heads, self.mask = nn.Embedding(20, D), regard.MultiHead(D, 2, map="entmax15"), mask
        self.read = nn.Linear(D, 20)

    def forward(self, words):
        return self.read(self.heads(self.embed(words), mask=self.mask).context)


# Causal


def test_what_is_causal_passes():
    heads = regard.MultiHead(D, 2, map="sparsemax")
    testing.check_causal(lambda x: heads(x, mask=Causal()), floats())
    testing.check_causal(lambda x: softmax_attention(x, below()), floats())
    testing.check_causal(lambda x: x.cumsum(0), floats().transpose(0, 1), axis=0)
    testing.check_causal(Words(Causal()), torch.randint(20, (B, N)), vocabulary=20)
    testing.check_causal(nn.GRU(D, D, batch_first=True), floats())  # a tuple that starts with the outputs
    testing.check_causal(lambda x: x.cumsum(1), floats()[:, :1])  # one place
    testing.check_causal(lambda x: x.cumsum(1), torch.randn(1, 200, 2))  # many places


@pytest.mark.parametrize("map", ["softmax", "entmax15", "sparsemax", "sigmoid"])
def test_long_sequences_take_backends_that_are_causal_and_blind_to_padding(map):
    heads, x = (
        regard.MultiHead(D, 2, map=map),
        torch.randn(1, 140, D, generator=torch.Generator().manual_seed(1)),
    )
    testing.check_causal(lambda x: heads(x, mask=Causal()), x)
    testing.check_padding(lambda x, lengths: heads(x, mask=Lengths(lengths)), x, torch.tensor([138]))
    testing.check_permutation(heads, x)


@pytest.mark.parametrize(
    ("leak", "says"),
    [
        (
            lambda x: softmax_attention(x, below(1)),
            r"output 0 changed by .* when input 1 was changed: position 0 ",
        ),
        (
            lambda x: softmax_attention(x, below(), fill=0.0),
            "when input 1 was changed: position 0 sees the future",
        ),
        (
            lambda x: softmax_attention(x, below() | (torch.arange(N) == 4)),
            "when input 4 was changed: position",
        ),
        (lambda x: x - x.mean(1, keepdim=True), "when input 1 was changed: position 0 sees the future"),
        (lambda x: F.conv1d(x.mT, torch.ones(D, D, 3), padding=1).mT, "when input 1 was changed: position 0"),
        (lambda x: x.cumsum(1) + 0 * x.flip(1).log(), "sees the future"),  # NaN comes from the future
        (lambda x: x.cumsum(1) + F.relu(x[:, -1:] - 100), "when input 5 was changed"),  # asleep but for huge
        (lambda x: x + x.roll(-1, 1).detach().sign(), "when input 1 was changed: position 0"),  # no gradient
    ],
    ids=["off by one", "filled with 0", "one column", "mean", "convolution", "nan", "asleep", "sign"],
)
def test_a_position_that_sees_the_future_is_named(leak, says):
    with pytest.raises(AssertionError, match=says):
        testing.check_causal(leak, floats())


def test_two_inputs_that_leak_only_together():
    def both(x):
        return x.cumsum(1) + (x[:, 4:, :1] != 0).all(1, keepdim=True)

    x = floats()
    x[:, 4:] = 0
    with pytest.raises(AssertionError, match="when inputs 1 to 5 were changed: position 0 sees the future"):
        testing.check_causal(both, x)


def test_a_leak_that_shows_only_in_the_gradient():
    class Sly(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.cumsum(1)

        @staticmethod
        def backward(ctx, g):
            return g.sum(1, keepdim=True).expand_as(g)

    with pytest.raises(
        AssertionError, match=r"output 0 has gradient .* at input \d: position 0 sees the future"
    ):
        testing.check_causal(Sly.apply, floats())


def test_tokens_that_see_the_future():
    with pytest.raises(AssertionError, match="input 1 was changed: position 0 sees the future"):
        testing.check_causal(Words(None), torch.randint(20, (B, N)))
    with pytest.raises(AssertionError, match="position 0 sees the future"):
        testing.check_causal(Words(below(1)), torch.randint(20, (B, N)), vocabulary=20)


def test_batch_norm_over_positions_leaks_while_training_only():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.dropout = nn.BatchNorm1d(D), nn.Dropout(0.5)

        def forward(self, x):
            return self.norm(self.dropout(x).mT).mT

    model = Normed()
    before = model.norm.running_mean.clone()
    with pytest.raises(AssertionError, match="position 0 sees the future"):
        testing.check_causal(model, floats())
    assert model.norm.running_mean.equal(before)  # put back
    testing.check_causal(model.eval(), floats())
    testing.check_causal(nn.Dropout(0.5), floats())  # falls alike in every call


def test_a_tolerance_allows_that_much():
    def small(x):
        return x.cumsum(1) + 1e-9 * x.sum(1, keepdim=True).clamp(-1, 1)

    x = floats().double()
    with pytest.raises(AssertionError):
        testing.check_causal(small, x)
    testing.check_causal(small, x, atol=1e-8)


def test_the_random_state_is_put_back():
    state = torch.get_rng_state()
    testing.check_causal(nn.Dropout(0.5), floats())
    assert torch.get_rng_state().equal(state)


def test_a_causal_function_has_an_output_for_each_input():
    with pytest.raises(ValueError, match="an output for each of the 6 inputs"):
        testing.check_causal(lambda x: x.mean(1), floats())
    with pytest.raises(TypeError, match="must return a tensor; got str"):
        testing.check_causal(lambda x: "no", floats())


# Padding


def padded_mean(x, real):
    """The mean of the real places."""
    return torch.where(real.unsqueeze(-1), x, 0).sum(1) / real.sum(1, keepdim=True).clamp(min=1)


def test_what_ignores_padding_passes():
    heads = regard.MultiHead(D, 2, map="entmax15")
    testing.check_padding(lambda x, lengths: heads(x, mask=Lengths(lengths)), floats(), LENGTHS)
    testing.check_padding(lambda x, real: heads(x, mask=real[:, None, None]), floats(), REAL)
    testing.check_padding(padded_mean, floats(), REAL)
    testing.check_padding(padded_mean, floats(), REAL.flip(1))  # padding on the left
    testing.check_padding(padded_mean, floats(), torch.zeros_like(REAL))  # nothing is real
    embed = nn.Embedding(20, D)
    testing.check_padding(
        lambda x, real: padded_mean(embed(x), real), torch.randint(20, (B, N)), REAL, vocabulary=20
    )
    testing.check_padding(lambda x, real: x * 2, floats(), torch.ones_like(REAL))  # nothing is padding


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:enable_nested_tensor")
def test_a_transformer_before_and_after_the_swap():
    """torch's own lets NaN through (0 × NaN); swapped, it does not."""
    layer = nn.TransformerEncoderLayer(D, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()

    def encode(x, real):
        return model(x, src_key_padding_mask=~real)

    testing.check_padding(encode, floats(), REAL, contents=["random", "huge"])
    with pytest.raises(AssertionError, match=r"padding at 3 was changed to NaN: position \d sees padding"):
        testing.check_padding(encode, floats(), REAL)
    swap(model, "entmax15")
    testing.check_padding(encode, floats(), REAL)
    with torch.no_grad():
        testing.check_padding(encode, floats(), REAL)


@pytest.mark.parametrize(
    ("leak", "says"),
    [
        (lambda x, real: x.mean(1), "output of sequence 1 changed by .* when padding at 3 was changed"),
        (
            lambda x, real: padded_mean(x, real) + x.shape[1],
            "output of sequence 0 changed by 3 when 3 places of padding were added: it sees padding",
        ),
        (
            lambda x, real: padded_mean(x, real) + x[:, N - 1],
            "output of sequence 1 changed by .* when padding at 5 was changed: it sees padding",
        ),
        (
            lambda x, real: x + F.pad(x[:, 1:], (0, 0, 0, 1)),
            "output 2 of sequence 1 changed by .* when padding at 3 was changed: position 2 sees padding",
        ),
        (
            lambda x, real: (x @ x.mT - 100.0 * ~real[:, None]).softmax(-1) @ x,
            r"when padding at 3 was changed to huge numbers: position \d sees padding",
        ),
        (
            lambda x, real: x * real.sum(1)[:, None, None] + (x * ~real[..., None]).sum(1, keepdim=True) * 0,
            "padding at 3 was changed to NaN",
        ),
        (lambda x, real: x - x.mean(1, keepdim=True), "when padding at 3 was changed"),
    ],
    ids=["mean", "width", "last place", "neighbour", "−100 is not −inf", "times 0", "centred"],
)
def test_a_position_that_sees_padding_is_named(leak, says):
    with pytest.raises(AssertionError, match=says):
        testing.check_padding(leak, floats(), REAL)


def test_lengths_off_by_one():
    def one_more(x, lengths):
        return regard.attend(x, x, mask=Lengths((lengths + 1).clamp(max=x.shape[-2])))

    with pytest.raises(AssertionError, match=r"padding at 3 was changed: position \d sees padding"):
        testing.check_padding(one_more, floats(), LENGTHS)


def test_tokens_in_padding():
    embed = nn.Embedding(20, D)
    with pytest.raises(AssertionError, match="of sequence 1 changed by"):
        testing.check_padding(
            lambda x, real: embed(x).amax(1), torch.randint(20, (B, N)), REAL, vocabulary=20
        )


def test_gradients_that_are_nan_or_reach_padding():
    """A row of nothing but −inf is NaN in softmax: outputs can be mended afterwards, gradients cannot."""

    def mended(x, real):
        z = softmax_attention(x, real[:, None])
        return torch.where(real[..., None], z, 0)

    real = torch.stack([REAL[0], torch.zeros(N, dtype=torch.bool)])
    with pytest.raises(AssertionError, match="the gradient of the inputs is not finite"):
        testing.check_padding(mended, floats(), real, contents=["random"])

    linear = nn.Linear(D, D)
    with pytest.raises(AssertionError, match=r"the gradient of a parameter of shape \(8, 8\) is not finite"):
        testing.check_padding(
            lambda x, real: mended(linear(torch.arange(N)[:, None] + torch.zeros(B, N, D)), real),
            torch.randint(20, (B, N)),
            real,
            more=0,
        )

    class Sly(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g + 1

    with pytest.raises(AssertionError, match=r"gradient 1 at padding \d of sequence 1"):
        testing.check_padding(lambda x, real: Sly.apply(x), floats(), REAL)


def test_what_is_real_has_the_shape_of_the_inputs():
    with pytest.raises(ValueError, match="real must be booleans"):
        testing.check_padding(padded_mean, floats(), REAL[:, 1:])


# Permutation


def test_what_is_blind_to_order_passes():
    heads = regard.MultiHead(D, 2)
    testing.check_permutation(heads, floats())
    query = floats(1)[:, :2]
    testing.check_permutation(
        lambda keys: regard.attend(query, keys, map="entmax15"), floats(), outputs="stay"
    )
    testing.check_permutation(
        lambda keys, real: regard.attend(query, keys, mask=real[:, None]), floats(), REAL, outputs="stay"
    )
    testing.check_permutation(lambda x: x.amax(0), floats().transpose(0, 1), axis=0, outputs="stay")
    testing.check_permutation(lambda x: x.sum((1, 2)), floats().double(), outputs="stay")  # one number each


@pytest.mark.parametrize(
    ("leak", "outputs", "says"),
    [
        (
            lambda x: x + torch.arange(N)[:, None],
            "move",
            "output 0 changed by 1 when inputs 0 and 1 changed places",
        ),
        (lambda x: x.cumsum(1), "move", "when inputs 0 and 1 changed places: it sees the order"),
        (lambda x: x[:, 3], "stay", "output . changed by .* when inputs 2 and 3 changed places"),
        (lambda x: x.mean(1) + 1e-2 * x[:, N - 1], "stay", "when inputs 4 and 5 changed places"),
    ],
    ids=["positions", "causal", "one place", "last place"],
)
def test_order_that_matters_is_named(leak, outputs, says):
    with pytest.raises(AssertionError, match=says):
        testing.check_permutation(leak, floats(), outputs=outputs)


def test_a_mask_that_is_not_permuted():
    query = floats(1)[:, :2]
    with pytest.raises(AssertionError, match=r"sequence|order"):
        testing.check_permutation(
            lambda keys: regard.attend(query, keys, mask=REAL[:, None]), floats(), outputs="stay"
        )


def test_a_map_that_sees_neighbours():
    """fusedmax pulls the weights of neighbours together, so the order of the keys matters."""
    query = floats(1)[:, :2]
    with pytest.raises(AssertionError, match="changed places: it sees the order"):
        testing.check_permutation(
            lambda keys: regard.attend(query, keys, map="fusedmax"), floats(), outputs="stay"
        )


# Looking


class Model(nn.Module):
    def __init__(self, **settings):
        super().__init__()
        torch.manual_seed(0)
        self.first = regard.MultiHead(D, 2, **settings)
        self.second = regard.MultiHead(D, 2, **settings)

    def forward(self, x, mask=None):
        return {"context": self.second(x + self.first(x, mask=mask).context), "double": 2 * x}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("map", ["softmax", "entmax15", "sparsemax"])
def test_looking_at_ours_changes_nothing(map, training):
    model = Model(map=map, dropout=0.3).train(training)
    testing.check_looking_changes_nothing(model, floats())
    testing.check_looking_changes_nothing(model, floats(), mask=Causal(), paths="second")
    with torch.no_grad():
        testing.check_looking_changes_nothing(model, floats(), Causal())


def test_looking_at_a_swapped_transformer_changes_nothing():
    model = nn.Transformer(D, 2, 1, 1, 16, batch_first=True)
    swap(model, "entmax15")
    testing.check_looking_changes_nothing(model, floats(), floats(1), tgt_mask=~below())
    testing.check_looking_changes_nothing(model.eval(), floats(), floats(1), tgt_mask=~below())


class Shy(Attentive):
    """An attention that cannot be looked at without something happening."""

    def __init__(self, happens):
        super().__init__()
        self.w, self.happens = nn.Parameter(torch.ones(())), happens

    def forward(self, x):
        context = regard.attend(x, x).context * self.w
        show(self, Seen(context, self.happens))
        return context


class Seen:
    def __init__(self, context, happens):
        self.context, self.happens, self.scores = context, happens, None

    def detach(self):
        return self

    @property
    def weights(self):
        if self.happens == "output":
            self.context.data.mul_(1 + 1e-6)
        if self.happens == "random state":
            torch.rand(())
        if self.happens == "gradient":
            self.context.register_hook(lambda gradient: 2 * gradient)


@pytest.mark.parametrize("what", ["output", "random state", "gradient"])
def test_an_attention_that_minds_being_looked_at_is_named(what):
    model = nn.Sequential(Shy("nothing"), Shy(what))
    testing.check_looking_changes_nothing(model, floats(), paths="0")
    with pytest.raises(AssertionError, match=f"the {what} changed when somebody looked at '1'"):
        testing.check_looking_changes_nothing(model, floats())


def test_nothing_to_look_at():
    class Asleep(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = regard.MultiHead(D, 2)

        def forward(self, x):
            return x

    with pytest.raises(AssertionError, match="no attention at '\\*' was called"):
        testing.check_looking_changes_nothing(Asleep(), floats())
    with pytest.raises(KeyError, match="no attention"):
        testing.check_looking_changes_nothing(nn.Linear(D, D), floats())


def test_a_model_that_never_repeats_itself():
    class Counting(Shy):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x) + self.calls

    with pytest.raises(ValueError, match="differently each time"):
        testing.check_looking_changes_nothing(Counting("nothing"), floats())

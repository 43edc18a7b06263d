"""Networks whose layers are replaced by factors, on digits and in edge cases."""

import copy
import io
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bayespca import BayesianPCA, evbmf, layers, tensor_ranks
from bayespca.layers.ranking import EARLY

torch = pytest.importorskip("torch")
nn = torch.nn


def low_rank(shape, rank, *, noise=0.01, seed=0):
    """Weights, outputs × inputs (× kernel), of a given rank between channels, plus noise."""
    rng = np.random.default_rng(seed)
    # An orthogonal matrix for each place of the kernel, so that no component is weak.
    turns = np.linalg.qr(rng.normal(size=(*shape[2:], rank, rank)))[0]
    core = np.moveaxis(turns, (-2, -1), (0, 1))
    left, right = (np.linalg.qr(rng.normal(size=(n, rank)))[0] for n in shape[:2])
    W = np.einsum("oa,ib,ab...->oi...", left, right, core)
    return torch.tensor(W + noise * rng.normal(size=shape))


def with_rank(layer, rank, *, seed=0):
    """Set the weights of the layer to that rank plus noise, and return the layer."""
    values = low_rank(tuple(layer.weight.shape), rank, seed=seed).to(layer.weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(values)
    return layer


def n_parameters(model):
    return sum(each.numel() for each in model.parameters())


def same(a, b):
    """Whether two outputs agree to single precision."""
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def digits():
    """A network trained on two thirds of the digits, and pixels and labels of the rest."""
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    net.append(nn.Linear(128, 10))
    steps = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(20):
        for rows in torch.randperm(1200).split(100):
            steps.zero_grad()
            nn.functional.cross_entropy(net(X[rows]), y[rows]).backward()
            steps.step()
    return net.eval(), X[1200:], y[1200:]


def agreement(a, b, X):
    with torch.no_grad():
        return float((a(X).argmax(1) == b(X).argmax(1)).double().mean())


def test_ranks_of_a_trained_network_are_those_of_evbmf(digits):
    net, _, _ = digits
    found = layers.ranks(net, noise="isotropic")
    for layer in found:
        W = net.get_submodule(layer.name).weight.detach().numpy().astype(float)
        U, _, _, post = evbmf(W)
        assert layer.rank == U.shape[1]
        assert layer.noise_variance == pytest.approx(post["sigma2"], rel=1e-6)
    assert [layer.name for layer in found] == ["0", "2", "4"]
    assert all(0 < layer.rank < min(layer.shape) for layer in found)


def test_the_table_counts_what_compress_makes(digits):
    net, _, _ = digits
    found = layers.ranks(net)
    small = layers.compress(net, found)
    assert found.before == n_parameters(net)
    assert found.after == n_parameters(small) < found.before
    for layer in found:
        assert layer.after == n_parameters(small.get_submodule(layer.name))
    lines = str(found).splitlines()
    assert len(lines) == 2 + len(found)
    assert lines[-1].split() == ["all", str(found.before), str(found.after)]


def test_hidden_layers_of_digits_compress_with_their_answers_kept(digits):
    """Fewer than 60 % of the parameters keep over 95 % of the answers."""
    net, X, y = digits
    small = layers.compress(net, {"0": 32, "2": 24})
    assert n_parameters(small) < 0.6 * n_parameters(net)
    assert agreement(net, small, X) > 0.95
    with torch.no_grad():
        assert float((net(X).argmax(1) == y).double().mean()) > 0.9


def test_with_the_last_layer_skipped_answers_are_kept(digits):
    """All ten outputs of the last layer are needed, but the weak ones look like noise."""
    net, X, _ = digits
    found = layers.ranks(net, skip=["4"])
    small = layers.compress(net, skip=["4"])
    assert found["4"].why_left == "skipped"
    assert n_parameters(small) == found.after < 0.35 * found.before
    assert torch.equal(small[4].weight, net[4].weight)
    assert agreement(net, small, X) > 0.9
    assert agreement(net, layers.compress(net), X) < agreement(net, small, X)
    assert torch.equal(layers.compress(net, found)(X), small(X))
    with pytest.raises(ValueError, match=r"no linear layer or convolution '5'"):
        layers.ranks(net, skip="5")


def test_a_network_of_low_rank_is_kept_by_its_factors():
    torch.manual_seed(0)
    net = nn.Sequential(with_rank(nn.Linear(60, 80), 5), nn.Tanh())
    net.append(with_rank(nn.Linear(80, 40), 3, seed=1))
    small = layers.compress(net)
    assert [layer.rank for layer in layers.ranks(net)] == [5, 3]
    assert small[0][0].bias is None
    assert torch.equal(small[0][1].bias, net[0].bias)
    X = torch.randn(500, 60)
    with torch.no_grad():
        error = (small(X) - net(X)).norm() / net(X).norm()
    # Sums of squares in the first layer: noise 80 · 60 · 0.01² ≈ 0.5, signal 5.
    assert error < 0.3


@pytest.mark.parametrize("noise", ["auto", "per-feature", "per-sample"])
def test_unequal_noise_of_inputs_is_no_rank(noise):
    """EVBMF takes each loud input for a component; models with noise per input do not."""
    rng = np.random.default_rng(0)
    layer = nn.Linear(40, 200)
    loud = np.where(np.arange(40) < 4, 10.0, 1.0)
    W = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 40)) * 2 + loud * rng.normal(size=(200, 40))
    layer.weight.data = torch.tensor(W)
    rank = layers.ranks(layer, noise=noise)[""].rank
    assert layers.ranks(layer, noise="isotropic")[""].rank == 6
    assert rank == (6 if noise == "per-sample" else 2)


CONVOLUTIONS = {
    "1d": (nn.Conv1d(24, 30, 5, stride=2, padding=2), (2, 24, 33)),
    "2d": (nn.Conv2d(24, 30, (3, 2), stride=(1, 2), padding=(1, 0), dilation=2), (2, 24, 12, 14)),
    "2d, reflected": (nn.Conv2d(24, 30, 3, padding=1, padding_mode="reflect"), (2, 24, 9, 9)),
    "2d, same": (nn.Conv2d(24, 30, 3, padding="same", bias=False), (2, 24, 9, 9)),
    "3d": (nn.Conv3d(24, 30, 2), (2, 24, 5, 5, 5)),
    "one place": (nn.Conv2d(24, 30, 1, stride=2), (2, 24, 9, 9)),
}


@pytest.mark.parametrize("convolutions", ["tucker", "matrix"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_exact_rank_give_the_same_outputs(name, convolutions):
    layer, shape = CONVOLUTIONS[name]
    layer = copy.deepcopy(layer).double()
    layer.weight.data = low_rank(tuple(layer.weight.shape), 3, noise=0.0)
    rank = (3, 3) if convolutions == "tucker" and name != "one place" else 3
    small = layers.compress(layer, {"": rank})
    assert isinstance(small, nn.Sequential)
    assert n_parameters(small) < n_parameters(layer)
    X = torch.randn(shape, dtype=torch.double)
    assert torch.allclose(small(X), layer(X), rtol=1e-9, atol=1e-9)


def test_ranks_of_convolutions_are_those_of_tensor_ranks():
    layer = with_rank(nn.Conv2d(24, 30, 3), 4)
    found = layers.ranks(layer, noise="isotropic")[""]
    expected = tensor_ranks(layer.weight.detach().double().numpy())[:2]
    assert found.rank == expected == (4, 4)
    matrix = layer.weight.detach().double().numpy().reshape(30, -1)
    assert layers.ranks(layer, noise="isotropic", convolutions="matrix")[""].rank == 4
    assert evbmf(matrix)[0].shape[1] == 4


@pytest.mark.parametrize(("rank", "n_layers"), [((3, 24), 2), ((30, 3), 2), ((3, 3), 3)])
def test_a_basis_that_is_whole_has_no_layer(rank, n_layers):
    layer = nn.Conv2d(24, 30, 3)
    small = layers.compress(layer, {"": rank})
    assert len(small) == n_layers
    W = layer.weight.detach().double().numpy()
    bases = [
        np.linalg.svd(np.moveaxis(W, mode, 0).reshape(size, -1))[0][:, :r]
        for mode, (size, r) in enumerate(zip((30, 24), rank, strict=True))
    ]
    projections = [U @ U.T for U in bases]
    expected = copy.deepcopy(layer)
    projected = np.einsum("oikl,ao,bi->abkl", W, *projections)
    expected.weight.data = torch.tensor(projected, dtype=torch.float32)
    X = torch.randn(2, 24, 8, 8)
    assert same(small(X), expected(X))


def test_where_nothing_is_saved_outputs_are_identical():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 12), nn.ReLU(), nn.Linear(12, 3))
    made = layers.compress(net, {"0": 12, "2": 3})
    X = torch.randn(10, 20)
    assert torch.equal(made(X), net(X))
    assert made is not net
    assert made[0].weight is not net[0].weight
    assert list(made.state_dict()) == list(net.state_dict())


def test_layers_of_noise_stay_with_a_warning():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(50, 40), nn.ReLU(), with_rank(nn.Linear(40, 40), 2))
    with pytest.warns(UserWarning, match=r"No component of the weights of '0' is above the noise"):
        made = layers.compress(net)
    assert isinstance(made[0], nn.Linear)
    assert isinstance(made[2], nn.Sequential)
    assert layers.ranks(net)["0"].why_left == "rank 0"


def test_weights_of_zeros_stay():
    layer = nn.Linear(20, 30)
    nn.init.zeros_(layer.weight)
    found = layers.ranks(layer)[""]
    assert (found.rank, found.before, found.after) == (0, 630, 630)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_types_modes_and_gradients_are_kept(dtype):
    layer = with_rank(nn.Linear(30, 40), 2).to(dtype)
    layer.weight.requires_grad_(False)
    net = nn.Sequential(layer, nn.Dropout()).eval()
    before = torch.random.get_rng_state()
    made = layers.compress(net)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert {each.dtype for each in made.parameters()} == {dtype}
    assert {each.device.type for each in made.parameters()} == {"cpu"}
    assert [made[0][0].weight.requires_grad, made[0][1].weight.requires_grad] == [False, False]
    assert made[0][1].bias.requires_grad
    assert not any(module.training for module in made.modules())
    assert all(module.training for module in layers.compress(net.train()).modules())


def test_compressed_networks_learn_and_are_stored():
    net = nn.Sequential(with_rank(nn.Linear(30, 40), 2), nn.Flatten())
    made, again = layers.compress(net), layers.compress(net)
    made(torch.randn(5, 30)).sum().backward()
    assert all(each.grad is not None for each in made.parameters())
    with torch.no_grad():
        made[0][0].weight.mul_(2)
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    again.load_state_dict(torch.load(file))
    X = torch.randn(5, 30)
    assert torch.equal(made(X), again(X))
    assert list(made.state_dict()) == ["0.0.weight", "0.1.weight", "0.1.bias"]


def test_the_network_stays_as_it_is():
    net = nn.Sequential(with_rank(nn.Linear(30, 40), 2))
    before = copy.deepcopy(net.state_dict())
    layers.compress(net)
    assert isinstance(net[0], nn.Linear)
    assert all(torch.equal(before[name], each) for name, each in net.state_dict().items())


def test_a_layer_with_two_names_is_replaced_once():
    layer = with_rank(nn.Linear(40, 40), 3)
    net = nn.Sequential(layer, nn.Tanh(), layer)
    assert len(layers.ranks(net)) == 1
    made = layers.compress(net)
    assert made[0] is made[2]
    assert isinstance(made[0], nn.Sequential)
    assert n_parameters(made) == layers.ranks(net).after


def test_weights_that_others_share_stay():
    net = nn.ModuleDict({"words": nn.Embedding(50, 20), "out": with_rank(nn.Linear(20, 50), 2)})
    net["words"].weight = net["out"].weight
    assert layers.ranks(net)["out"].why_left == "weights shared"
    made = layers.compress(net)
    assert made["words"].weight is made["out"].weight


def test_layers_that_do_more_than_multiply_stay():
    net = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(30, 40)),
        with_rank(nn.Conv1d(40, 40, 3, groups=2), 2),
        with_rank(nn.Linear(40, 40), 2),
    )
    net[2].register_forward_hook(lambda *_: None)
    found = layers.ranks(net)
    assert {layer.name: layer.why_left for layer in found} == {"1": "in groups", "2": "has hooks"}
    assert found.after == found.before


def test_transformers_run_after_it():
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(16, 2, 64, batch_first=True)
    net = nn.ModuleDict({"block": block, "out": with_rank(nn.Linear(16, 30), 2)}).eval()
    made = layers.compress(net)
    X = torch.randn(2, 5, 16)
    with torch.no_grad():
        assert torch.equal(made["block"](X), net["block"](X))
    assert isinstance(made["out"], nn.Sequential)


def test_bad_input_has_one_sentence():
    with pytest.raises(ValueError, match=r"^ReLU has no weights of linear layers or conv"):
        layers.ranks(nn.ReLU())
    with pytest.raises(ValueError, match=r"^Layer '1' has no weights yet: pass a batch"):
        layers.compress(nn.Sequential(nn.ReLU(), nn.LazyLinear(5)))
    with pytest.raises(ValueError, match=r"^Layer '' has no weights yet: load them first"):
        layers.ranks(nn.Linear(3, 4, device="meta"))
    with pytest.raises(TypeError, match=r"^A torch.nn.Module is needed; got dict"):
        layers.ranks({"weight": 1})
    broken = nn.Linear(10, 12)
    broken.weight.data[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"^The weights of layer '' are not all finite"):
        layers.ranks(broken)
    with pytest.raises(ValueError, match=r"^convolutions must be 'tucker' or 'matrix'; got 'cp'"):
        layers.ranks(nn.Linear(3, 4), convolutions="cp")
    with pytest.raises(ValueError, match="noise"):
        layers.ranks(nn.Linear(3, 4), noise="loud")
    with pytest.raises(ValueError, match=r"no linear layer or convolution 'head'"):
        layers.compress(nn.Linear(3, 4), {"head": 2})


@pytest.mark.parametrize("rank", [-1, 13, (2, 2)])
def test_ranks_that_a_layer_cannot_have(rank):
    with pytest.raises(ValueError, match=r"^Layer '' of shape \(12, 20\) has no rank"):
        layers.compress(nn.Linear(20, 12), {"": rank})


def test_a_lazy_layer_that_has_seen_a_batch_is_a_layer():
    net = nn.Sequential(nn.LazyLinear(30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net(torch.randn(2, 20))
    with_rank(net[0], 2)
    assert layers.ranks(net)["0"].rank == 2


def test_what_fits_warn_of_is_below_the_table():
    """A rank close to the largest possible one leaves nothing to estimate the noise from."""
    W = with_rank(nn.Linear(30, 20), 2).weight.detach()
    rng = np.random.default_rng(3)
    core = rng.normal(size=(8, 8, 1, 1)) * np.ones((3, 3))
    tight = nn.Conv2d(8, 8, 3)
    with torch.no_grad():
        tight.weight.copy_(torch.tensor(core + 1e-3 * rng.normal(size=core.shape)))
    fine = nn.Linear(30, 20)
    fine.weight = nn.Parameter(W)
    net = nn.Sequential(fine, tight)
    found = layers.ranks(net)
    assert found["0"].notes == ()
    assert [note.split(":")[0] for note in found["1"].notes] == ["outputs", "inputs"]
    assert "nearly the largest" in found["1"].notes[0]
    assert str(found).splitlines()[-2:] == [f"1: {note}" for note in found["1"].notes]
    with pytest.warns(UserWarning, match=r"The ranks of '1' are rough;"):
        layers.compress(net)


def test_fits_that_end_early_are_noted(monkeypatch):
    class Early(BayesianPCA):
        converged_ = False

    monkeypatch.setattr("bayespca.layers.ranking.BayesianPCA", Early)
    net = nn.Sequential(with_rank(nn.Linear(30, 20), 2))
    (layer,) = layers.ranks(net)
    assert layer.notes == (EARLY,)

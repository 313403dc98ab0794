"""Training: epochs, evaluation, resuming, and what goes wrong."""

import random
import shutil
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numba import cuda, float32
from small_nets import FAMILIES, images_for

from snref.checking import check_layer
from snref.data import DataError, Dataset
from snref.layers import BatchNorm, Dropout, Linear, Softmax
from snref.layers.base import Layer, elementwise
from snref.net import Net
from snref.nets import gpt2, random_net
from snref.planning.planned import plan
from snref.plans import OutOfMemory, Plan, extent
from snref.timing.costs import Costs
from snref.training import NotFinite, Session, Settings, Trained, train
from snref.training import checkpoint as checkpoints
from snref.training.checkpoint import CheckpointError
from snref.training.parameters import digest


def run(net, data, **more) -> Trained:
    """Train on the CPU, at a rate at which random labels do no harm."""
    return train(net, data=data, device="cpu", **{"settings": Settings(0.01)} | more)


@pytest.fixture
def resnet():
    return FAMILIES["resnet"](4)


@pytest.fixture
def images(resnet):
    """Two batches and a half to train on, one and a quarter held out."""
    data = images_for(resnet, 3, 5)
    return replace(data, images=data.images[:10], labels=data.labels[:10])


def same(left: Trained, right: Trained) -> bool:
    return left.digest == right.digest and left.accuracy == right.accuracy


# Epochs and batches


def test_every_image_of_an_epoch_is_seen_and_the_last_batch_is_smaller(resnet, images):
    seen = []
    trained = run(resnet, images, epochs=2, progress=seen.append)
    assert [(p.epoch, p.batch, p.images) for p in seen] == [
        (epoch, batch, size)
        for epoch in (1, 2)
        for batch, size in ((1, 4), (2, 4), (3, 2))
    ]
    assert tuple(p.loss for p in seen) == trained.losses
    assert trained.position.epoch == 2 and trained.position.iteration == 6
    assert all(p.nbytes <= trained.planned.total_bytes for p in seen)


@pytest.mark.parametrize("given", [{}, {"host_memory": 0}])
def test_joint_trains_a_net_with_joins_in_the_memory_that_it_plans(
    resnet, images, given
):
    trained = run(resnet, images, preset="joint", **given)
    assert run(resnet, images, preset="baseline").digest == trained.digest


@pytest.mark.parametrize("preset", ["baseline", "cache", "offload"])
def test_smaller_batches_and_evaluation_stay_within_the_slab(resnet, images, preset):
    trained = run(resnet, images, preset=preset)
    session = Session(trained.planned, images, Settings(), "cpu")
    assert session.device.slab == extent(trained.planned.plan)
    assert session.device.resident_bytes == sum(trained.planned.resident.values())
    assert session.accuracy() is not None
    assert session.peak <= session.device.slab


@pytest.mark.parametrize("seed", range(20))
def test_so_do_those_of_random_nets_in_the_least_memory(seed):
    net = random_net(seed, batch=5)
    with pytest.raises(OutOfMemory) as caught:
        plan(net, preset="cache", memory=0)
    planned = plan(net, preset="cache", memory=caught.value.least)
    data = images_for(net, 2, 7)
    data = replace(data, images=data.images[:8], labels=data.labels[:8])
    session = Session(planned, data, Settings(), "cpu")
    assert session.device.slab == extent(planned.plan)


@pytest.mark.slow
def test_learning_is_more_than_guessing_and_does_not_depend_on_the_plan():
    whole = run("digits", None, epochs=2, preset="baseline", batch=64)
    spared = run("digits", None, epochs=2, memory="1MB", batch=64)
    assert same(whole, spared) and whole.losses == spared.losses
    assert whole.accuracy > 0.8
    assert spared.planned.total_bytes <= 1_000_000 < whole.planned.total_bytes
    other = run("digits", None, epochs=1, memory="1MB", batch=64, seed=1)
    assert other.losses[0] != whole.losses[0]


@pytest.mark.parametrize("options", [("original", "share"), ("lean", "share")])
def test_forks_that_share_train_to_the_bits_of_forks_that_copy(resnet, images, options):
    assert same(run(resnet.with_options(*options), images), run(resnet, images))


def test_accuracy_is_the_share_of_held_out_images_named_right(resnet, images):
    trained = run(resnet, images, epochs=3)
    session = Session(trained.planned, images, Settings(), "cpu")
    for name, array in trained.weights.items():
        session.device.write(session.residents[name], array)
    # Running statistics were not copied: 0 and 1 are another net than was evaluated.
    shares = {count / 5 for count in range(6)}
    assert trained.accuracy in shares and session.accuracy() in shares


def test_evaluation_changes_nothing_and_reads_running_statistics(resnet, images):
    session = Session(run(resnet, images).planned, images, Settings(0.01), "cpu")
    session.iterate(np.arange(4))
    before = {key: array.tobytes() for key, array in session.state().items()}
    first = session.accuracy()
    assert {k: array.tobytes() for k, array in session.state().items()} == before
    # An image's class does not depend on the others of its batch.
    order = np.array([4, 0, 1, 2, 3])
    session.data = replace(
        images,
        test_images=images.test_images[order],
        test_labels=images.test_labels[order],
    )
    assert session.accuracy() == first


def test_the_learning_rate_falls_by_its_factor_and_reaches_the_weights():
    settings = Settings(0.4, factor=0.5, every=3)
    rates = [settings.rate(epoch) for epoch in range(7)]
    assert rates == [0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1]
    net = FAMILIES["digits"](4)
    data = images_for(net)
    fixed, falling = (
        run(net, data, epochs=3, settings=Settings(0.1, every=every))
        for every in (0, 1)
    )
    assert fixed.losses[:2] == falling.losses[:2]
    assert fixed.losses[2] != falling.losses[2]


def test_weight_decay_acts_on_all_parameters_or_on_weights_alone(resnet, images):
    """After one step: what differs without decay is what the decay acted on."""
    none, everything, weights = (
        run(resnet, images, batch=10, settings=settings).weights
        for settings in (
            Settings(weight_decay=0),
            Settings(weight_decay=0.5),
            Settings(weight_decay=0.5, decays="weights"),
        )
    )
    for name, array in none.items():
        begins_at_zero = name.endswith((".b", ".beta"))
        assert np.array_equal(array, everything[name]) == begins_at_zero, name
        assert np.array_equal(array, weights[name]) == (array.ndim == 1), name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("learning_rate", 0),
        ("learning_rate", float("nan")),
        ("factor", float("inf")),
        ("momentum", 1),
        ("momentum", -0.1),
        ("weight_decay", float("nan")),
        ("every", -1),
        ("every", 0.5),
        ("decays", "biases"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=f"^{field} "):
        Settings(**{field: value})


def test_no_setting_can_be_given_in_two_places():
    with pytest.raises(TypeError, match="seed"):
        Settings(seed=5)
    with pytest.raises(ValueError, match="input_size 16: digits has its size already"):
        run(FAMILIES["digits"](4), None, input_size=16)
    with pytest.raises(ValueError, match=r"save_every 2: .* needs save"):
        run("digits", None, save_every=2)


def test_a_net_keeps_its_batch_unless_another_is_asked_for(resnet):
    data = images_for(resnet, 2)
    assert run(resnet, data).planned.net.batch == 4
    assert run(resnet, data, batch=2).planned.net.batch == 2


def test_without_held_out_images_there_is_no_accuracy(resnet):
    assert run(resnet, images_for(resnet)).accuracy is None


# Resuming


@pytest.mark.parametrize("after", [1, 3, 4, 7])
def test_resuming_ends_in_the_bits_of_never_having_stopped(
    resnet, images, tmp_path, after
):
    whole = run(resnet, images, epochs=3)
    path = tmp_path / "run.npz"
    count = iter(range(1, 100))
    part = run(resnet, images, epochs=3, save=path, stop=lambda: next(count) == after)
    assert part.stopped and part.accuracy is None
    assert part.position.iteration == after
    rest = run(resnet, images, epochs=3, resume=path, preset="cache")
    assert same(rest, whole)
    assert part.losses + rest.losses == whole.losses


@cuda.jit
def subtract(y, x, average):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] - average[i]


@cuda.jit
def forget(average, last):
    for i in range(cuda.grid(1), last.size, cuda.gridsize(1)):
        average[i] += float32(0.1) * (last[i] - average[i])


@dataclass(frozen=True)
class Drift(Layer):
    """Subtracts a running average of the first images of the batches before."""

    def saved_shapes(self, *inputs):
        return {"average": inputs[0], "last": inputs[0]}

    def forward(self, node):
        average, last = node.saved["average"], node.saved["last"]
        return (
            *elementwise(subtract, node.y, node.x, average),
            *elementwise("joins.copy", last, node.x),
        )

    def backward(self, node):
        return elementwise("joins.copy", node.dx, node.dy)

    def update(self, node):
        average, last = node.saved["average"], node.saved["last"]
        return elementwise(forget, average, last, updates=True)


def test_what_updates_change_of_a_layer_of_ones_own_is_in_the_checkpoint(tmp_path):
    net = Net("drifting")
    x = net.add("drift", Drift(), net.input((5, 1, 2, 2)))
    net.add("softmax", Softmax(), net.add("fc", Linear(3), x))
    check_layer(Drift(), (2, 3))
    path, data = tmp_path / "run.npz", images_for(net, 4, 1)
    whole = run(net, data, epochs=2)
    run(net, data, save=path)
    assert [key for key in checkpoints.load(path).arrays if "state" in key] == [
        "state/drift.average"
    ]
    assert same(run(net, data, epochs=2, resume=path), whole)


def test_a_checkpoint_comes_every_epoch_or_every_so_many_iterations(
    resnet, images, tmp_path
):
    path = tmp_path / "run.npz"

    def saved(**more):
        path.unlink(missing_ok=True)
        found = []

        def look(progress):
            if path.exists():
                found.append(checkpoints.load(path).position.iteration)

        run(resnet, images, epochs=3, save=path, progress=look, **more)
        return found, checkpoints.load(path).position

    found, position = saved()
    assert found == [3, 3, 3, 6, 6, 6]
    assert position.epoch == 3 and position.batch == 0
    found, position = saved(save_every=2)
    assert found == [2, 2, 4, 4, 6, 6, 8]
    assert position.iteration == 9


def test_a_training_that_is_done_is_evaluated_when_it_is_resumed(
    resnet, images, tmp_path
):
    path = tmp_path / "run.npz"
    done = run(resnet, images, epochs=2, save=path)
    again = run(resnet, images, epochs=2, resume=path)
    assert same(done, again) and again.losses == ()


def test_what_is_not_given_is_as_it_was(resnet, images, tmp_path):
    path = tmp_path / "run.npz"
    given = {
        "batch": 5,
        "epochs": 3,
        "settings": Settings(0.02, every=1, decays="weights"),
        "seed": 4,
        "init": "pytorch",
        "algorithms": "none",
    }
    whole = run(resnet, images, **given)
    run(resnet, images, **given, save=path, stop=lambda: True)
    assert checkpoints.load(path).position.iteration == 1
    rest = train(resnet.with_batch(5), data=images, device="cpu", resume=path)
    assert same(rest, whole)
    assert rest.planned.options.algorithms == "none"


def test_a_net_by_name_takes_batch_size_and_data_from_the_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    given = {"batch": 16, "input_size": 32, "data": "synthetic", "seed": 3}
    whole = train("lenet", epochs=2, **given, device="cpu")
    train("lenet", epochs=1, **given, device="cpu", save=path)
    rest = train("lenet", epochs=2, resume=path, device="cpu")
    assert same(rest, whole)


def test_settings_may_change_where_a_training_goes_on(resnet, images, tmp_path):
    path = tmp_path / "run.npz"
    run(resnet, images, save=path)
    rest = run(resnet, images, resume=path, epochs=2, settings=Settings(0.05))
    assert len(rest.losses) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"net": "inception"}, "is of another net, small resnet: it has conva1 = Conv"),
        ({"batch": 2}, "was trained with batch 4, here it is 2"),
        ({"seed": 5}, "was trained with seed 0, here it is 5"),
        ({"init": "lecun"}, "was trained with init he, here it is lecun"),
        ({"images": 8}, "was trained with other data: its hash was"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(
    resnet, images, tmp_path, change, message
):
    path = tmp_path / "run.npz"
    run(resnet, images, save=path)
    net = FAMILIES[change.pop("net", "resnet")](4)
    count = change.pop("images", 10)
    fewer = replace(images, images=images.images[:count], labels=images.labels[:count])
    with pytest.raises(CheckpointError, match=message) as caught:
        run(net, fewer, resume=path, epochs=2, **change)
    assert str(path) in str(caught.value)


def test_a_layer_with_another_setting_is_another_net(images, tmp_path):
    path = tmp_path / "run.npz"
    run(FAMILIES["resnet"](4), images, save=path)

    def other(batch):
        net = Net("small resnet")
        net.input((batch, 3, 8, 8))
        for entry in FAMILIES["resnet"](batch)._entries:
            layer = entry.layer
            if isinstance(layer, Dropout):
                layer = Dropout(0.5)
            values = [net._values[value.name] for value in entry.inputs]
            net.add(entry.name, layer, *values)
        return net

    message = (
        r"it has dropa = Dropout\(ratio=0.25\).*, here is dropa = Dropout\(ratio=0.5"
    )
    with pytest.raises(CheckpointError, match=message):
        run(other(4), images, resume=path)


def test_algorithms_of_another_order_are_refused_and_of_the_same_are_not(
    resnet, images, tmp_path
):
    path = tmp_path / "run.npz"
    whole = run(resnet, images, epochs=2, algorithms="none")
    run(resnet, images, algorithms="exact", save=path)
    assert same(run(resnet, images, epochs=2, resume=path, algorithms="none"), whole)
    costs = preferring_winograd(resnet)
    with pytest.raises(
        CheckpointError, match=r"order: conv0 forward in taps, here in w"
    ):
        run(
            resnet,
            images,
            resume=path,
            algorithms="fastest",
            memory="1GB",
            costs=costs,
            preset="liveness",
        )


def preferring_winograd(net):
    """Costs under which every convolution that can be Winograd's is."""
    whole = plan(net, preset="liveness")
    seconds = {
        (run.layer, choice.part, way.name): float(way.name != "winograd")
        for run in whole.route.runs()
        for choice in run.choices
        for way in choice.algorithms
    }
    return Costs("by hand", dict(whole.costs.runs), seconds, 1e9, 1e9)


def test_a_checkpoint_that_cannot_be_saved_does_not_end_the_training(
    resnet, images, tmp_path
):
    whole = run(resnet, images, epochs=3)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "run.npz"
    said = []

    def vanish(progress):
        if progress.epoch == 2:
            shutil.rmtree(folder, ignore_errors=True)

    trained = run(
        resnet, images, epochs=3, save=path, progress=vanish, warn=said.append
    )
    assert same(trained, whole)
    assert len(said) == 2 and str(path) in said[0]
    assert trained.saved is not None and trained.saved != path
    assert same(run(resnet, images, resume=trained.saved), whole)
    trained.saved.unlink()


# What goes wrong


def early(route, options, costs):
    """A planner that updates a layer's parameters as soon as it has their gradients."""
    updates = {run.layer: run for run in route.runs() if run.phase == "update"}
    steps = []
    for step in route.steps:
        if step.phase != "update":
            steps.append(step)
        if step.phase == "backward" and step.layer in updates:
            steps.append(updates[step.layer])
    return Plan(tuple(steps))


def test_early_updates_train_to_the_same_bits_and_spare_a_loss_that_is_not_finite(
    resnet, images
):
    planned = plan(resnet, policy=early)
    phases = [run.phase for run in planned.plan.runs()]
    assert "backward" in phases[phases.index("update") :]
    ours, theirs = (
        Session(made, images, Settings(0.01), "cpu")
        for made in (planned, plan(resnet, preset="baseline"))
    )
    for session in ours, theirs:
        session.iterate(np.arange(4))
    before = ours.state()
    assert digest(before) == digest(theirs.state())
    images.images[:] = 1e38
    with pytest.raises(NotFinite, match=r"conv0\.y, of conv0 forward"):
        ours.iterate(np.arange(4))
    assert digest(ours.state()) == digest(before)


def test_weights_that_an_update_ruined_are_not_saved_over_the_last_good_ones(
    resnet, images, tmp_path
):
    path = tmp_path / "run.npz"
    session = Session(run(resnet, images, save=path).planned, images, Settings(), "cpu")
    good = path.read_bytes()
    ruined = session.residents["fc.w"]
    session.device.write(ruined, np.full(ruined.shape, np.inf, np.float32))
    with pytest.raises(NotFinite, match=r"value that is not finite in parameter/fc\.w"):
        session.run(0, save=path)
    assert path.read_bytes() == good
    with pytest.raises(NotFinite, match="iteration 0: its update left a value"):
        session.run(0)


@pytest.mark.parametrize(("images", "batch"), [(4, 1), (9, 4)])
def test_batch_normalization_of_one_value_a_channel_is_refused(images, batch):
    net = Net("flat")
    x = net.add("fc", Linear(8), net.input((batch, 1, 8, 8)))
    x = net.add("bn", BatchNorm(), x)
    net.add("softmax", Softmax(), net.add("out", Linear(10), x))
    data = images_for(net, images, 1)
    data = replace(data, images=data.images[:images], labels=data.labels[:images])
    with pytest.raises(
        ValueError, match="bn: a batch of 1 image has one value a channel"
    ):
        run(net, data)


@pytest.mark.parametrize("shape", [(8, 8, 1), (8, 8, 8)])
def test_images_with_the_channels_last_are_told_so(shape):
    net = Net("any")
    x = net.input((4, shape[2], 8, 8))
    net.add("softmax", Softmax(), net.add("fc", Linear(10), x))
    data = images_for(net)
    last = replace(data, images=data.images.transpose(0, 2, 3, 1))
    if shape == (8, 8, 8):
        assert run(net, last).losses  # nobody can tell
        return
    message = r"1 x 8 x 8; images.transpose\(0, 3, 1, 2\) puts the channels first"
    with pytest.raises(ValueError, match=message):
        run(net, last)


def test_a_loss_that_is_not_finite_stops_with_iteration_and_first_tensor(
    resnet, images
):
    with pytest.raises(NotFinite, match=r"^iteration \d+: the loss is (nan|inf)") as e:
        run(resnet, images, epochs=9, settings=Settings(1e30))
    assert "first tensor with a value that is not finite is" in str(
        e.value
    ) or "is not finite since the update before" in str(e.value)


def test_the_first_tensor_is_the_one_where_it_began(resnet, images):
    data = replace(images, images=images.images.copy())
    data.images[:] = 1e38  # conv0 sums 27 products of it
    with pytest.raises(NotFinite, match=r"iteration 1: .* is conv0\.y, of conv0 for"):
        run(resnet, data)


def test_parameters_are_as_they_were_before_a_loss_that_is_not_finite(resnet, images):
    session = Session(run(resnet, images).planned, images, Settings(0.01), "cpu")
    before = {key: array.tobytes() for key, array in session.state().items()}
    images.images[:] = 1e38
    with pytest.raises(NotFinite):
        session.iterate(np.arange(4))
    after = {key: array.tobytes() for key, array in session.state().items()}
    assert session.device.in_use == 0
    changed = {key for key in before if before[key] != after[key]}
    assert not changed


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"device": "abacus"}, ValueError, "no device 'abacus': auto, cpu, cuda"),
        ({"memory": "1KB"}, OutOfMemory, "the least is"),
        ({"batch": 99}, ValueError, "batch 99: random has 10 images to train on"),
        ({"preset": "none"}, ValueError, "no preset 'none'"),
        ({"data": "nowhere"}, DataError, "nowhere: no such data"),
        ({"data": "digits"}, ValueError, "images of 1 x 8 x 8, small resnet takes 3"),
    ],
)
def test_what_does_not_go_together_is_said_first(
    resnet, images, arguments, error, message
):
    with pytest.raises(error, match=message):
        train(resnet, **{"data": images, "device": "cpu"} | arguments)


def test_labels_beyond_the_classes_of_the_net_are_refused(resnet, images):
    images.labels[6] = 10
    with pytest.raises(DataError, match=r"label 10 at index 6: .* 0 to 9"):
        run(resnet, images)


def test_a_net_without_kernels_is_refused():
    with pytest.raises(ValueError, match="gpt2 can be planned only"):
        run(gpt2(1), None)


def test_any_dataset_will_do_that_has_the_shape():
    chance = random.Random(1)
    images = np.zeros((8, 1, 8, 8), np.float32)
    labels = np.array([chance.randrange(10) for _ in images], np.int32)
    data = Dataset("mine", images, labels, images[:0], labels[:0])
    assert len(run("digits", data, batch=8).losses) == 1

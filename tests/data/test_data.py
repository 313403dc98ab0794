"""Data: what comes out of each source, and what is said of files that will not do."""

import gzip
import random
import re
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from snref.data import DIGITS, DataError, load

FASHION = Path("/usr/share/datasets/fashion-mnist")


def idx(array):
    """The bytes of an IDX file."""
    head = bytes((0, 0, 8, array.ndim))
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return head + sizes + array.astype(np.uint8).tobytes()


@pytest.fixture
def files():
    """The four files of a small MNIST, by name."""
    rng = np.random.default_rng(1)
    return {
        "train-images-idx3-ubyte": idx(rng.integers(0, 256, (20, 4, 4))),
        "train-labels-idx1-ubyte": idx(rng.integers(0, 10, 20)),
        "t10k-images-idx3-ubyte": idx(rng.integers(0, 256, (6, 4, 4))),
        "t10k-labels-idx1-ubyte": idx(rng.integers(0, 10, 6)),
    }


def put(folder, files, pack=False):
    for name, raw in files.items():
        path = folder / (f"{name}.gz" if pack else name)
        path.write_bytes(gzip.compress(raw) if pack else raw)
    return folder


def refused(source, message):
    """The message names the source, and says this."""
    with pytest.raises(DataError) as caught:
        load(source)
    assert str(source) in str(caught.value)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


# What comes out


def test_the_digits_are_those_of_the_repository_and_none_is_in_both_parts():
    data = load("digits")
    assert data.images.shape == (1437, 1, 8, 8) and data.images.dtype == np.float32
    assert data.test_images.shape == (360, 1, 8, 8)
    labels = np.concatenate([data.labels, data.test_labels])
    assert labels.dtype == np.int32
    assert (
        np.bincount(labels).tolist()
        == np.bincount(np.load(DIGITS, allow_pickle=False)["labels"]).tolist()
    )
    seen = {image.tobytes() for image in data.images}
    assert len(seen) == 1437
    assert not seen & {image.tobytes() for image in data.test_images}


def test_values_have_mean_0_and_deviation_1_over_the_training_part():
    data = load("digits")
    assert abs(data.images.mean()) < 1e-5 and abs(data.images.std() - 1) < 1e-5
    assert abs(data.test_images.mean()) > 1e-5  # scaled alike, not by itself


@pytest.mark.parametrize("pack", [False, True])
def test_idx_files_are_read_packed_or_not(tmp_path, files, pack):
    data = load(put(tmp_path, files, pack))
    raw = np.frombuffer(files["train-images-idx3-ubyte"][16:], np.uint8)
    expected = (raw - raw.mean()) / raw.std()
    assert np.allclose(data.images.ravel(), expected, atol=1e-5)
    assert data.images.shape == (20, 1, 4, 4) and data.test_images.shape == (6, 1, 4, 4)
    labels = np.frombuffer(files["train-labels-idx1-ubyte"][8:], np.uint8)
    assert data.labels.tolist() == labels.tolist()


@pytest.mark.parametrize("names", ["images labels", "x_train y_train"])
@pytest.mark.parametrize("shape", [(5, 3, 4), (5, 2, 3, 4)])
def test_npz_files_need_no_test_part(tmp_path, names, shape):
    images, labels = names.split()
    values = np.arange(np.prod(shape)).reshape(shape)
    path = tmp_path / "own.npz"
    np.savez_compressed(path, **{images: values, labels: np.arange(5)})
    data = load(path)
    assert data.images.shape == (5, *(shape[1:] if len(shape) == 4 else (1, 3, 4)))
    assert len(data.test_images) == len(data.test_labels) == 0


def test_images_that_are_all_the_same_are_all_zero(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, images=np.full((2, 3, 3), 7), labels=[0, 1])
    assert not load(path).images.any()


def test_synthetic_images_are_a_function_of_the_seed():
    first, again, other = (
        load("synthetic", image_shape=(2, 6, 5), classes=3, count=40, seed=seed)
        for seed in (1, 1, 2)
    )
    assert first.images.shape == (40, 2, 6, 5) and len(first.test_images) == 10
    assert set(first.labels) == {0, 1, 2}
    assert np.array_equal(first.images, again.images)
    assert not np.array_equal(first.images, other.images)


def test_an_epochs_batches_hold_each_image_once_in_an_order_of_its_own():
    data = load("digits")
    first, second = (data.batches(32, seed=5, epoch=epoch) for epoch in (0, 1))
    assert [len(batch) for batch in first] == [32] * 44 + [29]
    assert sorted(np.concatenate(first)) == list(range(1437))
    assert not np.array_equal(first[0], second[0])
    again = data.batches(32, seed=5, epoch=1)
    assert all(map(np.array_equal, second, again))


@pytest.mark.slow
@pytest.mark.skipif(not FASHION.is_dir(), reason="dataset-fashion-mnist not installed")
def test_fashion_mnist_is_read_whole():
    data = load(FASHION)
    assert data.images.shape == (60000, 1, 28, 28)
    assert np.bincount(data.labels).tolist() == [6000] * 10
    assert np.bincount(data.test_labels).tolist() == [1000] * 10


# IDX files that will not do


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("train-images-idx3-ubyte", lambda raw: raw[:100], "offset 100: 100 bytes"),
        ("train-images-idx3-ubyte", lambda raw: raw + b"x", "offset 336: more bytes"),
        ("train-labels-idx1-ubyte", lambda raw: b"", "offset 0: the file ends"),
        ("t10k-images-idx3-ubyte", lambda raw: raw[:9], "offset 9: the file ends"),
        ("t10k-labels-idx1-ubyte", lambda raw: b"PK" + raw, "offset 0: magic number"),
        ("train-labels-idx1-ubyte", lambda raw: b"\0\0\x0d" + raw[3:], "expected 2049"),
    ],
)
def test_a_damaged_file_is_named_with_the_offset(
    tmp_path, files, name, damage, message
):
    files[name] = damage(files[name])
    refused(put(tmp_path, files), f"{name}: .*{message}")


def test_a_packed_file_that_is_cut_short_is_named_with_the_offset(tmp_path, files):
    put(tmp_path, files, pack=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-60])
    refused(tmp_path, r"train-images-idx3-ubyte.gz: offset \d+: cannot be read: .*end")


def test_a_packed_file_with_a_wrong_byte_is_named(tmp_path, files):
    put(tmp_path, files, pack=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)
    refused(tmp_path, r"train-images-idx3-ubyte.gz: offset \d+: cannot be read")


def test_images_in_place_of_labels_are_named(tmp_path, files):
    files["train-labels-idx1-ubyte"] = files["train-images-idx3-ubyte"]
    refused(put(tmp_path, files), "train-labels.*magic number 2051, expected 2049")


def test_a_file_that_is_missing_is_named(tmp_path, files):
    del files["t10k-labels-idx1-ubyte"]
    refused(put(tmp_path, files), "has neither t10k-labels-idx1-ubyte nor")


def test_other_numbers_of_images_and_labels_are_refused(tmp_path, files):
    files["train-labels-idx1-ubyte"] = idx(np.zeros(19))
    refused(put(tmp_path, files), "has 20 images, but .* has 19 labels")


def test_no_images_are_refused(tmp_path, files):
    files["train-images-idx3-ubyte"] = idx(np.zeros((0, 4, 4)))
    files["train-labels-idx1-ubyte"] = idx(np.zeros(0))
    refused(put(tmp_path, files), r"offset 4: shape \(0, 4, 4\): there are no values")


MANY = (2**32 - 1).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (b"\0\0\0\0" + MANY + MANY, "offset 4: .* there are no values"),
        (b"\0\0\0\x14" + b"\0\0\0\0" + MANY, "offset 8: .* there are no values"),
        (MANY + MANY + MANY, "has 4294967295 images, but .* has 20 labels"),
        (b"\0\0\0\x14" + MANY + MANY, r"offset 336: 336 bytes, but .* has \d{21}$"),
    ],
)
def test_sizes_beyond_what_is_there_are_refused(tmp_path, files, sizes, message):
    name = "train-images-idx3-ubyte"
    files[name] = files[name][:4] + sizes + files[name][16:]
    refused(put(tmp_path, files), message)


def memory_of(function):
    """The most bytes that Python and NumPy held meanwhile."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"])
def test_a_packed_file_takes_no_more_memory_than_it_says_it_needs(
    tmp_path, files, name
):
    put(tmp_path, files, pack=True)
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(files[name] + bytes(100_000_000)))
    assert path.stat().st_size < 200_000
    message = r"offset \d+: more bytes, but a file of shape"
    assert memory_of(lambda: refused(tmp_path, message)) < 2_000_000


def test_test_images_of_another_size_are_refused(tmp_path, files):
    files["t10k-images-idx3-ubyte"] = idx(np.zeros((6, 5, 4)))
    refused(put(tmp_path, files), r"training images of \(1, 4, 4\), test images of")


def test_a_label_out_of_range_is_named_with_its_index(tmp_path, files):
    raw = bytearray(files["t10k-labels-idx1-ubyte"])
    raw[8 + 3] = 200
    files["t10k-labels-idx1-ubyte"] = raw
    data = load(put(tmp_path, files))
    with pytest.raises(DataError, match=r"test label 200 at index 3.*classes 0 to 9"):
        data.check(10)


# NPZ files that will not do


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": np.zeros(3)}, "holds pictures; expected images and labels"),
        ({}, "holds nothing"),
        ({"images": np.zeros((2, 3)), "labels": [0, 1]}, r"images is .*\(2, 3\)"),
        ({"images": np.zeros((2, 3, 3)), "labels": [0.5, 1]}, "labels is float64"),
        ({"images": np.zeros((2, 3, 3)), "labels": [0]}, "2 training images and 1"),
        (
            {"images": np.zeros((2, 3, 3)), "labels": [[0], [1]]},
            r"shape \(2, 1\); .*labels.ravel\(\) gives them",
        ),
        (
            {"x_train": np.zeros((2, 3, 3)), "y_train": [[0, 1], [1, 0]]},
            r"y_train is .*y_train.argmax\(axis=1\) gives them",
        ),
        (
            {"images": np.zeros((2, 3, 3)), "labels": 5},
            r"labels is int64 of shape \(\)",
        ),
        ({"images": 5, "labels": [5]}, r"images is int64 of shape \(\)"),
        (
            {"images": np.zeros((2, 3, 3)), "labels": [0, 1], "test_images": [1]},
            "has only one of test_images and test_labels",
        ),
        ({"images": np.zeros((2, 3, 3)), "labels": [0, -1]}, "label -1 at index 1"),
        ({"images": np.zeros((2, 3, 3)), "labels": [0, 2**40]}, "at index 1"),
        ({"images": np.full((2, 3, 3), "a"), "labels": [0, 1]}, "images is <U1"),
        ({"images": np.array([1, {}]), "labels": [0, 1]}, "pickle"),
        ({"images": np.full((2, 3, 3), 1e300), "labels": [0, 1]}, "image 0 holds"),
    ],
)
def test_arrays_that_will_not_do_are_refused(tmp_path, arrays, message):
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    refused(path, message)


def test_a_member_that_is_no_array_is_refused(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, labels=[0, 1])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("images", "a picture")
    refused(path, "images is no array: it should be called images.npy")
    np.savez(path, labels=[0, 1])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("images.npy", "a picture")
    refused(path, "is no .npz file, or damaged: .*magic")


def test_only_what_is_needed_is_read(tmp_path):
    """An array that nobody asked for may be larger than the memory."""
    path = tmp_path / "own.npz"
    needless = np.zeros(100_000_000, np.uint8)
    images = np.zeros((2, 3, 3), np.uint8)
    np.savez_compressed(path, images=images, labels=[0, 1], needless=needless)
    assert memory_of(lambda: load(path)) < 2_000_000


def test_an_array_that_claims_more_than_it_holds_is_refused(tmp_path):
    """Before memory is allocated for it."""
    path = tmp_path / "own.npz"
    np.savez(path, images=np.zeros((2, 3, 3), np.uint8), labels=[0, 1])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    claim = members["images.npy"].replace(b"(2, 3, 3), }     ", b"(2, 3, 30000), } ")
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in (members | {"images.npy": claim}).items():
            archive.writestr(name, raw)
    refused(path, r"images has 18 bytes, but uint8 of shape \(2, 3, 30000\) has 180000")


def test_an_image_with_nan_is_named_by_its_index(tmp_path):
    images = np.zeros((9, 3, 3))
    images[4, 1, 2] = np.nan
    np.savez(tmp_path / "own.npz", images=images, labels=np.zeros(9, int))
    refused(tmp_path / "own.npz", "training image 4 holds a value that is not a finite")


def test_an_image_that_scaling_makes_infinite_is_named(tmp_path):
    images = np.arange(18, dtype=np.float32).reshape(2, 3, 3) * np.float32(1e-30)
    labels = np.zeros(2, int)
    held_out = {"test_images": images.astype(float) * 1e60, "test_labels": labels}
    np.savez(tmp_path / "own.npz", images=images, labels=labels, **held_out)
    refused(tmp_path / "own.npz", "test image 0 holds .* number when it is scaled")


def test_images_that_differ_by_less_than_float32_can_tell_are_all_zero(tmp_path):
    images = np.zeros((2, 3, 3), np.float32)
    images[0, 0, 0] = 1e-45
    np.savez(tmp_path / "own.npz", images=images, labels=np.zeros(2, int))
    assert np.isfinite(load(tmp_path / "own.npz").images).all()


def test_a_file_that_is_no_npz_is_refused(tmp_path):
    for number, raw in enumerate((b"", b"not a zip", b"PK\x03\x04 but no more")):
        path = tmp_path / f"{number}.npz"
        path.write_bytes(raw)
        refused(path, "is no .npz file, or damaged")
    with (tmp_path / "array.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    refused(tmp_path / "array.npz", "is no .npz file, or damaged")
    refused(tmp_path / "nowhere.npz", "no such file")
    refused(tmp_path / "data.csv", "no such data")


def test_a_damaged_npz_is_refused_or_read_but_never_a_traceback(tmp_path):
    whole = DIGITS.read_bytes()
    path = tmp_path / "damaged.npz"
    chance = random.Random(0)
    refusals = 0
    for _ in range(60):
        raw = bytearray(whole)
        if chance.random() < 0.5:
            del raw[chance.randrange(len(raw)) :]
        else:
            raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        path.write_bytes(raw)
        try:
            load(path)
        except DataError as error:
            refusals += 1
            assert str(path) in str(error)
    assert refusals > 40

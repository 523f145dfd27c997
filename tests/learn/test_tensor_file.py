"""Files of nested values: what comes back, and what is refused."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from gpus import DEVICES, NO_GPU

from plangym_ext.errors import DamagedCheckpoint
from plangym_ext.learn import tensor_file
from plangym_ext.learn.repeatable import TorchRandom, fix_threads, seeded

CONTENT = {
    "none": None,
    "numbers": [1, 2.5, True, "text"],
    "weights": {"a": torch.arange(3.0)},
    "arrays": {
        "u8": np.arange(4, dtype=np.uint8).reshape(2, 2),
        "bool": np.array([True, False]),
        "i64": np.array(2**62),
        "f64": np.zeros((0, 3)),
    },
}


def test_what_was_saved_comes_back(tmp_path):
    tensor_file.save(tmp_path / "a.pt", CONTENT)
    found = tensor_file.load(tmp_path / "a.pt")
    assert found["none"] is None
    assert found["numbers"] == CONTENT["numbers"]
    assert torch.equal(found["weights"]["a"], CONTENT["weights"]["a"])
    for name, array in CONTENT["arrays"].items():
        back = found["arrays"][name]
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(back, array)
    assert os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_a_file_that_was_cut_short_is_refused(tmp_path, kept):
    path = tmp_path / "a.pt"
    tensor_file.save(path, CONTENT)
    data = path.read_bytes()
    path.write_bytes(data[: kept if isinstance(kept, int) else int(kept * len(data))])
    with pytest.raises(DamagedCheckpoint, match="cut short or altered"):
        tensor_file.load(path)


_FULL = """
import resource, sys
from pathlib import Path
import torch
from plangym_ext.learn import tensor_file
path = Path(sys.argv[1])
tensor_file.save(path, {"a": torch.zeros(10)})
before = path.read_bytes()
for size in range(0, 40_000, 997):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        tensor_file.save(path, {"a": torch.zeros(5_000), "b": [torch.ones(5_000)]})
    except OSError as error:
        assert (error.errno, error.filename) == (27, str(path)), (size, error)
    else:
        raise AssertionError(size)
assert path.read_bytes() == before
assert [one.name for one in path.parent.iterdir()] == [path.name]
"""


def test_a_disk_that_is_full_at_any_byte_is_told_as_such(tmp_path):
    """Torch tells an error of its own, "unexpected pos", for what the disk said."""
    command = [sys.executable, "-P", "-c", _FULL, tmp_path / "checkpoint.pt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_altered_tensor_is_refused(tmp_path):
    path = tmp_path / "a.pt"
    tensor_file.save(path, {"weights": torch.full((64,), 7.0)})
    data = bytearray(path.read_bytes())
    at = data.find(np.full(64, 7.0, np.float32).tobytes())
    assert at > 0
    data[at + 30] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedCheckpoint):
        tensor_file.load(path)


def test_an_object_is_never_read(tmp_path):
    path, mark = tmp_path / "a.pt", tmp_path / "ran"

    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(mark),)

    for write in (
        lambda: torch.save({"format": 1, "x": Hostile()}, path),
        lambda: path.write_bytes(pickle.dumps({"x": Hostile()})),
    ):
        write()
        with pytest.raises(DamagedCheckpoint):
            tensor_file.load(path)
        assert not mark.exists()


def generator_state(device):
    return torch.random.get_rng_state() if device == "cpu" else torch.cuda.get_rng_state()


@pytest.mark.parametrize("device", DEVICES)
def test_a_stream_of_torch_goes_on_where_it_was(device):
    first = TorchRandom(3, device)
    outside = generator_state(device)
    with first.used():
        torch.rand(5, device=device)
    state = first.state_dict()
    with first.used():
        wanted = torch.rand(5), torch.rand(5, device=device)
    second = TorchRandom(4, device)
    second.load_state_dict(state)
    with second.used():
        assert torch.equal(torch.rand(5), wanted[0])
        assert torch.equal(torch.rand(5, device=device), wanted[1])
    # Others are not disturbed.
    assert torch.equal(generator_state(device), outside)


@NO_GPU
def test_a_stream_that_was_saved_without_a_gpu_goes_on_with_one():
    first, second = TorchRandom(3), TorchRandom(4, "cuda")
    second.load_state_dict(first.state_dict())
    with first.used():
        wanted = torch.rand(5)
    with second.used():
        assert torch.equal(torch.rand(5), wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_seeded_puts_the_generator_back(device):
    torch.zeros(1, device=device)
    before = generator_state(device)
    with seeded(1):
        one = torch.rand(2, device=device)
    with seeded(1):
        assert torch.equal(torch.rand(2, device=device), one)
    assert torch.equal(generator_state(device), before)


def test_kernels_are_fixed_and_put_back():
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    with TorchRandom(0).used():
        assert (cudnn.deterministic, cudnn.benchmark) == (True, False)
    assert (cudnn.deterministic, cudnn.benchmark) == before


def test_threads_are_fixed_and_put_back():
    before = fix_threads(1)
    assert torch.get_num_threads() == 1
    assert fix_threads(before) == 1


def test_one_flipped_bit_anywhere_is_refused(tmp_path):
    path, damaged = tmp_path / "a.pt", tmp_path / "b.pt"
    tensor_file.save(path, CONTENT)
    data = path.read_bytes()
    bits = np.arange(len(data) * 8)
    if not os.environ.get("PYTEST_LONG"):
        # All of the seal and of the end of the archive, some of the rest.
        bits = np.concatenate([bits[-8 * 200 :: 5], np.random.default_rng(0).choice(bits, 150)])
    for bit in bits:
        altered = bytearray(data)
        altered[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(altered)
        with pytest.raises(DamagedCheckpoint):
            tensor_file.load(damaged)


def test_a_directory_flag_loads_no_uninitialised_memory(tmp_path):
    path = tmp_path / "a.pt"
    tensor_file.save(path, {"obs": torch.full((64,), 7.0)})
    data = bytearray(path.read_bytes())
    at = data.rfind(b"/data/0") - len("a")
    name = data.rfind(b"PK\x01\x02", 0, at)
    data[name + 38] ^= 16
    path.write_bytes(data)
    with pytest.raises(DamagedCheckpoint, match="do not fit its seal"):
        tensor_file.load(path)


def test_it_is_still_a_file_that_torch_reads(tmp_path):
    tensor_file.save(tmp_path / "a.pt", {"x": torch.arange(3)})
    found = torch.load(tmp_path / "a.pt", weights_only=True)
    assert found["x"].tolist() == [0, 1, 2]
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        assert archive.testzip() is None


def sealed(path):
    """Put a right seal on an archive."""
    data = path.read_bytes()[:-2] + tensor_file._SEAL_BYTES.to_bytes(2, "little")
    data += tensor_file._SEAL
    path.write_bytes(data + hashlib.blake2b(data, digest_size=32).digest())


def test_a_file_takes_memory_by_its_own_size(tmp_path):
    path = tmp_path / "a.pt"
    tensor_file.save(path, {"a": torch.zeros(1).expand(1 << 34)})
    with pytest.raises(DamagedCheckpoint, match="its tensors would take 68,719,476,736 bytes"):
        tensor_file.load(path)
    torch.save({"a": torch.zeros(1 << 24)}, path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    sealed(path)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(DamagedCheckpoint, match="it is packed, which torch never does"):
        tensor_file.load(path)

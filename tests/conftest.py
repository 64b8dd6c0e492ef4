"""Guards shared by all tests: one thread, and no random state leaks between tests."""

import signal

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("tests", deadline=None, derandomize=True, database=None)
settings.load_profile("tests")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script
    # Processes that tests start and interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _restored_random_state():
    """Each test starts from one global random state, whatever ran before it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def untouched_random_state():
    """Fail a test that draws from torch's global generator."""
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before), "the global generator was used"

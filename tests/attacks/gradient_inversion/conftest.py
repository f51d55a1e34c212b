"""What tests of gradient inversion share."""

import pytest

from privlab import data


@pytest.fixture(scope="session")
def photos():
    return data.load("cifar10_samples")

import pytest


@pytest.fixture(scope="module")
def own_store(tmp_path_factory):
    """What a file of tests trains and searches for is kept for this file alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVLAB_STORE", str(tmp_path_factory.mktemp("store")))
        yield patch

"""What tests of several attacks share."""

import pytest

from privlab import compute


@pytest.fixture
def stop_behind_save(monkeypatch):
    """Call it with n: a KeyboardInterrupt comes behind the n-th thing that is saved from then on. Gives the list of what is saved."""

    def stop(n):
        save, saved = compute.Run.save, []

        def interrupted(self, name, tensors):
            save(self, name, tensors)
            saved.append(name)
            if len(saved) == n:
                raise KeyboardInterrupt

        monkeypatch.setattr(compute.Run, "save", interrupted)
        return saved

    return stop

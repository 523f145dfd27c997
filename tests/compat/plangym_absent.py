"""Which of plangym's tests fail on our face, and why: with this pytest plugin exactly they do."""

import pytest

ABSENT = {
    "test_montezuma.py::TestMontezumaPosLevel": "plangym's own record; positions are in infos",
    "test_montezuma.py::TestCustomMontezuma": "plangym's own env; ours is ale-py's, read from RAM",
}


def pytest_collection_modifyitems(items):
    for item in items:
        for name, reason in ABSENT.items():
            if name in item.nodeid:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))

"""A plugin in the tests' container: each pytest has a report of its own.

Its file stays empty until pytest has ended, and then has its exit status in its name. pytest finds the plugin by its entry point.
"""

import os
import shutil
import tempfile
import time
from typing import Any, Generator

import pytest

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Set while a pytest runs: the workers of pytest-xdist report to it, and what a test starts is judged by that test.
_RUNNING = "AML_TRAIN_PYTEST"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    """Begin a report before anything of the project is imported."""
    if _RUNNING not in os.environ:
        os.environ[_RUNNING] = str(os.getpid())
        prefix = "pytest-%d-" % (time.time() * 1e6)
        number, early_config.aml_train_report = tempfile.mkstemp(prefix=prefix, suffix=".xml", dir=_FOLDER)
        os.close(number)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_cmdline_main(config: Any) -> Generator[None, Any, None]:
    """Have the report written there, or copied from where the command wants it."""
    own = getattr(config, "aml_train_report", None)
    given = getattr(config.option, "xmlpath", None)
    if given is None or os.path.dirname(given) == _FOLDER:
        given = config.option.xmlpath = own
    written = os.path.abspath(os.path.expanduser(os.path.expandvars(given or "")))
    outcome = yield
    if own is None:
        return
    os.environ.pop(_RUNNING, None)
    status = int(outcome.get_result() or 0)
    if written != own and os.path.exists(written):
        shutil.copyfile(written, own)
    if os.path.getsize(own) or status:
        os.rename(own, "%s-%d.xml" % (own[:-4], status))
    else:  # it ran no tests: `pytest --version`
        os.remove(own)

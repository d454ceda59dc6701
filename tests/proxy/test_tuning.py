"""A tuned process: allocator and collector do less, more files may be open."""

import gc
import resource
import sys
from collections.abc import Iterator

import pytest

from deuz_proxy.tuning import load_calmly, raise_file_limit, tune_process


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    slice_seconds = sys.getswitchinterval()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    sys.setswitchinterval(slice_seconds)
    gc.set_threshold(*before)
    gc.unfreeze()


def test_the_collector_becomes_rare_and_leaves_alone_what_is_there() -> None:
    tune_process()

    assert gc.get_threshold()[0] >= 10_000
    assert gc.get_freeze_count() > 0


def test_while_all_is_loaded_the_collector_is_rare_and_not_off() -> None:
    load_calmly()

    assert gc.isenabled()
    assert gc.get_threshold()[0] >= 10_000


def test_the_allocator_is_calmed_without_a_word() -> None:
    tune_process()
    tune_process()

    assert len(bytes(8 * 1024 * 1024)) == 8 * 1024 * 1024


def test_as_many_files_may_be_open_as_the_system_allows() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, most), most))

    raise_file_limit()

    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)


def test_a_busy_thread_hands_over_to_the_loop_soon() -> None:
    tune_process()

    assert sys.getswitchinterval() < 0.001

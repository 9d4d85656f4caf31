"""What is loaded when it is first needed."""

from threading import Event, Thread

from qconfig.versioning.modules import load_what_is_needed, on_first_need


def test_a_loader_runs_once():
    """The second need finds what the first has loaded."""
    calls = []
    on_first_need("a test", lambda: calls.append(1))
    load_what_is_needed("a test")
    load_what_is_needed("a test")
    assert calls == [1]


def test_threads_wait_for_the_loader():
    """A thread that needs the same meanwhile does not go on with a part of it."""
    started, may_end, found = Event(), Event(), []

    def loader():
        started.set()
        may_end.wait(10)
        found.append("loaded")

    def need():
        load_what_is_needed("a test")
        found.append("used")

    on_first_need("a test", loader)
    first, second = Thread(target=need), Thread(target=need)
    first.start()
    started.wait(10)
    second.start()
    second.join(0.05)
    may_end.set()
    for thread in (first, second):
        thread.join()
    assert found == ["loaded", "used", "used"]

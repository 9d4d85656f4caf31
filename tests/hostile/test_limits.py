"""Every bound can be set, holds as it is set, and is named where it is met."""

import json
import shutil
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import attrs
import pytest

from qconfig import config_from_dict, inspect_checkpoint, load_config, use_limits, with_limits
from qconfig.errors import DocumentError, DocumentSyntaxError, QconfigError, UsageError
from qconfig.limits import DEFAULT_LIMITS, Limits, current_limits
from tests.cli.calls import ROW, call
from tests.hostile.limit_samples import SAMPLES

NAMES = [field.name for field in attrs.fields(Limits)]
RULES = {
    "type": "FqnToConfig",
    "version": 2,
    "configs": {"row": ROW},
    "rules": [{"match": "a", "use": "row"}, {"match": "b", "use": "row"}],
}


def test_every_bound_has_a_sample():
    """None is left out below."""
    assert [*SAMPLES] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_bound_holds_as_it_is_set(name, tmp_path):
    """A file is read under the bound that it needs, and refused by name under one less."""
    sample = SAMPLES[name]
    words = sample.make(tmp_path / "source")
    needs = sample.needs if isinstance(sample.needs, int) else sample.needs(tmp_path / "source")
    enough = call(*words, "--limit", f"{name}={needs}")
    shutil.rmtree(tmp_path / "target", ignore_errors=True)
    assert enough.exit_code == 0, enough.output
    less = call(*words, "--limit", f"Limits.{name}={needs - 1}")
    assert less.exit_code == 3
    assert f"at most {needs - 1} (Limits.{name})" in less.output
    assert call(*words).exit_code == 0


def test_the_names_of_torchao_are_rules(tmp_path):
    """What torchao writes under names counts as rules do."""
    form = {"_type": "Int8WeightOnlyConfig", "_version": 2, "_data": {"group_size": None}}
    data = {"module_fqn_to_config": {"a": form, "b": form}}
    document = {"_type": "ModuleFqnToConfig", "_version": 1, "_data": data}
    config_from_dict(document)
    with use_limits(rules=1), pytest.raises(QconfigError, match=r"Limits\.rules"):
        config_from_dict(document)


def test_rules_are_counted_before_they_are_read():
    """Of too many rules none is looked at."""
    document = RULES | {"rules": [{"match": 1}] * 3}
    with use_limits(rules=2), pytest.raises(DocumentError) as caught:
        config_from_dict(document)
    assert [p.pointer for p in caught.value.problems] == ["/rules"]


def test_every_rule_is_linted_under_the_bounds_that_hold():
    """A pattern that passed is not let through when bounds have become smaller."""
    document = RULES | {"rules": [{"match": "re:.*x.*y", "use": "row"}]}
    config_from_dict(document)
    with use_limits(pattern_cost=7), pytest.raises(QconfigError, match=r"Limits\.pattern_cost"):
        config_from_dict(document)
    config_from_dict(document)


def test_blocks_nest_and_end():
    """An inner block changes what it names and keeps the rest; afterwards all is as before."""
    with use_limits(rules=7, rank=3):
        with use_limits(rank=4) as inner:
            assert (inner.rules, inner.rank) == (7, 4)
        assert current_limits() == Limits(rules=7, rank=3)
        with use_limits(Limits(), tensors=5):
            assert current_limits() == Limits(tensors=5)
    assert current_limits() is DEFAULT_LIMITS


def test_an_error_ends_a_block():
    """Bounds do not outlive an error."""
    with pytest.raises(KeyError), use_limits(rules=7):
        raise KeyError
    assert current_limits() is DEFAULT_LIMITS


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"header_byte": 1}, "did you mean 'header_bytes'"),
        ({"rules": -1}, "Limits.rules is not a bound"),
        ({"rules": 1.5}, "Limits.rules is not a bound"),
        ({"rules": True}, "Limits.rules is not a bound"),
        ({"json_depth": 129}, "an integer from 0 to 128"),
        ({"number_digits": 641}, "an integer from 0 to 640"),
        ({"tensors": 2**63}, "Limits.tensors is not a bound"),
    ],
)
def test_what_is_no_bound(bounds, words):
    """A name that there is not, and a value that is no size or more than Python bears."""
    with pytest.raises(UsageError) as caught, use_limits(**bounds):
        pass
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "rules", "rules=", "rules=x", "rules=-1", "x=1", "=1"])
def test_what_is_no_limit_on_the_command_line(text, tmp_path):
    """It is misuse, exit code 2, whatever verb it is given to."""
    path = tmp_path / "c.json"
    path.write_text(json.dumps(ROW))
    assert call("validate", path, "--limit", text).exit_code == 2


@pytest.mark.parametrize("name", ["json_depth", "number_digits"])
def test_the_largest_bounds_are_borne(name, tmp_path):
    """Under the largest bound that there can be, a reader still raises nothing but our errors."""
    most = attrs.fields_dict(Limits)[name].metadata["most"]
    texts = {
        "json_depth": "[" * most + "]" * most,
        "number_digits": f'{{"type": "Int4WeightOnlyConfig", "group_size": {"1" * most}}}',
    }
    with use_limits(**{name: most}):
        for suffix in ("json", "yaml"):
            path = tmp_path / f"c.{suffix}"
            path.write_text(texts[name])
            with pytest.raises(DocumentError) as caught:
                load_config(path)
            assert not isinstance(caught.value, DocumentSyntaxError)


def depth(_: object = None) -> int:
    """Return a bound that holds where this runs."""
    return current_limits().json_depth


def test_a_thread_takes_bounds_along_when_asked():
    """`with_limits` is the bounds of where it is called; without it a thread has the default."""
    with ThreadPoolExecutor(1) as pool, use_limits(json_depth=7):
        assert pool.submit(with_limits(depth)).result() == 7
        assert pool.submit(depth).result() == DEFAULT_LIMITS.json_depth


def test_a_process_takes_bounds_along():
    """What `with_limits` gives can be pickled."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, use_limits(json_depth=7):
        assert pool.submit(with_limits(depth)).result() == 7


def test_a_block_is_of_its_thread():
    """Another thread that reads at the same time keeps its own bounds."""
    found = []
    with use_limits(json_depth=7):
        thread = threading.Thread(target=lambda: found.append(depth()))
        thread.start()
        thread.join()
    assert found == [DEFAULT_LIMITS.json_depth]


def test_a_header_is_measured_before_it_is_read(tmp_path):
    """A header of the largest length takes no memory where the bound is smaller."""
    path = tmp_path / "model.safetensors"
    path.write_bytes((99_000_000).to_bytes(8, "little"))
    with path.open("r+b") as file:
        file.truncate(200_000_000)
    with use_limits(header_bytes=1000), pytest.raises(QconfigError, match="header is too long"):
        inspect_checkpoint(path)

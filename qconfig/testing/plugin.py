"""The conformance kit as a pytest plug-in.

A test that takes the fixture `conformance_check` runs once for every check:

    @pytest.mark.conformance(MyConfig(bits=3), shape=(64, 128))
    def test_my_builder(conformance_check):
        conformance_check()

Without the marker, the default config of every registered builder of packed or fake-quantized
weights is checked, where it has one. The marker takes the arguments of
`qconfig.testing.conformance` and may be repeated.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_MARKER = "conformance(subject, **options): config, config class or builder for conformance_check"


def pytest_configure(config: "pytest.Config") -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: "pytest.Metafunc") -> None:
    """Parametrize tests that take `conformance_check`."""
    if "conformance_check" not in metafunc.fixturenames:
        return
    # Imported here: the plug-in is loaded in every pytest run where qconfig is installed.
    from qconfig.testing.conformance import (
        conformance,
        fake_quantized_configs,
        packing_configs,
        required_fields,
    )

    marks = list(metafunc.definition.iter_markers("conformance"))
    if marks:
        checks = [check for mark in marks for check in conformance(*mark.args, **mark.kwargs)]
    else:
        kinds = [*packing_configs(), *fake_quantized_configs()]
        classes = [c for c in kinds if not required_fields(c)]
        checks = [check for config_class in classes for check in conformance(config_class)]
    metafunc.parametrize("conformance_check", checks, ids=[check.name for check in checks])

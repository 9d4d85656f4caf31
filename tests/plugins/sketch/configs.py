"""`SketchConfig`: version 1 said whether codes are halved, version 2 how many bits they have."""

from attrs import frozen

from qconfig.versioning import Config, attribute, migration, register_config


@register_config("SketchConfig", 1)
@frozen
class SketchConfigV1(Config):
    """Int8 codes with one scale for the whole weight."""

    halved: bool = attribute("Whether codes keep to half of the range.", default=False)


@register_config("SketchConfig", 2)
@frozen
class SketchConfig(Config):
    """Int8 codes with one scale for the whole weight."""

    bits: int = attribute("Bits of a code.", default=8, minimum=2, maximum=8)

    def __attrs_post_init__(self) -> None:
        """Refuse 3 bits, with the error that every Python author would take."""
        if self.bits == 3:
            raise ValueError("3 bits have no kernel")


@migration()
def halved_to_bits(old: SketchConfigV1) -> SketchConfig:
    """Say half of the range as 7 bits."""
    return SketchConfig(7 if old.halved else 8)

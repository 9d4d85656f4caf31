"""What the document tests share."""

from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig, PerGroup, Rule

JSON = """{"type": "FqnToConfig", "version": 2,
 "configs": {"w8": {"type": "Int8WeightOnlyConfig", "version": 3,
                    "granularity": {"type": "PerGroup", "group_size": 32}}},
 "rules": [{"match": "*.mlp.*", "use": "w8", "optional": true}],
 "default": "w8"}
"""


CONFIG = FqnToConfig(
    configs={"w8": Int8WeightOnlyConfig(PerGroup(32))},
    rules=(Rule("*.mlp.*", "w8", optional=True),),
    default="w8",
)

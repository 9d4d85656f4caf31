"""The config that a plan chose."""

from qconfig.engine.plan_document import ModuleEntry, Plan, PlanEntry
from qconfig.errors import PlanError
from qconfig.versioning import Config


def chosen_config(plan: Plan, entry: PlanEntry | ModuleEntry) -> Config:
    """Return the config that a plan chose for a parameter or module.

    Raises:
        PlanError: the plan leaves it alone, or lacks the config that it names.
    """
    config = plan.configs.get(entry.config or "")
    if config is None:
        raise PlanError("the plan has no config for it", fqn=entry.fqn, found=entry.config)
    return config

"""Models: registration, lineage and stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.models.browse import ModelFilter as ModelFilter
    from aml_train.models.browse import ModelRow as ModelRow
    from aml_train.models.browse import describe_model as describe_model
    from aml_train.models.browse import find_model as find_model
    from aml_train.models.browse import list_models as list_models
    from aml_train.models.browse import metrics_of as metrics_of
    from aml_train.models.browse import version_facts as version_facts
    from aml_train.models.catalogue import LockedRecord as LockedRecord
    from aml_train.models.lineage import Tracer as Tracer
    from aml_train.models.lineage import render_lineage as render_lineage
    from aml_train.models.promotion.promote import Promoter as Promoter
    from aml_train.models.promotion.request import Confirm as Confirm
    from aml_train.models.promotion.request import Promotion as Promotion
    from aml_train.models.promotion.request import PromotionRequest as PromotionRequest
    from aml_train.models.register import ModelSpec as ModelSpec
    from aml_train.models.register import check_written as check_written
    from aml_train.models.register import is_same_model as is_same_model
    from aml_train.models.register import lineage_tags as lineage_tags
    from aml_train.models.register import register_model as register_model

_MODULES = {
    "ModelFilter": "browse",
    "ModelRow": "browse",
    "describe_model": "browse",
    "find_model": "browse",
    "list_models": "browse",
    "metrics_of": "browse",
    "version_facts": "browse",
    "Tracer": "lineage",
    "render_lineage": "lineage",
    "Promoter": "promotion.promote",
    "Confirm": "promotion.request",
    "Promotion": "promotion.request",
    "PromotionRequest": "promotion.request",
    "LockedRecord": "catalogue",
    "ModelSpec": "register",
    "check_written": "register",
    "is_same_model": "register",
    "lineage_tags": "register",
    "register_model": "register",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)

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
    from aml_train.models.catalogue import Catalogue as Catalogue
    from aml_train.models.catalogue import LockedRecord as LockedRecord
    from aml_train.models.catalogue import PassportStore as PassportStore
    from aml_train.models.catalogue import PromotionStore as PromotionStore
    from aml_train.models.catalogue import StoredFile as StoredFile
    from aml_train.models.download import DownloadedModel as DownloadedModel
    from aml_train.models.download import check_target as check_target
    from aml_train.models.download import download_model as download_model
    from aml_train.models.lineage import LineageStep as LineageStep
    from aml_train.models.lineage import Tracer as Tracer
    from aml_train.models.lineage import asset_of as asset_of
    from aml_train.models.lineage import render_lineage as render_lineage
    from aml_train.models.passport.documents import ml_bom as ml_bom
    from aml_train.models.passport.documents import model_card as model_card
    from aml_train.models.passport.envelope import Signer as Signer
    from aml_train.models.passport.issue import PASSPORT_FILE as PASSPORT_FILE
    from aml_train.models.passport.issue import gate_fact as gate_fact
    from aml_train.models.passport.issue import has_passport as has_passport
    from aml_train.models.passport.issue import issue_passport as issue_passport
    from aml_train.models.passport.keyless import KeylessSigner as KeylessSigner
    from aml_train.models.passport.keys import load_signer as load_signer
    from aml_train.models.passport.manifest import SIGNATURE_FILE as SIGNATURE_FILE
    from aml_train.models.passport.manifest import hash_files as hash_files
    from aml_train.models.passport.observe import Evidence as Evidence
    from aml_train.models.passport.seal import read_seal as read_seal
    from aml_train.models.passport.seal import seal_verdict as seal_verdict
    from aml_train.models.passport.trust import Trust as Trust
    from aml_train.models.passport.trust import load_trust as load_trust
    from aml_train.models.passport.values import Verification as Verification
    from aml_train.models.passport.verify import Verifier as Verifier
    from aml_train.models.promotion.choose import Prove as Prove
    from aml_train.models.promotion.promote import Promoter as Promoter
    from aml_train.models.promotion.request import Confirm as Confirm
    from aml_train.models.promotion.request import Promotion as Promotion
    from aml_train.models.promotion.request import PromotionRequest as PromotionRequest
    from aml_train.models.recount import gate_claim as gate_claim
    from aml_train.models.recount import read_histories as read_histories
    from aml_train.models.register import check_written as check_written
    from aml_train.models.register import fault_of_registration as fault_of_registration
    from aml_train.models.register import is_same_model as is_same_model
    from aml_train.models.register import lineage_tags as lineage_tags
    from aml_train.models.register import register_model as register_model
    from aml_train.models.reproduce import Reproduction as Reproduction
    from aml_train.models.reproduce import Training as Training
    from aml_train.models.reproduce import compare_trainings as compare_trainings
    from aml_train.models.spec import ModelSpec as ModelSpec

_MODULES = {
    "ModelFilter": "browse",
    "ModelRow": "browse",
    "describe_model": "browse",
    "find_model": "browse",
    "list_models": "browse",
    "metrics_of": "browse",
    "version_facts": "browse",
    "Catalogue": "catalogue",
    "PassportStore": "catalogue",
    "PromotionStore": "catalogue",
    "StoredFile": "catalogue",
    "DownloadedModel": "download",
    "check_target": "download",
    "download_model": "download",
    "ml_bom": "passport.documents",
    "model_card": "passport.documents",
    "PASSPORT_FILE": "passport.issue",
    "SIGNATURE_FILE": "passport.manifest",
    "Signer": "passport.envelope",
    "has_passport": "passport.issue",
    "issue_passport": "passport.issue",
    "KeylessSigner": "passport.keyless",
    "load_signer": "passport.keys",
    "Evidence": "passport.observe",
    "load_trust": "passport.trust",
    "Verification": "passport.values",
    "Verifier": "passport.verify",
    "Tracer": "lineage",
    "render_lineage": "lineage",
    "Promoter": "promotion.promote",
    "gate_fact": "passport.issue",
    "gate_claim": "recount",
    "read_seal": "passport.seal",
    "seal_verdict": "passport.seal",
    "Trust": "passport.trust",
    "Prove": "promotion.choose",
    "Confirm": "promotion.request",
    "Promotion": "promotion.request",
    "PromotionRequest": "promotion.request",
    "LockedRecord": "catalogue",
    "ModelSpec": "spec",
    "check_written": "register",
    "is_same_model": "register",
    "read_histories": "recount",
    "fault_of_registration": "register",
    "lineage_tags": "register",
    "register_model": "register",
    "LineageStep": "lineage",
    "asset_of": "lineage",
    "hash_files": "passport.manifest",
    "Reproduction": "reproduce",
    "Training": "reproduce",
    "compare_trainings": "reproduce",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)

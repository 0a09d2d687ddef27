"""Repetitions of trainings: where their models are, and the error of one that differs."""

from __future__ import annotations

import pytest

from aml_train.core.errors import InvalidError
from aml_train.core.tags import Tag
from aml_train.jobs.workspace import ModelView
from aml_train.models.reproduce import Difference, Reproduction
from aml_train.reproduce import failed_reproduction, place_of


def test_a_model_that_is_elsewhere_cannot_be_compared() -> None:
    model = ModelView(name="m", version="1", path="azureml://datastores/d/paths/m", job="j")
    with pytest.raises(InvalidError, match="The files of m:1 are at no output of its job"):
        place_of(model, "k")
    tagged = ModelView(name="m", version="1", path="", tags={Tag.SOURCE: "azureml://jobs/j/outputs/model"}, job="j")
    assert place_of(tagged, "k") == "azureml://jobs/k/outputs/model"


def test_a_repetition_that_differs_is_an_error() -> None:
    differs = Difference(name="weights", original="0", repeated="1")
    error = failed_reproduction(Reproduction(original="j", repeated="k", state="different", files=(differs,)))
    assert error is not None
    assert (error.exit_code, error.message) == (6, "The repetition k differs from j in 1 files")
    assert failed_reproduction(Reproduction(original="j", repeated="k", state="equivalent")) is None

"""Pages in place of the addresses that MLflow prints when a run ends. Pure.

MLflow 3 prints ``🏃 View run NAME at: URL`` and ``🧪 View experiment at: URL`` (``tracking/_tracking_service/client.py``,
``_log_url``). It makes both of the tracking URI, where AzureML answers MLflow's API and has no pages. The studio, and the page
of the local AzureML, show the same run elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from aml_train.jobs.workspace import JobView

#: A part of all these addresses, and of hardly any other text.
_MARK: Final = "/#/experiments/"
#: The tracking URI of a workspace: other servers of MLflow, as users may have, do show pages at theirs.
_ADDRESS: Final = re.compile(
    r"https://[^\s/]{1,255}/mlflow/v[\w.]{1,20}/subscriptions/[^\s#]{1,1000}/#/experiments/"
    r"(?P<experiment>[^\s/?#]{1,255})(?:/runs/(?P<run>[^\s/?#]{1,255}))?(?=[\s?]|\Z)",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class JobPages:
    """The pages that show a job, its child runs and its experiment.

    Attributes:
        job: the job's name.
        url: its page.
        experiment_url: the page of its experiment; None if it is at the id of the experiment, as in the studio.
    """

    job: str
    url: str
    experiment_url: str | None = None

    def link(self, text: str) -> str:
        """Return *text* with the addresses that MLflow makes replaced by those of pages."""
        return _ADDRESS.sub(self._page, text) if _MARK in text else text

    def _page(self, found: re.Match[str]) -> str:
        before, sign, after = self.url.partition(f"/runs/{quote(self.job, safe='')}")
        if found["run"]:
            # A script may end other runs than its job's, such as child runs.
            return f"{before}{sign and '/runs/' + found['run']}{after}"
        if self.experiment_url is not None:
            return self.experiment_url
        # The address of an experiment in the studio is that of azureml-core 1.61 (``core/_portal.py``).
        return f"{before}/experiments/id/{found['experiment']}{after}" if sign else found[0]


def pages_of(view: JobView) -> JobPages | None:
    """Return the pages of a job; None if the service names none."""
    if view.studio_url is None:
        return None
    return JobPages(job=view.name, url=view.studio_url, experiment_url=view.experiment_url)
